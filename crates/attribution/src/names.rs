//! Names of storage key prefixes.
//!
//! The keys of a FRAME storage item begin with the twox128 hashes of the pallet's and the item's
//! name. A table of names lists them:
//! ```text
//! # Pallet and item.
//! Balances.TotalIssuance
//! # A pallet alone, for items without a name.
//! Balances
//! # A prefix in hexadecimal, and what to call it: Pallet.Item, or one word.
//! 0x3a636f6465 :code
//! ```

use sp_crypto_hashing::twox_128;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

/// The name of a key prefix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StorageName {
    /// The pallet, or a name outside pallets such as `:code`.
    pub pallet: String,
    /// The item; `None` for the whole pallet.
    pub item: Option<String>,
}

impl StorageName {
    /// Makes the name of an item of a pallet.
    pub fn item(pallet: impl Into<String>, item: impl Into<String>) -> Self {
        Self {
            pallet: pallet.into(),
            item: Some(item.into()),
        }
    }

    /// The prefix of all keys of this pallet or item.
    fn prefix(&self) -> Vec<u8> {
        let pallet = twox_128(self.pallet.as_bytes());
        let item = self.item.as_ref().map(|item| twox_128(item.as_bytes()));
        [&pallet[..], item.as_ref().map_or(&[], |item| &item[..])].concat()
    }
}

/// Why a table of names was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NamesError {
    /// A line is not in one of the three forms.
    #[error("line {line}: expected `Pallet`, `Pallet.Item` or `0xPREFIX NAME`, found `{found}`")]
    Line {
        /// Number of the line, from 1 on.
        line: usize,
        /// Text of the line.
        found: String,
    },
    /// A prefix is not in hexadecimal.
    #[error(
        "line {line}: expected a prefix of whole bytes in hexadecimal, found `{found}`: {reason}"
    )]
    Prefix {
        /// Number of the line, from 1 on.
        line: usize,
        /// The prefix.
        found: String,
        /// Why it was refused.
        reason: String,
    },
}

/// A table of key prefixes and their names. The longest prefix of a key gives its name.
#[derive(Clone, Debug, Default)]
pub struct Names {
    names: BTreeMap<Vec<u8>, StorageName>,
    lengths: BTreeSet<usize>,
}

static WELL_KNOWN: LazyLock<Names> = LazyLock::new(|| {
    let mut names = Names::default();
    // A test checks that the table has no errors.
    let _ = names.read(include_str!("names.txt"));
    names
});

impl Names {
    /// Returns the table of well-known pallets and items.
    pub fn well_known() -> Self {
        WELL_KNOWN.clone()
    }

    /// Adds a name, in place of an earlier one of the same prefix. An item also adds its pallet and old key.
    pub fn add(&mut self, name: StorageName) {
        if let Some(item) = &name.item {
            let alone = StorageName {
                pallet: name.pallet.clone(),
                item: None,
            };
            self.insert(alone.prefix(), alone);
            // The key that a storage value had before keys began with the pallet's hash.
            let old = twox_128(format!("{} {item}", name.pallet).as_bytes());
            self.insert(old.to_vec(), name.clone());
        }
        self.insert(name.prefix(), name);
    }

    fn insert(&mut self, prefix: Vec<u8>, name: StorageName) {
        self.lengths.insert(prefix.len());
        self.names.insert(prefix, name);
    }

    /// Adds the names of a table. A later name of a prefix replaces an earlier one.
    ///
    /// # Errors
    /// [`NamesError`] for the first line that is not a name; the lines before it are added.
    pub fn read(&mut self, table: &str) -> Result<(), NamesError> {
        for (index, text) in table.lines().enumerate() {
            let (line, text) = (index + 1, text.trim());
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let refused = || NamesError::Line {
                line,
                found: text.to_owned(),
            };
            let mut words = text.split_whitespace();
            match (words.next(), words.next(), words.next()) {
                (Some(name), None, _) if !name.starts_with("0x") => {
                    self.add(parse(name).ok_or_else(refused)?);
                }
                (Some(prefix), Some(name), None) => {
                    let digits = prefix.strip_prefix("0x").ok_or_else(refused)?;
                    let prefix = hex::decode(digits).map_err(|error| NamesError::Prefix {
                        line,
                        found: prefix.to_owned(),
                        reason: error.to_string(),
                    })?;
                    self.insert(prefix, parse(name).ok_or_else(refused)?);
                }
                _ => return Err(refused()),
            }
        }
        Ok(())
    }

    /// Returns the name of the pallet and item that `key` of the top trie belongs to. Hashes without
    /// a name are given in hexadecimal.
    pub fn name_of(&self, key: &[u8]) -> StorageName {
        let fitting = self.lengths.iter().rev().filter_map(|&length| {
            let prefix = key.get(..length)?;
            Some((self.names.get(prefix)?, length))
        });
        match fitting.into_iter().next() {
            Some((name, length)) => StorageName {
                item: name.item.clone().or_else(|| unnamed_item(key, length)),
                ..name.clone()
            },
            None => StorageName {
                pallet: hexadecimal(key.get(..PALLET).unwrap_or(key)),
                item: unnamed_item(key, PALLET),
            },
        }
    }

    /// The most bytes of a key on which its name can depend.
    pub(super) fn longest(&self) -> usize {
        let longest = self.lengths.last().copied().unwrap_or_default();
        longest.max(2 * PALLET)
    }

    /// Returns the name of the child trie `storage_key`.
    pub fn child(storage_key: &[u8]) -> StorageName {
        StorageName::item(":child_storage:", hexadecimal(storage_key))
    }
}

/// Length in bytes of the hash of a pallet's name.
const PALLET: usize = 16;

/// The second hash of `key`, in hexadecimal, if the prefix of length `pallet` is a pallet's hash.
fn unnamed_item(key: &[u8], pallet: usize) -> Option<String> {
    let rest = key
        .get(PALLET..)
        .filter(|rest| pallet == PALLET && !rest.is_empty())?;
    Some(hexadecimal(rest.get(..PALLET).unwrap_or(rest)))
}

fn hexadecimal(bytes: &[u8]) -> String {
    format!("0x{}", hex::encode(bytes))
}

/// Parses `Pallet` or `Pallet.Item`. Refuses `;`, because it separates the frames of folded stacks.
fn parse(name: &str) -> Option<StorageName> {
    if name.contains(';') {
        return None;
    }
    match name.split_once('.') {
        Some((pallet, item)) if !pallet.is_empty() && !item.is_empty() => {
            Some(StorageName::item(pallet, item))
        }
        Some(_) => None,
        None => Some(StorageName {
            pallet: name.to_owned(),
            item: None,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> StorageName {
        parse(text).unwrap()
    }

    #[test]
    fn keys_are_named_by_their_longest_prefix() {
        let mut names = Names::well_known();
        let key = |item: &str| [name(item).prefix(), vec![1, 2, 3]].concat();
        assert_eq!(
            names.name_of(&key("System.Account")),
            name("System.Account")
        );
        assert_eq!(names.name_of(b":code"), name(":code"));
        let unknown = names.name_of(&key("System.Moon"));
        assert_eq!(unknown.pallet, "System");
        let hash = format!("0x{}", hex::encode(twox_128(b"Moon")));
        assert_eq!(unknown.item, Some(hash.clone()));
        assert_eq!(names.name_of(&twox_128(b"System")), name("System"));
        let old = twox_128(b"Balances TotalIssuance");
        assert_eq!(names.name_of(&old), name("Balances.TotalIssuance"));
        let none = names.name_of(&key("Sun.Moon"));
        assert_eq!((none.pallet.len(), none.item), (34, Some(hash)));
        assert_eq!(names.name_of(&[0xab]).pallet, "0xab");

        names
            .read("# mine\n\n  Sun.Moon\n0x0102 Stars.All\n")
            .unwrap();
        assert_eq!(names.name_of(&key("Sun.Moon")), name("Sun.Moon"));
        assert_eq!(names.name_of(&key("Sun.Earth")).pallet, "Sun");
        assert_eq!(names.name_of(&[1, 2, 3]), name("Stars.All"));
    }

    #[test]
    fn the_table_of_well_known_names_is_one() {
        let mut names = Names::default();
        names.read(include_str!("names.txt")).unwrap();
        assert!(names.names.len() > 200);
    }

    #[test]
    fn a_line_that_is_no_name_is_an_error() {
        let refused = |table: &str| Names::default().read(table).unwrap_err().to_string();
        for line in ["a b", "a.", ".b", "0x01", "0x01 a b", "a;b", "0x01 a;b"] {
            let error = refused(&format!("System\n{line}"));
            assert_eq!(
                error,
                format!(
                    "line 2: expected `Pallet`, `Pallet.Item` or `0xPREFIX NAME`, found `{line}`"
                )
            );
        }
        assert!(refused("0x012 a").contains("line 1: expected a prefix of whole bytes"));
    }
}
