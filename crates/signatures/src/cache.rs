//! The cache: answers to checks of signatures, by everything that they depend on.

use quick_cache::{
    sync::{Cache, DefaultLifecycle},
    OptionsBuilder, Weighter,
};
use std::{
    fmt,
    hash::RandomState,
    sync::{
        atomic::{AtomicU64, Ordering},
        Arc,
    },
};

/// Answers to checks of signatures.
///
/// Shared by all calls into the runtime, on any threads: see [`SignatureCacheExt`].
pub struct SignatureCache {
    answers: Cache<Question, Answer, WeighBytes, RandomState>,
    checked: AtomicU64,
    remembered: AtomicU64,
}

/// What a function returned. Refusals to recover a key are not remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Valid(bool),
    Key([u8; 64]),
    CompressedKey([u8; 33]),
}

/// The function that is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Sr25519,
    Ed25519,
    /// `ed25519` as checked by the library that chains used at first.
    Ed25519Dalek,
    Ecdsa,
    EcdsaPrehashed,
    Recover,
    RecoverCompressed,
}

/// A function and all that its answer depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Question(Box<[u8]>);

impl Question {
    /// The question to `function` about `parts`. The function determines the length of each part but the last.
    pub(crate) fn new(function: Function, parts: [&[u8]; 3]) -> Self {
        let [first, second, third] = parts;
        Self([&[function as u8], first, second, third].concat().into())
    }
}

/// The most bytes of an entry besides the question: the answer, and the data of the cache itself, whose tables have room
/// for up to twice as many entries as they hold.
pub(crate) const ENTRY_BYTES: u64 = 256;
/// Bytes of the entry for an extrinsic's signature, to size the table of the cache.
const USUAL_ENTRY_BYTES: u64 = 512;

#[derive(Clone, Debug)]
struct WeighBytes;

impl Weighter<Question, Answer> for WeighBytes {
    fn weight(&self, question: &Question, _: &Answer) -> u64 {
        question.0.len() as u64 + ENTRY_BYTES
    }
}

impl SignatureCache {
    /// The capacity of [`Self::default`]: the signatures of some 30,000 extrinsics.
    pub const USUAL_BYTES: u64 = 16 << 20;

    /// Makes a cache of at most `bytes` of memory, rounded up for its parts: some bytes for each processor. One entry
    /// counts 256 bytes more than signature, key and message.
    pub fn new(bytes: u64) -> Self {
        let entries = usize::try_from(bytes / USUAL_ENTRY_BYTES).unwrap_or(usize::MAX);
        let mut options = OptionsBuilder::new();
        options
            .estimated_items_capacity(entries)
            .weight_capacity(bytes)
            // What is remembered of entries that are gone would have no weight.
            .ghost_allocation(0.0);
        let options = options.build().expect("both capacities are given");
        let lifecycle = DefaultLifecycle::default();
        // A random seed, so that nobody can choose messages that collide in the table.
        let seed = RandomState::new();
        Self {
            answers: Cache::with_options(options, WeighBytes, seed, lifecycle),
            checked: AtomicU64::new(0),
            remembered: AtomicU64::new(0),
        }
    }

    /// How many signatures were checked.
    pub fn checked(&self) -> u64 {
        self.checked.load(Ordering::Relaxed)
    }

    /// How many answers were found in the cache instead.
    pub fn remembered(&self) -> u64 {
        self.remembered.load(Ordering::Relaxed)
    }

    /// The most bytes that all entries need.
    pub fn bytes(&self) -> u64 {
        self.answers.weight()
    }

    /// The answer to `question`, if it is remembered.
    pub(crate) fn find(&self, question: &Question) -> Option<Answer> {
        let answer = self.answers.get(question);
        let count = match answer {
            Some(_) => &self.remembered,
            None => &self.checked,
        };
        count.fetch_add(1, Ordering::Relaxed);
        answer
    }

    /// Remembers the answer to `question`.
    pub(crate) fn keep(&self, question: Question, answer: Answer) {
        self.answers.insert(question, answer);
    }
}

impl Default for SignatureCache {
    fn default() -> Self {
        Self::new(Self::USUAL_BYTES)
    }
}

impl fmt::Debug for SignatureCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignatureCache")
            .field("bytes", &self.bytes())
            .field("checked", &self.checked())
            .field("remembered", &self.remembered())
            .finish_non_exhaustive()
    }
}

sp_externalities::decl_extension! {
    /// The cache of a call into the runtime.
    pub struct SignatureCacheExt(Arc<SignatureCache>);
}

impl SignatureCacheExt {
    /// Makes an extension by which host functions find `cache`.
    pub fn new(cache: Arc<SignatureCache>) -> Self {
        Self(cache)
    }
}
