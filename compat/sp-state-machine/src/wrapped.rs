//! The nodes of a backend that is wrapped.
//!
//! A client hands out its states in wrappers, which count reads and keep a state from being pruned. They implement
//! [`Backend`] in crates that know nothing of nodes, but they hand reads on. So nodes are asked for by a read, of
//! a key that nobody else has, because it is told by its place in memory:
//!
//! ```text
//! ask(wrapper):   leave the question with the thread; wrapper.exists_storage(KNOCK)
//! wrapper:        hands it on
//! TrieBackend:    the key is KNOCK: answer the thread's question
//! ```

use crate::{backend::Backend, nodes::Nodes};
use core::marker::PhantomData;
use hash_db::{Hasher, Prefix};
use std::any::type_name;

static KNOCK: [u8; 14] = *b"povmeter nodes";

/// The wrappers that hand on each read as it is, by the beginnings of their types' names. Another one might count
/// reads for somebody who needs the count, as those of benchmarks do, or change values: it gets the original's
/// implementation. So does one of these under another name, which is slower and not wrong.
const KNOWN: [&str; 2] = [
    "sc_client_db::RefTrackingState<",
    "sc_client_db::record_stats_state::RecordStatsState<",
];

environmental::environmental!(asked: trait Question);

/// A question of nodes, which is left with the thread.
trait Question {
    fn put(&mut self, nodes: &dyn Nodes);
}

struct Asked<F, R> {
    question: Option<F>,
    answer: Option<R>,
}

impl<R, F: FnOnce(&dyn Nodes) -> R> Question for Asked<F, R> {
    fn put(&mut self, nodes: &dyn Nodes) {
        if let Some(question) = self.question.take() {
            self.answer = Some(question(nodes));
        }
    }
}

/// Answers the thread's question, if `key` says that there is one. Returns whether it does; then nobody wants to
/// know whether there is such a key.
pub(crate) fn answer(key: &[u8], nodes: &dyn Nodes) -> bool {
    let is_question = std::ptr::eq(key, KNOCK.as_slice());
    if is_question {
        asked::with(|question| question.put(nodes));
    }
    is_question
}

/// The answer to `question`; `None` if there are no nodes below `backend`.
fn ask<H: Hasher, B: Backend<H>, R>(
    backend: &B,
    question: impl FnOnce(&dyn Nodes) -> R,
) -> Option<R> {
    let mut asked = Asked {
        question: Some(question),
        answer: None,
    };
    // What the read returns is of no interest: there is no such key.
    asked::using(&mut asked, || drop(backend.exists_storage(&KNOCK)));
    asked.answer
}

/// A wrapper over nodes.
pub(crate) struct Wrapped<'b, H, B> {
    backend: &'b B,
    root: [u8; 32],
    records: bool,
    is_cached: bool,
    hasher: PhantomData<fn() -> H>,
}

impl<'b, H: Hasher, B: Backend<H>> Wrapped<'b, H, B> {
    /// `None` if `backend` is not one of the wrappers that are known, over nodes.
    pub(crate) fn new(backend: &'b B) -> Option<Self> {
        let name = type_name::<B>();
        if !KNOWN.iter().any(|known| name.starts_with(known)) {
            return None;
        }
        let facts = |nodes: &dyn Nodes| (nodes.root(), nodes.records(), nodes.is_cached());
        let (root, records, is_cached) = ask(backend, facts)?;
        Some(Self {
            backend,
            root,
            records,
            is_cached,
            hasher: PhantomData,
        })
    }
}

impl<H: Hasher, B: Backend<H>> Nodes for Wrapped<'_, H, B> {
    fn root(&self) -> [u8; 32] {
        self.root
    }

    fn node(&self, hash: &[u8; 32], prefix: Prefix<'_>) -> Result<Option<Vec<u8>>, String> {
        let node = ask(self.backend, |nodes| nodes.node(hash, prefix));
        node.unwrap_or_else(|| {
            Err(format!(
                "expected nodes below {:?}, found none",
                self.backend
            ))
        })
    }

    fn records(&self) -> bool {
        self.records
    }

    fn record(&self, hash: &[u8; 32], node: &[u8]) {
        ask(self.backend, |nodes| nodes.record(hash, node));
    }

    fn is_marked(&self, overlay: u64) -> bool {
        ask(self.backend, |nodes| nodes.is_marked(overlay)).unwrap_or(false)
    }

    fn mark(&self, overlay: u64) {
        ask(self.backend, |nodes| nodes.mark(overlay));
    }

    fn is_cached(&self) -> bool {
        self.is_cached
    }
}
