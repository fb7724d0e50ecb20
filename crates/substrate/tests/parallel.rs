//! Calls in parallel have the outcome of the same calls in order: outputs, sizes after each call and inside
//! it, root, changes, proof, and side effects. The calls are random. They use shared items as FRAME pallets
//! do, and in ways that a rule does not promise.
#![allow(clippy::unwrap_used)]

use povmeter::{Accounting, Advisory, Consensus, StateVersion};
use povmeter_parallel::{CounterWidth, Decided, Ending, Parallel, SizeAfter, Strategy, Verdict};
use povmeter_proof_size::storage_proof_size::storage_proof_size;
use povmeter_store::{MemoryStore, NodeStore};
use povmeter_substrate::{
    Calls, FrameLimits, ItemRule, MachineError, SizeSource, StateMachine, StorageRules,
};
use sp_core::storage::{ChildInfo, StateVersion::V1};
use sp_crypto_hashing::twox_128;
use sp_externalities::{
    with_externalities, Extension, Extensions, Externalities, ExternalitiesExt, TransactionType,
};
use sp_trie::proof_size_extension::ProofSizeExt;
use std::{
    any::{Any, TypeId},
    num::NonZeroUsize,
    panic::{catch_unwind, AssertUnwindSafe},
    sync::{
        atomic::{AtomicI32, Ordering},
        Arc, Once,
    },
};

const LIMITS: FrameLimits = FrameLimits {
    time: 3_000,
    proof_size: 2_000,
    length: 900,
};

/// The rules of FRAME, and one for a counter of 64 bits.
fn rules() -> StorageRules {
    StorageRules::of_frame(&LIMITS).with_key(b"counter", ItemRule::counter(CounterWidth::U64))
}

fn item(pallet: &str, item: &str) -> Vec<u8> {
    [twox_128(pallet.as_bytes()), twox_128(item.as_bytes())].concat()
}

/// SplitMix64: the same numbers in each execution of a call.
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// Random calls. Some ask for the proof size.
struct Random {
    seed: u64,
    asks: bool,
    /// Panics in ten thousand steps that may panic.
    panics: u64,
    /// For an importer: the author's calls that are part of the block.
    kept: Option<Vec<u32>>,
    /// From this index on, a refused call ends the block.
    stops_from: u32,
}

fn number<const N: usize>(ext: &mut dyn Externalities, key: &[u8]) -> u128 {
    let value = ext.storage(key).unwrap_or_default();
    assert!(
        value.is_empty() || value.len() == N,
        "a number of another length"
    );
    let mut bytes = [0; 16];
    bytes[..value.len()].copy_from_slice(&value);
    u128::from_le_bytes(bytes)
}

fn set<const N: usize>(ext: &mut dyn Externalities, key: &[u8], number: u128) {
    ext.set_storage(key.to_vec(), number.to_le_bytes()[..N].to_vec());
}

/// Counts an event, and appends it to the list, as the system pallet does.
fn event(ext: &mut dyn Externalities, event: &[u8], topic: bool) {
    let phase = ext.storage(&item("System", "ExecutionPhase")).unwrap();
    let count_key = item("System", "EventCount");
    let count = number::<4>(ext, &count_key);
    set::<4>(ext, &count_key, count + 1);
    ext.storage_append(item("System", "Events"), [&phase[..], event].concat());
    if topic {
        let key = [item("System", "EventTopics"), vec![event[0]]].concat();
        ext.storage_append(key, count.to_le_bytes()[..4].to_vec());
    }
}

/// The weight of the block: six compact numbers.
fn weights(ext: &mut dyn Externalities) -> [u64; 6] {
    let value = ext.storage(&item("System", "BlockWeight"));
    value.map_or([0; 6], |value| {
        let mut input = &value[..];
        [(); 6].map(|()| {
            <codec::Compact<u64> as codec::Decode>::decode(&mut input)
                .unwrap()
                .0
        })
    })
}

fn set_weights(ext: &mut dyn Externalities, weights: [u64; 6]) {
    let mut value = Vec::new();
    for weight in weights {
        codec::Encode::encode_to(&codec::Compact(weight), &mut value);
    }
    ext.set_storage(item("System", "BlockWeight"), value);
}

fn account(number: u64) -> Vec<u8> {
    [item("System", "Account"), vec![number.to_le_bytes()[0]; 16]].concat()
}

impl Random {
    /// One extrinsic; returns what it saw, or `None` if it is refused.
    fn extrinsic(&self, index: u32, mut ext: &mut dyn Externalities) -> Option<Vec<u128>> {
        let mut dice = Dice(self.seed.wrapping_mul(1 << 20) ^ u64::from(index));
        let mut seen = vec![number::<4>(ext, b":extrinsic_index")];
        if self.asks && dice.roll(6) == 0 {
            let stock = ext.extension::<ProofSizeExt>();
            seen.push(stock.map_or(0, |asked| asked.storage_proof_size() as u128));
        }
        // As in the check of weights, the numbers are read, compared, and written later.
        let size = number::<4>(ext, &item("System", "BlockSize")) + 10 + u128::from(dice.roll(9));
        if size > LIMITS.length.into() {
            return None;
        }
        let sender = account(dice.roll(40));
        let balance = number::<16>(ext, &sender);
        if balance == 0 && dice.roll(4) == 0 {
            return None;
        }
        let mut weight = weights(ext);
        set::<4>(ext, &item("System", "BlockSize"), size);
        let class = usize::try_from(dice.roll(3)).unwrap();
        weight[2 * class] += 20 + dice.roll(30);
        weight[2 * class + 1] += 9;
        let total = |first: usize| weight.iter().skip(first).step_by(2).sum::<u64>();
        if total(0) > LIMITS.time || total(1) > LIMITS.proof_size {
            return None;
        }
        set_weights(ext, weight);
        let fee = 5 + u128::from(dice.roll(2));
        set::<16>(ext, &sender, balance.saturating_sub(fee));
        for _ in 0..dice.roll(6) {
            self.step(&mut dice, &mut seen, ext);
        }
        // As for a fee that nobody gets.
        let issuance = number::<16>(ext, &item("Balances", "TotalIssuance"));
        set::<16>(
            ext,
            &item("Balances", "TotalIssuance"),
            issuance.saturating_sub(fee),
        );
        event(ext, b"success", false);
        // A rollback of the host does not undo operations on the index.
        if dice.roll(12) == 0 {
            return None;
        }
        let next = number::<4>(ext, b":extrinsic_index") + 1;
        set::<4>(ext, b":extrinsic_index", next);
        let phase = [&[0], &next.to_le_bytes()[..4]].concat();
        ext.set_storage(item("System", "ExecutionPhase"), phase);
        Some(seen)
    }

    fn step(&self, dice: &mut Dice, seen: &mut Vec<u128>, ext: &mut dyn Externalities) {
        let issuance = item("Balances", "TotalIssuance");
        match dice.roll(26) {
            0..4 => {
                let receiver = account(dice.roll(40));
                let balance = number::<16>(ext, &receiver);
                set::<16>(ext, &receiver, balance + 7);
                event(ext, b"transfer", false);
            }
            4 => event(ext, b"topic", true),
            // Results that depend on a counter have to be right.
            5 => {
                let enough = number::<16>(ext, &issuance).is_multiple_of(3);
                seen.push(enough.into());
            }
            6 => {
                let count = number::<4>(ext, &item("System", "EventCount"));
                ext.set_storage(b"seen".to_vec(), count.to_le_bytes().to_vec());
            }
            7 => seen.push(weights(ext).iter().map(|weight| u128::from(*weight)).sum()),
            // A counter that is also set, removed, and replaced by something else than a number.
            8 => set::<8>(ext, b"counter", 1_000),
            9 => ext.clear_storage(b"counter"),
            10..14 => {
                // As the rule promises, an absent number counts as 0, and nothing else depends on the number.
                let (by, add) = (dice.roll(5), dice.roll(2) == 0);
                let counter = ext.storage(b"counter").unwrap_or_default();
                let number = <[u8; 8]>::try_from(&counter[..]).map_or(0, u64::from_le_bytes);
                let sum = match add {
                    true => number.saturating_add(by),
                    false => number.saturating_sub(by),
                };
                set::<8>(ext, b"counter", sum.into());
            }
            14 => seen.push(ext.exists_storage(b"counter").into()),
            15 => {
                let next = ext.next_storage_key(b"count").unwrap_or_default();
                seen.push(next.iter().map(|byte| u128::from(*byte)).sum());
            }
            16 => ext.storage_append(b"counter".to_vec(), vec![0; 7]),
            17..20 => {
                ext.storage_start_transaction();
                for _ in 0..dice.roll(4) {
                    self.step(dice, seen, ext);
                }
                match dice.roll(5) {
                    0 => {}
                    1..3 => ext.storage_commit_transaction().unwrap_or_default(),
                    _ => ext.storage_rollback_transaction().unwrap_or_default(),
                }
            }
            20 => ext.set_offchain_storage(b"offchain", Some(&[dice.roll(9).to_le_bytes()[0]])),
            21 => ext.storage_index_transaction(u32::try_from(seen[0]).unwrap(), &[1; 32], 5),
            22 => {
                let child = ChildInfo::new_default(b"child");
                let key = vec![dice.roll(5).to_le_bytes()[0]; 3];
                ext.place_child_storage(&child, key, Some(vec![1; 40]));
            }
            // Data for the host that depends on a counter, between its read and its write, has to be right, too.
            23..25 => {
                let key = item("System", "EventCount");
                let count = number::<4>(ext, &key);
                let told = u32::try_from(count).unwrap();
                match dice.roll(3) {
                    0 => ext.set_offchain_storage(&told.to_le_bytes(), Some(b"count")),
                    1 => ext.storage_index_transaction(told, &[2; 32], 5),
                    _ => ext.storage_renew_transaction_index(told, &[3; 32]),
                }
                set::<4>(ext, &key, count + 1);
            }
            _ if self.asks && dice.roll(4) == 0 => {
                let root = ext.storage_root(V1);
                seen.push(root.iter().map(|byte| u128::from(*byte)).sum());
            }
            _ => assert!(dice.roll(10_000) >= self.panics, "a panic of the runtime"),
        }
    }
}

impl Calls for Random {
    type Output = Option<Vec<u128>>;

    fn call(&self, index: u32) -> Self::Output {
        let index = self
            .kept
            .as_ref()
            .map_or(index, |kept| kept[index as usize]);
        let mut seen = with_externalities(|ext| self.extrinsic(index, ext)).unwrap()?;
        if self.asks && index.is_multiple_of(7) {
            // The second version of the host function, as a runtime calls it.
            seen.push(storage_proof_size().into());
        }
        Some(seen)
    }

    fn decide(&self, call: Decided<'_, Self::Output>) -> Verdict {
        match call.output {
            Some(_) => Verdict::Keep,
            None if call.index >= self.stops_from => Verdict::Stop,
            None => Verdict::LeaveOut,
        }
    }
}

/// All that two executions of a block must have in common.
#[derive(Debug, PartialEq)]
struct Outcome {
    calls: Vec<(String, povmeter::ProofSize)>,
    sealed: String,
    sizes: Vec<u64>,
    index: Vec<povmeter_substrate::IndexOperation>,
    offchain: String,
}

type Machine<'s, A> = StateMachine<&'s MemoryStore, A>;

fn store() -> MemoryStore {
    let mut store = MemoryStore::new();
    let mut block = povmeter::Block::new(&store, store.root());
    let top = povmeter::TrieId::Top;
    for number in 0..40 {
        block
            .set(top, &account(number), &5_000_u128.to_le_bytes())
            .unwrap();
    }
    let issuance = item("Balances", "TotalIssuance");
    block
        .set(top, &issuance, &200_000_u128.to_le_bytes())
        .unwrap();
    let sealed = block.seal(StateVersion::V1).unwrap();
    store.commit(sealed.update()).unwrap();
    store
}

/// A block that was initialized.
fn begun<A: Accounting>(store: &MemoryStore, sizes: SizeSource) -> Machine<'_, A> {
    let mut machine: Machine<'_, A> =
        StateMachine::with_accounting(Arc::default(), store, store.root(), sizes, A::default());
    let initialize = |ext: &mut dyn Externalities| {
        set::<4>(ext, b":extrinsic_index", 0);
        ext.set_storage(item("System", "ExecutionPhase"), vec![0; 5]);
        set::<4>(ext, &item("System", "BlockSize"), 100);
    };
    machine.execute(|| with_externalities(initialize)).unwrap();
    machine
}

fn outcome<A: Accounting>(
    machine: Machine<'_, A>,
    calls: Vec<(String, povmeter::ProofSize)>,
) -> Outcome {
    let sealed = machine.seal(V1).unwrap();
    let block = &sealed.block;
    let changes: Vec<_> = block.top_changes().collect();
    let children: Vec<_> = block
        .child_changes()
        .map(|(key, of)| (key, of.collect::<Vec<_>>()))
        .collect();
    let proof = block.proof().nodes();
    Outcome {
        calls,
        sealed: format!(
            "{:?} {changes:?} {children:?} {proof:?}",
            block.update().root
        ),
        sizes: sealed.sizes,
        index: sealed.transaction_index,
        offchain: format!("{:?}", sealed.offchain),
    }
}

fn sequential<A: Accounting>(
    store: &MemoryStore,
    sizes: SizeSource,
    calls: &Random,
    count: u32,
) -> Outcome {
    let mut machine = begun::<A>(store, sizes);
    let mut done = Vec::new();
    for index in 0..count {
        machine.start_transaction();
        let called = catch_unwind(AssertUnwindSafe(|| machine.execute(|| calls.call(index))));
        let Ok(called) = called else {
            // The machine stays inside the runtime, so it can't execute the next call.
            panic!("the reference executes no call that panics");
        };
        let called = called.unwrap();
        let size = machine.proof_size().unwrap();
        if called.is_some() {
            machine.commit_transaction().unwrap();
            done.push((format!("{called:?}"), size));
        } else {
            machine.rollback_transaction().unwrap();
            done.push(("refused".to_owned(), machine.proof_size().unwrap()));
            if index >= calls.stops_from {
                break;
            }
        }
    }
    outcome(machine, done)
}

fn parallel<A: Accounting>(
    store: &MemoryStore,
    sizes: SizeSource,
    (calls, rules): (&Random, &StorageRules),
    count: u32,
    parallel: Parallel,
) -> Outcome {
    let mut machine = begun::<A>(store, sizes);
    let batch = machine.execute_in_parallel(parallel, store, rules, calls, count);
    let done = batch.unwrap().transactions.into_iter().map(|executed| {
        let ending = match executed.ending {
            Ending::Kept(output) => format!("{output:?}"),
            Ending::LeftOut(_) => "refused".to_owned(),
            Ending::Trapped(trap) => panic!("{trap}"),
        };
        (ending, executed.size)
    });
    let done = done.collect();
    outcome(machine, done)
}

fn ways() -> Vec<Parallel> {
    let workers = |count| Parallel::new(NonZeroUsize::new(count).unwrap());
    vec![
        workers(1).with_strategy(Strategy::EachAhead),
        workers(2).with_strategy(Strategy::Always),
        workers(4).with_strategy(Strategy::EachAhead),
        workers(2),
        workers(3).with_strategy(Strategy::Prepare),
    ]
}

fn compare<A: Accounting>(sizes: &SizeSource, seeds: std::ops::Range<u64>, rules: &StorageRules) {
    let store = store();
    let asks = *sizes != SizeSource::Unrecorded;
    for seed in seeds {
        let calls = Random {
            seed,
            asks,
            panics: 0,
            kept: None,
            stops_from: if seed % 4 == 3 { 40 } else { u32::MAX },
        };
        let expected = sequential::<A>(&store, sizes.clone(), &calls, 80);
        for way in ways() {
            let found = parallel::<A>(&store, sizes.clone(), (&calls, rules), 80, way);
            for (index, (found, expected)) in found.calls.iter().zip(&expected.calls).enumerate() {
                assert_eq!(found, expected, "seed {seed}, call {index}, {way:?}");
            }
            assert_eq!(found, expected, "seed {seed}, {way:?}");
        }
    }
}

#[test]
fn calls_that_ask_for_no_size() {
    compare::<Advisory>(&SizeSource::Unrecorded, 0..60, &rules());
    compare::<Consensus>(&SizeSource::Unrecorded, 60..80, &rules());
}

#[test]
fn calls_that_ask_for_sizes() {
    compare::<Consensus>(&SizeSource::Estimate, 100..140, &rules());
    compare::<Consensus>(&SizeSource::Reads, 140..160, &rules());
}

#[test]
fn without_rules_the_outcome_is_the_same() {
    compare::<Advisory>(&SizeSource::Unrecorded, 200..220, &StorageRules::new());
}

#[test]
#[ignore = "takes long: 16,000 blocks"]
fn takes_long() {
    compare::<Advisory>(&SizeSource::Unrecorded, 10_000..13_000, &rules());
    compare::<Consensus>(&SizeSource::Estimate, 20_000..21_000, &rules());
}

/// An importer has the author's sizes, and the extrinsics that are part of the block.
#[test]
fn sizes_are_replayed() {
    let store = store();
    let mut calls = Random {
        seed: 300,
        asks: true,
        panics: 0,
        kept: None,
        stops_from: u32::MAX,
    };
    let author = sequential::<Consensus>(&store, SizeSource::Estimate, &calls, 80);
    let kept: Vec<u32> = (0..80)
        .filter(|index| author.calls[*index as usize].0 != "refused")
        .collect();
    let count = u32::try_from(kept.len()).unwrap();
    assert!(!author.sizes.is_empty() && count < 80);
    calls.kept = Some(kept);
    let replay = |sizes: &[u64]| SizeSource::Replay(sizes.to_vec());
    let expected = sequential::<Consensus>(&store, replay(&author.sizes), &calls, count);
    assert_eq!(expected.sizes, author.sizes);
    for way in ways() {
        let of = (&calls, &rules());
        let found = parallel::<Consensus>(&store, replay(&author.sizes), of, count, way);
        assert_eq!(found, expected);
    }
    // One size too few: the block fails, even if no other call asks.
    let short = [&author.sizes[..1], &author.sizes[..author.sizes.len() - 1]];
    for way in ways() {
        for sizes in short {
            let mut machine = begun::<Consensus>(&store, replay(sizes));
            let batch = machine.execute_in_parallel(way, &store, &rules(), &calls, count);
            assert!(matches!(batch, Err(MachineError::Failed { .. })));
            assert!(matches!(machine.failure(), Some(MachineError::Replay(_))));
            let sealed = machine.seal(V1).map_err(MachineError::from);
            assert!(matches!(sealed, Err(MachineError::Replay(_))));
        }
    }
}

/// What the calls before did outside of the state is lost then.
#[test]
fn a_machine_is_not_sealed_after_a_panic_of_the_host() {
    struct Host;

    impl Calls for Host {
        type Output = ();

        fn call(&self, index: u32) {
            with_externalities(|ext| {
                ext.set_offchain_storage(&index.to_le_bytes(), Some(b"value"));
            });
        }

        fn decide(&self, call: Decided<'_, ()>) -> Verdict {
            assert!(call.index < 40, "the host panics");
            Verdict::Keep
        }
    }

    let store = store();
    for way in ways() {
        let mut machine = begun::<Consensus>(&store, SizeSource::Estimate);
        let execute = || machine.execute_in_parallel(way, &store, &rules(), &Host, 80);
        assert!(catch_unwind(AssertUnwindSafe(execute)).is_err());
        // Even without the transaction of the host in which that happened, and after other calls.
        let _ = machine.rollback_transaction();
        let another = machine.execute(|| ());
        assert!(
            matches!(another, Err(MachineError::Unfinished)),
            "{another:?}"
        );
        let more = machine.execute_in_parallel(way, &store, &rules(), &Host, 0);
        assert!(matches!(more, Err(MachineError::Unfinished)), "{more:?}");
        let sealed = machine.seal(V1).map_err(MachineError::from);
        assert!(matches!(sealed, Err(MachineError::Unfinished)));
    }
}

/// A call that panicked has half of its effects, whatever comes after it.
#[test]
fn no_batch_follows_a_call_that_panicked() {
    quiet();
    let store = store();
    for way in ways() {
        let mut machine = begun::<Consensus>(&store, SizeSource::Estimate);
        let half = || {
            with_externalities(|ext| ext.set_storage(b"half".to_vec(), vec![1]));
            panic!("a panic of the runtime");
        };
        let execute = || machine.execute(half);
        assert!(catch_unwind(AssertUnwindSafe(execute)).is_err());
        let batch = machine.execute_in_parallel(way, &store, &rules(), &|_: u32| (), 0);
        assert!(matches!(batch, Err(MachineError::Unfinished)), "{batch:?}");
        let sealed = machine.seal(V1).map_err(MachineError::from);
        assert!(matches!(sealed, Err(MachineError::Unfinished)));
    }
}

/// A call that only benchmarks make would have another answer than in order.
#[test]
fn calls_of_benchmarks_are_refused() {
    type Call = fn(&mut dyn Externalities);
    let calls: [(&str, Call); 8] = [
        ("wipe", |ext| ext.wipe()),
        ("commit", |ext| ext.commit()),
        ("read_write_count", |ext| _ = ext.read_write_count()),
        ("reset_read_write_count", |ext| ext.reset_read_write_count()),
        ("get_whitelist", |ext| _ = ext.get_whitelist()),
        ("set_whitelist", |ext| ext.set_whitelist(Vec::new())),
        ("proof_size", |ext| _ = ext.proof_size()),
        ("get_read_and_written_keys", |ext| {
            _ = ext.get_read_and_written_keys();
        }),
    ];
    let store = store();
    for way in ways() {
        let mut machine = begun::<Advisory>(&store, SizeSource::Unrecorded);
        let call = |index: u32| {
            with_externalities(|ext| calls[index as usize].1(ext));
        };
        let count = u32::try_from(calls.len()).unwrap();
        let batch = machine.execute_in_parallel(way, &store, &rules(), &call, count);
        for ((name, _), executed) in calls.iter().zip(batch.unwrap().transactions) {
            let Ending::Trapped(trap) = executed.ending else {
                panic!("{name}: {:?}", executed.ending);
            };
            assert!(trap.to_string().contains(&format!("`{name}`")), "{trap}");
        }
        machine.seal(V1).unwrap();
    }
}

/// Calls that only change counters are all committed as they were executed ahead.
#[test]
fn counters_do_not_conflict() {
    let store = store();
    let call = |index: u32| {
        let work = |ext: &mut dyn Externalities| {
            let weight = weights(ext);
            set::<4>(ext, &item("System", "BlockSize"), 1);
            set_weights(ext, weight.map(|weight| weight + u64::from(index % 3)));
            for _ in 0..index % 5 {
                event(ext, b"event", false);
            }
            let issuance = number::<16>(ext, &item("Balances", "TotalIssuance"));
            set::<16>(
                ext,
                &item("Balances", "TotalIssuance"),
                issuance - u128::from(index),
            );
        };
        with_externalities(work).unwrap();
    };
    let each_ahead = ways()[0];
    let mut machine = begun::<Advisory>(&store, SizeSource::Unrecorded);
    let batch = machine
        .execute_in_parallel(each_ahead, &store, &rules(), &call, 60)
        .unwrap();
    assert_eq!(batch.statistics.ahead, 60, "{:?}", batch.statistics);
    let issuance =
        || with_externalities(|ext| number::<16>(ext, &item("Balances", "TotalIssuance")));
    assert_eq!(machine.execute(issuance).unwrap(), Some(200_000 - 59 * 30));
}

/// A number of calls that no block can have is refused before any memory is taken for it.
#[test]
fn too_many_calls_are_refused() {
    let store = store();
    for way in ways() {
        let mut machine = begun::<Advisory>(&store, SizeSource::Unrecorded);
        let refused = machine.execute_in_parallel(way, &store, &rules(), &|_: u32| (), u32::MAX);
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("4294967295"), "{text}");
        // No call was made, so nothing failed.
        assert!(machine.failure().is_none());
        machine.execute(|| ()).unwrap();
        machine.seal(V1).unwrap();
    }
}

/// The transactions that an extension was told of and that are still open. Fails if one of the host is committed: a
/// call may be repeated or refused after its thread has made it.
struct OpenTransactions(Arc<AtomicI32>);

impl Extension for OpenTransactions {
    fn as_mut_any(&mut self) -> &mut dyn Any {
        self
    }

    fn type_id(&self) -> TypeId {
        TypeId::of::<Self>()
    }

    fn start_transaction(&mut self, _: TransactionType) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn commit_transaction(&mut self, of: TransactionType) {
        assert!(of.is_runtime(), "no call is part of the block yet");
        self.0.fetch_sub(1, Ordering::SeqCst);
    }

    fn rollback_transaction(&mut self, _: TransactionType) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Calls that stop, and calls that end, within nested transactions.
struct Nested(Arc<AtomicI32>);

impl Calls for Nested {
    type Output = ();

    fn call(&self, index: u32) {
        let work = |mut ext: &mut dyn Externalities| {
            ext.storage_start_transaction();
            ext.storage_start_transaction();
            let read = ext.storage(b"shared");
            ext.set_storage(b"shared".to_vec(), index.to_le_bytes().to_vec());
            let _ = ext
                .extension::<ProofSizeExt>()
                .map(|asked| asked.storage_proof_size());
            ext.storage_commit_transaction().unwrap();
            read
        };
        with_externalities(work).unwrap();
    }

    fn extensions(&self) -> Extensions {
        let mut extensions = Extensions::new();
        extensions.register(OpenTransactions(self.0.clone()));
        extensions
    }
}

/// The extensions of a thread stay with it, so they have to be told of the end of each transaction.
#[test]
fn extensions_are_told_of_the_end_of_each_transaction() {
    let store = store();
    for way in ways() {
        let open = Arc::new(AtomicI32::new(0));
        let mut machine = begun::<Consensus>(&store, SizeSource::Estimate);
        let calls = Nested(open.clone());
        machine
            .execute_in_parallel(way, &store, &rules(), &calls, 80)
            .unwrap();
        assert_eq!(open.load(Ordering::SeqCst), 0, "{way:?}");
    }
}

/// Panics are part of the test, and need no message.
fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let text = panic.payload().downcast_ref::<&str>();
            if text.is_none_or(|text| *text != "a panic of the runtime") {
                usual(panic);
            }
        }));
    });
}

/// A call that panics is a trap of this call, on any number of threads.
#[test]
fn a_panic_is_a_trap() {
    quiet();
    let store = store();
    for seed in 0..20 {
        let calls = Random {
            seed,
            asks: false,
            panics: 3_000,
            kept: None,
            stops_from: u32::MAX,
        };
        let run = |way: Parallel| {
            let mut machine = begun::<Advisory>(&store, SizeSource::Unrecorded);
            let batch = machine
                .execute_in_parallel(way, &store, &rules(), &calls, 80)
                .unwrap();
            let endings = batch.transactions.iter();
            let endings = endings.map(|executed| (format!("{:?}", executed.ending), executed.size));
            let endings: Vec<_> = endings.collect();
            outcome(machine, endings)
        };
        let in_order = run(Parallel::new(NonZeroUsize::MIN));
        for way in ways() {
            assert_eq!(run(way), in_order, "seed {seed}, {way:?}");
        }
    }
}

/// Other threads would not see the extension.
#[test]
fn extensions_of_the_host_are_refused() {
    sp_externalities::decl_extension! {
        struct Other(());
    }
    let store = store();
    let mut machine = begun::<Consensus>(&store, SizeSource::Estimate);
    machine.register_extension(Other(()));
    let call = |_: u32| ();
    let refused = machine.execute_in_parallel(ways()[1], &store, &rules(), &call, 3);
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("found 1"), "{text}");
}

/// The sealed block does not depend on the sizes that are returned.
#[test]
fn recorded_sizes_may_be_returned() {
    let store = store();
    let calls = Random {
        seed: 400,
        asks: false,
        panics: 0,
        kept: None,
        stops_from: u32::MAX,
    };
    let expected = sequential::<Advisory>(&store, SizeSource::Unrecorded, &calls, 80);
    for way in ways() {
        let way = way.with_sizes(SizeAfter::Recorded);
        let found =
            parallel::<Advisory>(&store, SizeSource::Unrecorded, (&calls, &rules()), 80, way);
        assert_eq!(found.sealed, expected.sealed);
    }
}
