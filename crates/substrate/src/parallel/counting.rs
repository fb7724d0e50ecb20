//! What one transaction does to the storage items with rules.
//!
//! ```text
//! read:          answer with a likely number, and note nothing
//! write next:    the difference is an addition; nothing is written yet
//! another call:  somebody may have looked: compare the number, which notes it as read
//! end:           one update for each counter, with its additions and their limits
//! ```
//! With a rule that is [apart](ItemRule::apart), only the end and another read of the key are another call.
//! At its turn a transaction's reads and writes go to the block as they are; the numbers are only noted, for
//! predictions. A transaction that waits for its turn in the middle makes its updates before.
//!
//! [`ItemRule::apart`]: super::ItemRule::apart

use super::{
    forecast::Effect,
    numbers::{difference, number_difference, sum, Additions, Parts},
    rules::{Kind, StorageRules},
};
use povmeter::TrieId::Top;
use povmeter_parallel::{Stopped, View};

/// See the top of the file. Memory of a worker, for one transaction at a time.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    /// By number of the rule.
    items: Vec<Item>,
    /// Those at the start of each open nested transaction.
    saved: Vec<Item>,
    /// The counter that was read by the last call.
    just_read: Option<usize>,
    operand: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Item {
    /// The number that the transaction found, and whether there was a value.
    found: Option<(Parts, bool)>,
    /// It was read, and neither written nor compared since.
    answered: bool,
    /// What was found is noted as read.
    compared: bool,
    undoable: Undoable,
}

/// The part that a rollback undoes.
#[derive(Clone, Copy, Debug, Default)]
struct Undoable {
    /// Read and written as a value from here on.
    plain: bool,
    /// The last value that was written to it as a value.
    written: Option<Effect>,
    additions: Additions,
    /// What the transaction had added when its turn came, if it waited for it.
    before_turn: i128,
    /// The counter has a value because of the additions, and that is part of an update already.
    added: bool,
    updated: bool,
}

impl Counting {
    /// Begins a transaction.
    pub(crate) fn begin(&mut self, rules: &StorageRules, ahead: bool) {
        let item = |number| {
            let counter = matches!(rules.rule(number).kind, Kind::Counter { .. });
            let mut item = Item::default();
            item.undoable.plain = !(ahead && counter);
            item
        };
        self.items.clear();
        self.items.extend((0..rules.len()).map(item));
        self.saved.clear();
        self.just_read = None;
    }

    /// Another call than a write of the counter that was just read, except for `number`.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        rules: &StorageRules,
        view: &mut View<'_>,
        except: Option<usize>,
    ) -> Result<(), Stopped> {
        match self.just_read.take() {
            Some(number) if Some(number) != except => self.compare(rules, view, number),
            _ => Ok(()),
        }
    }

    /// The value of the item `number`.
    pub(crate) fn get(
        &mut self,
        rules: &StorageRules,
        view: &mut View<'_>,
        number: usize,
    ) -> Result<Option<Vec<u8>>, Stopped> {
        let (rule, key) = (rules.rule(number), rules.key(number));
        if self.items[number].answered {
            self.compare(rules, view, number)?;
        }
        let item = &mut self.items[number];
        if item.undoable.plain {
            let value = view.get(Top, key)?;
            if item.found.is_none() && item.undoable.written.is_none() {
                item.found = rule.form.parts(value).map(|parts| (parts, value.is_some()));
            }
            return Ok(value.map(<[u8]>::to_vec));
        }
        if item.found.is_none() {
            let value = view.guess(Top, key)?;
            item.found = rule.form.parts(value).map(|parts| (parts, value.is_some()));
        }
        let current = item.current();
        let Some((current, (_, present))) = current.zip(item.found) else {
            // Not a number: as a value.
            item.undoable.plain = true;
            return Ok(view.get(Top, key)?.map(<[u8]>::to_vec));
        };
        item.answered = !item.compared;
        if item.answered && matches!(rule.kind, Kind::Counter { apart: false }) {
            self.just_read = Some(number);
        }
        Ok((present || item.undoable.added).then(|| {
            let mut value = Vec::new();
            rule.form.push(&current, &mut value);
            value
        }))
    }

    /// Whether the item `number` has a value; `None` if the view has to say it.
    pub(crate) fn exists(&self, number: usize) -> Option<bool> {
        let undoable = &self.items[number].undoable;
        (!undoable.plain && undoable.added).then_some(true)
    }

    /// Sets the item `number`, or removes it.
    pub(crate) fn write(
        &mut self,
        rules: &StorageRules,
        view: &mut View<'_>,
        number: usize,
        value: Option<&[u8]>,
    ) -> Result<(), Stopped> {
        let form = rules.rule(number).form;
        let parts = value.and_then(|value| form.parts(Some(value)));
        let item = &mut self.items[number];
        let known = !item.undoable.plain && (item.answered || item.compared);
        if let Some((current, new)) = item.current().zip(parts).filter(|_| known) {
            let additions = &mut item.undoable.additions;
            let mut added = *additions;
            let fits = difference(&current, &new).and_then(|by| added.add(form, &by));
            if fits.is_some() {
                *additions = added;
                item.undoable.added = true;
                item.answered = false;
                return Ok(());
            }
        }
        if item.answered {
            self.compare(rules, view, number)?;
        }
        let item = &mut self.items[number];
        let before = match item.undoable.written {
            Some(Effect::Made(number, _)) => Some(number),
            Some(_) => None,
            None => item.found.map(|(found, _)| found[0]),
        };
        let more = match item.undoable.written {
            Some(Effect::Made(_, by)) => by,
            _ => Some(0),
        };
        item.undoable.plain = true;
        item.undoable.written = Some(match parts {
            Some([number, ..]) => {
                let by = before.zip(more).and_then(|(before, more)| {
                    number_difference(before, number)?.checked_add(more)
                });
                Effect::Made(number, by)
            }
            None => Effect::Lost,
        });
        let key = rules.key(number);
        match value {
            Some(value) => view.set(Top, key, value),
            None => view.remove(Top, key),
        }
    }

    /// Makes a value of the item `number`, which then is no number that anybody can predict.
    pub(crate) fn lose(
        &mut self,
        rules: &StorageRules,
        view: &mut View<'_>,
        number: usize,
    ) -> Result<(), Stopped> {
        self.update(rules, view)?;
        let undoable = &mut self.items[number].undoable;
        undoable.plain = true;
        undoable.written = Some(Effect::Lost);
        Ok(())
    }

    /// A write to `key`: it may tell what a counter is.
    pub(crate) fn show(
        &mut self,
        rules: &StorageRules,
        view: &mut View<'_>,
        key: &[u8],
    ) -> Result<(), Stopped> {
        if !view.is_ahead() {
            return Ok(());
        }
        for number in rules.shown_by(key) {
            if self.items[number].found.is_some() {
                self.compare(rules, view, number)?;
            }
        }
        Ok(())
    }

    /// Makes the number that was found one that the transaction depends on.
    fn compare(
        &mut self,
        rules: &StorageRules,
        view: &mut View<'_>,
        number: usize,
    ) -> Result<(), Stopped> {
        let item = &mut self.items[number];
        if item.compared || !view.is_ahead() {
            return Ok(());
        }
        let (rule, key) = (rules.rule(number), rules.key(number));
        let undoable = &item.undoable;
        if let Kind::Counter { .. } = rule.kind {
            let Some((found, present)) = item.found.filter(|_| !undoable.plain) else {
                // The transaction's own value hides what was found.
                return view.leave_to_turn();
            };
            let expected = sum(&found, &undoable.additions.made);
            let value = view.get(Top, key)?;
            let same = rule.form.parts(value) == expected
                && value.is_some() == (present || undoable.updated);
            if !same {
                return view.leave_to_turn();
            }
        }
        item.compared = true;
        item.answered = false;
        Ok(())
    }

    /// Makes an update of the additions to each counter. `next_key` must find their keys.
    pub(crate) fn update(
        &mut self,
        rules: &StorageRules,
        view: &mut View<'_>,
    ) -> Result<(), Stopped> {
        for number in 0..self.items.len() {
            if self.items[number].answered {
                self.compare(rules, view, number)?;
            }
            let item = &mut self.items[number];
            let additions = &mut item.undoable.additions;
            if additions.is_empty() && !item.undoable.added {
                continue;
            }
            if item.undoable.plain || !item.undoable.added {
                // What was added before, or only tried, has to be within the limits.
                self.compare(rules, view, number)?;
                continue;
            }
            let (rule, key) = (rules.rule(number), rules.key(number));
            self.operand.clear();
            let update = additions.update(rule.form, rule.limits, &mut self.operand);
            let Some(update) = update else {
                return view.leave_to_turn();
            };
            if !view.try_update(Top, key, update, &self.operand)? {
                return view.leave_to_turn();
            }
            additions.made = additions.all;
            item.undoable.updated = true;
        }
        Ok(())
    }

    /// The turn has come, after [`Self::update`] and outside of nested transactions: all items are values from
    /// here on.
    pub(crate) fn at_turn(&mut self) {
        for item in self.items.iter_mut().filter(|item| !item.undoable.plain) {
            let before_turn = item.undoable.additions.all[0];
            *item = Item::default();
            item.undoable.plain = true;
            item.undoable.before_turn = before_turn;
        }
    }

    /// Opens a nested transaction.
    pub(crate) fn start(&mut self) {
        self.saved.extend_from_slice(&self.items);
    }

    /// Closes the innermost nested transaction, and keeps what it did.
    pub(crate) fn commit(&mut self) {
        let outer = self.saved.len().saturating_sub(self.items.len());
        self.saved.truncate(outer);
    }

    /// Closes the innermost nested transaction, and undoes what it did.
    pub(crate) fn roll_back(&mut self) {
        let outer = self.saved.len().saturating_sub(self.items.len());
        for (item, saved) in self.items.iter_mut().zip(&self.saved[outer..]) {
            let mut additions = item.undoable.additions;
            additions.roll_back_to(saved.undoable.additions);
            item.undoable = saved.undoable;
            item.undoable.additions = additions;
        }
        self.saved.truncate(outer);
    }

    /// What the transaction did to the items, by number of the rule.
    pub(crate) fn effects(&self) -> Vec<Effect> {
        let of = |item: &Item| {
            let Undoable {
                written,
                additions,
                before_turn,
                ..
            } = item.undoable;
            match written {
                Some(Effect::Made(number, by)) => {
                    let by = by.and_then(|by| by.checked_add(before_turn));
                    Effect::Made(number, by)
                }
                Some(effect) => effect,
                None => match additions.all[0].checked_add(before_turn) {
                    Some(by) => Effect::Added(by),
                    None => Effect::Lost,
                },
            }
        };
        self.items.iter().map(of).collect()
    }
}

impl Item {
    /// The number as the transaction knows it.
    fn current(&self) -> Option<Parts> {
        let (found, _) = self.found?;
        sum(&found, &self.undoable.additions.all)
    }
}
