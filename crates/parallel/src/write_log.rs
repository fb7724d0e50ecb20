//! The changes that transactions made on the block, for the threads that execute later ones.

use crate::{
    store::{
        Content, KeyId, Keys, LastKeys, Span, TooLong, WriteSet, WriteSetBuilder, LARGE_BYTES,
    },
    update::Kind,
};
use povmeter::{Accounting, Block, NodeSource, TrieId};
use povmeter_overlay::{KeyPlace, Lookup, Overlay};

/// The changes on the block since the last publication.
#[derive(Debug)]
pub(crate) struct WriteLog<'k> {
    keys: LastKeys<'k>,
    /// Places in the overlay of the block. Some are listed more than once.
    changed: Vec<KeyPlace>,
    /// Elements that the current transaction appends to lists, in place of these lists, if elements are kept. A list
    /// of all events is long, and copying it for each transaction takes longer than executing the transaction.
    /// Elements that are rolled back stay here. This only makes a read of the list wrong, which the comparison at the
    /// turn finds.
    appended: Vec<(KeyId, Span)>,
    elements: Vec<u8>,
    keeps_elements: bool,
    /// Memory for [`Self::take`].
    written: Vec<KeyId>,
    large: Vec<KeyId>,
    builder: WriteSetBuilder,
}

impl<'k> WriteLog<'k> {
    pub(crate) fn new(keys: &'k Keys) -> Self {
        Self {
            keys: LastKeys::new(keys),
            changed: Vec::new(),
            appended: Vec::new(),
            elements: Vec::new(),
            keeps_elements: false,
            written: Vec::new(),
            large: Vec::new(),
            builder: WriteSetBuilder::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.appended.is_empty()
    }

    /// Empties the log. Elements are kept for one transaction only.
    pub(crate) fn clear(&mut self) {
        self.keeps_elements = false;
        self.changed.clear();
        self.appended.clear();
        self.elements.clear();
    }

    /// Sets whether the log keeps the elements that the next transaction appends, instead of whole lists.
    pub(crate) fn keep_elements(&mut self, keeps: bool) {
        self.keeps_elements = keeps;
    }

    /// Notes all changes so far of the block that `overlay` belongs to.
    pub(crate) fn note_all(&mut self, overlay: &Overlay) {
        self.changed.extend(overlay.places());
    }

    /// Notes the changes of the open transaction of the host, which is committed next.
    pub(crate) fn note_transaction(&mut self, overlay: &Overlay) {
        for changed in overlay.changed_in_transaction() {
            if !(changed.only_appended && self.keeps_elements) {
                self.changed.push(changed.place);
            }
        }
    }

    /// Notes that the current transaction appends `element`.
    pub(crate) fn note_append(&mut self, trie: TrieId<'_>, key: &[u8], element: &[u8]) {
        if self.keeps_elements {
            let key = self.keys.number(trie, key);
            self.note_element(key, element);
        }
    }

    fn note_element(&mut self, key: KeyId, element: &[u8]) {
        match Span::push(&mut self.elements, element) {
            Some(element) => self.appended.push((key, element)),
            // Whole lists are noted then.
            None => self.keeps_elements = false,
        }
    }

    /// Notes the elements of `writes`, which the current transaction appended before its turn.
    pub(crate) fn note_appends_of(&mut self, writes: &WriteSet) {
        for entry in writes.entries() {
            let Content::Updated { first, count } = entry.content else {
                continue;
            };
            for update in writes.updates(first, count) {
                if self.keeps_elements && matches!(update.kind, Kind::Append) {
                    self.note_element(entry.key, writes.bytes(update.operand));
                }
            }
        }
    }

    /// Returns what `block` holds now for the noted keys, and empties the log.
    pub(crate) fn take<S: NodeSource, A: Accounting>(
        &mut self,
        block: &mut Block<S, A>,
    ) -> WriteSet {
        self.changed.sort_unstable();
        self.changed.dedup();
        let mut fits = Ok(());
        let overlay = block.overlay();
        for place in self.changed.drain(..) {
            let (trie, key, value) = match overlay.at(place) {
                Some((trie, key, Lookup::Value(value))) => (trie, key, Some(value)),
                Some((trie, key, Lookup::Deleted)) => (trie, key, None),
                Some((_, _, Lookup::Untouched)) | None => continue,
            };
            let id = self.keys.number(trie, key);
            self.written.push(id);
            match value {
                Some(value) if value.len() > LARGE_BYTES => self.large.push(id),
                value => fits = fits.and(self.builder.write(id, value)),
            }
        }
        let keys = self.keys.all();
        for id in self.large.drain(..) {
            let key = keys.key(id);
            if let Some(Some(value)) = block.share(keys.trie(key.trie), &key.bytes) {
                fits = fits.and(self.builder.write_large(id, value));
            }
        }
        self.written.sort_unstable();
        for ((id, element), number) in self.appended.iter().zip(0..) {
            if self.written.binary_search(id).is_err() {
                let element = element.of(&self.elements);
                fits = fits.and(self.builder.update(*id, Kind::Append, element, number));
            }
        }
        self.written.clear();
        self.clear();
        let writes = self.builder.finish();
        // On an error, transactions above find none of these values, and are executed again at their turn.
        fits.map_or_else(|TooLong| WriteSet::default(), |()| writes)
    }
}
