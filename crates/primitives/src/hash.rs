//! Hashes that name nodes and commit to tries.

use core::fmt;

/// Bytes in a Blake2b-256 hash.
pub const HASH_LENGTH: usize = 32;

/// A text is no hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HashError {}

impl fmt::Display for HashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a hash: 0x and 64 hexadecimal digits")
    }
}

impl core::error::Error for HashError {}

/// The bytes that are printed as `text`. The digits may be upper case.
fn from_hex(text: &str) -> Result<[u8; HASH_LENGTH], HashError> {
    let digits = text.strip_prefix("0x").map(str::as_bytes);
    let (pairs, rest) = digits.ok_or(HashError {})?.as_chunks::<2>();
    if pairs.len() != HASH_LENGTH || !rest.is_empty() {
        return Err(HashError {});
    }
    let mut bytes = [0; HASH_LENGTH];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Ok(bytes)
}

fn digit(character: u8) -> Result<u8, HashError> {
    match character {
        b'0'..=b'9' => Ok(character - b'0'),
        b'a'..=b'f' => Ok(character - b'a' + 10),
        b'A'..=b'F' => Ok(character - b'A' + 10),
        _ => Err(HashError {}),
    }
}

macro_rules! hash_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name([u8; HASH_LENGTH]);

        impl $name {
            /// The 32 bytes of the hash.
            #[inline]
            pub const fn as_bytes(&self) -> &[u8; HASH_LENGTH] {
                &self.0
            }
        }

        impl From<[u8; HASH_LENGTH]> for $name {
            #[inline]
            fn from(bytes: [u8; HASH_LENGTH]) -> Self {
                Self(bytes)
            }
        }

        impl From<$name> for [u8; HASH_LENGTH] {
            #[inline]
            fn from(hash: $name) -> Self {
                hash.0
            }
        }

        impl AsRef<[u8]> for $name {
            #[inline]
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }

        impl AsMut<[u8]> for $name {
            #[inline]
            fn as_mut(&mut self) -> &mut [u8] {
                &mut self.0
            }
        }

        // The first eight bytes are enough, because grinding many hashes that agree in them costs more
        // than a block is worth. A hasher is fastest with one number.
        impl core::hash::Hash for $name {
            #[inline]
            fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
                let [first, ..] = self.0.as_chunks::<8>().0 else {
                    return;
                };
                state.write_u64(u64::from_le_bytes(*first));
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("0x")?;
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl core::str::FromStr for $name {
            type Err = HashError;

            fn from_str(text: &str) -> Result<Self, HashError> {
                from_hex(text).map(Self)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    };
}

hash_newtype! {
    /// Blake2b-256 of an encoded trie node, or of a value that is stored as a node of its own.
    #[derive(Default)]
    NodeHash
}

hash_newtype! {
    /// Commitment to a whole trie: the hash of its root node.
    Root
}

impl Root {
    /// The root of a trie without entries: the hash of the null node.
    pub const EMPTY: Self = Self([
        0x03, 0x17, 0x0a, 0x2e, 0x75, 0x97, 0xb7, 0xb7, 0xe3, 0xd8, 0x4c, 0x05, 0x39, 0x1d, 0x13,
        0x9a, 0x62, 0xb1, 0x57, 0xe7, 0x87, 0x86, 0xd8, 0xc0, 0x82, 0xf2, 0x9d, 0xcf, 0x4c, 0x11,
        0x13, 0x14,
    ]);

    /// The hash under which the root node is stored.
    #[inline]
    pub const fn node_hash(self) -> NodeHash {
        NodeHash(self.0)
    }
}

impl Default for Root {
    /// [`Root::EMPTY`], because 32 zero bytes are the root of no trie.
    #[inline]
    fn default() -> Self {
        Self::EMPTY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, string::ToString};

    #[test]
    fn a_hash_is_read_as_it_is_printed() {
        let mut next = 0_u8;
        let bytes = core::array::from_fn(|_| {
            next += 7;
            next
        });
        let text = Root::from(bytes).to_string();
        assert_eq!(text.parse(), Ok(Root::from(bytes)));
        let upper = format!("0x{}", text[2..].to_uppercase());
        assert_eq!(upper.parse(), Ok(NodeHash::from(bytes)));
        let longer = format!("{text}0");
        let other = text.replace('9', "g");
        for wrong in ["", "0x", &text[2..], &text[..65], &longer, &other] {
            assert_eq!(wrong.parse::<Root>(), Err(HashError {}), "{wrong}");
        }
    }

    #[test]
    fn the_default_root_is_that_of_the_state_without_entries() {
        assert_eq!(Root::default(), Root::EMPTY);
    }
}
