//! The transactions that write a key.

/// The positions of the transactions that write one key: one inline, some in a sorted array, many as bits. Finds the
/// nearest one below a position.
///
/// ```text
/// bytes of a key with w writers among n positions:
///     w <= 1            0
///     1 < w < n / 32    4 w, and the spare capacity of the array
///     else              n / 8
/// ```
#[derive(Debug, Default)]
pub(crate) enum Writers {
    #[default]
    None,
    One(u32),
    /// Sorted.
    Some(Vec<u32>),
    Many(Bits),
}

/// If at least one in this many positions writes the key, bits need less memory than numbers of 32 bits.
const MANY: u32 = 32;
/// The first capacity of an array. Sets that fit into it never become bits.
const FEW: usize = 4;

impl Writers {
    pub(crate) fn is_empty(&self) -> bool {
        self.below(u32::MAX).is_none()
    }

    /// Adds `position`, which is below `positions`. Returns `true` if it is new.
    pub(crate) fn insert(&mut self, position: u32, positions: u32) -> bool {
        match self {
            Self::None => *self = Self::One(position),
            Self::One(other) if *other == position => return false,
            Self::One(other) => {
                let mut sorted = Vec::with_capacity(FEW);
                sorted.extend([(*other).min(position), (*other).max(position)]);
                *self = Self::Some(sorted);
            }
            Self::Some(sorted) => {
                let Err(at) = sorted.binary_search(&position) else {
                    return false;
                };
                if sorted.len() < FEW || index(positions / MANY) > sorted.len() {
                    sorted.insert(at, position);
                } else {
                    let mut bits = Bits::new(positions);
                    sorted
                        .iter()
                        .for_each(|&position| _ = bits.insert(position));
                    bits.insert(position);
                    *self = Self::Many(bits);
                }
            }
            Self::Many(bits) => return bits.insert(position),
        }
        true
    }

    /// Removes `position`.
    pub(crate) fn remove(&mut self, position: u32) {
        match self {
            Self::One(only) if *only == position => *self = Self::None,
            Self::None | Self::One(_) => {}
            Self::Some(sorted) => {
                if let Ok(at) = sorted.binary_search(&position) {
                    sorted.remove(at);
                }
            }
            Self::Many(bits) => bits.remove(position),
        }
    }

    /// Returns the nearest writer below `position`.
    pub(crate) fn below(&self, position: u32) -> Option<u32> {
        match self {
            Self::None => None,
            Self::One(only) => (*only < position).then_some(*only),
            Self::Some(sorted) => {
                let at = sorted.partition_point(|&writer| writer < position);
                at.checked_sub(1).map(|at| sorted[at])
            }
            Self::Many(bits) => bits.below(position),
        }
    }
}

/// A set of positions, a bit for each.
#[derive(Debug)]
pub(crate) struct Bits(Box<[u64]>);

impl Bits {
    fn new(positions: u32) -> Self {
        Self(vec![0; index(positions.div_ceil(u64::BITS))].into())
    }

    fn insert(&mut self, position: u32) -> bool {
        let (word, bit) = place(position);
        let Some(word) = self.0.get_mut(word) else {
            debug_assert!(false, "a position is below the number of positions");
            return false;
        };
        let before = *word;
        *word |= 1 << bit;
        *word != before
    }

    fn remove(&mut self, position: u32) {
        let (word, bit) = place(position);
        if let Some(word) = self.0.get_mut(word) {
            *word &= !(1 << bit);
        }
    }

    fn below(&self, position: u32) -> Option<u32> {
        let (last, bit) = place(position);
        let within = self.0.get(last).map_or(0, |word| word & ((1 << bit) - 1));
        // A position may be beyond all of the set.
        let whole = &self.0[..last.min(self.0.len())];
        let found = |word: u64| word.checked_ilog2();
        if let Some(bit) = found(within) {
            return Some(first_of(last) + bit);
        }
        let mut back = whole.iter().enumerate().rev();
        back.find_map(|(at, word)| Some(first_of(at) + found(*word)?))
    }
}

/// The first position in word `at`.
fn first_of(at: usize) -> u32 {
    u32::try_from(at).map_or(u32::MAX, |at| at.saturating_mul(u64::BITS))
}

fn place(position: u32) -> (usize, u32) {
    (index(position / u64::BITS), position % u64::BITS)
}

/// Returns a position as an index. Positions are numbers of 32 bits, because a block has fewer transactions.
pub(crate) const fn index(position: u32) -> usize {
    position as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{rngs::SmallRng, Rng, SeedableRng};
    use std::collections::BTreeSet;

    /// Each form, and the changes between forms, compared with a tree.
    #[test]
    fn the_nearest_writer_is_that_of_a_tree() {
        let mut rng = SmallRng::seed_from_u64(1);
        for positions in [1_u32, 2, 63, 64, 65, 300, 2_000] {
            for writes in [1_usize, 3, 9, 70, 900] {
                let (mut writers, mut model) = (Writers::default(), BTreeSet::new());
                for _ in 0..writes {
                    let position = rng.random_range(0..positions);
                    if rng.random_bool(0.2) {
                        writers.remove(position);
                        model.remove(&position);
                    } else {
                        let new = writers.insert(position, positions);
                        assert_eq!(new, model.insert(position));
                    }
                    let below = rng.random_range(0..=positions + 200);
                    let nearest = model.range(..below).next_back().copied();
                    assert_eq!(writers.below(below), nearest, "{writers:?} below {below}");
                }
            }
        }
    }

    #[test]
    fn forms_change_where_they_are_smaller() {
        let mut writers = Writers::default();
        let mut forms = Vec::new();
        for position in 0..100 {
            writers.insert(position, 640);
            forms.push(match &writers {
                Writers::None => "none",
                Writers::One(_) => "one",
                Writers::Some(_) => "some",
                Writers::Many(_) => "many",
            });
        }
        let of = |form: &str| forms.iter().filter(|found| **found == form).count();
        assert_eq!((of("one"), of("some"), of("many")), (1, 19, 80));
    }
}
