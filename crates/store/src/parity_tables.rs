//! Checks the headers of parity-db's value tables.
//!
//! A table is a row of entries of one size. The header lies in place of the first entry:
//!
//! ```text
//! last freed entry, 8 bytes, or 0 if none is free    number of entries in use or free, with the header, 8 bytes
//! ```
//! Both are little-endian; in a new table both are 0. parity-db compares them only with each other. It
//! takes new entries from where they point, also beyond the end of the file: there it panics in a thread of its own,
//! lets the file grow without end, or reads memory that does not exist, which kills the process.

use crate::file_list::list_files;
use crate::open_error::OpenError;
use crate::parity_files::Parity;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Bytes of an entry in each table but the last one of a column, from parity-db's source.
#[rustfmt::skip]
const SIZES: [u16; 255] = [
    32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 46, 47, 48, 50, 51, 52, 54, 55, 57, 58,
    60, 62, 63, 65, 67, 69, 71, 73, 75, 77, 79, 81, 83, 85, 88, 90, 93, 95, 98, 101, 103, 106,
    109, 112, 115, 119, 122, 125, 129, 132, 136, 140, 144, 148, 152, 156, 160, 165, 169, 174,
    179, 183, 189, 194, 199, 205, 210, 216, 222, 228, 235, 241, 248, 255, 262, 269, 276, 284,
    292, 300, 308, 317, 325, 334, 344, 353, 363, 373, 383, 394, 405, 416, 428, 439, 452, 464,
    477, 490, 504, 518, 532, 547, 562, 577, 593, 610, 627, 644, 662, 680, 699, 718, 738, 758,
    779, 801, 823, 846, 869, 893, 918, 943, 969, 996, 1024, 1052, 1081, 1111, 1142, 1174, 1206,
    1239, 1274, 1309, 1345, 1382, 1421, 1460, 1500, 1542, 1584, 1628, 1673, 1720, 1767, 1816,
    1866, 1918, 1971, 2025, 2082, 2139, 2198, 2259, 2322, 2386, 2452, 2520, 2589, 2661, 2735,
    2810, 2888, 2968, 3050, 3134, 3221, 3310, 3402, 3496, 3593, 3692, 3794, 3899, 4007, 4118,
    4232, 4349, 4469, 4593, 4720, 4850, 4984, 5122, 5264, 5410, 5559, 5713, 5871, 6034, 6200,
    6372, 6548, 6729, 6916, 7107, 7303, 7506, 7713, 7927, 8146, 8371, 8603, 8841, 9085, 9337,
    9595, 9860, 10133, 10413, 10702, 10998, 11302, 11614, 11936, 12266, 12605, 12954, 13312,
    13681, 14059, 14448, 14848, 15258, 15681, 16114, 16560, 17018, 17489, 17973, 18470, 18981,
    19506, 20046, 20600, 21170, 21756, 22358, 22976, 23612, 24265, 24936, 25626, 26335, 27064,
    27812, 28582, 29372, 30185, 31020, 31878, 32760,
];

/// Bytes of an entry in the last table of a column, where a value has several entries.
const PART_SIZE: u16 = 4096;

/// Checks that the header of each table in the folder `path` fits the file. The database must have
/// finished what its log holds, because it writes a header before it lets the file grow.
pub(crate) fn check_tables(path: &Path) -> Result<(), OpenError> {
    for (name, _) in list_files::<Parity>(path)? {
        if let Some(size) = entry_size(&name) {
            check_table(path, &name, size)?;
        }
    }
    Ok(())
}

/// Bytes of an entry in the table `name`; `None` for another file.
fn entry_size(name: &str) -> Option<u64> {
    let (_, table) = name.strip_prefix("table_")?.split_once('_')?;
    let table = u8::from_str_radix(table, 16).ok()?;
    let size = SIZES.get(usize::from(table)).unwrap_or(&PART_SIZE);
    Some(u64::from(*size))
}

/// Checks the table `name`, whose entries have `size` bytes.
fn check_table(path: &Path, name: &str, size: u64) -> Result<(), OpenError> {
    let table = path.join(name);
    let read = || -> io::Result<_> {
        let mut file = File::open(&table)?;
        let mut header = [0; 16];
        file.read_exact(&mut header)?;
        Ok((header, file.metadata()?.len()))
    };
    let (header, length) = match read() {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            let expected = format!("the file `{name}` with a header");
            return Err(OpenError::damaged(path, expected, "its end"));
        }
        Err(error) => return Err(OpenError::io(&table)(error)),
    };
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| header[at + byte]));
    let (freed, entries) = (number(0), number(8).max(1));
    let most = length / size;
    if entries > most {
        let expected = format!("the file `{name}` with {most} entries or less");
        return Err(OpenError::damaged(path, expected, entries.to_string()));
    }
    if freed >= entries {
        let expected = format!("the file `{name}` with a free entry below number {entries}");
        return Err(OpenError::damaged(path, expected, freed.to_string()));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::parity_files::{options, STATE};
    use parity_db::Db;
    use std::fs;

    /// The sizes are parity-db's: a value that fills an entry lies in the table of this size.
    #[test]
    fn parity_db_has_entries_of_these_sizes() {
        const KEY: usize = 26;
        const LENGTH: usize = 2;
        let home = tempfile::tempdir().unwrap();
        let value = |size: u16| vec![7; usize::from(size) - LENGTH - KEY];
        let values = (0_u16..).zip(SIZES).map(|(number, size)| {
            let key = number.to_le_bytes().repeat(16);
            (STATE, key, Some(value(size)))
        });
        let parts = (STATE, b"in parts".repeat(4), Some(vec![7; 40_000]));
        let database = Db::open_or_create(&options(home.path())).unwrap();
        database.commit(values.chain([parts])).unwrap();
        drop(database);
        for (number, size) in (0..).zip(SIZES) {
            let name = format!("table_01_{number:02x}");
            assert_eq!(entry_size(&name), Some(size.into()));
            let table = fs::read(home.path().join(&name)).unwrap();
            let entry = &table[usize::from(size)..2 * usize::from(size)];
            let length = usize::from(u16::from_le_bytes([entry[0], entry[1]]));
            assert_eq!(LENGTH + length, entry.len(), "{name}");
            assert_eq!(entry[LENGTH + KEY..], value(size), "{name}");
            assert_eq!(table[2 * usize::from(size)..][..2], [0, 0], "{name}");
        }
        // The first part says that the next one is entry 2, which begins with the mark of a part.
        assert_eq!(entry_size("table_01_ff"), Some(PART_SIZE.into()));
        let table = fs::read(home.path().join("table_01_ff")).unwrap();
        let part = |number: usize| &table[number * usize::from(PART_SIZE)..];
        assert_eq!(part(1)[10..18], 2_u64.to_le_bytes());
        assert_eq!(part(2)[..2], [0xfe, 0xff]);
        check_tables(home.path()).unwrap();
    }

    #[test]
    fn a_header_must_fit_its_file() {
        let home = tempfile::tempdir().unwrap();
        let checked = |freed: u64, entries: u64| {
            let mut table = vec![0; 100];
            table[..8].copy_from_slice(&freed.to_le_bytes());
            table[8..16].copy_from_slice(&entries.to_le_bytes());
            // The second table has entries of 33 bytes, so three of them.
            fs::write(home.path().join("table_00_01"), table).unwrap();
            match check_tables(home.path()) {
                Ok(()) => true,
                Err(OpenError::Damaged { .. }) => false,
                Err(error) => panic!("{error}"),
            }
        };
        for fits in [(0, 0), (0, 1), (0, 3), (1, 2), (2, 3)] {
            assert!(checked(fits.0, fits.1), "{fits:?}");
        }
        let huge = u64::MAX;
        for damaged in [
            (1, 0),
            (1, 1),
            (3, 3),
            (0, 4),
            (0, huge),
            (huge, 3),
            (huge, huge),
        ] {
            assert!(!checked(damaged.0, damaged.1), "{damaged:?}");
        }
    }
}
