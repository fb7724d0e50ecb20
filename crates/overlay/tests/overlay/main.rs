//! The overlay from outside, by topic, and against a naive model.

#![allow(clippy::unwrap_used)]

mod appends;
mod dirty;
mod edges;
mod large;
mod many;
mod naive;
mod ordered;
mod owned_changes;
mod random;
mod stores;
mod transactions;

use povmeter_overlay::{Overlay, TrieId};

/// Appends to a key that the parent state does not have.
fn append(overlay: &mut Overlay, store: TrieId<'_>, key: &[u8], element: &[u8]) {
    append_over(overlay, store, key, element, None);
}

/// Appends to a key whose value in the parent state is `parent`.
fn append_over(
    overlay: &mut Overlay,
    store: TrieId<'_>,
    key: &[u8],
    element: &[u8],
    parent: Option<&[u8]>,
) {
    overlay
        .append(store, key, element, || Ok::<_, ()>(parent))
        .unwrap();
}
