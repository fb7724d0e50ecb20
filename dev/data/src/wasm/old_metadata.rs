//! Storage names in metadata before version 14.
//!
//! Versions 8 to 13 are lists of modules. Only their names are used; the rest is decoded to skip it.

use codec::{Decode, Error, Input};
use povmeter_attribution::StorageName;

/// Metadata versions that this module decodes.
pub(super) const VERSIONS: std::ops::RangeInclusive<u8> = 8..=13;

/// A module up to version 11; later versions append one byte.
#[derive(Decode)]
struct Module {
    _name: String,
    storage: Option<Storage>,
    _calls: Option<Vec<Call>>,
    _events: Option<Vec<Named<Vec<String>>>>,
    _constants: Vec<Constant>,
    _errors: Vec<Named<()>>,
}

#[derive(Decode)]
struct Storage {
    prefix: String,
    items: Vec<Item>,
}

#[derive(Decode)]
struct Item {
    name: String,
    _modifier: u8,
    _kind: Kind,
    _default: Vec<u8>,
    _docs: Vec<String>,
}

/// Hashers and types of an item, decoded but not used.
#[derive(Decode)]
enum Kind {
    Plain {
        _value: String,
    },
    Map {
        _hasher: u8,
        _types: [String; 2],
        _unused: bool,
    },
    DoubleMap {
        _hasher: u8,
        _types: [String; 3],
        _second_hasher: u8,
    },
    // Since version 13.
    ManyMap {
        _keys: Vec<String>,
        _hashers: Vec<u8>,
        _value: String,
    },
}

#[derive(Decode)]
struct Call {
    _name: String,
    _arguments: Vec<(String, String)>,
    _docs: Vec<String>,
}

#[derive(Decode)]
struct Constant {
    _name: String,
    _type: String,
    _value: Vec<u8>,
    _docs: Vec<String>,
}

#[derive(Decode)]
struct Named<T> {
    _name: String,
    _content: T,
    _docs: Vec<String>,
}

/// Returns the names in metadata of this `version`; `input` starts at the list of modules.
///
/// # Errors
/// If `input` does not decode.
pub(super) fn names(version: u8, mut input: &[u8]) -> Result<Vec<StorageName>, Error> {
    let mut names = Vec::new();
    let modules = codec::Compact::<u32>::decode(&mut input)?.0;
    for _ in 0..modules {
        let module = Module::decode(&mut input)?;
        if version >= 12 {
            input.read_byte()?;
        }
        let Some(Storage { prefix, items }) = module.storage else {
            continue;
        };
        let items = items.into_iter();
        names.extend(items.map(|item| StorageName::item(prefix.clone(), item.name)));
    }
    Ok(names)
}
