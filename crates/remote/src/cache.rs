//! Nodes and blocks on disk.
//!
//! ```text
//! file   = "povmeter remote cache 1\n" record*
//! record = length of the value (4 bytes, little endian), CRC-32 of what follows (4 bytes),
//!          kind (1 byte), key (32 bytes), value
//! ```
//!
//! Records are only appended, under a lock of the file, so that several processes can share a folder. A
//! record that is cut off, because a process was killed, is removed when the file is opened next.

use flate2::Crc;
use fs4::fs_std::FileExt;
use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

const FILE: &str = "nodes.cache";
const MAGIC: &[u8] = b"povmeter remote cache 1\n";
/// Length, checksum, kind, key.
const HEAD: usize = 4 + 4 + 1 + 32;
/// The largest value in bytes. A larger length means that the record is damaged.
const LARGEST: u32 = 128 << 20;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Node = 0,
    Header = 1,
    Body = 2,
    Number = 3,
}

/// A file of nodes, headers and extrinsics. It grows without a limit; remove its folder to free the space. A
/// clone is another handle.
#[derive(Clone, Debug)]
pub struct DiskCache(Arc<Mutex<Open>>);

#[derive(Debug)]
struct Open {
    path: PathBuf,
    file: File,
    /// The offsets of values, and their lengths and checksums.
    index: Index,
}

/// Entries by kind and key.
type Index = HashMap<(u8, [u8; 32]), Entry>;

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u64,
    length: u32,
    sum: u32,
}

/// Why a cache cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The file system failed.
    #[error("{}: expected a cache that can be read and written, found: {source}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// Error of the file system.
        source: Arc<io::Error>,
    },
    /// The file belongs to another program, or to another version.
    #[error("{}: expected a cache of this version of povmeter, found another file; remove it or name another folder", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
}

impl DiskCache {
    /// Opens the cache in `folder`, and creates what is missing. Reads the head of each record.
    ///
    /// # Errors
    /// [`CacheError::File`] if the file system fails, [`CacheError::Foreign`] if the file is no cache.
    pub fn open(folder: &Path) -> Result<Self, CacheError> {
        let path = folder.join(FILE);
        let failed = |source: io::Error| CacheError::File {
            path: path.clone(),
            source: Arc::new(source),
        };
        fs::create_dir_all(folder).map_err(failed)?;
        let mut options = OpenOptions::new();
        let options = options.read(true).append(true).create(true);
        let mut file = options.open(&path).map_err(failed)?;
        FileExt::lock_exclusive(&file).map_err(failed)?;
        let scanned = scan(&mut file);
        FileExt::unlock(&file).map_err(failed)?;
        let index = scanned.map_err(failed)?;
        let index = index.ok_or_else(|| CacheError::Foreign { path: path.clone() })?;
        Ok(Self(Arc::new(Mutex::new(Open { path, file, index }))))
    }

    /// Number of nodes, headers, bodies and block hashes in the cache.
    pub fn len(&self) -> usize {
        self.state().index.len()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A poisoned lock does no harm, because the index changes only after the file.
    fn state(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a key, or `None` if the value is missing or damaged.
    pub(crate) fn get(&self, kind: Kind, key: &[u8; 32]) -> Result<Option<Vec<u8>>, CacheError> {
        let mut state = self.state();
        let id = (kind as u8, *key);
        let Some(Entry { at, length, sum }) = state.index.get(&id).copied() else {
            return Ok(None);
        };
        let mut value = vec![0; length as usize];
        let seek = state.file.seek(SeekFrom::Start(at));
        match seek.and_then(|_| state.file.read_exact(&mut value)) {
            Ok(()) => {}
            // Another process removed the end of the file.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(state.failed(error)),
        }
        if checksum(kind as u8, key, &value) != sum {
            state.index.remove(&id);
            return Ok(None);
        }
        Ok(Some(value))
    }

    /// Adds a value, unless its key has one or the value is larger than `LARGEST`.
    pub(crate) fn put(&self, kind: Kind, key: &[u8; 32], value: &[u8]) -> Result<(), CacheError> {
        let mut state = self.state();
        let id = (kind as u8, *key);
        let length = u32::try_from(value.len())
            .ok()
            .filter(|length| *length <= LARGEST);
        let Some(length) = length.filter(|_| !state.index.contains_key(&id)) else {
            return Ok(());
        };
        let sum = checksum(kind as u8, key, value);
        let (length_bytes, sum_bytes) = (length.to_le_bytes(), sum.to_le_bytes());
        let record = [&length_bytes[..], &sum_bytes, &[kind as u8], key, value].concat();
        let written = state.append(&record);
        let at = written.map_err(|error| state.failed(error))?;
        let at = at + HEAD as u64;
        state.index.insert(id, Entry { at, length, sum });
        Ok(())
    }
}

impl Open {
    /// Appends a record and returns where it begins.
    fn append(&mut self, record: &[u8]) -> io::Result<u64> {
        FileExt::lock_exclusive(&self.file)?;
        let at = self.file.seek(SeekFrom::End(0));
        let written = self.file.write_all(record);
        FileExt::unlock(&self.file)?;
        written?;
        at
    }

    fn failed(&self, source: io::Error) -> CacheError {
        CacheError::File {
            path: self.path.clone(),
            source: Arc::new(source),
        }
    }
}

/// The checksum of a record.
fn checksum(kind: u8, key: &[u8; 32], value: &[u8]) -> u32 {
    let mut sum = Crc::new();
    sum.update(&[kind]);
    sum.update(key);
    sum.update(value);
    sum.sum()
}

/// Reads the heads of all records, and cuts off what follows the last whole one. Returns `None` if the file
/// is no cache.
fn scan(file: &mut File) -> io::Result<Option<Index>> {
    let end = file.metadata()?.len();
    if end == 0 {
        file.write_all(MAGIC)?;
        return Ok(Some(Index::new()));
    }
    file.seek(SeekFrom::Start(0))?;
    let mut reader = BufReader::new(&*file);
    let mut magic = [0; MAGIC.len()];
    if end < MAGIC.len() as u64 {
        return Ok(None);
    }
    reader.read_exact(&mut magic)?;
    if magic != MAGIC {
        return Ok(None);
    }
    let (mut index, mut at) = (Index::new(), MAGIC.len() as u64);
    while end - at >= HEAD as u64 {
        let mut head = [0; HEAD];
        reader.read_exact(&mut head)?;
        let number = |from: usize| {
            let mut bytes = [0; 4];
            bytes.copy_from_slice(&head[from..from + 4]);
            u32::from_le_bytes(bytes)
        };
        let (length, sum) = (number(0), number(4));
        let mut key = [0; 32];
        key.copy_from_slice(&head[9..]);
        let value_at = at + HEAD as u64;
        if length > LARGEST || u64::from(length) > end - value_at {
            break;
        }
        let entry = Entry {
            at: value_at,
            length,
            sum,
        };
        index.insert((head[8], key), entry);
        reader.seek_relative(i64::from(length))?;
        at = value_at + u64::from(length);
    }
    if at < end {
        file.set_len(at)?;
    }
    Ok(Some(index))
}
