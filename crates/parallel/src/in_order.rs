//! A transaction executed on the block itself, at its turn.

use crate::{
    executor::Stopped,
    store::{KeyId, Keys, Span, TooLong, WriteSet, WriteSetBuilder},
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
        let id = keys.number(trie, key);
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

/// The block, for one transaction. See [`Access`].
pub(crate) struct InOrder<'a, B> {
    block: B,
    /// Where changed keys are noted, if anybody needs them.
    log: Option<(&'a Keys, &'a mut WriteLog)>,
    failure: Option<BlockError>,
    new: Vec<u8>,
}

impl<'a, B> InOrder<'a, B> {
    pub(crate) fn new(block: B, log: Option<(&'a Keys, &'a mut WriteLog)>) -> Self {
        Self {
            block,
            log,
            failure: None,
            new: Vec::new(),
        }
    }

    /// Why a call failed.
    pub(crate) fn into_failure(self) -> Option<BlockError> {
        self.failure
    }

    fn note(&mut self, trie: TrieId<'_>, key: &[u8]) {
        if let Some((keys, log)) = &mut self.log {
            log.note(keys, trie, key);
        }
    }
}

impl<S: NodeSource, A: Accounting> InOrder<'_, &mut Block<S, A>> {
    fn call<T>(
        &mut self,
        call: impl FnOnce(&mut Block<S, A>) -> Result<T, BlockError>,
    ) -> Result<T, Stopped> {
        if self.failure.is_some() {
            return Err(Stopped(()));
        }
        call(self.block).map_err(|error| {
            self.failure = Some(error);
            Stopped(())
        })
    }
}

impl<S: NodeSource, A: Accounting> Access for InOrder<'_, &mut Block<S, A>> {
    fn get(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<&[u8]>, Stopped> {
        let Self { block, failure, .. } = self;
        if failure.is_some() {
            return Err(Stopped(()));
        }
        block.get(trie, key).map_err(|error| {
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
        if let Some((keys, log)) = &mut self.log {
            log.note_append(keys, trie, key, element);
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
        if let Some((_, log)) = &mut self.log {
            let child = match trie {
                TrieId::Top => None,
                TrieId::Child(child) => Some(child.to_vec()),
            };
            log.cleared.push((child, prefix.to_vec()));
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

    fn leave_to_turn(&mut self) -> Result<(), Stopped> {
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
