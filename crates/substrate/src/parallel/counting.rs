//! What one transaction does to the storage items with rules.
//!
//! ```text
//! read:          answer with a likely number, and note nothing
//! write next:    the difference is an addition; nothing is written yet
//! another call:  the runtime may have used the number: compare it, which notes it as read
//! end:           one update for each counter, with its additions and their limits
//! ```
//! With an [apart](ItemRule::apart) rule, only the end and another read of the key count as another call.
//! At its turn, a transaction's reads and writes go to the block unchanged; the numbers are noted only for
//! predictions. A transaction that waits for its turn midway makes its updates before it waits.
//!
//! [`ItemRule::apart`]: super::ItemRule::apart

use super::{
    forecast::Effect,
    numbers::{difference, number_difference, sum, Additions, Parts},
    rules::{Kind, StorageRules},
};
use povmeter::TrieId::Top;
use povmeter_parallel::{Stopped, View};

/// The items with rules in one transaction; see the top of the file. A worker reuses the memory.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    /// By number of the rule.
    items: Vec<Item>,
    /// The items at the start of each open nested transaction.
    saved: Vec<Item>,
    /// The counter that the last call read.
    just_read: Option<usize>,
    operand: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Item {
    /// The number that the transaction found, and whether there was a value.
    found: Option<(Parts, bool)>,
    /// The item was read, and neither written nor compared since.
    answered: bool,
    /// The number that was found is noted as read.
    compared: bool,
    undoable: Undoable,
}

/// The part that a rollback undoes.
#[derive(Clone, Copy, Debug, Default)]
struct Undoable {
    /// The item is read and written as a plain value from here on.
    plain: bool,
    /// The effect of the last write of a plain value.
    written: Option<Effect>,
    additions: Additions,
    /// The sum of the additions before the transaction waited for its turn, if it waited.
    before_turn: i128,
    /// The additions give the counter a value.
    added: bool,
    /// The additions, as of the last update. `None` before the first one.
    updated: Option<Additions>,
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

    /// Notes a call that may write the counter `except`: compares another counter if it was just read.
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
            // Not a number, so a plain value.
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

    /// Whether the item `number` has a value; `None` if only the view can tell.
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
        let rule = rules.rule(number);
        let form = rule.form;
        let parts = value.and_then(|value| form.parts(Some(value)));
        let item = &self.items[number];
        let numbers = item.current().zip(parts).filter(|_| item.answered);
        if numbers.is_some_and(|(current, new)| form.may_be_cut(rule.limits, &current, &new)) {
            // From another number, the runtime may have added another difference.
            self.compare(rules, view, number)?;
        }
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

    /// Makes the item `number` a plain value whose number can't be predicted, after all updates.
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

    /// Notes a write to `key`: compares the counters whose numbers it may show.
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

    /// Makes the transaction depend on the number that it found.
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
                // The transaction's own value hides the number that it found.
                return view.leave_to_turn();
            };
            let expected = sum(&found, &undoable.additions.made);
            let value = view.get(Top, key)?;
            let same = rule.form.parts(value) == expected
                && value.is_some() == (present || undoable.updated.is_some());
            if !same {
                return view.leave_to_turn();
            }
        }
        item.compared = true;
        item.answered = false;
        Ok(())
    }

    /// Makes one update of the additions to each counter. Call it before `next_key`, which must find the keys.
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
                // Additions made before, or rolled back, have to be within the limits, too.
                self.compare(rules, view, number)?;
                continue;
            }
            if item.undoable.updated == Some(*additions) {
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
            item.undoable.updated = Some(*additions);
        }
        Ok(())
    }

    /// Notes that the turn has come, after [`Self::update`] and outside of nested transactions: all items are
    /// plain values from here on.
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

    /// Closes the innermost nested transaction, and keeps its effects.
    pub(crate) fn commit(&mut self) {
        let outer = self.saved.len().saturating_sub(self.items.len());
        self.saved.truncate(outer);
    }

    /// Closes the innermost nested transaction, and undoes its effects.
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

    /// The effects of the transaction on the items, by number of the rule.
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
