//! Changes in the form in which the original's iterators hand them out.

use crate::{StorageKey, StorageValue};
use ::povmeter::TrieId;
use hash_db::Hasher;
use povmeter_overlay::Overlay;
use sp_core::storage::ChildInfo;
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

/// The change of a key, in the original's form. Lists that were appended to are shown as `Set`, with their length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StorageEntry {
    /// The key has this value.
    Set(StorageValue),
    /// The key is deleted.
    #[default]
    Remove,
    /// Elements were appended to a list. No overlay of this crate shows a value so: the variant is there because the
    /// original has it.
    Append {
        /// The encoded elements, after the length that `materialized_length` describes.
        data: StorageValue,
        /// The number of elements.
        current_length: u32,
        /// The number of elements that the length in `data` states; `None` if `data` has no length.
        materialized_length: Option<u32>,
        /// The bytes of `data` that belong to the enclosing transaction.
        parent_size: Option<usize>,
    },
}

impl From<Option<StorageValue>> for StorageEntry {
    fn from(value: Option<StorageValue>) -> Self {
        value.map_or(Self::Remove, Self::Set)
    }
}

/// What an overlay holds for a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverlayedValue {
    value: StorageEntry,
    extrinsics: BTreeSet<u32>,
}

impl OverlayedValue {
    /// The value, or `None` if the key is deleted.
    pub fn value(&mut self) -> Option<&StorageValue> {
        match &self.value {
            StorageEntry::Set(value) => Some(value),
            StorageEntry::Remove | StorageEntry::Append { .. } => None,
        }
    }

    /// The change of the key.
    pub fn value_ref(&self) -> &StorageEntry {
        &self.value
    }

    /// The change of the key.
    pub fn into_value(self) -> StorageEntry {
        self.value
    }

    /// The value, or `None` if the key is deleted.
    pub fn to_option(self) -> Option<StorageValue> {
        match self.value {
            StorageEntry::Set(value) => Some(value),
            StorageEntry::Remove | StorageEntry::Append { .. } => None,
        }
    }

    /// The extrinsics that changed the key; none unless the overlay collects them.
    pub fn extrinsics(&self) -> BTreeSet<u32> {
        self.extrinsics.clone()
    }
}

/// The changes of one trie, ordered by key.
pub(crate) type TrieView = BTreeMap<StorageKey, OverlayedValue>;

/// A copy of all changes, made for iteration. The execution of a block does not need it.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub(crate) top: TrieView,
    pub(crate) children: BTreeMap<StorageKey, (TrieView, ChildInfo)>,
}

impl View {
    pub(crate) fn of(overlay: &Overlay) -> Self {
        let view = |trie| {
            let changes = overlay.changes(trie).into_iter();
            changes
                .map(|(key, value)| {
                    let value = OverlayedValue {
                        value: value.map(<[u8]>::to_vec).into(),
                        extrinsics: BTreeSet::new(),
                    };
                    (key.to_vec(), value)
                })
                .collect()
        };
        let children = overlay.children().map(|name| {
            let child = (view(TrieId::Child(name)), ChildInfo::new_default(name));
            (name.to_vec(), child)
        });
        Self {
            top: view(TrieId::Top),
            children: children.collect(),
        }
    }

    pub(crate) fn of_original<H: Hasher>(overlay: &original::OverlayedChanges<H>) -> Self {
        // The original hands out values only of a mutable overlay.
        let mut overlay = overlay.clone();
        macro_rules! copy {
            ($changes:expr) => {
                $changes
                    .map(|(key, changed)| {
                        let value = OverlayedValue {
                            extrinsics: changed.extrinsics().into_iter().collect(),
                            value: changed.value().cloned().into(),
                        };
                        (key.clone(), value)
                    })
                    .collect()
            };
        }
        let top = copy!(overlay.changes_mut());
        let children = overlay
            .children_mut()
            .map(|(changes, info)| (info.storage_key().to_vec(), (copy!(changes), info.clone())));
        Self {
            top,
            children: children.collect(),
        }
    }
}

/// The changes after `key`.
pub(crate) fn after<'v>(
    trie: &'v mut TrieView,
    key: &[u8],
) -> impl Iterator<Item = (&'v [u8], &'v mut OverlayedValue)> {
    let from: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Excluded(key), Bound::Unbounded);
    trie.range_mut::<[u8], _>(from)
        .map(|(key, value)| (key.as_slice(), value))
}
