//! A transaction executed on the block itself, at its turn.

use crate::{commits::HoldsBlock, executor::Stopped, update::Rule, view::Access};
use povmeter::{
    Accounting, Block, BlockError, NodeHash, NodeSource, ProofSize, Removal, Root, StateVersion,
    TrieId,
};
use povmeter_overlay::{Lookup, LARGE_BYTES};

/// The block, as one transaction accesses it. `H` holds the block; for a transaction that has waited for its turn, it
/// also holds the right to commit.
pub(crate) struct InOrder<H> {
    holder: H,
    /// Whether other transactions may still be executed ahead.
    among_others: bool,
    failure: Option<BlockError>,
    new: Vec<u8>,
}

impl<H: HoldsBlock> InOrder<H> {
    pub(crate) fn new(holder: H, among_others: bool) -> Self {
        Self {
            among_others,
            holder,
            failure: None,
            new: Vec::new(),
        }
    }

    /// Returns the holder of the block, and the error of the call that failed, if one did.
    pub(crate) fn into_parts(self) -> (H, Option<BlockError>) {
        (self.holder, self.failure)
    }

    #[inline(always)]
    fn call<R>(
        &mut self,
        call: impl FnOnce(&mut Block<H::Source, H::Sizes>) -> Result<R, BlockError>,
    ) -> Result<R, Stopped> {
        if self.failure.is_some() {
            return Err(Stopped(()));
        }
        match call(self.holder.block()) {
            Ok(found) => Ok(found),
            Err(error) => {
                self.failure = Some(error);
                Err(Stopped(()))
            }
        }
    }
}

impl<H: HoldsBlock> Access for InOrder<H> {
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
        match holder.block().get(trie, key) {
            // This arm makes the compiler copy address and length as two words. Copied as one, right after the block
            // has written them separately, they would have to wait for both writes: 5 ns, a third of such a call.
            Ok(Some([])) => Ok(Some(&[])),
            Ok(found) => Ok(found),
            Err(error) => {
                *failure = Some(error);
                Err(Stopped(()))
            }
        }
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
        let Self {
            holder, failure, ..
        } = self;
        if failure.is_some() {
            return Err(Stopped(()));
        }
        let block = holder.block();
        let written = match value {
            Some(value) if self.among_others && value.len() >= LARGE_BYTES => {
                set_large(block, trie, key, value)
            }
            Some(value) => block.set(trie, key, value),
            None => block.remove(trie, key),
        };
        written.map_err(|error| {
            *failure = Some(error);
            Stopped(())
        })
    }

    fn append(&mut self, trie: TrieId<'_>, key: &[u8], element: &[u8]) -> Result<(), Stopped> {
        if self.among_others {
            self.holder.note_append(trie, key, element);
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
        self.call(|block| match child {
            None => Ok(block.root(version)?.root),
            Some(child) => block.child_root(child, version),
        })
    }

    fn is_ahead(&self) -> bool {
        false
    }

    fn is_alone(&self) -> bool {
        !self.among_others
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

/// Sets a large value. If the key already has this value, keeps its memory: other threads have read the value there,
/// and recognise it by its address.
fn set_large<S: NodeSource, A: Accounting>(
    block: &mut Block<S, A>,
    trie: TrieId<'_>,
    key: &[u8],
    value: &[u8],
) -> Result<(), BlockError> {
    if block.overlay().get(trie, key) == Lookup::Value(value) {
        if let Some(Some(same)) = block.share(trie, key) {
            return block.set_bytes(trie, key, &same);
        }
    }
    block.set(trie, key, value)
}

#[cfg(all(test, not(any(povmeter_loom, povmeter_shuttle))))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{
        store::{Content, Keys},
        write_log::WriteLog,
    };
    use povmeter::TrieId::Top;
    use povmeter_store::MemoryStore;

    /// In the block, and in the write set for the other threads.
    #[test]
    fn a_large_value_that_is_written_again_stays_in_its_memory() {
        let (store, keys) = (MemoryStore::new(), Keys::default());
        let (mut block, mut log) = (Block::new(&store, Root::EMPTY), WriteLog::new(&keys));
        let mut place_after = |value: &[u8]| {
            block.start_transaction();
            set_large(&mut block, Top, b"key", value).unwrap();
            log.note_transaction(block.overlay());
            block.commit_transaction().unwrap();
            let writes = log.take(&mut block);
            let Content::Large(number) = writes.entries()[0].content else {
                panic!("expected a large value, found {writes:?}");
            };
            assert_eq!(writes.large(number), value);
            let in_block = block.get(Top, b"key").unwrap().unwrap();
            assert_eq!(in_block.as_ptr(), writes.large(number).as_ptr());
            // Kept, so that no other value takes its place.
            writes.large(number).clone()
        };
        let (one, mut other) = (vec![7; LARGE_BYTES], vec![7; LARGE_BYTES]);
        other[LARGE_BYTES - 1] = 8;
        let places = [&one, &one, &other, &one].map(|value| place_after(value));
        let [first, again, changed, back] = places.each_ref().map(|value| value.as_ptr());
        assert_eq!(first, again);
        assert!(first != changed && changed != back && first != back);
    }
}
