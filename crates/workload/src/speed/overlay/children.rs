//! What branches of an overlay with many child stores make.

use super::meter::Allocated;
use povmeter_overlay::{Branch, Overlay, StoreId};
use serde::Serialize;
use std::hint::black_box;

const STORES: u8 = 21;
const TOUCHED: u8 = 3;
const TRANSACTIONS: u32 = 1_000;
const BRANCHES: u32 = 2;

/// Branches over child stores of which each touches few: what ours make, and what they would make if a
/// branch had a store for every child from the start.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ChildrenReport {
    /// Child stores of the overlay.
    pub stores: u8,
    /// Child stores that a branch reads and writes.
    pub touched: u8,
    /// Transactions.
    pub transactions: u32,
    /// Branches of each transaction, of which one is kept.
    pub branches_per_transaction: u32,
    /// Stores that eager branches make.
    pub eager_stores: u64,
    /// Bytes that eager branches allocate.
    pub eager_bytes: u64,
    /// Stores that ours make.
    pub stores_made: u64,
    /// Bytes that ours allocate.
    pub bytes: u64,
    /// Stores that ours make, in percent of the eager ones.
    pub stores_percent: f64,
    /// Allocations of a branch of ours that nobody touches.
    pub allocations_of_an_untouched_branch: f64,
}

/// Counts; no time is measured.
pub(super) fn children(allocated: &dyn Fn() -> Allocated) -> ChildrenReport {
    let mut overlay = Overlay::new();
    for child in 0..STORES {
        overlay.set(StoreId::Child(&[child]), b"key", &[child; 32]);
    }
    let before = allocated();
    let untouched = (0..TRANSACTIONS).map(|_| {
        overlay.with_branches(|base| {
            black_box(base.branch());
            Vec::new()
        });
    });
    untouched.for_each(drop);
    let for_nothing = allocated().calls - before.calls;

    let (mut stores_made, mut bytes) = (0, 0);
    for at in 0..TRANSACTIONS {
        overlay.with_branches(|base| {
            let before = allocated();
            let mut branches = [(); BRANCHES as usize].map(|()| base.branch());
            branches.iter_mut().for_each(|branch| work(branch, at));
            bytes += allocated().bytes - before.bytes;
            let made = branches
                .iter()
                .map(|branch| branch.own().children().len() as u64);
            stores_made += made.sum::<u64>();
            let [kept, _] = branches;
            kept.finish().into_iter().collect()
        });
    }
    let (eager_stores, eager_bytes) = eager(&overlay, allocated);
    ChildrenReport {
        stores: STORES,
        touched: TOUCHED,
        transactions: TRANSACTIONS,
        branches_per_transaction: BRANCHES,
        eager_stores,
        eager_bytes,
        stores_made,
        bytes,
        stores_percent: stores_made as f64 / eager_stores as f64 * 100.0,
        allocations_of_an_untouched_branch: for_nothing as f64 / f64::from(TRANSACTIONS),
    }
}

/// The child stores that transaction `at` touches.
fn touched(at: u32) -> impl Iterator<Item = [u8; 1]> {
    let first = at % u32::from(STORES);
    let stores = (first..).map(|store| store % u32::from(STORES));
    stores.take(usize::from(TOUCHED)).map(|store| {
        let [store, ..] = store.to_le_bytes();
        [store]
    })
}

fn work(branch: &mut Branch<'_>, at: u32) {
    for child in touched(at) {
        let store = StoreId::Child(&child);
        black_box(branch.get(store, b"key"));
        branch.set(store, b"key", &at.to_le_bytes());
    }
}

/// The same with an overlay of its own for each child store of a branch, all made when the branch is.
fn eager(overlay: &Overlay, allocated: &dyn Fn() -> Allocated) -> (u64, u64) {
    let before = allocated().bytes;
    let mut made = 0;
    for at in 0..TRANSACTIONS {
        for _ in 0..BRANCHES {
            let children = overlay.children();
            let mut stores: Vec<(Vec<u8>, Overlay)> = children
                .map(|child| (child.to_vec(), Overlay::new()))
                .collect();
            made += stores.len() as u64;
            for child in touched(at) {
                let own = stores.iter_mut().find(|(key, _)| *key == child);
                if let Some((key, own)) = own {
                    black_box(own.get(StoreId::Child(key), b"key"));
                    own.set(StoreId::Child(key), b"key", &at.to_le_bytes());
                }
            }
            black_box(&stores);
        }
    }
    (made, allocated().bytes - before)
}
