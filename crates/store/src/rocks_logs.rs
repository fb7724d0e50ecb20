//! Finds damage in a log that RocksDB would read for ever.
//!
//! ```text
//! log, manifest:  blocks of 32 KiB; the last one may be shorter
//! block:          records; fewer bytes than a header at its end are no record
//! record:         header: masked checksum of type and content, 4 bytes; length of the content, 2; type, 1
//!                 content
//! ```
//! A write is one record or, if the block has no space for it, a first one, some in the middle, and a last one. A log in
//! the file of an older one has types of its own. Since version 9.4, RocksDB fails at a record of such a type if
//! another write was before it, but its reader does not step over the record, and finds it again and again. One
//! damaged byte suffices, and the database never opens. The stores of this crate do not reuse logs, so their logs have
//! such a record only if they are damaged.
//!
//! The walk over a log ends where the reader ends, so that no log is refused that the database can open.

use crate::open_error::OpenError;
use std::fs;
use std::path::Path;

/// Bytes of a block.
const BLOCK: usize = 32 << 10;
/// Bytes of a header.
const HEADER: usize = 7;
/// Where the type is, from which on the checksum counts.
const TYPE: usize = 6;

/// Types of records.
const NONE: u8 = 0;
const WHOLE: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;
/// Those that only a reused log has.
const REUSED: [u8; 6] = [5, 6, 7, 8, 11, 131];

/// Checks the log or manifest `name` in the folder `path`. Reads all of it.
///
/// # Errors
/// [`OpenError::Damaged`] if the database would read it for ever.
pub(crate) fn check_log(path: &Path, name: &str) -> Result<(), OpenError> {
    let file = path.join(name);
    let log = fs::read(&file).map_err(OpenError::io(&file))?;
    endless_record(&log).map_or(Ok(()), |Endless { at, kind }| {
        let expected = format!("a record at byte {at} of `{name}`");
        let found = format!("the type {kind}, which RocksDB would read again without end");
        Err(OpenError::damaged(path, expected, found))
    })
}

/// The record at which the reader stays.
#[derive(Debug, PartialEq, Eq)]
struct Endless {
    at: usize,
    kind: u8,
}

fn endless_record(log: &[u8]) -> Option<Endless> {
    // Whether a write was read, a write has begun, and something was wrong.
    let (mut read, mut begun, mut failed) = (false, false, false);
    for (start, block) in (0..).step_by(BLOCK).zip(log.chunks(BLOCK)) {
        let mut at = 0;
        while let Some(header) = block.get(at..).and_then(<[u8]>::first_chunk::<HEADER>) {
            let [c0, c1, c2, c3, l0, l1, kind] = *header;
            if REUSED.contains(&kind) {
                // Before the first write, it would make this a reused log, which the reader copes with.
                return read.then_some(Endless {
                    at: start + at,
                    kind,
                });
            }
            let length = usize::from(u16::from_le_bytes([l0, l1]));
            let Some(checked) = block.get(at + TYPE..at + HEADER + length) else {
                // The log ends in the middle of a record, or the length is wrong.
                if block.len() < BLOCK {
                    return None;
                }
                (begun, failed) = (false, true);
                break;
            };
            if kind == NONE && length == 0 {
                failed |= begun;
                begun = false;
                break;
            }
            if masked(crc32c(checked)) != u32::from_le_bytes([c0, c1, c2, c3]) {
                // The length may be wrong, so the rest of the block is left out.
                (begun, failed) = (false, true);
                break;
            }
            at += HEADER + length;
            let mut complete = false;
            match kind {
                WHOLE => {
                    failed |= begun;
                    complete = true;
                }
                FIRST => {
                    failed |= begun;
                    begun = true;
                }
                MIDDLE => failed |= !begun,
                LAST if begun => complete = true,
                // Of other types, and the last one of a write that has not begun.
                _ => {
                    failed = true;
                    begun = false;
                }
            }
            if complete {
                // The reader looks for the next write before it stops.
                if failed {
                    return None;
                }
                (read, begun) = (true, false);
            }
        }
    }
    None
}

/// CRC-32C, the checksum of records: reflected, with the polynomial of Castagnoli.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| (crc >> 8) ^ TABLE[usize::from(crc.to_le_bytes()[0] ^ byte)];
    !bytes.iter().fold(!0, step)
}

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0_u32;
    while byte < 256 {
        let (mut crc, mut bit) = (byte, 0);
        while bit < 8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 * (crc & 1));
            bit += 1;
        }
        table[byte as usize] = crc;
        byte += 1;
    }
    table
}

/// A checksum as logs store it, because the checksum of bytes that hold their own checksum says little.
fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn record(log: &mut Vec<u8>, kind: u8, content: &[u8]) {
        let checked = [&[kind], content].concat();
        log.extend(masked(crc32c(&checked)).to_le_bytes());
        log.extend(u16::try_from(content.len()).unwrap().to_le_bytes());
        log.extend(checked);
    }

    /// A log of writes with these many bytes.
    fn log_of(writes: &[usize]) -> Vec<u8> {
        let mut log = Vec::new();
        for &bytes in writes {
            let (mut left, mut is_first) = (bytes, true);
            loop {
                let space = BLOCK - log.len() % BLOCK;
                if space < HEADER {
                    log.extend(vec![0; space]);
                    continue;
                }
                let part = left.min(space - HEADER);
                left -= part;
                let kind = match (is_first, left) {
                    (true, 0) => WHOLE,
                    (true, _) => FIRST,
                    (false, 0) => LAST,
                    (false, _) => MIDDLE,
                };
                record(&mut log, kind, &vec![7; part]);
                is_first = false;
                if left == 0 {
                    break;
                }
            }
        }
        log
    }

    #[test]
    fn the_checksum_is_that_of_the_catalogue() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn whole_logs_and_those_that_end_early_are_fine() {
        let log = log_of(&[10, 40_000, 32_700, 0, 100_000, 5]);
        for end in (0..log.len()).step_by(97).chain([log.len()]) {
            assert_eq!(endless_record(&log[..end]), None, "{end}");
        }
    }

    #[test]
    fn a_type_of_reused_logs_after_a_write_is_found() {
        let second = HEADER + 10;
        for kind in REUSED {
            let mut log = log_of(&[10, 40_000]);
            log[second + TYPE] = kind;
            let found = Endless { at: second, kind };
            assert_eq!(endless_record(&log), Some(found));
            // The first record of a log makes it a reused one.
            let mut log = log_of(&[10, 40_000]);
            log[TYPE] = kind;
            assert_eq!(endless_record(&log), None);
        }
    }

    #[test]
    fn the_walk_goes_only_as_far_as_the_reader() {
        let damage = |at: usize, next: usize| {
            let mut log = log_of(&[10, 20, 40_000, 30, 40]);
            log[at] ^= 1;
            log[next + TYPE] = 5;
            endless_record(&log)
        };
        let second = HEADER + 10;
        let third = second + HEADER + 20;
        let fourth = 40_000 + 10 + 20 + 4 * HEADER;
        let fifth = fourth + HEADER + 30;
        // The content of the second write: its whole block is left out, and the next write is the last one read.
        assert_eq!(damage(second + HEADER, third), None);
        assert_eq!(damage(second + HEADER, fifth), None);
        assert_eq!(
            damage(second + HEADER, fourth),
            Some(Endless {
                at: fourth,
                kind: 5
            })
        );
    }
}
