//! Every call of a runtime on two state machines, every result compared.

use crate::{
    host::{BoundarySize, Built, Host, HostError, TransactionStep},
    peer::PeerBlock,
};
use povmeter_proof_size::RootedProofSizeExt;
use sp_core::{
    hexdisplay::HexDisplay,
    storage::{ChildInfo, StateVersion, TrackedStorageKey},
};
use sp_externalities::{
    set_and_run_with_externalities, with_externalities, Error, Extension, ExtensionStore,
    Externalities, MultiRemovalResults, TransactionType,
};
use sp_trie::proof_size_extension::ProofSizeExt;
use std::{
    any::{Any, TypeId},
    fmt,
    time::{Duration, Instant},
};

/// Differences that are kept word for word; of others only their number is.
const KEPT: usize = 8;

/// What passed between a runtime and its host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// Values, hashes, existence and next keys asked for.
    pub reads: u64,
    /// Values set and deleted, elements appended, prefixes removed.
    pub writes: u64,
    /// Questions for the proof size.
    pub sizes: u64,
    /// All calls: these, transactions, roots and others.
    pub all: u64,
    /// Time spent in calls, if that was asked for, the clock's own included; see [`clock_cost`].
    pub time: Duration,
    /// State version of the root last asked for.
    pub root_version: Option<StateVersion>,
    /// Results that were not the same on both sides.
    pub differences: u64,
    /// The first of them.
    pub first: Vec<Difference>,
}

/// A call that two state machines answered differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Which of all calls it was, the first being 1.
    pub at: u64,
    /// The call.
    pub call: String,
    /// The peer's answer.
    pub expected: String,
    /// Ours.
    pub found: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            at,
            call,
            expected,
            found,
        } = self;
        write!(f, "call {at}, {call}: expected {expected}, found {found}")
    }
}

/// How the sizes that the two sides tell the runtime relate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeRule {
    /// Both tell the size of the reads.
    Equal,
    /// Ours includes what the root adds.
    AtLeast,
}

/// Externalities that count the calls, hand each to ours, and to the peer's where there is one, and
/// note every result that differs. The runtime gets ours.
///
/// What is known to differ (see `docs/differences.md`) is taken out of the way: the peer is made to
/// forget a root that it computed before, and a child's root does not become a change of the peer's
/// top trie. What only benchmarks call goes to ours alone, as the peer does not implement it.
pub struct Lockstep<'a> {
    ours: &'a mut dyn Externalities,
    peer: Option<&'a mut dyn Externalities>,
    calls: &'a mut Calls,
    rule: SizeRule,
    timed: bool,
}

/// What timing one call costs.
pub fn clock_cost() -> Duration {
    const TIMES: u32 = 10_000;
    let started = Instant::now();
    let mut spent = Duration::ZERO;
    for _ in 0..TIMES {
        spent += Instant::now().elapsed();
    }
    std::hint::black_box(spent);
    started.elapsed() / TIMES
}

impl<'a> Lockstep<'a> {
    /// Both sides, with what passes noted in `calls`.
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
        }
    }

    /// Adds up the time that ours takes.
    #[must_use]
    pub fn timed(mut self, timed: bool) -> Self {
        self.timed = timed;
        self
    }

    /// What ours says.
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
        self.on_both(call, || named(name, info, key))
    }

    fn other<R: PartialEq + fmt::Debug>(
        &mut self,
        name: &str,
        call: impl Fn(&mut dyn Externalities) -> R,
    ) -> R {
        self.on_both(call, || name.to_owned())
    }
}

impl Calls {
    fn note(&mut self, call: String, expected: &dyn fmt::Debug, found: &dyn fmt::Debug) {
        self.differences += 1;
        if self.first.len() < KEPT {
            self.first.push(Difference {
                at: self.all,
                call,
                expected: format!("{expected:?}"),
                found: format!("{found:?}"),
            });
        }
    }
}

/// The peer looks at itself anew after a rollback, and not after an append.
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

/// The size that an extension is about to tell; `None` of one that tells none.
fn told(extension: &mut dyn Any) -> Option<u64> {
    let extension = extension.downcast_mut::<ProofSizeExt>();
    extension.map(|extension| extension.storage_proof_size())
}

/// The answer to a removal, in a form that can be compared.
fn parts(results: &MultiRemovalResults) -> (Option<Vec<u8>>, u32, u32, u32) {
    let MultiRemovalResults {
        maybe_cursor,
        backend,
        unique,
        loops,
    } = results;
    (maybe_cursor.clone(), *backend, *unique, *loops)
}

fn removed(
    (maybe_cursor, backend, unique, loops): (Option<Vec<u8>>, u32, u32, u32),
) -> MultiRemovalResults {
    MultiRemovalResults {
        maybe_cursor,
        backend,
        unique,
        loops,
    }
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
        removed(self.write("kill", Some(info), &[], |ext| {
            parts(&ext.kill_child_storage(info, limit, cursor))
        }))
    }

    fn clear_prefix(
        &mut self,
        prefix: &[u8],
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> MultiRemovalResults {
        removed(self.write("clear", None, prefix, |ext| {
            parts(&ext.clear_prefix(prefix, limit, cursor))
        }))
    }

    fn clear_child_prefix(
        &mut self,
        info: &ChildInfo,
        prefix: &[u8],
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> MultiRemovalResults {
        removed(self.write("clear", Some(info), prefix, |ext| {
            parts(&ext.clear_child_prefix(info, prefix, limit, cursor))
        }))
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
        self.other("root", |ext| ext.storage_root(version))
    }

    fn child_storage_root(&mut self, info: &ChildInfo, version: StateVersion) -> Vec<u8> {
        self.calls.all += 1;
        let found = self.ours.child_storage_root(info, version);
        if let Some(peer) = &mut self.peer {
            forget_root(*peer);
            // On the peer's side the root becomes a change of the top trie.
            peer.storage_start_transaction();
            let expected = peer.child_storage_root(info, version);
            let _ = peer.storage_rollback_transaction();
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

    fn wipe(&mut self) {
        self.ours.wipe();
    }

    fn commit(&mut self) {
        self.ours.commit();
    }

    fn read_write_count(&self) -> (u32, u32, u32, u32) {
        self.ours.read_write_count()
    }

    fn reset_read_write_count(&mut self) {
        self.ours.reset_read_write_count();
    }

    fn get_whitelist(&self) -> Vec<TrackedStorageKey> {
        self.ours.get_whitelist()
    }

    fn set_whitelist(&mut self, new: Vec<TrackedStorageKey>) {
        self.ours.set_whitelist(new);
    }

    fn proof_size(&self) -> Option<u32> {
        self.ours.proof_size()
    }

    fn get_read_and_written_keys(&self) -> Vec<(Vec<u8>, u32, u32, bool)> {
        self.ours.get_read_and_written_keys()
    }
}

/// Stands in the peer's store for an extension of which there is only one.
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
        // The peer knows nothing of the second version.
        let asks_second = type_id == TypeId::of::<RootedProofSizeExt>();
        self.calls.sizes += u64::from(asks || asks_second);
        // Looking ours up is the question, so that is done once.
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
            if found.is_ok() != expected.is_ok() {
                self.calls
                    .note("register extension".to_owned(), &expected, &found);
            }
        }
        found
    }

    fn deregister_extension_by_type_id(&mut self, type_id: TypeId) -> Result<(), Error> {
        self.calls.all += 1;
        let found = self.ours.deregister_extension_by_type_id(type_id);
        if let Some(peer) = &mut self.peer {
            let expected = peer.deregister_extension_by_type_id(type_id);
            if found.is_ok() != expected.is_ok() {
                self.calls
                    .note("deregister extension".to_owned(), &expected, &found);
            }
        }
        found
    }
}

/// A block with every call of the runtime counted, and compared with the peer's where there is one.
pub struct LockstepBlock<'c, H> {
    ours: H,
    peer: Option<PeerBlock>,
    rule: SizeRule,
    timed: bool,
    calls: &'c mut Calls,
}

impl<'c, H: Host> LockstepBlock<'c, H> {
    /// Both blocks on the same parent state. What passes is added to `calls`.
    pub fn new(ours: H, peer: Option<PeerBlock>, rule: SizeRule, calls: &'c mut Calls) -> Self {
        Self {
            ours,
            peer,
            rule,
            timed: false,
            calls,
        }
    }

    /// Adds up the time that calls take.
    #[must_use]
    pub fn timed(mut self) -> Self {
        self.timed = true;
        self
    }
}

impl<H: Host> Host for LockstepBlock<'_, H> {
    type Finished = Built;

    fn execute<R>(&mut self, call: impl FnOnce() -> R) -> Result<R, HostError> {
        let Self {
            ours,
            peer,
            rule,
            timed,
            calls,
        } = self;
        let none = || HostError::Runtime { expected: "inside" };
        ours.execute(|| {
            let both = |ours: &mut dyn Externalities| match peer {
                None => {
                    let ext = Lockstep::new(ours, None, calls, *rule);
                    let mut ext = ext.timed(*timed);
                    Ok(set_and_run_with_externalities(&mut ext, call))
                }
                Some(peer) => peer.inside(|theirs| {
                    let ext = Lockstep::new(ours, Some(theirs), calls, *rule);
                    let mut ext = ext.timed(*timed);
                    set_and_run_with_externalities(&mut ext, call)
                }),
            };
            with_externalities(both).unwrap_or_else(|| Err(none()))
        })?
    }

    fn transaction(&mut self, step: TransactionStep) -> Result<(), HostError> {
        self.ours.transaction(step)?;
        match &mut self.peer {
            None => Ok(()),
            Some(peer) => peer.transaction(step),
        }
    }

    fn boundary(&mut self) -> Result<Option<BoundarySize>, HostError> {
        self.ours.boundary()
    }

    fn recorded(&self) -> u64 {
        self.ours.recorded()
    }

    fn finish(self) -> Result<Built, HostError> {
        let ours = self.ours.finish()?.into();
        if let Some(peer) = self.peer {
            compare_built(self.calls, &peer.finish()?.into(), &ours);
        }
        Ok(ours)
    }
}

/// What is left of the block on either side, compared as one more call.
fn compare_built(calls: &mut Calls, expected: &Built, found: &Built) {
    calls.all += 1;
    let mut compare =
        |what: &str, same: bool, expected: &dyn fmt::Debug, found: &dyn fmt::Debug| {
            if !same {
                calls.note(what.to_owned(), expected, found);
            }
        };
    compare(
        "final root",
        expected.root == found.root,
        &expected.root,
        &found.root,
    );
    let (theirs, ours) = (&expected.main_changes, &found.main_changes);
    compare("changes", theirs == ours, &theirs.len(), &ours.len());
    let (theirs, ours) = (&expected.child_changes, &found.child_changes);
    compare("child changes", theirs == ours, &theirs.len(), &ours.len());
    let (theirs, ours) = (&expected.update, &found.update);
    compare(
        "nodes",
        theirs == ours,
        &theirs.nodes().len(),
        &ours.nodes().len(),
    );
}
