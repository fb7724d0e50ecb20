//! Predicts the numbers that transactions will find.
//!
//! ```text
//! number that transaction i finds = number after the last committed transaction
//!                                 + what each executed transaction in between added
//!                                 + for each other in between, what the last committed one added
//! ```
//! At the turn, the block compares the prediction with the number, so a wrong prediction costs an execution.

use super::rules::{Kind, StorageRules};
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// What a transaction did to a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Not known yet.
    #[default]
    Unknown,
    Added(i128),
    /// Set the number to the first field; the second is the difference to the number before, if known.
    Made(u128, Option<i128>),
    /// Removed the number, or wrote something else than a number.
    Lost,
}

/// The predictions; see the top of the file.
#[derive(Debug)]
pub(crate) struct Forecast(Mutex<State>);

#[derive(Debug)]
struct State {
    /// How many transactions are committed or left out.
    committed: usize,
    /// By number of the rule.
    items: Vec<Item>,
    /// By transaction and rule, from the first transaction that is not committed to the last one that was begun ahead.
    /// So the memory depends on how far ahead threads are, and not on the length of the block.
    ahead: VecDeque<Ahead>,
}

/// What is known of one transaction and one rule.
#[derive(Clone, Copy, Debug, Default)]
struct Ahead {
    effect: Effect,
    prediction: Option<u128>,
}

impl State {
    /// Returns the place of transaction `index` in `ahead`, and makes it; `None` if the transaction is committed.
    fn place(&mut self, index: usize) -> Option<usize> {
        let count = self.items.len();
        let first = index.checked_sub(self.committed)? * count;
        if self.ahead.len() < first + count {
            self.ahead.resize(first + count, Ahead::default());
        }
        Some(first)
    }

    /// Notes that all transactions below `index` are committed or left out.
    fn forget_below(&mut self, index: usize) {
        let over = index.saturating_sub(self.committed) * self.items.len();
        self.ahead.drain(..over.min(self.ahead.len()));
        self.committed = self.committed.max(index);
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Item {
    /// The number after the last committed transaction.
    now: Option<u128>,
    /// What a transaction that was not executed yet will add.
    usual: i128,
}

impl Forecast {
    /// Makes a forecast for transactions, the first of which finds the numbers `now`.
    pub(crate) fn new(rules: &StorageRules, now: Vec<Option<u128>>) -> Self {
        let item = |(number, now)| {
            let mut item = Item {
                now,
                ..Item::default()
            };
            if let Kind::Predicted(usual) = rules.rule(number).kind {
                item.usual = usual.into();
            }
            item
        };
        Self(Mutex::new(State {
            committed: 0,
            items: now.into_iter().enumerate().map(item).collect(),
            ahead: VecDeque::new(),
        }))
    }

    /// Locks the state. A poisoned lock does no harm, because every prediction is compared.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Predicts the numbers that transaction `index` will find; call it before the execution. All predictions
    /// are made at one moment, so that they fit each other.
    pub(crate) fn begin(&self, index: usize) {
        let state = &mut *self.state();
        let Some(place) = state.place(index) else {
            return;
        };
        let count = state.items.len();
        for (number, item) in state.items.iter().enumerate() {
            let mut now = item.now;
            for before in (number..place).step_by(count) {
                let by = match state.ahead[before].effect {
                    Effect::Unknown => item.usual,
                    // The difference, because at its turn the transaction may find another number.
                    Effect::Added(by) | Effect::Made(_, Some(by)) => by,
                    Effect::Made(parts, None) => {
                        now = Some(parts);
                        continue;
                    }
                    Effect::Lost => {
                        now = None;
                        continue;
                    }
                };
                now = now.and_then(|now| now.checked_add_signed(by));
            }
            state.ahead[place + number].prediction = now;
        }
    }

    /// The prediction for transaction `index` and the rule `number`.
    pub(crate) fn prediction(&self, index: usize, number: usize) -> Option<u128> {
        let state = self.state();
        let ahead = index.checked_sub(state.committed)?;
        let known = state.ahead.get(ahead * state.items.len() + number)?;
        known.prediction
    }

    /// Notes that transaction `index` was executed ahead, with these effects.
    pub(crate) fn executed(&self, index: usize, effects: &[Effect]) {
        let state = &mut *self.state();
        if let Some(place) = state.place(index) {
            let known = state.ahead.range_mut(place..);
            for (known, effect) in known.zip(effects) {
                known.effect = *effect;
            }
        }
    }

    /// Notes that it is the turn of transaction `index`: any transaction below that is not known to be committed has
    /// trapped, and changed nothing.
    pub(crate) fn at_turn(&self, index: usize) {
        let state = &mut *self.state();
        state.forget_below(index);
    }

    /// Notes that transaction `index` is committed with these effects; `None` if it is left out of the block.
    pub(crate) fn committed(&self, index: usize, effects: Option<&[Effect]>) {
        let state = &mut *self.state();
        state.forget_below(index + 1);
        for (item, effect) in state.items.iter_mut().zip(effects.unwrap_or_default()) {
            item.now = match *effect {
                Effect::Unknown | Effect::Lost => None,
                Effect::Made(parts, by) => {
                    item.usual = by.unwrap_or(item.usual);
                    Some(parts)
                }
                Effect::Added(by) => {
                    item.usual = by;
                    item.now.and_then(|now| now.checked_add_signed(by))
                }
            };
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::ItemRule;
    use povmeter_parallel::CounterWidth::U32;

    #[test]
    fn predictions_use_what_is_known() {
        let rules = StorageRules::new()
            .with_key(b"index", ItemRule::predicted(U32))
            .with_key(b"total", ItemRule::counter(U32));
        let forecast = Forecast::new(&rules, vec![Some(1), Some(100)]);
        let predict = |index| {
            forecast.begin(index);
            [0, 1].map(|number| forecast.prediction(index, number))
        };
        assert_eq!(predict(0), [Some(1), Some(100)]);
        assert_eq!(predict(2), [Some(3), Some(100)]);
        forecast.executed(1, &[Effect::Added(1), Effect::Added(-7)]);
        assert_eq!(predict(2), [Some(3), Some(93)]);
        forecast.committed(0, Some(&[Effect::Added(1), Effect::Added(5)]));
        assert_eq!(predict(3), [Some(4), Some(103)]);
        // Left out.
        forecast.committed(1, None);
        assert_eq!(predict(3), [Some(3), Some(110)]);
        forecast.executed(2, &[Effect::Lost, Effect::Made(9, None)]);
        assert_eq!(predict(4), [None, Some(14)]);
        forecast.committed(2, Some(&[Effect::Lost, Effect::Made(9, None)]));
        assert_eq!(predict(3), [None, Some(9)]);
        // The transaction at position 3 has trapped.
        forecast.executed(4, &[Effect::Made(7, None), Effect::Added(2)]);
        assert_eq!(predict(5), [Some(7), Some(16)]);
        forecast.at_turn(4);
        assert_eq!(forecast.state().ahead.len(), 2 * 2);
        assert_eq!(predict(5), [Some(7), Some(11)]);
        forecast.at_turn(3);
        assert_eq!(predict(4), [None, Some(9)]);
        // What comes too late is ignored.
        forecast.executed(1, &[Effect::Lost, Effect::Lost]);
        assert_eq!(predict(1), [None, None]);
        assert_eq!(predict(4), [None, Some(9)]);
    }
}
