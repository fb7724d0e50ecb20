//! The length prefix of a SCALE list.
//!
//! A list is encoded as its length in the compact form, then its elements. The low two bits of the
//! first byte give the number of bytes that the length takes: `00` one, `01` two, `10` four, `11` five (one
//! byte `3`, then four of length). All are little-endian. Only the shortest form of a number is
//! valid.

/// The most bytes a length prefix takes.
pub(crate) const MAX_PREFIX: usize = 5;

const ONE_BYTE_END: u32 = 1 << 6;
const TWO_BYTES_END: u32 = 1 << 14;
const FOUR_BYTES_END: u32 = 1 << 30;

/// A length prefix in its shortest form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LengthPrefix {
    /// How many elements the list has.
    pub(crate) count: u32,
    /// How many bytes the prefix takes: 1, 2, 4 or 5.
    pub(crate) bytes: usize,
}

impl LengthPrefix {
    /// The prefix of a list of `count` elements.
    #[inline]
    pub(crate) fn of(count: u32) -> Self {
        let bytes = match count {
            0..ONE_BYTE_END => 1,
            ONE_BYTE_END..TWO_BYTES_END => 2,
            TWO_BYTES_END..FOUR_BYTES_END => 4,
            FOUR_BYTES_END.. => MAX_PREFIX,
        };
        Self { count, bytes }
    }

    /// The prefix that `value` starts with; `None` if `value` cannot be a list.
    ///
    /// Does not check the elements: any value that starts with a valid length counts as a list.
    #[inline]
    pub(crate) fn read(value: &[u8]) -> Option<Self> {
        let first = *value.first()?;
        let (count, bytes) = match first & 0b11 {
            0b00 => (u32::from(first >> 2), 1),
            0b01 => (u32::from(u16::from_le_bytes(*value.first_chunk()?) >> 2), 2),
            0b10 => (u32::from_le_bytes(*value.first_chunk()?) >> 2, 4),
            _ if first == 0b11 => (u32::from_le_bytes(*value[1..].first_chunk()?), MAX_PREFIX),
            _ => return None,
        };
        let shortest = Self::of(count);
        (shortest.bytes == bytes).then_some(shortest)
    }

    /// Writes the prefix so that it ends where `room` ends, and returns where in `room` it starts.
    #[inline]
    pub(crate) fn write(self, room: &mut [u8; MAX_PREFIX]) -> u8 {
        // Writes all bytes at once, because the next append reads them at once.
        match self.bytes {
            1 => {
                let [a, ..] = (self.count << 2).to_le_bytes();
                room[4] = a;
                4
            }
            2 => {
                let [a, b, ..] = (self.count << 2 | 0b01).to_le_bytes();
                room[3..].copy_from_slice(&[a, b]);
                3
            }
            4 => {
                room[1..].copy_from_slice(&(self.count << 2 | 0b10).to_le_bytes());
                1
            }
            _ => {
                let [a, b, c, d] = self.count.to_le_bytes();
                *room = [0b11, a, b, c, d];
                0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every length at which the prefix grows, and its neighbours, against encodings written out by
    /// hand.
    #[test]
    fn known_encodings() {
        let cases: &[(u32, &[u8])] = &[
            (0, &[0x00]),
            (1, &[0x04]),
            (63, &[0xfc]),
            (64, &[0x01, 0x01]),
            (16_383, &[0xfd, 0xff]),
            (16_384, &[0x02, 0x00, 0x01, 0x00]),
            (1_073_741_823, &[0xfe, 0xff, 0xff, 0xff]),
            (1_073_741_824, &[0x03, 0x00, 0x00, 0x00, 0x40]),
            (u32::MAX, &[0x03, 0xff, 0xff, 0xff, 0xff]),
        ];
        for &(count, encoded) in cases {
            let prefix = LengthPrefix::of(count);
            let mut room = [0xaa; MAX_PREFIX];
            let start = usize::from(prefix.write(&mut room));
            assert_eq!(&room[start..], encoded, "{count}");
            assert!(room[..start].iter().all(|&byte| byte == 0xaa), "{count}");
            assert_eq!(LengthPrefix::read(encoded), Some(prefix), "{count}");
            for cut in 0..encoded.len() {
                assert_eq!(
                    LengthPrefix::read(&encoded[..cut]),
                    None,
                    "{count} cut to {cut} bytes"
                );
            }
        }
    }

    #[test]
    fn a_length_in_a_longer_form_than_needed_is_no_length() {
        for value in [
            &[0xfd, 0x00][..],                     // 63 in two bytes
            &[0xfe, 0xff, 0x00, 0x00],             // 16,383 in four
            &[0x03, 0xff, 0xff, 0xff, 0x3f],       // 2^30 - 1 in five
            &[0x07, 0x00, 0x00, 0x00, 0x40, 0x00], // a number of more than four bytes
        ] {
            assert_eq!(LengthPrefix::read(value), None, "{value:?}");
        }
    }
}
