//! The calls of a recorded block of transfers on the overlay.

use super::{meter::Meter, sides::Side};
use povmeter_dev_data::TraceRecord;
use povmeter_dev_oracle::{Op, TrieName::Top};
use std::collections::HashMap;

/// The calls of a block on its overlay.
///
/// A runtime has just made the keys and values that it passes, so they are in the processor's L1
/// cache. To imitate that, all values are prefixes of one buffer, and the keys are adjacent.
#[derive(Default)]
pub(super) struct Calls {
    /// All distinct keys, concatenated.
    keys: Vec<u8>,
    /// A buffer as long as the longest value.
    value: Vec<u8>,
    /// The calls before the first transfer, and those of the transfers.
    parts: [Vec<Call<Key, usize>>; 2],
    transfers: usize,
}

/// The range of a key in [`Calls::keys`].
type Key = std::ops::Range<usize>;

/// A call, with its key and its value.
#[derive(Clone, Copy)]
enum Call<K, V> {
    Enter,
    Exit,
    Start,
    Commit,
    RollBack,
    Get(K),
    NextAfter(K),
    Set(K, V),
    Remove(K),
    Append(K, V),
    ClearPrefix(K),
}

impl Calls {
    /// Collects the calls of a trace.
    pub(super) fn new(trace: &[TraceRecord]) -> Self {
        let mut calls = Self::default();
        let mut known = HashMap::new();
        let is_phase = |record: &TraceRecord| matches!(record, TraceRecord::Phase(_));
        let end = trace.iter().rposition(is_phase).unwrap_or(trace.len());
        for record in &trace[..end] {
            // The first extrinsic sets the time.
            calls.transfers += usize::from(matches!(record, TraceRecord::Extrinsic(1..)));
            let Some(call) = call(record) else {
                continue;
            };
            let call = call.map(
                |key| {
                    let place = known.entry(key).or_insert_with(|| {
                        calls.keys.extend_from_slice(key);
                        calls.keys.len() - key.len()..calls.keys.len()
                    });
                    place.clone()
                },
                |value| {
                    calls.value.resize(calls.value.len().max(value.len()), 7);
                    value.len()
                },
            );
            calls.parts[usize::from(calls.transfers > 0)].push(call);
        }
        calls
    }

    /// The calls with their keys and values.
    fn ready(&self, part: usize) -> Vec<Call<&[u8], &[u8]>> {
        let calls = self.parts[part].iter().cloned();
        calls
            .map(|call| call.map(|key| &self.keys[key], |len| &self.value[..len]))
            .collect()
    }
}

impl<K, V> Call<K, V> {
    fn map<K2, V2>(
        self,
        mut key: impl FnMut(K) -> K2,
        value: impl FnOnce(V) -> V2,
    ) -> Call<K2, V2> {
        match self {
            Self::Enter => Call::Enter,
            Self::Exit => Call::Exit,
            Self::Start => Call::Start,
            Self::Commit => Call::Commit,
            Self::RollBack => Call::RollBack,
            Self::Get(k) => Call::Get(key(k)),
            Self::NextAfter(k) => Call::NextAfter(key(k)),
            Self::Set(k, v) => Call::Set(key(k), value(v)),
            Self::Remove(k) => Call::Remove(key(k)),
            Self::Append(k, v) => Call::Append(key(k), value(v)),
            Self::ClearPrefix(k) => Call::ClearPrefix(key(k)),
        }
    }
}

/// Makes `calls` in order. Returns a number that depends on all results.
fn make<S: Side>(side: &mut S, calls: &[Call<&[u8], &[u8]>]) -> usize {
    let mut answers = 0;
    for call in calls {
        match *call {
            Call::Enter => side.enter_runtime(),
            Call::Exit => side.exit_runtime(),
            Call::Start => side.start(),
            Call::Commit => side.commit(),
            Call::RollBack => side.roll_back(),
            Call::Get(key) => answers += side.get(key),
            Call::NextAfter(key) => answers += usize::from(side.next_after(key).is_some()),
            Call::Set(key, value) => side.set(key, value),
            Call::Remove(key) => side.remove(key),
            Call::Append(key, element) => side.append(key, element),
            Call::ClearPrefix(prefix) => answers += side.clear_prefix(prefix) as usize,
        }
    }
    answers
}

/// The call of `record` on the overlay; `None` if it makes none. Transfers do not touch child tries.
fn call(record: &TraceRecord) -> Option<Call<&[u8], &[u8]>> {
    let TraceRecord::Call(op, _) = record else {
        return None;
    };
    Some(match op {
        Op::Enter => Call::Enter,
        Op::Exit => Call::Exit,
        Op::HostStart | Op::Start => Call::Start,
        Op::HostCommit | Op::Commit => Call::Commit,
        Op::HostRollback | Op::Rollback => Call::RollBack,
        Op::Get { trie: Top, key }
        | Op::Hash { trie: Top, key }
        | Op::Exists { trie: Top, key } => Call::Get(key),
        Op::Next { trie: Top, key } => Call::NextAfter(key),
        Op::Set {
            trie: Top,
            key,
            value,
        } => Call::Set(key, value),
        Op::Remove { trie: Top, key } => Call::Remove(key),
        Op::Append {
            trie: Top,
            key,
            element,
        } => Call::Append(key, element),
        Op::Clear {
            trie: Top, prefix, ..
        } => Call::ClearPrefix(prefix),
        _ => return None,
    })
}

/// Makes the calls of the transfers, in memory that an earlier block allocated.
pub(super) fn transfers<S: Side>(calls: &Calls, meter: &mut Meter<'_>) {
    let mut side = S::default();
    let (before, transfers) = (calls.ready(0), calls.ready(1));
    make(&mut side, &before);
    make(&mut side, &transfers);
    side.renew();
    make(&mut side, &before);
    meter.during(calls.transfers, || make(&mut side, &transfers));
}

/// As [`transfers`], on a new overlay.
pub(super) fn transfers_at_first<S: Side>(calls: &Calls, meter: &mut Meter<'_>) {
    let mut side = S::default();
    let transfers = calls.ready(1);
    make(&mut side, &calls.ready(0));
    meter.during(calls.transfers, || make(&mut side, &transfers));
}
