//! SCALE compact integers, the lengths in nodes and proofs.
//!
//! Why not `parity-scale-codec` 3.7, without its default features: it accepts and refuses the same bytes, but
//! adds nine crates to the core (31 without it), a second `syn` among them, and a clean release build of the
//! core needs 51 s instead of 37 (2026-11-22). The instructions of a block of 2,000 changes differ by less
//! than those of two runs (0.1 %, callgrind); a minimal validator for `wasm32v1-none` is 881 bytes of
//! 274,231 larger.

use alloc::vec::Vec;

/// Length in bytes of `value` as a SCALE compact integer.
pub const fn compact_bytes(value: u64) -> u64 {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => {
            let bytes = (u64::BITS - value.leading_zeros()).div_ceil(8) as u64;
            1 + if bytes < 4 { 4 } else { bytes }
        }
    }
}

/// Appends `value` to `out` as a SCALE compact integer.
pub fn push_compact(out: &mut Vec<u8>, value: usize) {
    let value = value as u64;
    let shifted = value << 2;
    match compact_bytes(value) {
        1 => out.extend_from_slice(&shifted.to_le_bytes()[..1]),
        2 => out.extend_from_slice(&(shifted | 0b01).to_le_bytes()[..2]),
        4 => out.extend_from_slice(&(shifted | 0b10).to_le_bytes()[..4]),
        bytes => {
            let used = usize::try_from(bytes - 1).unwrap_or(8);
            out.push(((bytes - 5) << 2).to_le_bytes()[0] | 0b11);
            out.extend_from_slice(&value.to_le_bytes()[..used]);
        }
    }
}

/// The compact integer that `data` begins with, and its length in bytes; `None` if there is none, or
/// it is not canonical, or does not fit into 32 bits.
pub fn read_compact(data: &[u8]) -> Option<(usize, usize)> {
    let first = *data.first()?;
    let (used, least) = match first & 0b11 {
        0b00 => (1, 0),
        0b01 => (2, 1 << 6),
        0b10 => (4, 1 << 14),
        _ if first == 0b11 => (5, 1 << 30),
        _ => return None,
    };
    let mut bytes = [0; 8];
    bytes[..used].copy_from_slice(data.get(..used)?);
    let read = u64::from_le_bytes(bytes);
    let value = if used == 5 { read >> 8 } else { read >> 2 };
    let value = usize::try_from(value)
        .ok()
        .filter(|value| *value >= least)?;
    Some((value, used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_integers_are_read_back() {
        let edges = [
            0,
            1,
            63,
            64,
            16_383,
            16_384,
            (1 << 30) - 1,
            1 << 30,
            u32::MAX as usize,
        ];
        for value in edges {
            let mut out = Vec::new();
            push_compact(&mut out, value);
            assert_eq!(out.len() as u64, compact_bytes(value as u64), "{value}");
            assert_eq!(read_compact(&out), Some((value, out.len())), "{value}");
            assert_eq!(
                read_compact(&out[..out.len() - 1]),
                None,
                "{value} cut short"
            );
        }
    }

    #[test]
    fn integers_in_a_longer_form_than_needed_are_refused() {
        assert_eq!(read_compact(&[0b101, 0]), None);
        assert_eq!(read_compact(&[0b10, 1, 0, 0]), None);
        assert_eq!(read_compact(&[0b11, 1, 0, 0, 0]), None);
    }
}
