//! The keys changed since the last boundary, and their values in the overlay.

use crate::touched::Touch;
use povmeter_dev_runtime::runtime::Hashing;
use sp_core::storage::ChildInfo;
use sp_state_machine::OverlayedChanges;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Changed keys, sorted, each with its new value; `None` if it is deleted.
pub type Changes = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// The keys changed since the last boundary, each once.
#[derive(Debug, Default)]
pub struct Changed {
    top: BTreeSet<Vec<u8>>,
    children: BTreeMap<Vec<u8>, (ChildInfo, BTreeSet<Vec<u8>>)>,
}

impl Changed {
    /// Collects the keys in `touches`. For a prefix these are all keys with an entry in the overlay.
    pub fn new(touches: Vec<Touch>, overlay: &mut OverlayedChanges<Hashing>) -> Self {
        let mut changed = Self::default();
        for touch in touches {
            match touch {
                Touch::Key(key) => drop(changed.top.insert(key)),
                Touch::Prefix(prefix) => {
                    if overlay.storage(&prefix).is_some() {
                        changed.top.insert(prefix.clone());
                    }
                    let keys = overlay.iter_after(&prefix).map(|(key, _)| key);
                    changed.top.extend(under(&prefix, keys));
                }
                Touch::ChildKey(child, key) => drop(changed.child(child).insert(key)),
                Touch::ChildPrefix(child, prefix) => {
                    let exact = overlay.child_storage(&child, &prefix).is_some();
                    let keys = overlay.child_iter_after(child.storage_key(), &prefix);
                    let keys: Vec<_> = under(&prefix, keys.map(|(key, _)| key)).collect();
                    let set = changed.child(child);
                    set.extend(keys);
                    if exact {
                        set.insert(prefix);
                    }
                }
            }
        }
        changed
    }

    fn child(&mut self, child: ChildInfo) -> &mut BTreeSet<Vec<u8>> {
        let key = child.storage_key().to_vec();
        &mut self
            .children
            .entry(key)
            .or_insert_with(|| (child, BTreeSet::new()))
            .1
    }

    /// The child tries that have changed keys.
    pub fn children(&self) -> impl Iterator<Item = &ChildInfo> {
        self.children.values().map(|(child, _)| child)
    }

    /// The changes of the top trie by the overlay, without keys that were already `seen` with the
    /// same fate. Written keys have an empty value unless `values` is set.
    pub fn of_top(
        &self,
        overlay: &mut OverlayedChanges<Hashing>,
        values: bool,
        seen: Option<&mut Seen>,
    ) -> Changes {
        let look = |key: &[u8]| overlay.storage(key).map(|value| fate(value, values));
        select(&self.top, look, seen.map(|seen| seen.trie(&[])))
    }

    /// As [`Self::of_top`], for a child trie.
    pub fn of_child(
        &self,
        child: &ChildInfo,
        overlay: &mut OverlayedChanges<Hashing>,
        values: bool,
        seen: Option<&mut Seen>,
    ) -> Changes {
        let Some((_, keys)) = self.children.get(child.storage_key()) else {
            return Vec::new();
        };
        let look = |key: &[u8]| {
            overlay
                .child_storage(child, key)
                .map(|value| fate(value, values))
        };
        select(
            keys,
            look,
            seen.map(|seen| seen.trie(child.prefixed_storage_key().as_slice())),
        )
    }
}

/// The leading `keys` that start with `prefix`.
fn under<'a>(
    prefix: &'a [u8],
    keys: impl Iterator<Item = &'a [u8]> + 'a,
) -> impl Iterator<Item = Vec<u8>> + 'a {
    keys.take_while(move |key| key.starts_with(prefix))
        .map(<[u8]>::to_vec)
}

/// The fate of a key: written, with its value if `values` is set, or deleted.
fn fate(value: Option<&[u8]>, values: bool) -> Option<Vec<u8>> {
    value.map(|value| if values { value.to_vec() } else { Vec::new() })
}

/// The fates of those `keys` that the overlay still changes; the others were rolled back.
fn select(
    keys: &BTreeSet<Vec<u8>>,
    mut look: impl FnMut(&[u8]) -> Option<Option<Vec<u8>>>,
    mut seen: Option<&mut Fates>,
) -> Changes {
    let mut changes = Changes::new();
    for key in keys {
        let Some(value) = look(key) else { continue };
        if let Some(seen) = &mut seen {
            if !is_news(seen, key, value.is_some()) {
                continue;
            }
        }
        changes.push((key.clone(), value));
    }
    changes
}

/// Whether each key of a trie was last passed on as written.
type Fates = HashMap<Vec<u8>, bool>;

/// Notes the fate of `key`. Returns whether it differs from the one noted before.
fn is_news(seen: &mut Fates, key: &[u8], written: bool) -> bool {
    match seen.get_mut(key) {
        Some(before) => std::mem::replace(before, written) != written,
        None => {
            seen.insert(key.to_vec(), written);
            true
        }
    }
}

/// The keys that were passed on, with their fates, by trie.
#[derive(Debug, Default)]
pub struct Seen {
    tries: HashMap<Vec<u8>, Fates>,
}

impl Seen {
    fn trie(&mut self, id: &[u8]) -> &mut Fates {
        if !self.tries.contains_key(id) {
            self.tries.insert(id.to_vec(), Fates::new());
        }
        self.tries.entry(id.to_vec()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlay(keys: &[(&[u8], Option<&[u8]>)]) -> OverlayedChanges<Hashing> {
        let mut overlay = OverlayedChanges::default();
        for (key, value) in keys {
            overlay.set_storage(key.to_vec(), value.map(<[u8]>::to_vec));
        }
        overlay
    }

    #[test]
    fn a_prefix_stands_for_the_overlays_keys_under_it() {
        let mut overlay = overlay(&[(b"a", None), (b"ab", Some(b"1")), (b"b", Some(b"2"))]);
        let changed = Changed::new(vec![Touch::Prefix(b"a".to_vec())], &mut overlay);
        let expected: Changes = vec![(b"a".to_vec(), None), (b"ab".to_vec(), Some(b"1".to_vec()))];
        assert_eq!(changed.of_top(&mut overlay, true, None), expected);
    }

    #[test]
    fn a_prefix_of_a_child_trie_likewise() {
        let child = ChildInfo::new_default(b"c");
        let mut overlay = overlay(&[]);
        overlay.set_child_storage(&child, b"a".to_vec(), None);
        overlay.set_child_storage(&child, b"ab".to_vec(), Some(b"1".to_vec()));
        let touch = Touch::ChildPrefix(child.clone(), Vec::new());
        let changed = Changed::new(vec![touch], &mut overlay);
        assert_eq!(changed.children().count(), 1);
        let expected: Changes = vec![(b"a".to_vec(), None), (b"ab".to_vec(), Some(vec![]))];
        assert_eq!(
            changed.of_child(&child, &mut overlay, false, None),
            expected
        );
        assert_eq!(changed.of_top(&mut overlay, false, None), []);
    }

    #[test]
    fn a_key_is_handed_over_again_only_with_another_fate() {
        let mut seen = Seen::default();
        let mut hand_over = |value: Option<&[u8]>| {
            let mut overlay = overlay(&[(b"a", value)]);
            let changed = Changed::new(vec![Touch::Key(b"a".to_vec())], &mut overlay);
            changed.of_top(&mut overlay, true, Some(&mut seen)).len()
        };
        assert_eq!(
            [Some(&b"1"[..]), Some(b"2"), None, None, Some(b"2")].map(&mut hand_over),
            [1, 0, 1, 0, 1]
        );
    }

    #[test]
    fn a_key_without_an_entry_is_not_changed() {
        let mut overlay = overlay(&[]);
        let changed = Changed::new(vec![Touch::Key(b"a".to_vec())], &mut overlay);
        assert_eq!(changed.of_top(&mut overlay, true, None), []);
    }
}
