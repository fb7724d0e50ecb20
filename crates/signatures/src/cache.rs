//! What was found, by all that it depends on.

use quick_cache::{sync::Cache, Weighter};
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
    answers: Cache<Box<[u8]>, Answer, WeighBytes, RandomState>,
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
    /// As the library checked that chains began with.
    Ed25519Dalek,
    Ecdsa,
    EcdsaPrehashed,
    Recover,
    RecoverCompressed,
}

/// Bytes of an entry beside those of the check: the answer, and what the cache needs for itself.
const ENTRY_BYTES: u64 = 128;
/// Bytes of an entry of an extrinsic, to size the table of the cache.
const USUAL_ENTRY_BYTES: u64 = 384;
/// Parts with a lock each. More than threads, so that they seldom meet.
const PARTS: usize = 64;

#[derive(Clone, Debug)]
struct WeighBytes;

impl Weighter<Box<[u8]>, Answer> for WeighBytes {
    fn weight(&self, check: &Box<[u8]>, _: &Answer) -> u64 {
        check.len() as u64 + ENTRY_BYTES
    }
}

impl SignatureCache {
    /// The capacity of [`Self::default`]: the signatures of some 40,000 extrinsics.
    pub const USUAL_BYTES: u64 = 16 << 20;

    /// Makes a cache of at most `bytes`. One entry takes some 130 bytes more than signature, key and message.
    pub fn new(bytes: u64) -> Self {
        let entries = usize::try_from(bytes / USUAL_ENTRY_BYTES).unwrap_or(usize::MAX);
        let options = quick_cache::OptionsBuilder::new()
            .estimated_items_capacity(entries)
            .weight_capacity(bytes)
            .shards(PARTS)
            .build();
        let lifecycle = quick_cache::sync::DefaultLifecycle::default();
        let answers = match options {
            // A seed of its own: nobody can choose messages that meet in one place of the table.
            Ok(options) => Cache::with_options(options, WeighBytes, RandomState::new(), lifecycle),
            // Only without a capacity.
            Err(_) => Cache::with(entries, bytes, WeighBytes, RandomState::new(), lifecycle),
        };
        Self {
            answers,
            checked: AtomicU64::new(0),
            remembered: AtomicU64::new(0),
        }
    }

    /// How many signatures were checked.
    pub fn checked(&self) -> u64 {
        self.checked.load(Ordering::Relaxed)
    }

    /// How many were found in the cache instead.
    pub fn remembered(&self) -> u64 {
        self.remembered.load(Ordering::Relaxed)
    }

    /// Bytes that the entries take, at most the capacity.
    pub fn bytes(&self) -> u64 {
        self.answers.weight()
    }

    /// The answer of `function` for `parts`, all of which but the last have a length that follows from the function.
    /// `check` finds it, and returns `None` for one that need not be remembered.
    pub(crate) fn answer(
        &self,
        function: Function,
        parts: [&[u8]; 3],
        check: impl FnOnce() -> Option<Answer>,
    ) -> Option<Answer> {
        let mut key = Vec::with_capacity(1 + parts.iter().map(|part| part.len()).sum::<usize>());
        key.push(function as u8);
        parts.iter().for_each(|part| key.extend_from_slice(part));
        if let Some(answer) = self.answers.get(&key[..]) {
            self.remembered.fetch_add(1, Ordering::Relaxed);
            return Some(answer);
        }
        self.checked.fetch_add(1, Ordering::Relaxed);
        let answer = check()?;
        self.answers.insert(key.into_boxed_slice(), answer);
        Some(answer)
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
