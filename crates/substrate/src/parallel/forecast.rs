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
    /// Of how many of these transactions the numbers that they find are computed. A thread may be hundreds of
    /// transactions ahead, so a prediction continues where the last one ended.
    computed: usize,
}

/// What is known of one transaction and one rule.
#[derive(Clone, Copy, Debug, Default)]
struct Ahead {
    effect: Effect,
    /// The number that the transaction finds, by what was known when it was computed.
    finds: Option<u128>,
    /// The same when the transaction was begun.
    prediction: Option<u128>,
}

impl Ahead {
    /// The number after the transaction, if another one adds `usual` as long as it is not executed.
    fn leaves(&self, usual: i128) -> Option<u128> {
        let by = match self.effect {
            Effect::Unknown => usual,
            // The difference, because at its turn the transaction may find another number.
            Effect::Added(by) | Effect::Made(_, Some(by)) => by,
            Effect::Made(parts, None) => return Some(parts),
            Effect::Lost => return None,
        };
        self.finds?.checked_add_signed(by)
    }
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
        let over = index.saturating_sub(self.committed);
        let gone = over * self.items.len();
        self.ahead.drain(..gone.min(self.ahead.len()));
        self.computed = self.computed.saturating_sub(over);
        self.committed = self.committed.max(index);
    }

    /// Computes the numbers that the transactions up to `last` find, counted from the first that is not committed.
    fn compute_until(&mut self, last: usize) {
        let count = self.items.len();
        for at in self.computed..=last {
            for (number, item) in self.items.iter().enumerate() {
                let before = at
                    .checked_sub(1)
                    .map(|before| &self.ahead[before * count + number]);
                let finds = before.map_or(item.now, |before| before.leaves(item.usual));
                self.ahead[at * count + number].finds = finds;
            }
        }
        self.computed = self.computed.max(last + 1);
    }

    /// Drops what was computed if the first transaction finds something else.
    fn expect_first(&mut self) {
        let first = self.ahead.iter().zip(&self.items);
        let is_right = first
            .into_iter()
            .all(|(ahead, item)| ahead.finds == item.now);
        if !is_right {
            self.computed = 0;
        }
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
            computed: 0,
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
        state.compute_until(index - state.committed);
        for known in state.ahead.range_mut(place..place + count) {
            known.prediction = known.finds;
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
        let Some(place) = state.place(index) else {
            return;
        };
        let mut is_as_expected = true;
        let known = state.ahead.range_mut(place..);
        for ((known, item), effect) in known.zip(&state.items).zip(effects) {
            let expected = known.leaves(item.usual);
            known.effect = *effect;
            is_as_expected &= known.leaves(item.usual) == expected;
        }
        if !is_as_expected {
            state.computed = state.computed.min(index - state.committed + 1);
        }
    }

    /// Notes that it is the turn of transaction `index`: any transaction below that is not known to be committed has
    /// trapped, and changed nothing.
    pub(crate) fn at_turn(&self, index: usize) {
        let state = &mut *self.state();
        state.forget_below(index);
        state.expect_first();
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
        state.expect_first();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::ItemRule;
    use povmeter_parallel::CounterWidth::U32;
    use std::collections::BTreeMap;

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

    /// The sum over all transactions in between, computed anew for each prediction.
    #[derive(Default)]
    struct Naive {
        now: Option<u128>,
        committed: usize,
        effects: BTreeMap<usize, Effect>,
    }

    impl Naive {
        fn predict(&self, index: usize, usual: i128) -> Option<u128> {
            let between = self.committed..index;
            between.fold(self.now, |finds, before| {
                let effect = self.effects.get(&before).copied().unwrap_or_default();
                let ahead = Ahead {
                    effect,
                    finds,
                    prediction: None,
                };
                ahead.leaves(usual)
            })
        }
    }

    #[test]
    fn predictions_are_those_of_a_sum_over_all_between() {
        let rules = StorageRules::new()
            .with_key(b"index", ItemRule::predicted(U32))
            .with_key(b"total", ItemRule::counter(U32));
        // What a transaction adds if nothing is known, and what each committed one adds, so that this does not change.
        const USUAL: [i128; 2] = [1, 0];
        let mut number = 7_u32;
        let mut random = |below: u32| {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (number >> 8) % below
        };
        for _ in 0..300 {
            let forecast = Forecast::new(&rules, vec![Some(100), Some(200)]);
            let mut naive = [100, 200].map(|now| Naive {
                now: Some(now),
                ..Naive::default()
            });
            for _ in 0..60 {
                let committed = naive[0].committed;
                let index = committed + random(12) as usize;
                let effects = USUAL.map(|usual| match random(6) {
                    0 => Effect::Lost,
                    1 => Effect::Made(random(50).into(), None),
                    2 => Effect::Made(random(50).into(), Some(3)),
                    3 => Effect::Added(-2),
                    _ => Effect::Added(usual),
                });
                match random(5) {
                    0 => {
                        forecast.executed(index, &effects);
                        for (naive, effect) in naive.iter_mut().zip(effects) {
                            naive.effects.insert(index, effect);
                        }
                    }
                    1 => {
                        let kept = random(4) > 0;
                        let effects = USUAL.map(|usual| match random(8) {
                            0 => Effect::Made(500, Some(usual)),
                            _ => Effect::Added(usual),
                        });
                        forecast.committed(committed, kept.then_some(&effects));
                        for (naive, effect) in naive.iter_mut().zip(effects) {
                            naive.committed += 1;
                            naive.now = match effect {
                                _ if !kept => naive.now,
                                Effect::Made(parts, _) => Some(parts),
                                Effect::Added(by) => naive.now.unwrap().checked_add_signed(by),
                                _ => unreachable!(),
                            };
                        }
                    }
                    2 => {
                        forecast.at_turn(committed + 1);
                        naive.iter_mut().for_each(|naive| naive.committed += 1);
                    }
                    _ => {
                        forecast.begin(index);
                        for (number, naive) in naive.iter().enumerate() {
                            let expected = naive.predict(index, USUAL[number]);
                            assert_eq!(forecast.prediction(index, number), expected);
                        }
                    }
                }
            }
        }
    }
}
