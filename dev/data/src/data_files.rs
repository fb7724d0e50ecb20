//! Files of real chain data: their folder, and a reader with a size limit.

use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Environment variable that names the folder of the real data.
const DATA_VARIABLE: &str = "POVMETER_DATA";
/// The folder if the variable is not set, relative to this package.
const DATA_FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
/// First bytes of a gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The most bytes of a file after decompression.
pub const FILE_LIMIT: u64 = 512 << 20;

/// Returns the folder of the real chain data: that named by `POVMETER_DATA`, or a folder beside the
/// workspace; `None` if it does not exist. Tests that get `None` print `skipped: no data`.
pub fn data_dir() -> Option<PathBuf> {
    let named = std::env::var_os(DATA_VARIABLE).map(PathBuf::from);
    Some(named.unwrap_or_else(|| DATA_FOLDER.into())).filter(|folder| folder.is_dir())
}

/// The folder of the real chain data, for a test that needs it. Such tests are ignored unless they are
/// asked for, so that nobody takes a test without data for one that passed.
///
/// # Panics
/// If there is no such folder.
pub fn expect_data() -> PathBuf {
    let folder = data_dir();
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
    /// The file is larger than [`FILE_LIMIT`] after decompression.
    #[error("{}: expected at most {limit} bytes unpacked, found more", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit, in bytes.
        limit: u64,
    },
}

/// Returns the content of the file at `path`, decompressed if it begins like gzip, whatever its name.
/// Never holds more than [`FILE_LIMIT`] in memory.
///
/// # Errors
/// If the file cannot be read or decompressed, or is larger than [`FILE_LIMIT`] after that.
pub fn read_file(path: &Path) -> Result<Vec<u8>, FileError> {
    read_up_to(path, FILE_LIMIT)
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
    fn a_missing_file_is_named() {
        let error = read_file(Path::new("/nowhere/spec.json")).unwrap_err();
        assert!(matches!(error, FileError::Read { .. }));
        assert!(error.to_string().contains("/nowhere/spec.json"), "{error}");
    }
}
