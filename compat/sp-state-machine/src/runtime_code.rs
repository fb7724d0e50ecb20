//! The code of the runtime that a state holds.

use crate::{
    backend::{Backend, TryPendingCode},
    database::Database,
};
use codec::{Decode, Encode};
use core::{cell::Cell, marker::PhantomData};
use hash_db::Hasher;
use sp_core::{
    storage::well_known_keys::{CODE, HEAP_PAGES, PENDING_CODE},
    traits::{FetchRuntimeCode, RuntimeCode},
};
use std::{
    borrow::Cow,
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The code of the runtime, read from a backend.
#[derive(Debug)]
pub struct BackendRuntimeCode<'a, B, H> {
    backend: &'a B,
    try_pending: bool,
    hasher: PhantomData<H>,
}

impl<'a, B: Backend<H>, H: Hasher> BackendRuntimeCode<'a, B, H>
where
    H::Out: Encode,
{
    /// The code that `backend` holds.
    pub fn new(backend: &'a B, try_pending_code: TryPendingCode) -> Self {
        Self {
            backend,
            try_pending: matches!(try_pending_code, TryPendingCode::Yes),
            hasher: PhantomData,
        }
    }

    /// The code with its hash and its heap pages.
    ///
    /// # Errors
    /// If the backend holds no code.
    pub fn runtime_code(&self) -> Result<RuntimeCode<'_>, &'static str> {
        let state = self.known_state();
        let known = state.as_ref().and_then(Description::known);
        let description = match known {
            Some(description) => description,
            None => {
                let (read, is_complete) = self.read()?;
                if let Some(state) = state.filter(|_| is_complete) {
                    read.clone().keep_for(state);
                }
                read
            }
        };
        Ok(RuntimeCode {
            code_fetcher: self,
            hash: description.hash,
            heap_pages: description.heap_pages,
        })
    }

    /// The state, if its description may be kept: it is a state of the node's databases, and reads are not
    /// recorded.
    fn known_state(&self) -> Option<State> {
        let nodes = self.backend.povmeter_nodes()?;
        let nodes = nodes.get();
        if nodes.records() {
            return None;
        }
        Some(State {
            database: nodes.database()?,
            root: nodes.root(),
            try_pending: self.try_pending,
        })
    }

    /// The description, and whether all reads for it succeeded. As with the original, one that fails finds nothing.
    fn read(&self) -> Result<(Description, bool), &'static str> {
        let failed = Cell::new(false);
        let note = |_| failed.set(true);
        let hash_at = |key| self.backend.storage_hash(key).map_err(note).ok().flatten();
        let pending = self.try_pending.then(|| hash_at(PENDING_CODE)).flatten();
        let hash = pending
            .or_else(|| hash_at(CODE))
            .ok_or("`:code` hash not found")?;
        let pages = self.backend.storage(HEAP_PAGES).map_err(note);
        let pages = pages.ok().flatten();
        let description = Description {
            hash: hash.encode(),
            heap_pages: pages.and_then(|pages| Decode::decode(&mut pages.as_slice()).ok()),
        };
        Ok((description, !failed.get()))
    }
}

impl<B: Backend<H>, H: Hasher> FetchRuntimeCode for BackendRuntimeCode<'_, B, H> {
    fn fetch_runtime_code(&self) -> Option<Cow<'_, [u8]>> {
        let at = |key| self.backend.storage(key).ok().flatten().map(Cow::Owned);
        let pending = self.try_pending.then(|| at(PENDING_CODE)).flatten();
        pending.or_else(|| at(CODE))
    }
}

/// What a client reads of the state before each call into the runtime, that is, for each extrinsic of a block
/// that it builds. It is kept, because it costs three reads through a new backend and follows from the root.
#[derive(Clone, Debug)]
struct Description {
    hash: Vec<u8>,
    heap_pages: Option<u64>,
}

/// The state of a [`Description`], and whether pending code counts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    database: Database,
    root: [u8; 32],
    try_pending: bool,
}

/// The most states whose descriptions are kept: that of the best block, and a few around it.
const MOST_KEPT: usize = 8;

static KEPT: Mutex<VecDeque<(State, Description)>> = Mutex::new(VecDeque::new());

fn kept() -> MutexGuard<'static, VecDeque<(State, Description)>> {
    // No change under the lock can be left half done.
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Description {
    fn known(state: &State) -> Option<Self> {
        let kept = kept();
        let found = kept.iter().find(|(of, _)| of == state);
        found.map(|(_, description)| description.clone())
    }

    fn keep_for(self, state: State) {
        let mut kept = kept();
        // Another thread may have read it, too.
        if kept.iter().any(|(known, _)| *known == state) {
            return;
        }
        if kept.len() == MOST_KEPT {
            kept.pop_front();
        }
        kept.push_back((state, self));
    }
}
