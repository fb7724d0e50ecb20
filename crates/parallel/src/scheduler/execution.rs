//! Which transaction is executed ahead next, and which are left to the committer.

use super::NOTHING;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The next transaction to execute ahead of its turn, and the transactions that are left to the committer.
///
/// Both are in one word. Otherwise a worker could pass over a transaction that is left after another thread has taken
/// it back, and no thread would execute it before its turn; or a worker could take transactions back after the
/// committer has executed them.
#[derive(Debug)]
pub(super) struct Execution {
    at: AtomicU64,
    /// How many transactions are left to the committer together, unless they are executed already.
    together: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// The next transaction to execute, unless it is executed already; [`NOTHING`] if all are reserved.
    pub(super) next: u32,
    /// The first transaction that is left; [`NOTHING`] if none is.
    left: u32,
}

impl Execution {
    pub(super) fn new(together: u32) -> Self {
        let at = Position {
            next: 0,
            left: NOTHING,
        };
        Self {
            at: AtomicU64::new(at.word()),
            together,
        }
    }

    pub(super) fn load(&self) -> Position {
        Position::of_word(self.at.load(Ordering::SeqCst))
    }

    /// Whether [`Position::next`] belongs to the group that is left, or may begin one.
    pub(super) fn may_leave(&self, at: Position) -> bool {
        self.together > 0
            && (at.left == NOTHING || (at.left..at.left + self.together).contains(&at.next))
    }

    /// Advances past [`Position::next`], which the caller then begins. Returns `false` if the position is not `at`
    /// any more, as the other functions with this parameter do.
    pub(super) fn begin(&self, at: Position) -> bool {
        let next = at.next + 1;
        self.replace(at, Position { next, ..at })
    }

    /// Advances past [`Position::next`], and leaves it to the committer.
    pub(super) fn leave(&self, at: Position) -> bool {
        let (next, left) = (at.next + 1, at.left.min(at.next));
        self.replace(at, Position { next, left })
    }

    /// Goes back to the first transaction that is left, and leaves none.
    pub(super) fn take_back(&self, at: Position) -> bool {
        let (next, left) = (at.next.min(at.left), NOTHING);
        self.replace(at, Position { next, left })
    }

    /// Goes back to `first`, unless the position is at or below it.
    pub(super) fn go_back(&self, first: u32) {
        self.update(|at| Position {
            next: at.next.min(first),
            ..at
        });
    }

    /// Notes that the committer has come to `index`. If that is the last transaction of the group that was left to
    /// it, workers may leave another group.
    pub(super) fn reached_by_block(&self, index: u32) {
        self.update(|at| Position {
            left: self.left_after(at, index),
            ..at
        });
    }

    /// Notes that all transactions up to `index` are committed.
    pub(super) fn committed(&self, index: u32) {
        self.update(|at| Position {
            next: at.next.max(index + 1),
            left: self.left_after(at, index),
        });
    }

    /// Returns [`Position::left`] after the committer has come to `index`.
    fn left_after(&self, at: Position, index: u32) -> u32 {
        if at.left.saturating_add(self.together) <= index + 1 {
            NOTHING
        } else {
            at.left
        }
    }

    /// Reserves all transactions from [`Position::next`] on for the committer.
    pub(super) fn reserve(&self, at: Position) -> bool {
        self.replace(
            at,
            Position {
                next: NOTHING,
                left: NOTHING,
            },
        )
    }

    /// Ends the reservation, if there is one: `next` is the next transaction to execute.
    pub(super) fn end_reservation(&self, next: u32) {
        self.update(|at| match at.is_reserved() {
            true => Position { next, ..at },
            false => at,
        });
    }

    fn update(&self, change: impl Fn(Position) -> Position) {
        loop {
            let at = self.load();
            let changed = change(at);
            if changed == at || self.replace(at, changed) {
                return;
            }
        }
    }

    fn replace(&self, at: Position, new: Position) -> bool {
        let order = Ordering::SeqCst;
        self.at
            .compare_exchange(at.word(), new.word(), order, order)
            .is_ok()
    }
}

impl Position {
    pub(super) fn is_reserved(self) -> bool {
        self.next == NOTHING
    }

    /// Whether some transactions are left to the committer.
    pub(super) fn leaves_some(self) -> bool {
        self.left != NOTHING
    }

    fn word(self) -> u64 {
        u64::from(self.next) << u32::BITS | u64::from(self.left)
    }

    fn of_word(word: u64) -> Self {
        let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).unwrap_or(NOTHING);
        Self {
            next: half(word >> u32::BITS),
            left: half(word),
        }
    }
}
