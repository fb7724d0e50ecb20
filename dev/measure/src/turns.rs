//! The order in which contenders take turns.

use rand::{rngs::SmallRng, seq::SliceRandom, SeedableRng};

/// The contenders of a comparison, in an order of its own for each round.
///
/// A contender finds memory and the processor's caches as the one before it left them. If rounds only began at another
/// place, each would always follow the same one. The orders are the same in each run.
#[derive(Clone, Debug)]
pub struct Turns {
    order: Vec<usize>,
    rng: SmallRng,
}

impl Turns {
    /// Turns of this many contenders.
    pub fn of(contenders: usize) -> Self {
        Self {
            order: (0..contenders).collect(),
            rng: SmallRng::seed_from_u64(0),
        }
    }

    /// The order of the next round: each contender's number once.
    pub fn next_round(&mut self) -> Vec<usize> {
        self.order.shuffle(&mut self.rng);
        self.order.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_has_a_turn_in_every_round_and_follows_every_other_one() {
        let mut turns = Turns::of(4);
        let (mut follows, mut first) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..100 {
            let order = turns.next_round();
            let all: BTreeSet<_> = order.iter().collect();
            assert_eq!((order.len(), all.len()), (4, 4));
            first.insert(order[0]);
            follows.extend(order.windows(2).map(|pair| (pair[0], pair[1])));
        }
        assert_eq!((first.len(), follows.len()), (4, 12));
    }
}
