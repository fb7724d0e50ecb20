//! Changes that are functions of the value below them.

use povmeter_delta_root::{push_compact, read_compact};

/// Computes a new value from the current one and an operand. `rule(current, operand, new)` either writes the new
/// value into `new`, which is empty, and returns `true`; or it returns `false`, and the value stays.
///
/// `current` is `None` if there is no value. A rule is called as often as the value is needed, on any thread. So it
/// must return the same for the same arguments, and must not panic.
pub type Rule = fn(current: Option<&[u8]>, operand: &[u8], new: &mut Vec<u8>) -> bool;

/// How an update changes the value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Appends the operand to the SCALE list.
    Append,
    /// Calls the rule.
    Rule(Rule),
}

impl Kind {
    /// Replaces `value` by the value after the update, with `spare` as memory. Returns `false` if the value stays.
    pub(crate) fn apply_to(
        self,
        present: &mut bool,
        (value, spare): (&mut Vec<u8>, &mut Vec<u8>),
        operand: &[u8],
    ) -> bool {
        if let (Self::Append, true) = (self, *present) {
            append_to(value, spare, operand);
            return true;
        }
        spare.clear();
        let current = present.then_some(value.as_slice());
        let applied = self.apply(current, operand, spare);
        if applied {
            std::mem::swap(value, spare);
            *present = true;
        }
        applied
    }

    /// Writes the value after the update into `new`, which is empty. Returns `false` if the value stays.
    pub(crate) fn apply(self, current: Option<&[u8]>, operand: &[u8], new: &mut Vec<u8>) -> bool {
        match self {
            Self::Append => {
                append(current, operand, new);
                true
            }
            Self::Rule(rule) => rule(current, operand, new),
        }
    }
}

/// Writes the SCALE list `current` with `element` appended into `new`; a list of `element` alone if `current` is no
/// list, as the overlay does.
fn append(current: Option<&[u8]>, element: &[u8], new: &mut Vec<u8>) {
    let current = current.unwrap_or_default();
    let (count, prefix) = longer(current);
    push_compact(new, count as usize);
    new.extend_from_slice(&current[prefix..]);
    new.extend_from_slice(element);
}

/// As [`append`], in place, with `spare` as memory. Moves the elements only if the prefix becomes longer, so many
/// appends take time for their elements alone.
fn append_to(list: &mut Vec<u8>, spare: &mut Vec<u8>, element: &[u8]) {
    let (count, prefix) = longer(list);
    spare.clear();
    push_compact(spare, count as usize);
    list.splice(..prefix, spare.drain(..));
    list.extend_from_slice(element);
}

/// How many elements `list` has after an append, and how many of its first bytes are no elements: its prefix, or all
/// if it is no list.
fn longer(list: &[u8]) -> (u32, usize) {
    let found =
        read_compact(list).and_then(|(count, prefix)| Some((u32::try_from(count).ok()?, prefix)));
    match found {
        // As in the overlay, the length starts again at 0 after 2^32 - 1.
        Some((count, prefix)) => (count.wrapping_add(1), prefix),
        None => (1, list.len()),
    }
}

/// An addition to a counter: an unsigned little-endian integer, which is 0 if there is no value.
///
/// An addition is made only if the sum is within its bounds. Additions of several transactions to one counter do not
/// conflict. Two calls of [`View::try_add`](crate::View::try_add), which return whether the addition is made,
/// conflict only if that answer changes.
///
/// ```
/// use povmeter_parallel::{Addition, CounterWidth};
///
/// let pay = Addition::new(CounterWidth::U128, -30).at_least(10);
/// let (rule, operand) = pay.as_update();
/// let mut left = Vec::new();
/// assert!(rule(Some(&50_u128.to_le_bytes()), &operand, &mut left));
/// assert_eq!(left, 20_u128.to_le_bytes());
/// assert!(!rule(Some(&20_u128.to_le_bytes()), &operand, &mut Vec::new()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addition {
    width: CounterWidth,
    by: i128,
    least: u128,
    most: u128,
}

/// The width of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterWidth {
    /// 4 bytes.
    U32,
    /// 8 bytes.
    U64,
    /// 16 bytes.
    U128,
}

impl CounterWidth {
    /// Returns the width in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::U32 => 4,
            Self::U64 => 8,
            Self::U128 => 16,
        }
    }

    const fn most(self) -> u128 {
        match self {
            Self::U32 => u32::MAX as u128,
            Self::U64 => u64::MAX as u128,
            Self::U128 => u128::MAX,
        }
    }
}

/// The length of an encoded [`Addition`].
const OPERAND_BYTES: usize = 3 * 16 + 1;

impl Addition {
    /// Returns an addition of `by`, which is made only if the sum fits into the counter.
    pub const fn new(width: CounterWidth, by: i128) -> Self {
        Self {
            width,
            by,
            least: 0,
            most: width.most(),
        }
    }

    /// Makes the addition only if the sum is `least` or more.
    #[must_use]
    pub const fn at_least(mut self, least: u128) -> Self {
        self.least = least;
        self
    }

    /// Makes the addition only if the sum is `most` or less.
    #[must_use]
    pub fn at_most(mut self, most: u128) -> Self {
        self.most = most.min(self.width.most());
        self
    }

    /// Returns the rule of additions, and this addition as its operand. The rule also keeps a value of another
    /// length.
    pub fn as_update(&self) -> (Rule, [u8; OPERAND_BYTES]) {
        let mut operand = [0; OPERAND_BYTES];
        let numbers = [
            self.by.to_le_bytes(),
            self.least.to_le_bytes(),
            self.most.to_le_bytes(),
        ];
        for (field, number) in operand.chunks_exact_mut(16).zip(numbers) {
            field.copy_from_slice(&number);
        }
        operand[OPERAND_BYTES - 1] = self.width.bytes().to_le_bytes()[0];
        (add, operand)
    }
}

fn add(current: Option<&[u8]>, operand: &[u8], new: &mut Vec<u8>) -> bool {
    try_add(current, operand, new).is_some()
}

fn try_add(current: Option<&[u8]>, operand: &[u8], new: &mut Vec<u8>) -> Option<()> {
    let (numbers, width) = operand.as_chunks::<16>();
    let &[by, least, most] = numbers else {
        return None;
    };
    let width = usize::from(*width.first()?);
    let mut value = [0; 16];
    if let Some(current) = current {
        let counter = value.get_mut(..width)?;
        if current.len() != width {
            return None;
        }
        counter.copy_from_slice(current);
    }
    let sum = u128::from_le_bytes(value).checked_add_signed(i128::from_le_bytes(by))?;
    if !(u128::from_le_bytes(least)..=u128::from_le_bytes(most)).contains(&sum) {
        return None;
    }
    new.extend_from_slice(sum.to_le_bytes().get(..width)?);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use povmeter_overlay::{Lookup, Overlay, TrieId::Top};

    /// The overlay is the reference for appends.
    #[test]
    fn an_append_is_the_overlays() {
        let mut values = vec![None, Some(vec![]), Some(vec![0]), Some(b"no list".to_vec())];
        for count in [
            0_usize,
            1,
            62,
            63,
            64,
            16_382,
            16_383,
            16_384,
            u32::MAX as usize,
        ] {
            let mut list = Vec::new();
            push_compact(&mut list, count);
            list.extend_from_slice(b"elements");
            values.push(Some(list));
        }
        values.push(Some(vec![0xfd, 0, 0]));
        values.push(Some(vec![0xff; 9]));
        for value in values {
            let mut overlay = Overlay::new();
            let parent = || Ok::<_, ()>(value.as_deref());
            overlay.append(Top, b"list", b"xyz", parent).unwrap();
            let mut appended = Vec::new();
            append(value.as_deref(), b"xyz", &mut appended);
            assert_eq!(
                overlay.get(Top, b"list"),
                Lookup::Value(&appended),
                "{value:?}"
            );
            let (mut present, mut in_place) = (value.is_some(), value.unwrap_or_default());
            let memory = (&mut in_place, &mut Vec::new());
            assert!(Kind::Append.apply_to(&mut present, memory, b"xyz") && present);
            assert_eq!(in_place, appended);
        }
    }

    #[test]
    fn an_addition_keeps_its_bounds() {
        let sum = |addition: Addition, current: Option<&[u8]>| {
            let (rule, operand) = addition.as_update();
            let mut new = Vec::new();
            rule(current, &operand, &mut new).then_some(new)
        };
        let u32s = |by| Addition::new(CounterWidth::U32, by);
        let max = u32::MAX.to_le_bytes();
        assert_eq!(sum(u32s(7), None), Some(vec![7, 0, 0, 0]));
        assert_eq!(sum(u32s(-1), None), None);
        assert_eq!(sum(u32s(0), Some(&max)), Some(max.to_vec()));
        assert_eq!(sum(u32s(1), Some(&max)), None);
        assert_eq!(sum(u32s(1).at_most(u128::MAX), Some(&max)), None);
        assert_eq!(
            sum(u32s(-2).at_least(1), Some(&[3, 0, 0, 0])),
            Some(vec![1, 0, 0, 0])
        );
        assert_eq!(sum(u32s(-2).at_least(2), Some(&[3, 0, 0, 0])), None);
        assert_eq!(
            sum(u32s(2).at_most(5), Some(&[3, 0, 0, 0])),
            Some(vec![5, 0, 0, 0])
        );
        assert_eq!(sum(u32s(2).at_most(4), Some(&[3, 0, 0, 0])), None);
        assert_eq!(sum(u32s(2), Some(b"other length")), None);
        let wide = Addition::new(CounterWidth::U128, i128::MAX);
        assert_eq!(sum(wide, Some(&[0xff; 16])), None);
        let long = Addition::new(CounterWidth::U64, 1);
        assert_eq!(
            sum(long, Some(&255_u64.to_le_bytes())),
            Some(256_u64.to_le_bytes().to_vec())
        );
    }
}
