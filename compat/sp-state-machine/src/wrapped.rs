//! The nodes of a wrapped backend.
//!
//! A client hands out its states in wrappers, which count reads and keep a state from being pruned. Their
//! crates implement [`Backend`] and know nothing of nodes, but the wrappers forward reads. So a read asks for
//! nodes: it reads a key that is recognized by its address in memory, so no other read can be mistaken for
//! it:
//!
//! ```text
//! ask(wrapper):   put the question into a thread-local; wrapper.exists_storage(KNOCK)
//! wrapper:        forwards the read
//! TrieBackend:    the key is KNOCK: answer the thread's question
//! ```

use crate::{backend::Backend, database::Database, nodes::Nodes};
use core::marker::PhantomData;
use hash_db::{Hasher, Prefix};
use std::any::type_name;

static KNOCK: [u8; 14] = *b"povmeter nodes";

/// The beginnings of the type names of wrappers that forward each read unchanged. Any other wrapper gets the
/// original's implementation, because it may change values, or count reads, as those of benchmarks do. So
/// does a known wrapper under another name, which is slower but not wrong.
const KNOWN: [&str; 2] = [
    "sc_client_db::RefTrackingState<",
    "sc_client_db::record_stats_state::RecordStatsState<",
];

environmental::environmental!(asked: trait Question);

/// A question to the nodes, kept in a thread-local.
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

/// Answers the thread's question if `key` is `KNOCK`, and returns whether it is. The result of the read is
/// then ignored.
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
    // Ignore the result of the read, which only carries the question.
    asked::using(&mut asked, || drop(backend.exists_storage(&KNOCK)));
    asked.answer
}

/// A wrapper over nodes.
pub(crate) struct Wrapped<'b, H, B> {
    backend: &'b B,
    root: [u8; 32],
    records: bool,
    hasher: PhantomData<fn() -> H>,
}

impl<'b, H: Hasher, B: Backend<H>> Wrapped<'b, H, B> {
    /// The nodes below `backend`; `None` if it is not a known wrapper, or has no nodes below it.
    pub(crate) fn new(backend: &'b B) -> Option<Self> {
        let name = type_name::<B>();
        if !KNOWN.iter().any(|known| name.starts_with(known)) {
            return None;
        }
        let facts = |nodes: &dyn Nodes| (nodes.root(), nodes.records());
        let (root, records) = ask(backend, facts)?;
        Some(Self {
            backend,
            root,
            records,
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

    fn database(&self) -> Option<Database> {
        ask(self.backend, |nodes| nodes.database()).flatten()
    }
}
