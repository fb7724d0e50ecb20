//! The files of rows of a part: JSON lines, of which the last may not have been written to its end.

use crate::{
    error::CliError,
    scan::Shard,
    scan_folder::{expect_parts, rows_path, KINDS},
    scan_parquet::{BLOCKS, ITEMS},
    scratch::{EmptyFile, EmptyFolder},
};
use fs4::fs_std::FileExt;
use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Seek, Write},
    ops::Range,
    path::{Path, PathBuf},
};

/// The files of a part of a scan. The file of blocks stays locked until this is dropped, which removes what was
/// created and is still empty.
pub(crate) struct RowFiles {
    // Declared before the files, so that these are removed while the lock is held.
    made: Vec<EmptyFile>,
    pub(crate) blocks: RowFile,
    pub(crate) items: RowFile,
    // Declared after the files, because a folder with files can't be removed.
    _folder: Option<EmptyFolder>,
}

impl RowFiles {
    /// Opens the files of `shard` in `folder`, or creates them.
    ///
    /// # Errors
    /// [`CliError::OtherParts`] if the folder has files of another number of parts; [`CliError::Rows`] if a file
    /// can't be used; [`CliError::RowsInUse`] if another scan has it open; [`CliError::Table`] if a file of another
    /// program is where the rows go as Parquet.
    pub(crate) fn open(folder: &Path, shard: Shard) -> Result<Self, CliError> {
        expect_parts(folder, shard)?;
        let made_folder = match folder.is_dir() {
            true => None,
            false => Some(EmptyFolder::new(folder).map_err(failed(folder))?),
        };
        let [blocks, items] = KINDS.map(|kind| rows_path(folder, kind, shard));
        let blocks = RowFile::open(blocks)?;
        blocks.lock()?;
        let mut made = Vec::new();
        made.extend(blocks.is_new.then(|| EmptyFile::new(&blocks.path)));
        let items = RowFile::open(items)?;
        if items.is_new {
            // Removed before the file of blocks, whose lock keeps other scans from this one.
            made.insert(0, EmptyFile::new(&items.path));
        }
        let files = Self {
            made,
            blocks,
            items,
            _folder: made_folder,
        };
        // Only now, because a scan that has the lock may be writing them.
        BLOCKS.expect_ours(&files.blocks.path)?;
        ITEMS.expect_ours(&files.items.path)?;
        Ok(files)
    }

    /// Writes all rows as Parquet, and returns the paths of the files of blocks and of items. The files of rows stay
    /// from now on, also empty ones.
    ///
    /// # Errors
    /// [`CliError::Rows`] if a file can't be written.
    pub(crate) fn write_tables(&mut self) -> Result<[PathBuf; 2], CliError> {
        let tables = [
            BLOCKS.write_beside(&self.blocks.path, &self.blocks.file)?,
            ITEMS.write_beside(&self.items.path, &self.items.file)?,
        ];
        self.made.drain(..).for_each(EmptyFile::keep);
        Ok(tables)
    }
}

/// A file of rows.
pub(crate) struct RowFile {
    pub(crate) path: PathBuf,
    file: File,
    /// Whether this run made it.
    is_new: bool,
}

impl RowFile {
    /// Opens the file at `path`, or creates it.
    fn open(path: PathBuf) -> Result<Self, CliError> {
        let mut options = OpenOptions::new();
        options.read(true).append(true);
        let (opened, is_new) = match options.clone().create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                (options.create(true).open(&path), false)
            }
            made => (made, true),
        };
        let file = opened.map_err(failed(&path))?;
        Ok(Self { path, file, is_new })
    }

    /// Appends the text of whole rows.
    ///
    /// # Errors
    /// [`CliError::Rows`] if the file can't be written.
    pub(crate) fn append(&mut self, text: &[u8]) -> Result<(), CliError> {
        self.file.write_all(text).map_err(failed(&self.path))
    }

    /// Locks the file until it is closed.
    fn lock(&self) -> Result<(), CliError> {
        let locked = self.file.try_lock_exclusive();
        // Another scan may have removed the empty file since it was opened here.
        match locked.and_then(|locked| Ok(locked && self.has_name()?)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(CliError::RowsInUse {
                path: self.path.clone(),
            }),
            Err(error) => Err(failed(&self.path)(error)),
        }
    }

    /// Whether the file was not removed.
    #[cfg(unix)]
    fn has_name(&self) -> io::Result<bool> {
        use std::os::unix::fs::MetadataExt;
        Ok(self.file.metadata()?.nlink() > 0)
    }

    /// Returns `true`, because a file that is open can not be removed on this system.
    #[cfg(not(unix))]
    fn has_name(&self) -> io::Result<bool> {
        Ok(true)
    }

    /// The whole rows, from the first on.
    ///
    /// # Errors
    /// [`CliError::Rows`] if the file can't be read.
    pub(crate) fn lines(&self) -> Result<WholeLines<'_>, CliError> {
        (&self.file).rewind().map_err(failed(&self.path))?;
        Ok(WholeLines {
            path: &self.path,
            reader: BufReader::new(&self.file),
            line: Vec::new(),
        })
    }

    /// Keeps the first `length` bytes of the file.
    ///
    /// # Errors
    /// [`CliError::Rows`] if the file can't be written.
    pub(crate) fn cut(&self, length: u64) -> Result<(), CliError> {
        self.file.set_len(length).map_err(failed(&self.path))
    }

    /// The error of a row of a block that is not in `part`.
    pub(crate) fn beyond(&self, part: &Range<u64>, found: u64) -> CliError {
        CliError::RowsBeyond {
            path: self.path.clone(),
            part: part.clone(),
            found,
        }
    }

    /// The error of a row that is not that of block `expected`.
    pub(crate) fn other(&self, expected: u64, found: u64) -> CliError {
        CliError::OtherRows {
            path: self.path.clone(),
            expected,
            found,
        }
    }
}

/// Reads the whole rows of a file, one at a time.
pub(crate) struct WholeLines<'a> {
    path: &'a Path,
    reader: BufReader<&'a File>,
    line: Vec<u8>,
}

impl WholeLines<'_> {
    /// The next row, with the end of its line.
    ///
    /// # Errors
    /// [`CliError::Rows`] if the file can't be read.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, CliError> {
        if !self.tail().is_empty() {
            return Ok(None);
        }
        self.line.clear();
        let read = self.reader.read_until(b'\n', &mut self.line);
        read.map_err(failed(self.path))?;
        // The last line may not have been written to its end.
        Ok(self.line.ends_with(b"\n").then_some(&*self.line))
    }

    /// The text after the last whole row, once [`Self::next`] has returned `None`; empty if there is none.
    pub(crate) fn tail(&self) -> &[u8] {
        match self.line.ends_with(b"\n") {
            true => &[],
            false => &self.line,
        }
    }
}

/// Wraps an error of the file system at `path`.
fn failed(path: &Path) -> impl Fn(io::Error) -> CliError + '_ {
    move |source| CliError::Rows {
        path: path.to_owned(),
        source,
    }
}
