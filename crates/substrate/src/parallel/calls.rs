//! The calls of a block into its runtime, executed by `povmeter-parallel`.

use super::{
    counting::Counting,
    forecast::{Effect, Forecast},
    rules::StorageRules,
    view_ext::{Ended, SideEffects, SizesOfCall, ViewExt},
};
use crate::{
    machine::{MachineError, StateMachine},
    sizes::{recorded_bytes, CurrentSize, Question, ReplayError, SizeSource},
};
use povmeter::{Accounting, NodeSource, ProofSize, TrieId};
use povmeter_overlay::Overlay;
use povmeter_parallel::{
    Batch, Decided, Ending, Executed, Executor, Interrupt, Parallel, ParallelError, Verdict, View,
};
use povmeter_proof_size::RootedProofSizeExt;
use sp_externalities::{Extensions, TransactionType};
use sp_trie::proof_size_extension::ProofSizeExt;
use std::{
    panic::{catch_unwind, resume_unwind, AssertUnwindSafe},
    sync::{
        atomic::{AtomicUsize, Ordering},
        OnceLock,
    },
};

/// The calls of a block into its runtime that [`StateMachine::execute_in_parallel`] makes, one for each
/// extrinsic.
///
/// Implemented for closures that make the call of an index; all extrinsics are then part of the block.
pub trait Calls: Sync {
    /// What a call returns.
    type Output: Send;

    /// Makes call `index`, on any thread, as often as necessary, with the externalities of that thread. The
    /// call must depend on nothing but the index and the state. If a thread cannot make it, for lack of memory or of
    /// an instance of the runtime, the call should panic: ahead of its turn it is then made again at its turn. The stack
    /// of threads other than that of the block is as [`Parallel::with_stack_size`] says.
    fn call(&self, index: u32) -> Self::Output;

    /// With [`Strategy::Prepare`](povmeter_parallel::Strategy::Prepare): makes the beginning of call `index`, so that
    /// the host remembers results, such as the check of its signature. Runs on another thread than the block's, with
    /// the state before the first call. The call into the runtime ends at its first change of the state, and where it
    /// asks for a proof size: a runtime in wasm fails, a native runtime unwinds.
    ///
    /// Returns whether the preparation was of use. An end by that unwinding counts as use, any other panic does not. A
    /// thread stops after many preparations without use.
    fn prepare(&self, index: u32) -> bool {
        self.call(index);
        true
    }

    /// Decides whether the extrinsic of a call is part of the block. Called in the order of the calls.
    fn decide(&self, call: Decided<'_, Self::Output>) -> Verdict {
        let _ = call;
        Verdict::Keep
    }

    /// The host's extensions for the calls of one thread, besides those for proof sizes. They must carry nothing from
    /// call to call: a thread makes some calls of the block, some of them in vain, and its extensions do not learn which
    /// calls became part of the block. After each call they are told that the transaction of the host was rolled back.
    fn extensions(&self) -> Extensions {
        Extensions::new()
    }
}

impl<F: Fn(u32) -> T + Sync, T: Send> Calls for F {
    type Output = T;

    fn call(&self, index: u32) -> T {
        self(index)
    }
}

impl<S: NodeSource + Send, A: Accounting> StateMachine<S, A> {
    /// Makes calls `0..count` into the runtime on several threads. The result is that of the calls in order,
    /// each in a transaction of the host: `start_transaction`, `execute`, `proof_size`, then
    /// `commit_transaction`, or `rollback_transaction` if [`Calls::decide`] does not keep the call.
    ///
    /// `source` holds the parent state for the other threads, and `rules` say what extrinsics do to the items
    /// that they share. A call that asks for the proof size waits for its turn before it gets an answer,
    /// because the size depends on all calls before it.
    ///
    /// A size after each call costs a walk for each key changed since the runtime last asked, so if the
    /// runtime does not ask, use [`Advisory`](povmeter::Advisory) accounting, or
    /// [`SizeAfter::Recorded`](povmeter_parallel::SizeAfter::Recorded). Accesses are not
    /// [tracked](Self::track_accesses), and no part of an attribution begins.
    ///
    /// # Errors
    /// [`MachineError::Extensions`] if the host has registered extensions, which threads cannot share; see
    /// [`Calls::extensions`]. [`MachineError::Parallel`] if there are more than 2^30 calls: none is made.
    /// [`MachineError::Failed`] if the block fails, a size can't be replayed, or the machine has failed before; it stays
    /// failed, and [`Self::failure`] says why. [`MachineError::Unfinished`] if a call before this one panicked.
    ///
    /// # Panics
    /// If [`Calls::decide`] or [`Calls::extensions`] panics, or a source does while no call runs. The machine stays
    /// failed then. A call that panics is a [`Trap`](povmeter_parallel::Trap), also where the reason is a source that
    /// panics, so sources should return errors.
    pub fn execute_in_parallel<P, C>(
        &mut self,
        parallel: Parallel,
        source: &P,
        rules: &StorageRules,
        calls: &C,
        count: u32,
    ) -> Result<Batch<C::Output>, MachineError>
    where
        P: NodeSource + Sync,
        C: Calls,
    {
        self.check_usable()?;
        self.check_extensions()?;
        let before = self.sizes.handed_out().len();
        let executor = RuntimeCalls {
            calls,
            rules,
            no_rules: StorageRules::new(),
            forecast: Forecast::new(rules, self.numbers(rules)?),
            sizes: self.sizes.source(),
            recorded: recorded_bytes::<A>,
            told: AtomicUsize::new(before),
            failed: OnceLock::new(),
        };
        let parallel = parallel.without_trace();
        let decide = |decided: Decided<'_, Called<C::Output>>| executor.decide(decided);
        // If this panics, the side effects of all calls are lost, so the machine must not be sealed.
        self.failure = Some(MachineError::Unfinished);
        let batch = parallel.execute_if(&mut self.block, source, &executor, count, decide);
        self.failure = None;
        let failure = match (batch, executor.failed.into_inner()) {
            (Ok(batch), None) => return self.apply(batch),
            (_, Some(error)) => MachineError::from(error),
            (Err(failed), None) => match failed.into_parts().1 {
                // No call was made.
                error @ ParallelError::TooMany { .. } => return Err(error.into()),
                error => MachineError::from(error),
            },
        };
        let message = failure.to_string();
        self.failure = Some(failure);
        Err(MachineError::Failed { message })
    }

    /// Checks that calls on other threads see the same extensions as calls on this thread.
    fn check_extensions(&mut self) -> Result<(), MachineError> {
        let others = self.extensions.0.iter_mut();
        let others = others.filter(|(id, _)| Question::asked_by(**id).is_none());
        match others.count() + usize::from(self.sizes.are_left_to_others()) {
            0 => Ok(()),
            found => Err(MachineError::Extensions { found }),
        }
    }

    /// The numbers of the items with rules; `None` for an item that the block has not changed, or that is
    /// not a number. Counts nothing.
    fn numbers(&mut self, rules: &StorageRules) -> Result<Vec<Option<u128>>, MachineError> {
        let mut numbers = Vec::with_capacity(rules.len());
        for number in 0..rules.len() {
            let key = rules.key(number);
            let changed = self.block.is_changed(TrieId::Top, key);
            let value = match changed {
                true => self.block.get(TrieId::Top, key)?,
                false => None,
            };
            let parts = rules.rule(number).form.parts(value).filter(|_| changed);
            numbers.push(parts.map(|[number, ..]| number));
        }
        Ok(numbers)
    }

    /// Applies the side effects of the calls.
    fn apply<T>(&mut self, batch: Batch<Called<T>>) -> Result<Batch<T>, MachineError> {
        let mut transactions = Vec::with_capacity(batch.transactions.len());
        for Executed { ending, size } in batch.transactions {
            let ending = match ending {
                Ending::Kept(called) => {
                    let SideEffects {
                        offchain,
                        transaction_index,
                        sizes,
                    } = called.side_effects;
                    if let Some(offchain) = offchain {
                        self.apply_offchain(&offchain)?;
                    }
                    self.transaction_index.extend(transaction_index);
                    self.sizes.hand_out(&sizes);
                    Ending::Kept(called.output)
                }
                Ending::LeftOut(called) => {
                    // A rollback does not undo operations on the index, as in sp-state-machine.
                    let operations = called.side_effects.transaction_index;
                    self.transaction_index.extend(operations);
                    Ending::LeftOut(called.output)
                }
                Ending::Trapped(trap) => Ending::Trapped(trap),
            };
            transactions.push(Executed { ending, size });
        }
        Ok(Batch {
            transactions,
            statistics: batch.statistics,
            experience: batch.experience,
        })
    }

    fn apply_offchain(&mut self, changes: &Overlay) -> Result<(), MachineError> {
        let (changes, _) = changes.to_owned_changes()?.into_parts();
        for (key, value) in changes {
            self.set_offchain(&key, value.as_deref());
        }
        Ok(())
    }
}

/// What a call returned and did.
#[derive(Debug)]
struct Called<T> {
    output: T,
    side_effects: SideEffects,
    /// By number of the rule.
    effects: Vec<Effect>,
}

/// The executor of a block's calls.
struct RuntimeCalls<'c, C> {
    calls: &'c C,
    rules: &'c StorageRules,
    /// The rules of calls on which no prediction depends.
    no_rules: StorageRules,
    forecast: Forecast,
    sizes: &'c SizeSource,
    /// The bytes that the runtime gets for a recorded size.
    recorded: fn(ProofSize) -> u64,
    /// How many sizes the runtime got before these calls, and in those that are kept.
    told: AtomicUsize,
    /// Why a recorded size could not be replayed.
    failed: OnceLock<ReplayError>,
}

/// What one thread needs to make calls.
struct CallWorker {
    counting: Counting,
    extensions: Extensions,
    current: CurrentSize,
}

impl<C: Calls> RuntimeCalls<'_, C> {
    /// Runs `call` with the interface of a runtime over `view`, and returns its result and side effects.
    fn run<T>(
        &self,
        worker: &mut CallWorker,
        view: &mut View<'_>,
        rules: &StorageRules,
        call: impl FnOnce() -> T,
    ) -> Result<(T, SideEffects), Interrupt> {
        let CallWorker {
            counting,
            extensions,
            current,
        } = worker;
        extensions.start_transaction(TransactionType::Host);
        let sizes = SizesOfCall {
            source: self.sizes,
            recorded: self.recorded,
            before: &self.told,
            current,
            failed: &self.failed,
        };
        let mut ext = ViewExt::new(view, (rules, counting), extensions, sizes);
        let call = || sp_externalities::set_and_run_with_externalities(&mut ext, call);
        let called = catch_unwind(AssertUnwindSafe(call));
        let ended = ext.end();
        // Whether the call is part of the block is decided later, for some calls on another thread. An extension that
        // publishes at a commit would publish some calls twice, and refused ones.
        extensions.rollback_transaction(TransactionType::Host);
        let side_effects = ended.map_err(|ended| match ended {
            Ended::Stopped(stopped) => Interrupt::Stopped(stopped),
            Ended::Failed(error) => Interrupt::Failed(error),
        })?;
        match called {
            Ok(output) => Ok((output, side_effects)),
            Err(panic) => resume_unwind(panic),
        }
    }

    fn decide(&self, decided: Decided<'_, Called<C::Output>>) -> Verdict {
        let Decided {
            index,
            output: called,
            size,
        } = decided;
        let verdict = self.calls.decide(Decided {
            index,
            output: &called.output,
            size,
        });
        let kept = verdict == Verdict::Keep;
        if kept {
            let sizes = called.side_effects.sizes.len();
            self.told.fetch_add(sizes, Ordering::Relaxed);
        }
        let effects = kept.then_some(&called.effects[..]);
        self.forecast.committed(index as usize, effects);
        verdict
    }
}

impl<C: Calls> Executor for RuntimeCalls<'_, C> {
    type Worker = CallWorker;
    type Output = Called<C::Output>;

    fn worker(&self) -> CallWorker {
        let mut extensions = self.calls.extensions();
        let current = CurrentSize::default();
        if *self.sizes != SizeSource::Unrecorded {
            extensions.register(ProofSizeExt::new(current.clone()));
            extensions.register(RootedProofSizeExt::new(0));
        }
        CallWorker {
            counting: Counting::default(),
            extensions,
            current,
        }
    }

    fn execute(
        &self,
        worker: &mut CallWorker,
        index: u32,
        view: &mut View<'_>,
    ) -> Result<Self::Output, Interrupt> {
        let ahead = view.is_ahead();
        match ahead {
            true => self.forecast.begin(index as usize),
            false => self.forecast.at_turn(index as usize),
        }
        let rules = match view.is_alone() {
            true => &self.no_rules,
            false => self.rules,
        };
        let call = || self.calls.call(index);
        let (output, side_effects) = self.run(worker, view, rules, call)?;
        let effects = worker.counting.effects();
        if ahead {
            self.forecast.executed(index as usize, &effects);
        }
        Ok(Called {
            output,
            side_effects,
            effects,
        })
    }

    fn prepare(&self, worker: &mut CallWorker, index: u32, view: &mut View<'_>) -> bool {
        let mut useful = true;
        // The view stops most preparations, so this result does not matter.
        let _ = self.run(worker, view, &self.no_rules, || {
            useful = self.calls.prepare(index);
        });
        useful
    }

    fn predict(&self, index: u32, trie: TrieId<'_>, key: &[u8], value: &mut Vec<u8>) -> bool {
        if trie != TrieId::Top {
            return false;
        }
        let Some(number) = self.rules.find(key) else {
            return false;
        };
        let rule = self.rules.rule(number);
        if !rule.is_predicted() {
            return false;
        }
        let Some(number) = self.forecast.prediction(index as usize, number) else {
            return false;
        };
        rule.form.push(&[number, 0, 0, 0, 0, 0], value);
        true
    }
}
