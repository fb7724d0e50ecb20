//! What a counter looks like in storage, and additions to it.

use codec::{Compact, Decode, Encode};
use povmeter_parallel::{Addition, CounterWidth, Rule};

/// The numbers of a counter: one number, or six weights. Unused entries are 0.
pub(crate) type Parts = [u128; PARTS];
/// Differences of [`Parts`].
pub(crate) type Difference = [i128; PARTS];

/// Time and proof size, for each of three classes.
const PARTS: usize = 6;
/// Time, and proof size.
pub(crate) const TOTALS: usize = 2;

/// The encoding of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// An unsigned little-endian integer.
    Plain(CounterWidth),
    /// An unsigned little-endian integer, as the field of this variant of an enum.
    Variant(u8, CounterWidth),
    /// For each class of extrinsics two compact integers: time and proof size.
    Weights,
}

impl Form {
    /// The numbers in `value`, all 0 if there is no value; `None` if the value does not have this form.
    pub(crate) fn parts(self, value: Option<&[u8]>) -> Option<Parts> {
        let mut parts = Parts::default();
        let Some(value) = value else {
            return Some(parts);
        };
        match self {
            Self::Plain(width) => parts[0] = integer(width, value)?,
            Self::Variant(variant, width) => {
                let (found, value) = value.split_first()?;
                parts[0] = integer(width, value).filter(|_| *found == variant)?;
            }
            Self::Weights => parts = weights(value)?,
        }
        Some(parts)
    }

    /// Appends the encoding of `parts` to `value`.
    pub(crate) fn push(self, parts: &Parts, value: &mut Vec<u8>) {
        match self {
            Self::Plain(width) => {
                value.extend_from_slice(&parts[0].to_le_bytes()[..width.bytes()]);
            }
            Self::Variant(variant, width) => {
                value.push(variant);
                value.extend_from_slice(&parts[0].to_le_bytes()[..width.bytes()]);
            }
            Self::Weights => push_weights(parts, value),
        }
    }

    /// Whether `new`, which was written after `current` was read, may be a sum that was cut off: at zero, at the
    /// greatest number, or at a limit.
    pub(crate) fn may_be_cut(self, limits: [u128; TOTALS], current: &Parts, new: &Parts) -> bool {
        match self {
            Self::Plain(width) | Self::Variant(_, width) => {
                [0, widest(width), limits[0]].contains(&new[0])
            }
            Self::Weights => {
                let total = |first| new.iter().skip(first).step_by(TOTALS).sum::<u128>();
                let emptied = |(current, new): (&u128, &u128)| *current > 0 && *new == 0;
                current.iter().zip(new).any(emptied)
                    || (0..TOTALS).any(|at| total(at) >= limits[at].min(u64::MAX.into()))
            }
        }
    }

    /// The sums that the limits bound: for weights, time and proof size of all classes together. `None` if a sum does
    /// not fit.
    fn totals(self, parts: &Difference) -> Option<[i128; TOTALS]> {
        let mut totals = [parts[0], 0];
        if self == Self::Weights {
            for (first, total) in totals.iter_mut().enumerate() {
                let mut of_classes = parts.iter().skip(first).step_by(TOTALS);
                *total = of_classes.try_fold(0_i128, |sum, part| sum.checked_add(*part))?;
            }
        }
        Some(totals)
    }
}

fn integer(width: CounterWidth, value: &[u8]) -> Option<u128> {
    let mut bytes = [0; 16];
    if value.len() != width.bytes() {
        return None;
    }
    bytes[..width.bytes()].copy_from_slice(value);
    Some(u128::from_le_bytes(bytes))
}

fn weights(mut value: &[u8]) -> Option<Parts> {
    let mut parts = Parts::default();
    for part in &mut parts {
        *part = u128::from(Compact::<u64>::decode(&mut value).ok()?.0);
    }
    value.is_empty().then_some(parts)
}

fn push_weights(parts: &Parts, value: &mut Vec<u8>) {
    for part in parts {
        let part = u64::try_from(*part).unwrap_or(u64::MAX);
        Compact(part).encode_to(value);
    }
}

/// `to - from`, if it fits.
pub(crate) fn number_difference(from: u128, to: u128) -> Option<i128> {
    match to >= from {
        true => i128::try_from(to - from).ok(),
        false => Some(-i128::try_from(from - to).ok()?),
    }
}

/// `to - from`, if each difference fits.
pub(crate) fn difference(from: &Parts, to: &Parts) -> Option<Difference> {
    let mut difference = Difference::default();
    for (of, (from, to)) in difference.iter_mut().zip(from.iter().zip(to)) {
        *of = number_difference(*from, *to)?;
    }
    Some(difference)
}

/// `parts + difference`, if no sum leaves the range of its type.
pub(crate) fn sum(parts: &Parts, difference: &Difference) -> Option<Parts> {
    let mut sum = *parts;
    for (part, by) in sum.iter_mut().zip(difference) {
        *part = part.checked_add_signed(*by)?;
    }
    Some(sum)
}

/// `numbers - by`, if each difference fits.
fn minus<const N: usize>(mut numbers: [i128; N], by: &[i128; N]) -> Option<[i128; N]> {
    for (number, by) in numbers.iter_mut().zip(by) {
        *number = number.checked_sub(*by)?;
    }
    Some(numbers)
}

/// The additions that a transaction makes to one counter, as one addition. It is made only if each of the
/// additions would have been within the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Additions {
    /// The sum of all additions.
    pub(crate) all: Difference,
    /// The sum of the additions that are part of an update already.
    pub(crate) made: Difference,
    /// The least that a part was, and the most that a total was, relative to the value before the
    /// transaction.
    least: Difference,
    most: [i128; TOTALS],
}

impl Additions {
    /// Adds `by`. Returns `None` if a sum does not fit.
    pub(crate) fn add(&mut self, form: Form, by: &Difference) -> Option<()> {
        for (part, (all, by)) in self.all.iter_mut().zip(by).enumerate() {
            *all = all.checked_add(*by)?;
            self.least[part] = self.least[part].min(*all);
        }
        for (most, total) in self.most.iter_mut().zip(form.totals(&self.all)?) {
            *most = (*most).max(total);
        }
        Some(())
    }

    /// Restores the sums of `before`, when a nested transaction began that was rolled back. Its additions must
    /// still have been within the limits, because the runtime could tell.
    pub(crate) fn roll_back_to(&mut self, before: Self) {
        (self.all, self.made) = (before.all, before.made);
    }

    /// Whether nothing was added, not even in a transaction that was rolled back.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The update that makes the additions not made yet, within `limits`; appends its operand to `operand`.
    /// `None` if no value is within the limits, a number does not fit, or the form has no update.
    pub(crate) fn update(
        &self,
        form: Form,
        limits: [u128; TOTALS],
        operand: &mut Vec<u8>,
    ) -> Option<Rule> {
        let by = minus(self.all, &self.made)?;
        match form {
            Form::Variant(..) => None,
            Form::Plain(width) => {
                // The bounds of an `Addition` are bounds of the final sum.
                let least = self.all[0].checked_sub(self.least[0])?;
                let above = self.most[0].checked_sub(self.all[0])?;
                let (least, above) = (u128::try_from(least).ok()?, u128::try_from(above).ok()?);
                let addition = Addition::new(width, by[0]).at_least(least);
                let most = widest(width).min(limits[0]).checked_sub(above)?;
                let (rule, bytes) = addition.at_most(most).as_update();
                operand.extend_from_slice(&bytes);
                Some(rule)
            }
            Form::Weights => {
                let least = minus(self.least, &self.made)?;
                let most = minus(self.most, &form.totals(&self.made)?)?;
                for number in by.into_iter().chain(least).chain(most) {
                    operand.extend_from_slice(&number.to_le_bytes());
                }
                for limit in limits {
                    operand.extend_from_slice(&limit.to_le_bytes());
                }
                Some(add_weights)
            }
        }
    }
}

/// The largest integer of this width.
const fn widest(width: CounterWidth) -> u128 {
    match width {
        CounterWidth::U32 => u32::MAX as u128,
        CounterWidth::U64 => u64::MAX as u128,
        CounterWidth::U128 => u128::MAX,
    }
}

/// The rule of [`Form::Weights`].
fn add_weights(current: Option<&[u8]>, operand: &[u8], new: &mut Vec<u8>) -> bool {
    try_add_weights(current, operand, new).is_some()
}

fn try_add_weights(current: Option<&[u8]>, operand: &[u8], new: &mut Vec<u8>) -> Option<()> {
    let parts = Form::Weights.parts(current)?;
    let (numbers, _) = operand.as_chunks::<16>();
    let signed = |at: usize| Some(i128::from_le_bytes(*numbers.get(at)?));
    let mut after = parts;
    for (at, part) in after.iter_mut().enumerate() {
        part.checked_add_signed(signed(PARTS + at)?)?;
        *part = part.checked_add_signed(signed(at)?)?;
    }
    for total in 0..TOTALS {
        let current: u128 = parts.iter().skip(total).step_by(TOTALS).sum();
        let most = current.checked_add_signed(signed(2 * PARTS + total)?)?;
        let limit = u128::from_le_bytes(*numbers.get(2 * PARTS + TOTALS + total)?);
        if most > limit.min(u128::from(u64::MAX)) {
            return None;
        }
    }
    push_weights(&after, new);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Form = Form::Plain(CounterWidth::U32);
    const NO_LIMITS: [u128; TOTALS] = [u128::MAX; TOTALS];

    fn encoded(form: Form, parts: &Parts) -> Vec<u8> {
        let mut value = Vec::new();
        form.push(parts, &mut value);
        value
    }

    fn apply(
        form: Form,
        additions: &Additions,
        limits: [u128; TOTALS],
        value: &Parts,
    ) -> Option<Parts> {
        let mut operand = Vec::new();
        let rule = additions.update(form, limits, &mut operand)?;
        let mut new = Vec::new();
        let applied = rule(Some(&encoded(form, value)), &operand, &mut new);
        applied.then(|| form.parts(Some(&new)).unwrap())
    }

    #[test]
    fn forms_are_read_as_written() {
        let number = [77, 0, 0, 0, 0, 0];
        let variant = Form::Variant(3, CounterWidth::U32);
        let weights = [1, u128::from(u64::MAX), 1 << 20, 63, 64, 0];
        for (form, parts) in [
            (PLAIN, number),
            (Form::Plain(CounterWidth::U128), [u128::MAX, 0, 0, 0, 0, 0]),
            (variant, number),
            (Form::Weights, weights),
        ] {
            let value = encoded(form, &parts);
            assert_eq!(form.parts(Some(&value)), Some(parts), "{form:?}");
            assert_eq!(form.parts(Some(&[&value[..], &[0]].concat())), None);
            assert_eq!(form.parts(Some(&value[1..])), None, "{form:?}");
            assert_eq!(form.parts(None), Some(Parts::default()));
        }
        assert_eq!(variant.parts(Some(&[2, 77, 0, 0, 0])), None);
    }

    #[test]
    fn a_sum_at_an_end_of_its_range_may_be_cut_off() {
        let number = |number| [number, 0, 0, 0, 0, 0];
        let plain =
            |limit, from, to| PLAIN.may_be_cut([limit, u128::MAX], &number(from), &number(to));
        let most = u128::from(u32::MAX);
        assert!(plain(u128::MAX, 0, 0) && plain(u128::MAX, 5, 0));
        assert!(plain(u128::MAX, most - 1, most) && plain(9, 8, 9));
        assert!(!plain(u128::MAX, 0, 1) && !plain(9, 7, 8));
        let weights =
            |limits, to: &Parts| Form::Weights.may_be_cut(limits, &[1, 2, 0, 0, 3, 4], to);
        assert!(weights(NO_LIMITS, &[0, 2, 0, 0, 3, 4]));
        assert!(weights([9, 90], &[5, 2, 0, 0, 4, 4]) && weights([90, 6], &[5, 2, 0, 0, 4, 4]));
        assert!(weights(NO_LIMITS, &[u64::MAX.into(), 2, 0, 0, 3, 4]));
        assert!(!weights([90, 90], &[5, 2, 0, 0, 4, 4]));
    }

    /// Each prefix of the additions has to be within the limits, wherever the value starts.
    #[test]
    fn additions_are_one_addition_within_the_limits_of_each() {
        let mut additions = Additions::default();
        for by in [5, -8, 20, -10] {
            additions.add(PLAIN, &[by, 0, 0, 0, 0, 0]).unwrap();
        }
        let from = |value: u128| {
            let limits = [30, 0];
            apply(PLAIN, &additions, limits, &[value, 0, 0, 0, 0, 0]).map(|parts| parts[0])
        };
        // The sums are +5, -3, +17, +7.
        assert_eq!(from(2), None);
        assert_eq!(from(3), Some(10));
        assert_eq!(from(13), Some(20));
        assert_eq!(from(14), None);
    }

    /// A sum that does not fit has no update; it does not become another sum.
    #[test]
    fn additions_that_do_not_fit_have_no_update() {
        const WIDE: Form = Form::Plain(CounterWidth::U128);
        let by = |by| [by, 0, 0, 0, 0, 0];
        let update = |additions: &Additions| {
            let mut operand = Vec::new();
            additions.update(WIDE, NO_LIMITS, &mut operand).is_some()
        };
        let mut additions = Additions::default();
        additions.add(WIDE, &by(-i128::MAX)).unwrap();
        assert!(update(&additions));
        additions.made = additions.all;
        for _ in 0..2 {
            additions.add(WIDE, &by(i128::MAX)).unwrap();
        }
        assert!(!update(&additions));
        assert_eq!(additions.add(WIDE, &by(1)), None);
        let mut weights = Additions::default();
        let total = [i128::MAX, 0, 1, 0, 0, 0];
        assert_eq!(weights.add(Form::Weights, &total), None);
    }

    #[test]
    fn weights_are_added_within_the_limits_of_their_totals() {
        let mut additions = Additions::default();
        additions.add(Form::Weights, &[10, 1, 0, 0, 0, 0]).unwrap();
        additions.add(Form::Weights, &[-4, 0, 0, 0, 0, 0]).unwrap();
        let value = [1, 2, 3, 4, 5, 6];
        let after = Some([7, 3, 3, 4, 5, 6]);
        assert_eq!(apply(Form::Weights, &additions, NO_LIMITS, &value), after);
        assert_eq!(apply(Form::Weights, &additions, [19, 13], &value), after);
        assert_eq!(apply(Form::Weights, &additions, [18, 13], &value), None);
        assert_eq!(apply(Form::Weights, &additions, [19, 12], &value), None);
        let mut less = Additions::default();
        less.add(Form::Weights, &[0, 0, -4, 0, 0, 0]).unwrap();
        assert_eq!(apply(Form::Weights, &less, NO_LIMITS, &value), None);
    }

    /// A part that was made already is not made again, and the limits are those of the whole.
    #[test]
    fn the_rest_is_added_to_what_was_made() {
        for (form, start) in [
            (PLAIN, [3, 0, 0, 0, 0, 0]),
            (Form::Weights, [3, 0, 0, 0, 0, 9]),
        ] {
            let mut additions = Additions::default();
            additions.add(form, &[4, 0, 0, 0, 0, 0]).unwrap();
            let between = apply(form, &additions, NO_LIMITS, &start).unwrap();
            additions.made = additions.all;
            additions.add(form, &[5, 0, 0, 0, 0, 0]).unwrap();
            let end = apply(form, &additions, [12, 9], &between).unwrap();
            assert_eq!(end[0], 12);
            assert_eq!(apply(form, &additions, [11, 9], &between), None);
        }
    }
}
