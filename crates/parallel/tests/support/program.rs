//! Random transactions. The values that they read decide what they read and write next.

use povmeter::{BlockError, NodeHash, ProofSize, Removal, Root, StateVersion::V1, TrieId};
use povmeter_parallel::{
    Addition, CounterWidth, Executor, Interrupt, Rule, Stopped, Verdict, View,
};
use rand::{rngs::SmallRng, Rng, SeedableRng};
use std::fmt;

pub const KEYS: usize = 40;
pub const CHILD: &[u8] = b"child";
/// The key whose value each transaction sets to one more.
pub const POSITION: &[u8] = b"position";

/// Keys with long and short common prefixes, some of them prefixes of others.
pub fn key(number: usize) -> Vec<u8> {
    let number = number % KEYS;
    let group = [b'a' + (number / 10).to_le_bytes()[0]; 9];
    let len = [3, 8, 9, 9][number / 10];
    [&group[..len], &vec![7; number % 10]].concat()
}

pub fn counter(number: usize) -> Vec<u8> {
    format!("counter {}", number % 4).into_bytes()
}

#[derive(Clone, Copy, Debug)]
pub enum Op {
    Get(usize),
    Exists(usize),
    Hash(usize),
    Next(usize),
    Iterate(usize),
    Set(usize, usize),
    SetSame(usize),
    SetParents(usize),
    Remove(usize),
    Append,
    ReadList,
    Add(usize),
    TryAdd(usize),
    /// Guesses the counter, and adds a number that does not depend on the guess.
    GuessAndAdd(usize),
    ReadCounter(usize),
    SetCounter(usize),
    Clear(usize),
    Size,
    SizeAtMost(u64),
    RecordedSize,
    Root,
    Start,
    Commit,
    RollBack,
    FailIf(u64),
    PanicIf(u64),
    SetChildRoot(u64),
    /// Reads the root of the child trie, which [`Self::Root`] writes.
    ReadChildRoot,
    Position,
}

/// The size and contents of a block's transactions.
#[derive(Clone, Copy, Debug)]
pub struct Flavour {
    pub transactions: usize,
    pub ops: usize,
    pub keys: usize,
    /// Whether there are rare calls, including those that only the block can answer.
    pub rare: bool,
}

pub struct Programs {
    programs: Vec<Vec<Op>>,
    /// A transaction is left out if the size plus its index is a multiple of this.
    leave_out: u64,
    /// The transaction at which the block stops.
    stop_at: u32,
    predicts: bool,
}

impl Programs {
    pub fn random(seed: u64, flavour: Flavour) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let programs = (0..flavour.transactions)
            .map(|_| {
                let ops = rng.random_range(1..=flavour.ops);
                (0..ops).map(|_| op(&mut rng, flavour)).collect()
            })
            .collect();
        let stop_at = match rng.random_bool(0.2) {
            true => rng.random_range(0..u32::try_from(flavour.transactions).unwrap()),
            false => u32::MAX,
        };
        Self {
            programs,
            leave_out: rng.random_range(5..200),
            stop_at,
            predicts: rng.random(),
        }
    }

    pub fn len(&self) -> usize {
        self.programs.len()
    }

    pub fn verdict(&self, index: u32, size: ProofSize) -> Verdict {
        match (
            index >= self.stop_at,
            (size.total_bytes() + u64::from(index)) % self.leave_out,
        ) {
            (true, _) => Verdict::Stop,
            (false, 0) => Verdict::LeaveOut,
            _ => Verdict::Keep,
        }
    }
}

fn op(rng: &mut SmallRng, flavour: Flavour) -> Op {
    let key = rng.random_range(0..flavour.keys);
    match rng.random_range(0..if flavour.rare { 122 } else { 92 }) {
        0..18 => Op::Get(key),
        18..23 => Op::Exists(key),
        23..27 => Op::Next(key),
        27..29 => Op::Iterate(key),
        // A few values are so large that overlays keep them in memory of their own.
        29..44 => match rng.random_range(0..60) {
            0 => Op::Set(key, 5),
            kind => Op::Set(key, kind % 5),
        },
        44..47 => Op::SetSame(key),
        47..49 => Op::SetParents(key),
        49..57 => Op::Remove(key),
        57..63 => Op::Append,
        63..64 => Op::ReadList,
        64..69 => Op::Add(key),
        69..72 => Op::TryAdd(key),
        72..73 => Op::ReadCounter(key),
        73..78 => Op::Start,
        78..80 => Op::Commit,
        80..83 => Op::RollBack,
        83..85 => Op::FailIf(rng.random_range(0..10)),
        85..90 => Op::Position,
        90..92 => Op::GuessAndAdd(key),
        92..95 => Op::Size,
        95..99 => Op::SizeAtMost(rng.random_range(500..6_000)),
        99..101 => Op::Clear(key),
        101..103 => Op::Hash(key),
        103..105 => Op::SetCounter(key),
        105..106 => Op::PanicIf(rng.random_range(0..3)),
        106..107 => Op::SetChildRoot(rng.random_range(0..3)),
        107..108 => Op::RecordedSize,
        108..110 => Op::Root,
        110..114 => Op::ReadChildRoot,
        _ => Op::Get(key),
    }
}

/// The calls of a transaction, on a view or on a block.
pub trait State {
    type Error: fmt::Debug;
    fn get(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Self::Error>;
    fn guess(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Self::Error>;
    fn exists(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<bool, Self::Error>;
    fn hash(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<NodeHash>, Self::Error>;
    fn next(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Self::Error>;
    fn set(&mut self, trie: TrieId<'_>, key: &[u8], value: &[u8]) -> Result<(), Self::Error>;
    fn remove(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<(), Self::Error>;
    fn append(&mut self, trie: TrieId<'_>, key: &[u8], element: &[u8]) -> Result<(), Self::Error>;
    fn update(
        &mut self,
        key: &[u8],
        rule: Rule,
        operand: &[u8],
        told: bool,
    ) -> Result<bool, Self::Error>;
    fn clear(&mut self, trie: TrieId<'_>, key: &[u8], most: u32) -> Result<Removal, Self::Error>;
    fn size(&mut self) -> Result<ProofSize, Self::Error>;
    fn size_at_most(&mut self, bytes: u64) -> Result<bool, Self::Error>;
    fn recorded_size(&mut self) -> Result<ProofSize, Self::Error>;
    /// The roots of the state and of the child trie.
    fn roots(&mut self) -> Result<[Root; 2], Self::Error>;
    fn start(&mut self) -> Result<(), Self::Error>;
    fn commit(&mut self) -> Result<(), Self::Error>;
    fn roll_back(&mut self) -> Result<(), Self::Error>;
}

/// Why a program ended early.
#[derive(Debug)]
pub enum Ended<E> {
    State(E),
    Failed,
}

impl<E> From<E> for Ended<E> {
    fn from(error: E) -> Self {
        Self::State(error)
    }
}

fn mix(seen: u64, value: &impl std::hash::Hash) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(seen);
    value.hash(&mut hasher);
    hasher.finish()
}

/// Executes transaction `index`, and returns a digest of all answers that it got.
pub fn run<S: State>(
    programs: &Programs,
    index: u32,
    state: &mut S,
) -> Result<u64, Ended<S::Error>> {
    let mut seen = u64::from(index);
    let mut open = 0_u32;
    for op in &programs.programs[index as usize] {
        run_op(*op, index, &mut seen, &mut open, state)?;
    }
    Ok(seen)
}

fn run_op<S: State>(
    op: Op,
    index: u32,
    seen: &mut u64,
    open: &mut u32,
    state: &mut S,
) -> Result<(), Ended<S::Error>> {
    let dynamic = |number: usize| key(number + usize::from(seen.is_multiple_of(3)));
    let trie = if seen.is_multiple_of(5) {
        TrieId::Child(CHILD)
    } else {
        TrieId::Top
    };
    let add = |by| {
        Addition::new(CounterWidth::U128, by)
            .at_least(900)
            .at_most(1_200)
    };
    match op {
        Op::Get(number) => *seen = mix(*seen, &state.get(trie, &dynamic(number))?),
        Op::Exists(number) => *seen = mix(*seen, &state.exists(trie, &dynamic(number))?),
        Op::Hash(number) => {
            let hash = state.hash(trie, &dynamic(number))?;
            *seen = mix(*seen, &hash.map(|hash| hash.as_bytes().to_vec()));
        }
        Op::Next(number) => *seen = mix(*seen, &state.next(trie, &dynamic(number))?),
        Op::Iterate(number) => {
            let mut next = state.next(trie, &dynamic(number))?;
            for _ in 0..6 {
                let Some(key) = next else { break };
                *seen = mix(*seen, &state.get(trie, &key)?);
                next = state.next(trie, &key)?;
            }
        }
        Op::Set(number, kind) => {
            let value = vec![seen.to_le_bytes()[0]; [0, 4, 32, 33, 400, 40_000][kind]];
            state.set(trie, &dynamic(number), &value)?;
        }
        Op::SetSame(number) => {
            let key = dynamic(number);
            match state.get(trie, &key)? {
                Some(value) => state.set(trie, &key, &value)?,
                None => state.remove(trie, &key)?,
            }
        }
        Op::SetParents(number) => {
            let value = vec![number.to_le_bytes()[0]; [4, 16, 40, 300][number % 4]];
            state.set(TrieId::Top, &key(number), &value)?;
        }
        Op::Remove(number) => state.remove(trie, &dynamic(number))?,
        Op::Append => state.append(trie, b"events", &index.to_le_bytes())?,
        Op::ReadList => *seen = mix(*seen, &state.get(trie, b"events")?),
        Op::Add(number) => {
            let (rule, operand) = add(i128::from(*seen % 64) - 20).as_update();
            state.update(&counter(number), rule, &operand, false)?;
        }
        Op::TryAdd(number) => {
            let (rule, operand) = add(i128::from(*seen % 128) - 64).as_update();
            *seen = mix(
                *seen,
                &state.update(&counter(number), rule, &operand, true)?,
            );
        }
        Op::GuessAndAdd(number) => {
            let guessed = state.guess(&counter(number))?;
            let (rule, operand) = add(i128::from(*seen % 8)).as_update();
            state.update(&counter(number), rule, &operand, false)?;
            // Like a runtime that writes a sum, which needs a number.
            assert!(guessed.is_none_or(|value| value.len() == 16));
        }
        Op::ReadCounter(number) => {
            *seen = mix(*seen, &state.get(TrieId::Top, &counter(number))?);
        }
        Op::SetCounter(number) => {
            let value = (1_000 + u128::from(*seen % 100)).to_le_bytes();
            state.set(TrieId::Top, &counter(number), &value)?;
        }
        Op::Clear(number) => {
            let prefix = dynamic(number);
            let cleared = state.clear(trie, &prefix[..prefix.len().min(4)], 3)?;
            *seen = mix(*seen, &(cleared.unique, cleared.cursor));
        }
        Op::Size => {
            let size = state.size()?;
            *seen = mix(*seen, &size);
        }
        Op::SizeAtMost(bytes) => *seen = mix(*seen, &state.size_at_most(bytes)?),
        Op::RecordedSize => *seen = mix(*seen, &state.recorded_size()?),
        Op::Root => {
            let roots = state.roots()?;
            *seen = mix(*seen, &roots.map(|root| root.as_bytes().to_vec()));
        }
        Op::Start => {
            state.start()?;
            *open += 1;
        }
        Op::Commit if *open > 0 => {
            state.commit()?;
            *open -= 1;
        }
        Op::RollBack if *open > 0 => {
            state.roll_back()?;
            *open -= 1;
        }
        Op::Commit | Op::RollBack => {}
        Op::FailIf(digit) if *seen % 30 == digit => return Err(Ended::Failed),
        Op::PanicIf(digit) if *seen % 3 == digit => panic!("transaction {index}"),
        Op::SetChildRoot(digit) if *seen % 3 == digit => {
            state.set(TrieId::Top, &povmeter::child_root_key(CHILD), b"no")?;
        }
        Op::ReadChildRoot => {
            let root_key = povmeter::child_root_key(CHILD);
            *seen = mix(*seen, &state.get(TrieId::Top, &root_key)?);
            let next = state.next(TrieId::Top, &root_key[..1])?;
            *seen = mix(*seen, &next);
        }
        Op::FailIf(_) | Op::PanicIf(_) | Op::SetChildRoot(_) => {}
        Op::Position => {
            let position = state.get(TrieId::Top, POSITION)?;
            *seen = mix(*seen, &position);
            state.set(TrieId::Top, POSITION, &(index + 1).to_le_bytes())?;
        }
    }
    Ok(())
}

impl State for View<'_> {
    type Error = Stopped;

    fn get(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Stopped> {
        Ok(View::get(self, trie, key)?.map(<[u8]>::to_vec))
    }

    fn guess(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Stopped> {
        Ok(View::guess(self, TrieId::Top, key)?.map(<[u8]>::to_vec))
    }

    fn exists(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<bool, Stopped> {
        View::exists(self, trie, key)
    }

    fn hash(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<NodeHash>, Stopped> {
        self.value_hash(trie, key)
    }

    fn next(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Stopped> {
        self.next_key(trie, key)
    }

    fn set(&mut self, trie: TrieId<'_>, key: &[u8], value: &[u8]) -> Result<(), Stopped> {
        View::set(self, trie, key, value)
    }

    fn remove(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<(), Stopped> {
        View::remove(self, trie, key)
    }

    fn append(&mut self, trie: TrieId<'_>, key: &[u8], element: &[u8]) -> Result<(), Stopped> {
        View::append(self, trie, key, element)
    }

    fn update(
        &mut self,
        key: &[u8],
        rule: Rule,
        operand: &[u8],
        told: bool,
    ) -> Result<bool, Stopped> {
        match told {
            true => self.try_update(TrieId::Top, key, rule, operand),
            false => View::update(self, TrieId::Top, key, rule, operand).map(|()| false),
        }
    }

    fn clear(&mut self, trie: TrieId<'_>, key: &[u8], most: u32) -> Result<Removal, Stopped> {
        self.clear_prefix(trie, key, Some(most), None)
    }

    fn size(&mut self) -> Result<ProofSize, Stopped> {
        self.proof_size()
    }

    fn size_at_most(&mut self, bytes: u64) -> Result<bool, Stopped> {
        self.proof_size_at_most(bytes)
    }

    fn recorded_size(&mut self) -> Result<ProofSize, Stopped> {
        View::recorded_size(self)
    }

    fn roots(&mut self) -> Result<[Root; 2], Stopped> {
        Ok([self.root(V1)?, self.child_root(CHILD, V1)?])
    }

    fn start(&mut self) -> Result<(), Stopped> {
        self.start_transaction()
    }

    fn commit(&mut self) -> Result<(), Stopped> {
        self.commit_transaction()
    }

    fn roll_back(&mut self) -> Result<(), Stopped> {
        self.rollback_transaction()
    }
}

impl Executor for Programs {
    type Worker = ();
    type Output = u64;

    fn worker(&self) {}

    fn execute(&self, (): &mut (), index: u32, view: &mut View<'_>) -> Result<u64, Interrupt> {
        run(self, index, view).map_err(|ended| match ended {
            Ended::State(stopped) => stopped.into(),
            Ended::Failed => Interrupt::failed("it had to"),
        })
    }

    /// Right if each transaction before sets the key, and wrong otherwise.
    fn predict(&self, index: u32, trie: TrieId<'_>, key: &[u8], value: &mut Vec<u8>) -> bool {
        let predicted = self.predicts && trie == TrieId::Top && key == POSITION;
        if predicted {
            value.extend_from_slice(&index.to_le_bytes());
        }
        predicted
    }
}

/// Whether the error is the transaction's fault: the block refused its call.
pub fn refused(error: &BlockError) -> bool {
    matches!(
        error,
        BlockError::Transaction(_)
            | BlockError::ChildRootKey { .. }
            | BlockError::ChildRootPrefix { .. }
    )
}
