//! A transaction executed on the block itself, at its turn.

use crate::{
    commits::HoldsBlock,
    executor::Stopped,
    store::{Content, KeyId, Keys, Span, TooLong, WriteSet, WriteSetBuilder},
    update::{Kind, Rule},
    view::Access,
};
use povmeter::{
    child_root_key, Accounting, Block, BlockError, NodeHash, NodeSource, ProofSize, Removal, Root,
    StateVersion, TrieId,
};

/// The keys that transactions changed on the block, for the transactions above them.
#[derive(Debug, Default)]
pub(crate) struct WriteLog {
    keys: Vec<KeyId>,
    /// Appends of the current transaction, those rolled back included, which only makes a read of the list
    /// wrong, and that is found out. A list of all events is long; to copy it for each transaction takes
    /// longer than to execute the transaction.
    appended: Vec<(KeyId, Span)>,
    elements: Vec<u8>,
    keeps_elements: bool,
    /// Prefixes whose keys were deleted.
    cleared: Vec<(Option<Vec<u8>>, Vec<u8>)>,
    builder: WriteSetBuilder,
}

impl WriteLog {
    fn note(&mut self, keys: &Keys, trie: TrieId<'_>, key: &[u8]) {
        self.keys.push(keys.number(trie, key));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.cleared.is_empty() && self.appended.is_empty()
    }

    /// Keeps what is appended from here on, in place of the whole list. For the log of one transaction.
    pub(crate) fn keep_elements(&mut self, keeps: bool) {
        self.keeps_elements = keeps;
    }

    fn note_append(&mut self, keys: &Keys, trie: TrieId<'_>, key: &[u8], element: &[u8]) {
        self.note_element(keys.number(trie, key), element);
    }

    fn note_element(&mut self, id: KeyId, element: &[u8]) {
        let kept = match self.keeps_elements {
            true => Span::push(&mut self.elements, element),
            false => None,
        };
        match kept {
            Some(element) => self.appended.push((id, element)),
            None => self.keys.push(id),
        }
    }

    /// Notes all that `block` has changed so far.
    pub(crate) fn note_all<S: NodeSource, A: Accounting>(
        &mut self,
        keys: &Keys,
        block: &Block<S, A>,
    ) {
        block.for_each_changed(|trie, key| self.note(keys, trie, key));
    }

    /// Notes the keys of `writes`.
    pub(crate) fn note_set(&mut self, writes: &WriteSet) {
        self.keys
            .extend(writes.entries().iter().map(|entry| entry.key));
    }

    /// Notes `writes`, which the current transaction made before its turn.
    pub(crate) fn note_made(&mut self, writes: &WriteSet) {
        for entry in writes.entries() {
            let Content::Updated { first, count } = entry.content else {
                self.keys.push(entry.key);
                continue;
            };
            for update in writes.updates(first, count) {
                match update.kind {
                    Kind::Append => self.note_element(entry.key, writes.bytes(update.operand)),
                    Kind::Rule(_) => self.keys.push(entry.key),
                }
            }
        }
    }

    fn note_cleared<S: NodeSource, A: Accounting>(&mut self, keys: &Keys, block: &Block<S, A>) {
        let cleared = std::mem::take(&mut self.cleared);
        if cleared.is_empty() {
            return;
        }
        block.for_each_changed(|trie, key| {
            let child = match trie {
                TrieId::Top => None,
                TrieId::Child(child) => Some(child),
            };
            let covers = |(of, prefix): &(Option<Vec<u8>>, Vec<u8>)| {
                of.as_deref() == child && key.starts_with(prefix)
            };
            if cleared.iter().any(covers) {
                self.note(keys, trie, key);
            }
        });
    }

    /// What the block holds now for the noted keys. The log is empty then.
    pub(crate) fn take<S: NodeSource, A: Accounting>(
        &mut self,
        keys: &Keys,
        block: &mut Block<S, A>,
    ) -> Result<WriteSet, BlockError> {
        self.note_cleared(keys, block);
        self.keys.sort_unstable();
        self.keys.dedup();
        let mut written = Ok(());
        for ((id, element), number) in self.appended.iter().zip(0..) {
            if self.keys.binary_search(id).is_err() {
                let element = element.of(&self.elements);
                written = written.and(self.builder.update(*id, Kind::Append, element, number));
            }
        }
        self.appended.clear();
        self.elements.clear();
        for id in self.keys.drain(..) {
            let key = keys.key(id);
            let trie = keys.trie(key.trie);
            // A read of a changed key counts nothing.
            if block.is_changed(trie, &key.bytes) {
                written = written.and(self.builder.write(id, block.get(trie, &key.bytes)?));
            }
        }
        let writes = self.builder.finish();
        // Transactions above find none of these values then, and are executed again.
        Ok(written.map_or_else(|TooLong| WriteSet::default(), |()| writes))
    }
}

/// The block, for one transaction. See [`Access`]. `H` holds the block: for a transaction that has waited
/// for its turn, together with the right to commit.
pub(crate) struct InOrder<'k, H> {
    holder: H,
    /// To note changed keys, if anybody needs them.
    keys: Option<&'k Keys>,
    failure: Option<BlockError>,
    new: Vec<u8>,
}

impl<'k, H: HoldsBlock> InOrder<'k, H> {
    pub(crate) fn new(holder: H, keys: Option<&'k Keys>) -> Self {
        Self {
            keys,
            holder,
            failure: None,
            new: Vec::new(),
        }
    }

    /// Who holds the block, and why a call failed.
    pub(crate) fn into_parts(self) -> (H, Option<BlockError>) {
        (self.holder, self.failure)
    }

    fn note(&mut self, trie: TrieId<'_>, key: &[u8]) {
        if let Some(keys) = self.keys {
            self.holder.log().note(keys, trie, key);
        }
    }

    fn call<R>(
        &mut self,
        call: impl FnOnce(&mut Block<H::Source, H::Sizes>) -> Result<R, BlockError>,
    ) -> Result<R, Stopped> {
        if self.failure.is_some() {
            return Err(Stopped(()));
        }
        call(self.holder.block()).map_err(|error| {
            self.failure = Some(error);
            Stopped(())
        })
    }
}

impl<H: HoldsBlock> Access for InOrder<'_, H> {
    fn current(&mut self) -> &mut dyn Access {
        self
    }

    fn get(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<&[u8]>, Stopped> {
        let Self {
            holder, failure, ..
        } = self;
        if failure.is_some() {
            return Err(Stopped(()));
        }
        holder.block().get(trie, key).map_err(|error| {
            *failure = Some(error);
            Stopped(())
        })
    }

    fn guess(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<&[u8]>, Stopped> {
        self.get(trie, key)
    }

    fn exists(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<bool, Stopped> {
        self.call(|block| block.exists(trie, key))
    }

    fn value_hash(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<NodeHash>, Stopped> {
        self.call(|block| block.value_hash(trie, key))
    }

    fn next_key(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Stopped> {
        self.call(|block| block.next_key(trie, key))
    }

    fn write(&mut self, trie: TrieId<'_>, key: &[u8], value: Option<&[u8]>) -> Result<(), Stopped> {
        self.note(trie, key);
        self.call(|block| match value {
            Some(value) => block.set(trie, key, value),
            None => block.remove(trie, key),
        })
    }

    fn append(&mut self, trie: TrieId<'_>, key: &[u8], element: &[u8]) -> Result<(), Stopped> {
        if let Some(keys) = self.keys {
            self.holder.log().note_append(keys, trie, key, element);
        }
        self.call(|block| block.append(trie, key, element))
    }

    fn update(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
        (rule, operand): (Rule, &[u8]),
        _: bool,
    ) -> Result<bool, Stopped> {
        let mut new = std::mem::take(&mut self.new);
        new.clear();
        let updated = self
            .get(trie, key)
            .map(|value| rule(value, operand, &mut new))?;
        if updated {
            self.write(trie, key, Some(&new))?;
        }
        self.new = new;
        Ok(updated)
    }

    fn clear_prefix(
        &mut self,
        trie: TrieId<'_>,
        prefix: &[u8],
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> Result<Removal, Stopped> {
        if self.keys.is_some() {
            let child = match trie {
                TrieId::Top => None,
                TrieId::Child(child) => Some(child.to_vec()),
            };
            self.holder.log().cleared.push((child, prefix.to_vec()));
        }
        self.call(|block| block.clear_prefix(trie, prefix, limit, cursor))
    }

    fn proof_size(&mut self) -> Result<ProofSize, Stopped> {
        self.call(Block::proof_size)
    }

    fn proof_size_at_most(&mut self, bytes: u64) -> Result<bool, Stopped> {
        Ok(self.proof_size()?.total_bytes() <= bytes)
    }

    fn recorded_size(&mut self) -> Result<ProofSize, Stopped> {
        self.call(|block| Ok(block.recorded_size()))
    }

    fn root(&mut self, child: Option<&[u8]>, version: StateVersion) -> Result<Root, Stopped> {
        self.call(|block| {
            let update = block.root(version)?;
            let Some(child) = child else {
                return Ok(update.root);
            };
            if let Some((_, root)) = update.children.iter().find(|(key, _)| key == child) {
                return Ok(*root);
            }
            let root = block.get(TrieId::Top, &child_root_key(child))?;
            let root = root.and_then(|root| <[u8; 32]>::try_from(root).ok());
            Ok(root.map_or(Root::EMPTY, Root::from))
        })
    }

    fn is_ahead(&self) -> bool {
        false
    }

    fn is_alone(&self) -> bool {
        self.keys.is_none()
    }

    fn leave_to_turn(&mut self) -> Result<(), Stopped> {
        self.call(|_| Ok(()))
    }

    fn wait_for_turn(&mut self) -> Result<(), Stopped> {
        self.call(|_| Ok(()))
    }

    fn start_transaction(&mut self) -> Result<(), Stopped> {
        self.call(|block| {
            block.start_transaction();
            Ok(())
        })
    }

    fn commit_transaction(&mut self) -> Result<(), Stopped> {
        self.call(Block::commit_transaction)
    }

    fn rollback_transaction(&mut self) -> Result<(), Stopped> {
        self.call(Block::rollback_transaction)
    }
}
