//! The block that host functions work on.

use alloc::{sync::Arc, vec::Vec};
use bytes::Bytes;
use core::fmt::Display;
use povmeter::{Block, Hashing, ProofNodes, Removal, Root, StateVersion, TrieId};
use sp_core::storage::well_known_keys::{is_child_storage_key, starts_with_child_storage_key};
use sp_io::KillStorageResult;

/// A block, and the rule for the proof sizes that the runtime gets.
///
/// Host functions have no errors, so each method panics if the block fails, because a node is missing
/// in the proof or can't be decoded.
pub(crate) struct Session {
    block: Block<Arc<ProofNodes>>,
    sizes: Sizes,
}

/// How questions for the proof size are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sizes {
    /// With 0, because the reads are not part of a block.
    Nothing,
    /// The first version of the function with what is recorded so far, the second with what the root needs, too.
    Reads,
    /// Both versions with what reads and the root need.
    WithRoot,
}

environmental::environmental!(current: Session);

/// Returns the result of `call`, run with `session` behind the host functions.
pub(crate) fn run<R>(session: &mut Session, call: impl FnOnce() -> R) -> R {
    current::using(session, call)
}

/// Returns the result of `call` on the session that runs.
///
/// # Panics
/// If no session runs.
pub(crate) fn with<R>(call: impl FnOnce(&mut Session) -> R) -> R {
    current::with(call).expect("storage is used outside of a block")
}

/// The value of a call on the block; panics on an error.
#[track_caller]
fn must<T, E: Display>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("the proof does not hold what the block needs: {error}"),
    }
}

impl Session {
    pub(crate) fn new(nodes: Arc<ProofNodes>, root: Root, hashing: Hashing, sizes: Sizes) -> Self {
        let mut block = Block::new(nodes, root).with_hashing(hashing);
        if sizes == Sizes::Reads {
            block.count_roots_in_key_order();
        }
        // All transactions from now on are the runtime's.
        must(block.enter_runtime());
        Self { block, sizes }
    }

    pub(crate) fn block(&mut self) -> &mut Block<Arc<ProofNodes>> {
        &mut self.block
    }

    /// The block, after its runtime.
    ///
    /// # Panics
    /// If the runtime left a transaction open. The stock function panics, too, when it takes the block's changes.
    pub(crate) fn into_block(self) -> Block<Arc<ProofNodes>> {
        let Self { mut block, .. } = self;
        let open = must(block.exit_runtime());
        assert!(
            open == 0,
            "expected no open transaction after the block, found {open}"
        );
        block
    }

    /// Runs `call`, whose reads count nothing.
    pub(crate) fn uncounted<R>(&mut self, call: impl FnOnce() -> R) -> R {
        let sizes = core::mem::replace(&mut self.sizes, Sizes::Nothing);
        let mark = self.block.reads_mark();
        let result = run(self, call);
        let forgotten = self.block.forget_reads(mark);
        assert!(
            forgotten,
            "expected a call that only reads, found one that computed a root, appended, cleared a prefix or left a \
             transaction open"
        );
        self.sizes = sizes;
        result
    }

    pub(crate) fn get(&mut self, trie: TrieId<'_>, key: &[u8]) -> Option<&[u8]> {
        must(self.block.get(trie, key))
    }

    /// Copies the value at `key`, from byte `offset` on, into `out`, as far as it fits. Returns the length of the value
    /// from there on, as the host function of nodes does. The stock function returns the length of the whole value.
    pub(crate) fn read(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
        out: &mut [u8],
        offset: u32,
    ) -> Option<u32> {
        let value = self.get(trie, key)?;
        let rest = value.get(offset as usize..).unwrap_or_default();
        let copied = rest.len().min(out.len());
        out[..copied].copy_from_slice(&rest[..copied]);
        Some(u32::try_from(rest.len()).unwrap_or(u32::MAX))
    }

    pub(crate) fn exists(&mut self, trie: TrieId<'_>, key: &[u8]) -> bool {
        must(self.block.exists(trie, key))
    }

    pub(crate) fn next_key(&mut self, trie: TrieId<'_>, key: &[u8]) -> Option<Vec<u8>> {
        must(self.block.next_key(trie, key))
    }

    /// As the stock function does, ignores writes of the runtime to the roots of child tries.
    pub(crate) fn place(&mut self, trie: TrieId<'_>, key: &[u8], value: Option<&[u8]>) {
        if trie == TrieId::Top && is_child_storage_key(key) {
            return;
        }
        must(match value {
            Some(value) => self.block.set(trie, key, value),
            None => self.block.remove(trie, key),
        });
    }

    pub(crate) fn append(&mut self, key: &[u8], element: &[u8]) {
        if !is_child_storage_key(key) {
            must(self.block.append(TrieId::Top, key, element));
        }
    }

    /// As the stock function does, clears nothing if roots of child tries may have the prefix.
    pub(crate) fn clear_prefix(
        &mut self,
        trie: TrieId<'_>,
        prefix: &[u8],
        limit: Option<u32>,
    ) -> KillStorageResult {
        if trie == TrieId::Top && starts_with_child_storage_key(prefix) {
            return KillStorageResult::AllRemoved(0);
        }
        let cleared = self.block.clear_prefix(trie, prefix, limit, None);
        let Removal {
            cursor, visited, ..
        } = cleared.unwrap_or_else(|error| {
            panic!("the proof does not hold what clearing a prefix needs: {error}")
        });
        match cursor {
            None => KillStorageResult::AllRemoved(visited),
            Some(_) => KillStorageResult::SomeRemaining(visited),
        }
    }

    pub(crate) fn root(&mut self, version: StateVersion) -> Root {
        must(self.block.root(version)).root
    }

    /// The root of a child trie: the new one if the block changed the child, which is written, too.
    pub(crate) fn child_root(&mut self, child: &[u8], version: StateVersion) -> Root {
        must(self.block.child_root(child, version))
    }

    /// The answer to the first version of the proof-size function.
    pub(crate) fn size(&mut self) -> u64 {
        match self.sizes {
            Sizes::Nothing => 0,
            // The nodes of roots that the runtime computed are recorded, too.
            Sizes::Reads => self.block.recorded_size().total_bytes(),
            Sizes::WithRoot => self.size_with_root(),
        }
    }

    /// The answer to the second version of the proof-size function.
    pub(crate) fn size_with_root(&mut self) -> u64 {
        match self.sizes {
            Sizes::Nothing => 0,
            Sizes::Reads | Sizes::WithRoot => must(self.block.proof_size()).total_bytes(),
        }
    }

    /// The value at `key`, in memory that the runtime may keep.
    pub(crate) fn get_bytes(&mut self, trie: TrieId<'_>, key: &[u8]) -> Option<Bytes> {
        must(self.block.get_bytes(trie, key))
    }
}
