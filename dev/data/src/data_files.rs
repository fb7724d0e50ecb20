//! Files of real chain data: their folder, and a reader with a size limit.

use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Environment variable that names the folder of the real data.
const DATA_VARIABLE: &str = "POVMETER_DATA";
/// The folder that tests use if the variable is not set, relative to the folder of a crate.
const DATA_FOLDER: &str = "../../../shared/data";
/// First bytes of a text in UTF-16, in either order.
const UTF_16_MARKS: [[u8; 2]; 2] = [[0xff, 0xfe], [0xfe, 0xff]];
/// First bytes that some editors add to a text in UTF-8.
const UTF_8_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];
/// First bytes of a gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The most bytes of a file after decompression.
pub const FILE_LIMIT: u64 = 512 << 20;

/// The variable for the folder of the real data does not name a folder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a folder in {DATA_VARIABLE}, found none at {}", .0.display())]
pub struct DataFolderError(pub PathBuf);

/// Returns the folder of the real chain data, which `POVMETER_DATA` names; `None` if the variable is not
/// set, or empty.
///
/// # Errors
/// [`DataFolderError`] if the variable does not name a folder, because that is a mistake.
pub fn data_dir() -> Result<Option<PathBuf>, DataFolderError> {
    let named = std::env::var_os(DATA_VARIABLE).filter(|name| !name.is_empty());
    match named.map(PathBuf::from) {
        Some(folder) if !folder.is_dir() => Err(DataFolderError(folder)),
        named => Ok(named),
    }
}

/// Returns the folder of the real chain data for a test: that of [`data_dir`], or one beside the
/// workspace. Tests that need it are ignored by default, so that a test without data does not count as
/// passed. A program that the test starts needs the variable.
///
/// # Panics
/// If there is no such folder.
pub fn expect_data() -> PathBuf {
    let named = data_dir().unwrap_or_else(|error| panic!("{error}"));
    // Cargo sets this variable for tests. It is read at run time, because the program must not know
    // where it was built.
    let beside = || Some(PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR")?).join(DATA_FOLDER));
    let folder = named.or_else(beside).filter(|folder| folder.is_dir());
    folder.unwrap_or_else(|| panic!("expected a folder that {DATA_VARIABLE} names, found none"))
}

/// A file could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file system failed.
    #[error("{}: expected a readable file, found: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the file system.
        source: io::Error,
    },
    /// The file begins like gzip, but cannot be decompressed.
    #[error("{}: expected gzip data, found: {source}", path.display())]
    Gzip {
        /// The file.
        path: PathBuf,
        /// The decompression error.
        source: io::Error,
    },
    /// The file is a text in UTF-16.
    #[error("{}: expected a text in UTF-8, found one in UTF-16", path.display())]
    Utf16 {
        /// The file.
        path: PathBuf,
    },
    /// The file is larger than its limit after decompression.
    #[error("{}: expected at most {limit} bytes unpacked, found more", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit, in bytes.
        limit: u64,
    },
}

/// Returns the content of the file at `path`, decompressed if it begins like gzip, whatever its name.
/// Never holds more than [`FILE_LIMIT`] in memory. The mark of UTF-8 at the beginning of some texts is
/// left out.
///
/// # Errors
/// If the file cannot be read or decompressed, is larger than [`FILE_LIMIT`] unpacked, or is in UTF-16.
pub fn read_file(path: &Path) -> Result<Vec<u8>, FileError> {
    read_file_up_to(path, FILE_LIMIT)
}

/// As [`read_file`], with a limit of `limit` bytes, for a file whose content needs many times as
/// much memory.
///
/// # Errors
/// Those of [`read_file`], for `limit`.
pub fn read_file_up_to(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let mut content = read_up_to(path, limit)?;
    if UTF_16_MARKS.iter().any(|mark| content.starts_with(mark)) {
        let path = path.to_owned();
        return Err(FileError::Utf16 { path });
    }
    if content.starts_with(&UTF_8_MARK) {
        content.drain(..UTF_8_MARK.len());
    }
    Ok(content)
}

fn read_up_to(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let failed = |source| FileError::Read {
        path: path.to_owned(),
        source,
    };
    let mut file = File::open(path).map_err(failed)?;
    let mut start = Vec::new();
    file.by_ref()
        .take(GZIP_MAGIC.len() as u64)
        .read_to_end(&mut start)
        .map_err(failed)?;
    let whole = start.as_slice().chain(file);
    let mut content = Vec::new();
    if start == GZIP_MAGIC {
        // Read one byte more than allowed, to tell a file at the limit from one above it.
        MultiGzDecoder::new(whole)
            .take(limit.saturating_add(1))
            .read_to_end(&mut content)
            .map_err(|source| FileError::Gzip {
                path: path.to_owned(),
                source,
            })?;
    } else {
        whole
            .take(limit.saturating_add(1))
            .read_to_end(&mut content)
            .map_err(failed)?;
    }
    if content.len() as u64 > limit {
        return Err(FileError::TooLarge {
            path: path.to_owned(),
            limit,
        });
    }
    Ok(content)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use flate2::{write::GzEncoder, Compression};
    use std::io::Write;

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn read(content: &[u8], limit: u64) -> Result<Vec<u8>, FileError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        read_up_to(file.path(), limit)
    }

    #[test]
    fn gzip_is_known_by_its_content() {
        assert_eq!(read(b"plain", 10).unwrap(), b"plain");
        assert_eq!(read(b"", 10).unwrap(), b"");
        assert_eq!(read(&[0x1f], 10).unwrap(), [0x1f]);
        assert_eq!(read(&gzip(b"packed"), 10).unwrap(), b"packed");
        let two_members = [gzip(b"one"), gzip(b"two")].concat();
        assert_eq!(read(&two_members, 10).unwrap(), b"onetwo");
    }

    #[test]
    fn no_more_than_the_limit_is_unpacked() {
        let bomb = gzip(&vec![0; 10_000_000]);
        assert!(bomb.len() < 20_000);
        let error = read(&bomb, 1000).unwrap_err();
        assert!(
            matches!(error, FileError::TooLarge { limit: 1000, .. }),
            "{error:?}"
        );
        assert!(matches!(
            read(&[0; 11], 10).unwrap_err(),
            FileError::TooLarge { limit: 10, .. }
        ));
        assert_eq!(read(&[0; 10], 10).unwrap(), [0; 10]);
        assert_eq!(read(&gzip(&[0; 10]), 10).unwrap(), [0; 10]);
    }

    #[test]
    fn damaged_gzip_is_an_error() {
        let mut packed = gzip(&[7; 1000]);
        let cut = &packed[..packed.len() - 6];
        assert!(matches!(
            read(cut, 10_000).unwrap_err(),
            FileError::Gzip { .. }
        ));
        assert!(matches!(
            read(&GZIP_MAGIC, 10_000).unwrap_err(),
            FileError::Gzip { .. }
        ));
        let checksum = packed.len() - 7;
        packed[checksum] ^= 1;
        assert!(matches!(
            read(&packed, 10_000).unwrap_err(),
            FileError::Gzip { .. }
        ));
    }

    #[test]
    fn texts_in_other_encodings() {
        let read = |content: &[u8]| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), content).unwrap();
            read_file(file.path())
        };
        for content in [&b"\xff\xfe{\0"[..], b"\xfe\xff\0{", &gzip(b"\xff\xfe{\0")] {
            let error = read(content).unwrap_err();
            assert!(matches!(error, FileError::Utf16 { .. }), "{error:?}");
        }
        assert_eq!(read(b"\xef\xbb\xbf{}").unwrap(), b"{}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = read_file(Path::new("/nowhere/spec.json")).unwrap_err();
        assert!(matches!(error, FileError::Read { .. }));
        assert!(error.to_string().contains("/nowhere/spec.json"), "{error}");
    }
}
