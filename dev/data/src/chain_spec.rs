//! Genesis states: raw chain specifications, and plain state files.

use crate::{data_files::read_file, data_files::FileError};
use povmeter_delta_root::CHILD_ROOT_PREFIX;
use povmeter_dev_runtime::Entries;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use sp_core::{Blake2Hasher, Hasher, H256};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// A whole state from a file: that of a chain's genesis, or the state before some block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainSpec {
    /// Name of the chain; `None` in a plain state file.
    pub name: Option<String>,
    /// Identifier of the chain; `None` in a plain state file.
    pub id: Option<String>,
    /// Entries of the top trie, without the roots of child tries.
    pub top: Entries,
    /// Entries of the child tries, by storage key without the well-known prefix.
    pub children: BTreeMap<Vec<u8>, Entries>,
}

/// Why a state could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChainSpecError {
    /// The file could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The content is not JSON.
    #[error("expected JSON, found: {0}")]
    NotJson(#[source] serde_json::Error),
    /// The content is JSON, but a part does not have the form of a chain specification.
    #[error("expected a raw chain specification or a plain state, found: {0}")]
    Shape(#[source] serde_json::Error),
    /// There is neither a genesis state nor a plain state.
    #[error("expected a `genesis` or a `top` field, found neither")]
    NoGenesis,
    /// There is a genesis state, but not in raw form.
    #[error("expected `genesis.raw`, found {found}; convert the chain specification to raw form")]
    NotRaw {
        /// The form that was found.
        found: &'static str,
    },
    /// A raw genesis state lacks the entries of the top trie.
    #[error("expected `top` in `genesis.raw`, found no such field")]
    NoTop,
    /// A key or a value is not written in hexadecimal.
    #[error("expected 0x and hexadecimal digits in the {part} of `{key}`, found: {source}")]
    Hex {
        /// The key, or the key of the value, as written in the file.
        key: String,
        /// `"key"`, `"value"`, or `"storage key"` for the key of a child trie.
        part: &'static str,
        /// The decoding error.
        source: hex::FromHexError,
    },
    /// The top trie holds the root of a child trie that the file lacks.
    #[error("expected the entries of the child trie with its root under `{key}`, found none")]
    NoChild {
        /// The key of the root.
        key: String,
    },
    /// A key appears more than once in one trie.
    #[error("expected every key once, found `{key}` again")]
    RepeatedKey {
        /// The key as written in the file.
        key: String,
    },
}

impl ChainSpec {
    /// Reads the state in the file at `path`: a raw chain specification, or a plain state with the
    /// fields `top` and `childrenDefault`; either may be compressed with gzip.
    ///
    /// # Errors
    /// If the file cannot be read or decompressed, is too large, or holds neither form of a state.
    pub fn read(path: &Path) -> Result<Self, ChainSpecError> {
        Self::from_json(&read_file(path)?)
    }

    /// Reads the state in `json`, a raw chain specification or a plain state.
    ///
    /// # Errors
    /// If `json` is neither.
    pub fn from_json(json: &[u8]) -> Result<Self, ChainSpecError> {
        // serde would accept a list as the fields of an object.
        if json.trim_ascii_start().first() == Some(&b'[') {
            let list = <serde_json::Error as serde::de::Error>::custom("a JSON list");
            return Err(ChainSpecError::Shape(list));
        }
        let file: SpecFile = serde_json::from_slice(json).map_err(|error| {
            if error.is_data() {
                ChainSpecError::Shape(error)
            } else {
                ChainSpecError::NotJson(error)
            }
        })?;
        let raw = match (file.genesis, file.top) {
            (Some(genesis), _) => genesis.into_raw()?,
            (None, Some(top)) => Raw {
                top: Some(top),
                children: file.children,
            },
            (None, None) => return Err(ChainSpecError::NoGenesis),
        };
        let children = raw.children.unwrap_or_default().0.into_iter();
        let children = unique(children.map(|(key, entries)| {
            let storage_key = decode_hex(&key, &key, "storage key")?;
            Ok((key, storage_key, decode(entries)?))
        }))?;
        Ok(Self {
            name: file.name,
            id: file.id,
            top: without_child_roots(decode(raw.top.ok_or(ChainSpecError::NoTop)?)?, &children)?,
            children,
        })
    }
}

/// Removes the roots of `children` from `top`. Some files have them, but the children imply them.
fn without_child_roots(
    mut top: Entries,
    children: &BTreeMap<Vec<u8>, Entries>,
) -> Result<Entries, ChainSpecError> {
    let of_child = |key: &[u8]| key.strip_prefix(CHILD_ROOT_PREFIX).map(<[u8]>::to_vec);
    let orphan = |key: &&Vec<u8>| of_child(key).is_some_and(|child| !children.contains_key(&child));
    if let Some(key) = top.keys().find(orphan) {
        let key = format!("0x{}", hex::encode(key));
        return Err(ChainSpecError::NoChild { key });
    }
    top.retain(|key, _| of_child(key).is_none());
    Ok(top)
}

/// Returns the hash of the genesis header of a chain whose genesis state has the root `state_root`:
/// Blake2b-256 of a header with number 0, no parent, no extrinsics and an empty digest.
pub fn genesis_hash(state_root: H256) -> H256 {
    // Both are SCALE compact integers.
    let (number, digest_length) = ([0], [0]);
    let parent = H256::zero();
    // The root of the trie of extrinsics, which has no entries: the hash of the null node.
    let extrinsics_root = Blake2Hasher::hash(&[0]);
    let header: [&[u8]; 5] = [
        parent.as_ref(),
        &number,
        state_root.as_ref(),
        extrinsics_root.as_ref(),
        &digest_length,
    ];
    Blake2Hasher::hash(&header.concat())
}

/// The JSON form of the file.
#[derive(serde::Deserialize)]
struct SpecFile {
    name: Option<String>,
    id: Option<String>,
    genesis: Option<Genesis>,
    top: Option<Pairs<String>>,
    #[serde(rename = "childrenDefault")]
    children: Option<Pairs<Pairs<String>>>,
}

/// The forms of a genesis state.
#[derive(serde::Deserialize)]
struct Genesis {
    raw: Option<Raw>,
    runtime: Option<IgnoredAny>,
    #[serde(rename = "runtimeGenesis")]
    runtime_genesis: Option<IgnoredAny>,
    #[serde(rename = "stateRootHash")]
    state_root_hash: Option<IgnoredAny>,
}

impl Genesis {
    fn into_raw(self) -> Result<Raw, ChainSpecError> {
        let found = match self {
            Self { raw: Some(raw), .. } => return Ok(raw),
            Self {
                runtime: Some(_), ..
            } => "`genesis.runtime`",
            Self {
                runtime_genesis: Some(_),
                ..
            } => "`genesis.runtimeGenesis`",
            Self {
                state_root_hash: Some(_),
                ..
            } => "`genesis.stateRootHash`, a root alone",
            Self { .. } => "none of the forms a genesis has",
        };
        Err(ChainSpecError::NotRaw { found })
    }
}

/// A raw state: an object with named fields, or, in older files, an array of the two values.
struct Raw {
    top: Option<Pairs<String>>,
    children: Option<Pairs<Pairs<String>>>,
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct RawVisitor;

        impl<'de> Visitor<'de> for RawVisitor {
            type Value = Raw;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with `top` and `childrenDefault`, or an array of the two")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
                let mut raw = Raw {
                    top: None,
                    children: None,
                };
                while let Some(field) = map.next_key::<String>()? {
                    match field.as_str() {
                        "top" => raw.top = Some(map.next_value()?),
                        "childrenDefault" => raw.children = Some(map.next_value()?),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(raw)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Raw, A::Error> {
                Ok(Raw {
                    top: array.next_element()?,
                    children: array.next_element()?,
                })
            }
        }

        deserializer.deserialize_any(RawVisitor)
    }
}

/// The fields of an object in order, including those that appear twice.
struct Pairs<T>(Vec<(String, T)>);

impl<T> Default for Pairs<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for PairsVisitor<T> {
            type Value = Pairs<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of keys in hexadecimal")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<T>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(PairsVisitor(std::marker::PhantomData))
    }
}

fn decode(pairs: Pairs<String>) -> Result<Entries, ChainSpecError> {
    unique(pairs.0.into_iter().map(|(key, value)| {
        let decoded = decode_hex(&key, &key, "key")?;
        let value = decode_hex(&value, &key, "value")?;
        Ok((key, decoded, value))
    }))
}

/// Collects decoded entries into a map. Each comes with its key as written in the file.
fn unique<T>(
    entries: impl Iterator<Item = Result<(String, Vec<u8>, T), ChainSpecError>>,
) -> Result<BTreeMap<Vec<u8>, T>, ChainSpecError> {
    let mut map = BTreeMap::new();
    for entry in entries {
        let (key, decoded, value) = entry?;
        if map.insert(decoded, value).is_some() {
            return Err(ChainSpecError::RepeatedKey { key });
        }
    }
    Ok(map)
}

fn decode_hex(text: &str, key: &str, part: &'static str) -> Result<Vec<u8>, ChainSpecError> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    hex::decode(digits).map_err(|source| ChainSpecError::Hex {
        key: key.to_owned(),
        part,
        source,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::data_files::expect_data;
    use sp_core::storage::well_known_keys::DEFAULT_CHILD_STORAGE_KEY_PREFIX;
    use sp_core::storage::StateVersion;
    use sp_trie::{LayoutV0, LayoutV1, TrieConfiguration};

    /// The state root as sp-trie computes it.
    fn state_root(spec: &ChainSpec, version: StateVersion) -> H256 {
        let trie_root = |entries: &Entries| match version {
            StateVersion::V0 => LayoutV0::<Blake2Hasher>::trie_root(entries),
            StateVersion::V1 => LayoutV1::<Blake2Hasher>::trie_root(entries),
        };
        let mut top = spec.top.clone();
        for (storage_key, entries) in &spec.children {
            let key = [DEFAULT_CHILD_STORAGE_KEY_PREFIX, storage_key].concat();
            top.insert(key, trie_root(entries).as_bytes().to_vec());
        }
        trie_root(&top)
    }

    #[test]
    fn a_list_is_no_chain_spec() {
        let error = ChainSpec::from_json(b" [null,null,null,{\"0x01\":\"0x02\"},{}]").unwrap_err();
        assert!(matches!(error, ChainSpecError::Shape(_)), "{error}");
    }

    #[test]
    fn roots_of_child_tries_are_no_entries() {
        let root = |child: &[u8]| hex::encode([CHILD_ROOT_PREFIX, child].concat());
        let state = |top: String| {
            let json = format!(r#"{{"top":{top},"childrenDefault":{{"0x61":{{"0x01":"0x02"}}}}}}"#);
            ChainSpec::from_json(json.as_bytes())
        };
        let known = state(format!(r#"{{"0x01":"0x02","0x{}":"0x00"}}"#, root(b"a"))).unwrap();
        assert_eq!(known, state(r#"{"0x01":"0x02"}"#.to_owned()).unwrap());
        let error = state(format!(r#"{{"0x{}":"0x00"}}"#, root(b"b"))).unwrap_err();
        assert!(matches!(error, ChainSpecError::NoChild { .. }), "{error}");
        assert!(error.to_string().contains(&root(b"b")), "{error}");
    }

    #[test]
    #[ignore = "needs the real chain data"]
    fn genesis_roots_and_hashes_are_those_of_the_chains() {
        let data = expect_data();
        #[derive(serde::Deserialize)]
        struct Row {
            spec: String,
            state_version: String,
            state_root: H256,
            genesis_hash: H256,
        }
        let rows = read_file(&data.join("genesis-roots.json")).unwrap();
        let rows: Vec<Row> = serde_json::from_slice(&rows).unwrap();
        assert_eq!(rows.len(), 8);
        for row in rows {
            let path = data
                .join("chain-specs")
                .join(format!("{}.json.gz", row.spec));
            let spec = ChainSpec::read(&path).unwrap();
            let version = if row.state_version == "V0" {
                StateVersion::V0
            } else {
                StateVersion::V1
            };
            let root = state_root(&spec, version);
            assert_eq!(root, row.state_root, "state root of {}", row.spec);
            assert_eq!(
                genesis_hash(root),
                row.genesis_hash,
                "genesis hash of {}",
                row.spec
            );
        }
    }

    #[test]
    #[ignore = "needs the real chain data"]
    fn every_chain_spec_has_names_and_entries() {
        let data = expect_data();
        let expected = [
            ("asset-hub-westend", "asset-hub-westend", 12),
            ("bridge-hub-kusama", "bridge-hub-kusama", 48),
            ("bridge-hub-polkadot", "bridge-hub-polkadot", 48),
            ("kusama", "ksmcc3", 3419),
            ("paseo", "paseo", 386),
            ("polkadot", "polkadot", 11_645),
            ("rococo", "rococo_v2_2", 173),
            ("westend", "westend2", 93),
        ];
        for (file, id, entries) in expected {
            let spec = ChainSpec::read(&data.join(format!("chain-specs/{file}.json.gz"))).unwrap();
            assert!(spec.name.is_some());
            assert_eq!((spec.id.as_deref(), spec.top.len()), (Some(id), entries));
            assert!(spec.top.contains_key(&b":code"[..]), "{file}");
        }
    }

    fn entries(pairs: &[(&[u8], &[u8])]) -> Entries {
        pairs
            .iter()
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect()
    }

    fn children(storage_key: &[u8], pairs: &[(&[u8], &[u8])]) -> BTreeMap<Vec<u8>, Entries> {
        [(storage_key.to_vec(), entries(pairs))].into()
    }

    fn parse(json: &str) -> Result<ChainSpec, ChainSpecError> {
        ChainSpec::from_json(json.as_bytes())
    }

    #[test]
    fn both_forms_of_a_raw_genesis_and_a_plain_state_are_read() {
        let top = r#"{"0x0102": "0x", "0304": "0x05"}"#;
        let child = r#"{"0x0c": {"0x01": "0x02"}}"#;
        let spec = |raw: &str| {
            parse(&format!(
                r#"{{"name": "N", "id": "n", "genesis": {{"raw": {raw}}}}}"#
            ))
            .unwrap()
        };
        let expected = ChainSpec {
            name: Some("N".into()),
            id: Some("n".into()),
            top: entries(&[(&[1, 2], &[]), (&[3, 4], &[5])]),
            children: children(&[12], &[(&[1], &[2])]),
        };
        assert_eq!(
            spec(&format!(
                r#"{{"top": {top}, "childrenDefault": {child}, "more": [1]}}"#
            )),
            expected
        );
        assert_eq!(spec(&format!("[{top}, {child}]")), expected);
        let childless = ChainSpec {
            children: BTreeMap::new(),
            ..expected.clone()
        };
        assert_eq!(spec(&format!(r#"{{"top": {top}}}"#)), childless);
        assert_eq!(spec(&format!("[{top}]")), childless);
        let plain = parse(&format!(r#"{{"top": {top}, "childrenDefault": {child}}}"#)).unwrap();
        assert_eq!(
            plain,
            ChainSpec {
                name: None,
                id: None,
                ..expected
            }
        );
    }

    #[test]
    fn what_is_not_a_raw_state_is_an_error() {
        let cases = [
            ("", "expected JSON"),
            ("{", "expected JSON"),
            ("\u{1f}", "expected JSON"),
            (&"[".repeat(100_000), "expected"),
            ("7", "expected a raw chain specification"),
            ("[]", "expected a raw chain specification"),
            ("{}", "found neither"),
            (r#"{"genesis": {}}"#, "none of the forms"),
            (r#"{"genesis": {"runtime": {}}}"#, "`genesis.runtime`"),
            (
                r#"{"genesis": {"runtimeGenesis": {"patch": {}}}}"#,
                "`genesis.runtimeGenesis`",
            ),
            (
                r#"{"genesis": {"stateRootHash": "0x00"}}"#,
                "`genesis.stateRootHash`",
            ),
            (r#"{"genesis": {"raw": {}}}"#, "expected `top`"),
            (r#"{"genesis": {"raw": []}}"#, "expected `top`"),
            (r#"{"genesis": {"raw": [{}, {}, {}]}}"#, "found: trailing"),
            (r#"{"genesis": {"raw": "0x00"}}"#, "an object with `top`"),
            (r#"{"top": {"0x00": 7}}"#, "expected a string at line 1"),
            (r#"{"top": ["0x00"]}"#, "an object of keys"),
            (
                r#"{"top": {}, "childrenDefault": {"0x00": "0x00"}}"#,
                "an object of keys",
            ),
        ];
        for (json, expected) in cases {
            let error = parse(json).unwrap_err().to_string();
            assert!(error.contains(expected), "{json:.40}: {error}");
        }
    }

    #[test]
    fn keys_and_values_that_are_not_hexadecimal_are_named() {
        let cases = [
            (r#"{"0x0g": "0x00"}"#, "key", "0x0g"),
            (r#"{"0x012": "0x00"}"#, "key", "0x012"),
            (r#"{"0x01": "0x0"}"#, "value", "0x01"),
            (r#"{"0x01": "0xzz"}"#, "value", "0x01"),
            (r#"{"0x01": "é"}"#, "value", "0x01"),
        ];
        for (top, expected_part, expected_key) in cases {
            let error = parse(&format!(r#"{{"top": {top}}}"#)).unwrap_err();
            match &error {
                ChainSpecError::Hex { key, part, .. } => {
                    assert_eq!((key.as_str(), *part), (expected_key, expected_part))
                }
                other => panic!("{top}: {other}"),
            }
            assert!(error.to_string().contains(expected_key), "{error}");
        }
        let error = parse(r#"{"top": {}, "childrenDefault": {"0xx": {}}}"#).unwrap_err();
        assert!(
            matches!(
                error,
                ChainSpecError::Hex {
                    part: "storage key",
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn a_key_that_appears_twice_is_an_error() {
        for json in [
            r#"{"top": {"0x01": "0x02", "01": "0x03"}}"#,
            r#"{"top": {"0xaa": "", "0xAA": ""}}"#,
        ] {
            let error = parse(json).unwrap_err();
            assert!(
                matches!(error, ChainSpecError::RepeatedKey { .. }),
                "{error}"
            );
        }
    }

    #[test]
    fn a_missing_file_is_an_error() {
        let error = ChainSpec::read(Path::new("/nowhere/spec.json")).unwrap_err();
        assert!(
            matches!(error, ChainSpecError::File(FileError::Read { .. })),
            "{error}"
        );
    }
}
