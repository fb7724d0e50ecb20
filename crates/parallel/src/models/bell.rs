//! The bell. A sleeper that is never woken is a deadlock, which both tools report.

use super::try_orders;
use crate::{
    bell::Bell,
    sync::atomic::{AtomicBool, Ordering},
};
#[cfg(povmeter_loom)]
use loom::thread;
#[cfg(povmeter_shuttle)]
use shuttle::thread;
use std::sync::Arc;

/// Threads wait until there is work, and one thread makes it visible with the weakest memory order.
fn ring_once(sleepers: usize) {
    let shared = Arc::new((Bell::default(), AtomicBool::new(false)));
    let threads: Vec<_> = (0..sleepers)
        .map(|_| {
            let shared = shared.clone();
            thread::spawn(move || {
                let (bell, work) = &*shared;
                while !work.load(Ordering::Relaxed) {
                    bell.wait_unless(|| work.load(Ordering::Relaxed));
                }
            })
        })
        .collect();
    let (bell, work) = &*shared;
    work.store(true, Ordering::Relaxed);
    bell.ring();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_sleeper_sees_the_work_or_hears_the_bell() {
    try_orders(2_000, || ring_once(1));
}

#[test]
fn all_sleepers_hear_it() {
    try_orders(2_000, || ring_once(2));
}

/// Two pieces of work by two threads: a ring for the first must not hide the second.
#[test]
fn every_ring_counts() {
    try_orders(2_000, || {
        let shared = Arc::new((Bell::default(), [false, false].map(AtomicBool::new)));
        let ringers = [0, 1].map(|number: usize| {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.1[number].store(true, Ordering::Relaxed);
                shared.0.ring();
            })
        });
        let (bell, work) = &*shared;
        for work in work {
            while !work.load(Ordering::Relaxed) {
                bell.wait_unless(|| work.load(Ordering::Relaxed));
            }
        }
        for ringer in ringers {
            ringer.join().unwrap();
        }
    });
}
