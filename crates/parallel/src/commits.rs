//! The block, and the transactions that are committed to it so far. One thread at a time holds it.

use crate::{
    executor::Trap,
    fetch::Fetch,
    outcome::{Decided, Ending, Executed, ParallelError, Statistics, Verdict},
    pace::Pace,
    parallel::SizeAfter,
    record::{Record, Seen},
    store::{Content, Keys, MultiVersion, WriteSet, WriteSetBuilder},
    sync::MutexGuard,
    update::Kind,
    write_log::WriteLog,
};
use povmeter::{Accounting, Block, BlockError, NodeSource, ProofSize, TrieId};
use std::sync::Arc;

/// The block with its committed transactions, behind one lock.
pub(crate) struct Commits<'c, S, A: Accounting, T> {
    pub(crate) block: &'c mut Block<S, A>,
    /// Changes that transactions made on the block and that are not published yet.
    pub(crate) log: WriteLog<'c>,
    pub(crate) pace: Pace,
    pub(crate) fetch: Fetch,
    pub(crate) sizes: SizeAfter,
    pub(crate) decide: &'c mut Decide<'c, T>,
    /// The transactions whose turn is over.
    pub(crate) done: Vec<Executed<T>>,
    pub(crate) statistics: Statistics,
    /// Why the block ended early, if it did.
    pub(crate) ended: Option<BlockEnd>,
}

/// The caller's function that decides whether a transaction stays.
pub(crate) type Decide<'d, T> = dyn FnMut(Decided<'_, T>) -> Verdict + Send + 'd;

/// The result of a transaction whose effects are on the block, in an open transaction of the host.
pub(crate) type Applied<T> = Result<T, Trap>;

#[derive(Debug)]
pub(crate) enum BlockEnd {
    /// A verdict stopped it.
    Stopped,
    Failed(ParallelError),
}

/// How the effects of a transaction came onto the block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By<'w> {
    /// By an execution ahead of its turn with these writes, which the other threads know.
    Ahead(&'w WriteSet),
    /// By an execution on the block.
    Execution,
}

/// A holder of the block, who may change it.
pub(crate) trait HoldsBlock {
    type Source: NodeSource;
    type Sizes: Accounting;

    fn block(&mut self) -> &mut Block<Self::Source, Self::Sizes>;

    /// Notes that the current transaction appends `element`. See [`WriteLog::note_append`].
    fn note_append(&mut self, trie: TrieId<'_>, key: &[u8], element: &[u8]);
}

impl<S: NodeSource, A: Accounting, T> HoldsBlock for &mut Commits<'_, S, A, T> {
    type Source = S;
    type Sizes = A;

    fn block(&mut self) -> &mut Block<S, A> {
        self.block
    }

    fn note_append(&mut self, trie: TrieId<'_>, key: &[u8], element: &[u8]) {
        self.log.note_append(trie, key, element);
    }
}

/// A thread that shares the block with others holds it as long as it holds the lock.
impl<S: NodeSource, A: Accounting, T> HoldsBlock for MutexGuard<'_, Commits<'_, S, A, T>> {
    type Source = S;
    type Sizes = A;

    fn block(&mut self) -> &mut Block<S, A> {
        self.block
    }

    fn note_append(&mut self, trie: TrieId<'_>, key: &[u8], element: &[u8]) {
        self.log.note_append(trie, key, element);
    }
}

/// A transaction whose position is a multiple of this has its updates replaced by values, so that a read passes few
/// updates.
const COLLAPSED: u32 = 4;

impl<S: NodeSource, A: Accounting, T> Commits<'_, S, A, T> {
    /// Ends the block, because `index` failed.
    pub(crate) fn fail(&mut self, index: u32, error: BlockError) {
        let failed = BlockEnd::Failed(ParallelError::Block { index, error });
        self.ended.get_or_insert(failed);
    }

    /// Closes the transaction of the host that holds the effects of `index`, and publishes them to the other threads.
    /// Returns whether transactions above may have read other values.
    pub(crate) fn end(
        &mut self,
        store: &MultiVersion,
        index: u32,
        result: Applied<T>,
        by: By<'_>,
    ) -> Result<bool, BlockError> {
        let output = match result {
            Ok(output) => output,
            Err(trap) => {
                self.block.rollback_transaction()?;
                let size = self.size_after()?;
                let ending = Ending::Trapped(trap);
                self.done.push(Executed { ending, size });
                return Ok(match by {
                    By::Execution if self.pace.is_parallel() => self.withdraw(store, index),
                    By::Execution => self.drop_estimate(store, index),
                    // The other threads know that it has no effects.
                    By::Ahead(_) => false,
                });
            }
        };
        let size = self.size_after();
        let size = self.or_roll_back(size)?;
        let decided = Decided {
            index,
            output: &output,
            size,
        };
        match (self.decide)(decided) {
            Verdict::Keep => {
                self.note(by);
                self.block.commit_transaction()?;
                let ending = Ending::Kept(output);
                self.done.push(Executed { ending, size });
                self.publish(store, index, by)
            }
            verdict @ (Verdict::LeaveOut | Verdict::Stop) => {
                self.block.rollback_transaction()?;
                let size = self.size_after()?;
                let ending = Ending::LeftOut(output);
                self.done.push(Executed { ending, size });
                if verdict == Verdict::Stop {
                    self.ended.get_or_insert(BlockEnd::Stopped);
                    return Ok(false);
                }
                Ok(self.withdraw(store, index))
            }
        }
    }

    /// Notes the changes of the transaction of the host that is committed next, unless the other threads know them or
    /// will never need them.
    fn note(&mut self, by: By<'_>) {
        let known = matches!(by, By::Ahead(_)) && self.pace.is_parallel();
        if self.pace.is_open() && !known {
            self.log.note_transaction(self.block.overlay());
        }
    }

    /// Publishes the changes of `index` to the other threads if they are at work. Returns whether transactions above
    /// may have read other values.
    fn publish(
        &mut self,
        store: &MultiVersion,
        index: u32,
        by: By<'_>,
    ) -> Result<bool, BlockError> {
        match by {
            By::Execution if !self.pace.is_parallel() => Ok(self.drop_estimate(store, index)),
            By::Ahead(_) if !self.pace.is_parallel() => Ok(false),
            By::Execution => Ok(self.publish_log(store, index + 1)),
            By::Ahead(writes) => {
                if (index + 1).is_multiple_of(COLLAPSED) {
                    self.collapse(store, index, writes)?;
                }
                Ok(false)
            }
        }
    }

    /// Publishes the changes in the log to the other threads, as the writes of the transaction at `position`. Returns
    /// whether transactions above may have read other values.
    pub(crate) fn publish_log(&mut self, store: &MultiVersion, position: u32) -> bool {
        let writes = self.log.take(self.block);
        store.publish(position, Arc::new(writes)).seen
    }

    /// Publishes that `index` changes nothing. Returns whether transactions above may have read other values.
    pub(crate) fn withdraw(&mut self, store: &MultiVersion, index: u32) -> bool {
        if !self.pace.is_open() {
            return false;
        }
        if self.pace.is_parallel() {
            self.log.clear();
        }
        store.publish(index + 1, Arc::new(WriteSet::default())).seen
    }

    /// Publishes that `index`, which was executed in order, changes nothing, if an earlier execution was expected to be
    /// repeated. Otherwise transactions above would wait for it when the block continues in parallel; its changes are
    /// published then. Returns whether transactions above may have read other values.
    fn drop_estimate(&mut self, store: &MultiVersion, index: u32) -> bool {
        let estimated = self.pace.is_open() && store.is_estimate(index + 1);
        estimated && self.withdraw(store, index)
    }

    /// Returns the size after a transaction.
    fn size_after(&mut self) -> Result<ProofSize, BlockError> {
        match self.sizes {
            SizeAfter::Counted => self.block.proof_size(),
            SizeAfter::Peeked if A::PROVEN => self.block.peek_proof_size(),
            SizeAfter::Peeked => self.block.proof_size(),
            SizeAfter::Recorded => Ok(self.block.recorded_size()),
        }
    }

    /// Returns `result`. If it is an error, rolls back the open transaction of the host first.
    pub(crate) fn or_roll_back<R>(
        &mut self,
        result: Result<R, BlockError>,
    ) -> Result<R, BlockError> {
        if result.is_err() {
            self.block.rollback_transaction()?;
        }
        result
    }

    /// Asks the block the questions of the transaction and applies its writes, in the order of the transaction.
    /// Returns `false` if an answer differs.
    pub(crate) fn replay(
        &mut self,
        keys: &Keys,
        record: &Record,
        writes: &WriteSet,
    ) -> Result<bool, BlockError> {
        let mut applied = 0;
        for read in &record.reads {
            let alike = match read.seen {
                Seen::Ask(number) => {
                    let ask = &record.asks[number as usize];
                    self.apply(keys, &ask.writes, applied)?;
                    applied = ask.updates;
                    (self.block.proof_size()?.total_bytes() <= ask.bytes) == ask.holds
                }
                Seen::Next(number) => {
                    let next = record.nexts[number as usize];
                    let bytes = |span| record.bytes(span);
                    let (after, before) = (bytes(next.after), next.before.map(bytes));
                    let trie = keys.trie(next.trie);
                    let found = self.block.next_key_before(trie, after, before)?;
                    found.as_deref() == next.found.map(bytes)
                }
                seen => {
                    let key = keys.key(read.key);
                    let trie = keys.trie(key.trie);
                    match seen {
                        Seen::Exists(exists) => self.block.exists(trie, &key.bytes)? == exists,
                        _ => {
                            let value = self.block.get(trie, &key.bytes)?;
                            match seen {
                                Seen::Told(number) => record.is_told_right(number, value),
                                seen => record.value(seen).is_none() || record.is(seen, value),
                            }
                        }
                    }
                }
            };
            if !alike {
                return Ok(false);
            }
        }
        self.apply(keys, writes, applied)?;
        Ok(true)
    }

    /// Applies `writes` to the block. Skips updates with a number below `from`, which were applied before.
    fn apply(&mut self, keys: &Keys, writes: &WriteSet, from: u32) -> Result<(), BlockError> {
        let mut new = Vec::new();
        for entry in writes.entries() {
            let key = keys.key(entry.key);
            let trie = keys.trie(key.trie);
            match entry.content {
                Content::Value(span) => self.block.set(trie, &key.bytes, writes.bytes(span))?,
                Content::Large(number) => {
                    self.block
                        .set_bytes(trie, &key.bytes, writes.large(number))?;
                }
                Content::Deleted => self.block.remove(trie, &key.bytes)?,
                Content::Updated { first, count } => {
                    let updates = writes.updates(first, count).iter();
                    for update in updates.filter(|update| update.number >= from) {
                        let operand = writes.bytes(update.operand);
                        let Kind::Rule(rule) = update.kind else {
                            self.block.append(trie, &key.bytes, operand)?;
                            continue;
                        };
                        new.clear();
                        if rule(self.block.get(trie, &key.bytes)?, operand, &mut new) {
                            self.block.set(trie, &key.bytes, &new)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Replaces the updates by rules of a committed transaction by the resulting values.
    fn collapse(
        &mut self,
        store: &MultiVersion,
        index: u32,
        writes: &WriteSet,
    ) -> Result<(), BlockError> {
        let is_rule = |content| match content {
            Content::Updated { first, count } => {
                let mut updates = writes.updates(first, count).iter();
                updates.all(|update| matches!(update.kind, Kind::Rule(_)))
            }
            _ => false,
        };
        if !writes.entries().iter().any(|entry| is_rule(entry.content)) {
            return Ok(());
        }
        let keys = &store.keys;
        let mut collapsed = WriteSetBuilder::default();
        let mut fits = Ok(());
        for entry in writes.entries() {
            let key = keys.key(entry.key);
            let trie = keys.trie(key.trie);
            match entry.content {
                content if is_rule(content) => {
                    if self.block.is_changed(trie, &key.bytes) {
                        let value = self.block.get(trie, &key.bytes)?;
                        fits = fits.and(collapsed.write(entry.key, value));
                    }
                }
                Content::Value(span) => {
                    fits = fits.and(collapsed.write(entry.key, Some(writes.bytes(span))));
                }
                Content::Large(number) => {
                    let value = writes.large(number).clone();
                    fits = fits.and(collapsed.write_large(entry.key, value));
                }
                Content::Deleted => fits = fits.and(collapsed.write(entry.key, None)),
                Content::Updated { first, count } => {
                    for update in writes.updates(first, count) {
                        let operand = writes.bytes(update.operand);
                        let added =
                            collapsed.update(entry.key, update.kind, operand, update.number);
                        fits = fits.and(added);
                    }
                }
            }
        }
        if fits.is_ok() {
            let collapsed = Arc::new(collapsed.finish());
            store.publish(index + 1, collapsed);
        }
        Ok(())
    }
}

#[cfg(all(test, not(any(povmeter_loom, povmeter_shuttle))))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::store::Nearest;
    use povmeter::TrieId::Top;
    use povmeter_store::{MemoryStore, NodeStore};

    /// A transaction whose repetition is expected, but which is executed in order, keeps no other waiting.
    #[test]
    fn an_estimate_does_not_outlive_the_turn_of_its_transaction() {
        for trapped in [false, true] {
            let parent = MemoryStore::new();
            let mut block = Block::new(&parent, parent.root());
            let store = MultiVersion::new(4);
            let key = store.keys.number(Top, b"key");
            let mut writes = WriteSetBuilder::default();
            writes.write(key, Some(b"value")).unwrap();
            store.publish(2, Arc::new(writes.finish()));
            assert!(store.mark_estimate(2));
            block.start_transaction();
            let mut commits = Commits {
                block: &mut block,
                log: WriteLog::new(&store.keys),
                // In order at first.
                pace: Pace::adaptive(10_000, None),
                fetch: Fetch::default(),
                sizes: SizeAfter::Counted,
                decide: &mut |_| Verdict::Keep,
                done: Vec::new(),
                statistics: Statistics::default(),
                ended: None,
            };
            assert!(commits.pace.is_open() && !commits.pace.is_parallel());
            let result = match trapped {
                true => Err(Trap::of_other_view()),
                false => Ok(()),
            };
            commits.end(&store, 1, result, By::Execution).unwrap();
            let nearest = store.nearest(3, key);
            assert!(matches!(nearest, Nearest::Parent), "{nearest:?}");
        }
    }
}
