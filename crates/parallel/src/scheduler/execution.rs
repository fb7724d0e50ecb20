//! Which transaction is executed ahead next, and which are left to the thread of the block.

use super::NOTHING;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The next transaction to execute ahead of its turn, and which are left to the thread of the block.
///
/// Both are one word. Else a thread that passes over one that is left could do so after another one has taken them
/// back, and nobody would execute it before its turn; and one that takes them back could do so after the block has
/// executed them.
#[derive(Debug)]
pub(super) struct Execution {
    at: AtomicU64,
    /// How many are left to the thread of the block together, unless they are executed.
    together: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// The next one to execute, unless it is executed; [`NOTHING`] if all are reserved.
    pub(super) next: u32,
    /// The first of those that are left; [`NOTHING`] if none are.
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

    /// Whether [`Position::next`] is one of those that are left, or would be the first.
    pub(super) fn may_leave(&self, at: Position) -> bool {
        self.together > 0
            && (at.left == NOTHING || (at.left..at.left + self.together).contains(&at.next))
    }

    /// Goes on to the next one; the one before is the caller's to begin. `false` if it is not at `at` any more, as
    /// the other functions that have this parameter.
    pub(super) fn begin(&self, at: Position) -> bool {
        let next = at.next + 1;
        self.replace(at, Position { next, ..at })
    }

    /// Goes on to the next one; the one before is left to the thread of the block.
    pub(super) fn leave(&self, at: Position) -> bool {
        let (next, left) = (at.next + 1, at.left.min(at.next));
        self.replace(at, Position { next, left })
    }

    /// Goes back to the first that is left, and leaves none.
    pub(super) fn take_back(&self, at: Position) -> bool {
        let (next, left) = (at.next.min(at.left), NOTHING);
        self.replace(at, Position { next, left })
    }

    /// Goes back to `first`, unless it is there or below.
    pub(super) fn go_back(&self, first: u32) {
        self.update(|at| Position {
            next: at.next.min(first),
            ..at
        });
    }

    /// The thread of the block has come to `index`. If that is the last one that was left to it, others may be.
    pub(super) fn reached_by_block(&self, index: u32) {
        self.update(|at| Position {
            left: self.left_after(at, index),
            ..at
        });
    }

    /// All up to `index` are committed.
    pub(super) fn committed(&self, index: u32) {
        self.update(|at| Position {
            next: at.next.max(index + 1),
            left: self.left_after(at, index),
        });
    }

    /// What is left once the thread of the block has come to `index`.
    fn left_after(&self, at: Position, index: u32) -> u32 {
        if at.left.saturating_add(self.together) <= index + 1 {
            NOTHING
        } else {
            at.left
        }
    }

    /// Reserves all from [`Position::next`] on for the thread of the block.
    pub(super) fn reserve(&self, at: Position) -> bool {
        self.replace(
            at,
            Position {
                next: NOTHING,
                left: NOTHING,
            },
        )
    }

    /// Goes on to `next`, if all are reserved.
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

    /// Whether some are left to the thread of the block.
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
