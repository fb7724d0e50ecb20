//! Externalities that pass every call of a runtime to two state machines.

use super::Calls;
use crate::Spent;
use povmeter_proof_size::RootedProofSizeExt;
use sp_core::{
    hexdisplay::HexDisplay,
    storage::{ChildInfo, StateVersion},
};
use sp_externalities::{
    Error, Extension, ExtensionStore, Externalities, MultiRemovalResults, TransactionType,
};
use sp_trie::proof_size_extension::ProofSizeExt;
use std::{
    any::{Any, TypeId},
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

/// The relation between the proof sizes of the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeRule {
    /// Equal: both are the recorded size.
    Equal,
    /// Ours is not smaller, because it includes the root computation.
    AtLeast,
}

/// A key that a runtime is about to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedKey<'k> {
    /// Storage key of the child trie; `None` for the top trie.
    pub child: Option<&'k [u8]>,
    /// The key, or the prefix of the keys that are removed.
    pub key: &'k [u8],
    /// Whether the call reads; otherwise it changes the value or the values.
    pub is_read: bool,
}

/// A function that gets each key that a runtime uses, before the runtime uses it.
pub type KeyHints = Arc<dyn Fn(UsedKey<'_>) + Send + Sync>;

/// Externalities that count the calls, pass each one to our side and to the peer if there is one,
/// and note every result that differs. The runtime gets our result.
///
/// Avoids known differences (see `docs/differences.md`): the peer forgets its cached root. Calls for benchmarks go to
/// our side alone, because the peer does not implement them.
pub struct Lockstep<'a> {
    ours: &'a mut dyn Externalities,
    peer: Option<&'a mut dyn Externalities>,
    calls: &'a mut Calls,
    rule: SizeRule,
    timed: bool,
    hints: Option<KeyHints>,
}

impl<'a> Lockstep<'a> {
    /// Pairs both sides. Their calls are added to `calls`.
    pub fn new(
        ours: &'a mut dyn Externalities,
        peer: Option<&'a mut dyn Externalities>,
        calls: &'a mut Calls,
        rule: SizeRule,
    ) -> Self {
        Self {
            ours,
            peer,
            calls,
            rule,
            timed: false,
            hints: None,
        }
    }

    /// Also tells `hints`, if given, each key before it is used.
    #[must_use]
    pub fn telling_keys(mut self, hints: Option<KeyHints>) -> Self {
        self.hints = hints;
        self
    }

    fn tell(&self, info: Option<&ChildInfo>, key: &[u8], is_read: bool) {
        if let Some(hints) = &self.hints {
            let child = info.map(ChildInfo::storage_key);
            hints(UsedKey {
                child,
                key,
                is_read,
            });
        }
    }

    /// Also adds up the time of our side.
    #[must_use]
    pub fn timed(mut self, timed: bool) -> Self {
        self.timed = timed;
        self
    }

    /// Returns the result of our side.
    fn on_ours<R>(&mut self, call: impl Fn(&mut dyn Externalities) -> R) -> R {
        if !self.timed {
            return call(self.ours);
        }
        let started = Instant::now();
        let found = call(self.ours);
        self.calls.time += started.elapsed();
        found
    }

    fn on_both<R: PartialEq + fmt::Debug>(
        &mut self,
        call: impl Fn(&mut dyn Externalities) -> R,
        name: impl FnOnce() -> String,
    ) -> R {
        self.calls.all += 1;
        let found = self.on_ours(&call);
        if let Some(peer) = &mut self.peer {
            let expected = call(*peer);
            if found != expected {
                self.calls.note(name(), &expected, &found);
            }
        }
        found
    }

    fn read<R: PartialEq + fmt::Debug>(
        &mut self,
        name: &str,
        info: Option<&ChildInfo>,
        key: &[u8],
        call: impl Fn(&mut dyn Externalities) -> R,
    ) -> R {
        self.calls.reads += 1;
        self.tell(info, key, true);
        self.on_both(call, || named(name, info, key))
    }

    fn write<R: PartialEq + fmt::Debug>(
        &mut self,
        name: &str,
        info: Option<&ChildInfo>,
        key: &[u8],
        call: impl Fn(&mut dyn Externalities) -> R,
    ) -> R {
        self.calls.writes += 1;
        self.tell(info, key, false);
        self.on_both(call, || named(name, info, key))
    }

    /// As [`Self::write`], for a removal of many keys, whose results are compared in parts.
    fn remove_many(
        &mut self,
        name: &str,
        info: Option<&ChildInfo>,
        prefix: &[u8],
        call: impl Fn(&mut dyn Externalities) -> MultiRemovalResults,
    ) -> MultiRemovalResults {
        let parts = |removed: MultiRemovalResults| {
            let counts = (removed.backend, removed.unique, removed.loops);
            (removed.maybe_cursor, counts)
        };
        let removed = self.write(name, info, prefix, |ext| parts(call(ext)));
        let (maybe_cursor, (backend, unique, loops)) = removed;
        MultiRemovalResults {
            maybe_cursor,
            backend,
            unique,
            loops,
        }
    }

    /// Notes the results of a call that only one side refuses. Does not compare the errors.
    fn compare_refusals(
        &mut self,
        name: &str,
        expected: &Result<(), Error>,
        found: &Result<(), Error>,
    ) {
        if found.is_ok() != expected.is_ok() {
            self.calls.note(name.to_owned(), expected, found);
        }
    }

    fn other<R: PartialEq + fmt::Debug>(
        &mut self,
        name: &str,
        call: impl Fn(&mut dyn Externalities) -> R,
    ) -> R {
        self.on_both(call, || name.to_owned())
    }
}

/// Makes the peer forget its cached root: it forgets the root at a rollback, but not at an append.
fn forget_root(peer: &mut dyn Externalities) {
    peer.storage_start_transaction();
    let _ = peer.storage_rollback_transaction();
}

fn named(name: &str, info: Option<&ChildInfo>, key: &[u8]) -> String {
    let key = HexDisplay::from(&key);
    match info {
        None => format!("{name} 0x{key}"),
        Some(info) => {
            let child = info.storage_key();
            format!("{name} 0x{key} of child 0x{}", HexDisplay::from(&child))
        }
    }
}

/// Returns the size in a proof-size extension; `None` for other extensions.
fn told(extension: &mut dyn Any) -> Option<u64> {
    let extension = extension.downcast_mut::<ProofSizeExt>();
    extension.map(|extension| extension.storage_proof_size())
}

impl Externalities for Lockstep<'_> {
    fn set_offchain_storage(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.other("set offchain", |ext| ext.set_offchain_storage(key, value));
    }

    fn storage(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.read("get", None, key, |ext| ext.storage(key))
    }

    fn storage_hash(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.read("hash", None, key, |ext| ext.storage_hash(key))
    }

    fn child_storage(&mut self, info: &ChildInfo, key: &[u8]) -> Option<Vec<u8>> {
        self.read("get", Some(info), key, |ext| ext.child_storage(info, key))
    }

    fn child_storage_hash(&mut self, info: &ChildInfo, key: &[u8]) -> Option<Vec<u8>> {
        self.read("hash", Some(info), key, |ext| {
            ext.child_storage_hash(info, key)
        })
    }

    fn exists_storage(&mut self, key: &[u8]) -> bool {
        self.read("exists", None, key, |ext| ext.exists_storage(key))
    }

    fn exists_child_storage(&mut self, info: &ChildInfo, key: &[u8]) -> bool {
        self.read("exists", Some(info), key, |ext| {
            ext.exists_child_storage(info, key)
        })
    }

    fn next_storage_key(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        self.read("next", None, key, |ext| ext.next_storage_key(key))
    }

    fn next_child_storage_key(&mut self, info: &ChildInfo, key: &[u8]) -> Option<Vec<u8>> {
        self.read("next", Some(info), key, |ext| {
            ext.next_child_storage_key(info, key)
        })
    }

    fn kill_child_storage(
        &mut self,
        info: &ChildInfo,
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> MultiRemovalResults {
        self.remove_many("kill", Some(info), &[], |ext| {
            ext.kill_child_storage(info, limit, cursor)
        })
    }

    fn clear_prefix(
        &mut self,
        prefix: &[u8],
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> MultiRemovalResults {
        self.remove_many("clear", None, prefix, |ext| {
            ext.clear_prefix(prefix, limit, cursor)
        })
    }

    fn clear_child_prefix(
        &mut self,
        info: &ChildInfo,
        prefix: &[u8],
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> MultiRemovalResults {
        self.remove_many("clear", Some(info), prefix, |ext| {
            ext.clear_child_prefix(info, prefix, limit, cursor)
        })
    }

    fn place_storage(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.write("place", None, &key, |ext| {
            ext.place_storage(key.clone(), value.clone());
        });
    }

    fn place_child_storage(&mut self, info: &ChildInfo, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.write("place", Some(info), &key, |ext| {
            ext.place_child_storage(info, key.clone(), value.clone());
        });
    }

    fn storage_root(&mut self, version: StateVersion) -> Vec<u8> {
        self.calls.root_version = Some(version);
        if let Some(peer) = &mut self.peer {
            forget_root(*peer);
        }
        let mut spent = Spent::default();
        let root = spent.during(|| self.other("root", |ext| ext.storage_root(version)));
        if self.timed {
            self.calls.root_time += spent.cpu;
        }
        root
    }

    fn child_storage_root(&mut self, info: &ChildInfo, version: StateVersion) -> Vec<u8> {
        self.calls.all += 1;
        let found = self.ours.child_storage_root(info, version);
        if let Some(peer) = &mut self.peer {
            forget_root(*peer);
            let expected = peer.child_storage_root(info, version);
            if found != expected {
                let call = named("root", Some(info), &[]);
                self.calls.note(call, &expected, &found);
            }
        }
        found
    }

    fn storage_append(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.write("append", None, &key, |ext| {
            ext.storage_append(key.clone(), value.clone());
        });
    }

    fn storage_start_transaction(&mut self) {
        self.other("start", |ext| ext.storage_start_transaction());
    }

    fn storage_rollback_transaction(&mut self) -> Result<(), ()> {
        self.other("rollback", |ext| ext.storage_rollback_transaction())
    }

    fn storage_commit_transaction(&mut self) -> Result<(), ()> {
        self.other("commit", |ext| ext.storage_commit_transaction())
    }

    fn storage_index_transaction(&mut self, index: u32, hash: &[u8], size: u32) {
        self.other("index", |ext| {
            ext.storage_index_transaction(index, hash, size);
        });
    }

    fn storage_renew_transaction_index(&mut self, index: u32, hash: &[u8]) {
        self.other("renew", |ext| {
            ext.storage_renew_transaction_index(index, hash);
        });
    }

    forward_benchmarking!(ours);
}

/// A placeholder in the peer for an extension that only our side can own.
struct Placeholder(TypeId);

impl Extension for Placeholder {
    fn as_mut_any(&mut self) -> &mut dyn Any {
        self
    }

    fn type_id(&self) -> TypeId {
        self.0
    }

    fn start_transaction(&mut self, _: TransactionType) {}
}

impl ExtensionStore for Lockstep<'_> {
    fn extension_by_type_id(&mut self, type_id: TypeId) -> Option<&mut dyn Any> {
        self.calls.all += 1;
        let asks = type_id == TypeId::of::<ProofSizeExt>();
        // The peer does not have the second version.
        let asks_second = type_id == TypeId::of::<RootedProofSizeExt>();
        self.calls.sizes += u64::from(asks || asks_second);
        // A look-up on our side asks for the size, so do it only once.
        let started = self.timed.then(Instant::now);
        let mut found = self.ours.extension_by_type_id(type_id);
        self.calls.time += started.map_or(Duration::ZERO, |started| started.elapsed());
        let Some(peer) = self.peer.as_mut().filter(|_| !asks_second) else {
            return found;
        };
        let mut expected = peer.extension_by_type_id(type_id);
        let same = match (&mut expected, &mut found) {
            (Some(expected), Some(found)) if asks => {
                let (expected, found) = (told(*expected), told(*found));
                match self.rule {
                    SizeRule::Equal => found == expected,
                    SizeRule::AtLeast => found >= expected,
                }
            }
            (expected, found) => expected.is_some() == found.is_some(),
        };
        if !same {
            let expected = expected.map(told);
            let call = "extension".to_owned();
            self.calls
                .note(call, &expected, &found.as_mut().map(|found| told(*found)));
        }
        found
    }

    fn register_extension_with_type_id(
        &mut self,
        type_id: TypeId,
        extension: Box<dyn Extension>,
    ) -> Result<(), Error> {
        self.calls.all += 1;
        let found = self
            .ours
            .register_extension_with_type_id(type_id, extension);
        if let Some(peer) = &mut self.peer {
            let placeholder = Box::new(Placeholder(type_id));
            let expected = peer.register_extension_with_type_id(type_id, placeholder);
            self.compare_refusals("register extension", &expected, &found);
        }
        found
    }

    fn deregister_extension_by_type_id(&mut self, type_id: TypeId) -> Result<(), Error> {
        self.calls.all += 1;
        let found = self.ours.deregister_extension_by_type_id(type_id);
        if let Some(peer) = &mut self.peer {
            let expected = peer.deregister_extension_by_type_id(type_id);
            self.compare_refusals("deregister extension", &expected, &found);
        }
        found
    }
}
