//! Blocks in simulated time, whose transactions take a given time in order and another one in parallel.

use super::*;

const WINDOW: u32 = 12;

/// The nanoseconds that the transaction at a position takes.
trait Cost: Fn(u32) -> u64 {}

impl<F: Fn(u32) -> u64> Cost for F {}

/// The type for a list of costs.
type AnyCost = fn(u32) -> u64;

/// Returns the time of a block, in percent of its time in order, and how many transactions were begun in parallel.
/// Transactions take `in_order` in order, and `parallel` in parallel.
fn block(transactions: u32, in_order: impl Cost, parallel: impl Cost) -> (u64, u32) {
    block_after(&mut None, transactions, in_order, parallel, |_| 0)
}

/// As [`block`], after a block with `experience`, which is replaced by that of this block. Beginning in parallel
/// takes `handing_over`, a function of the number of transactions in order before.
fn block_after(
    experience: &mut Option<Experience>,
    transactions: u32,
    in_order: impl Cost,
    parallel: impl Cost,
    handing_over: impl Cost,
) -> (u64, u32) {
    let costs = (in_order, parallel, handing_over);
    block_of_threads(experience, transactions, costs, 0, |_| None)
}

/// As [`block`], with every other transaction in parallel executed on the block, in `beside`.
fn block_beside(
    transactions: u32,
    in_order: impl Cost,
    parallel: impl Cost,
    beside: impl Cost,
) -> (u64, u32) {
    let costs = (in_order, parallel, |_| 0);
    let beside = |index: u32| index.is_multiple_of(2).then(|| beside(index));
    block_of_threads(&mut None, transactions, costs, 0, beside)
}

/// As [`block_after`], but no other thread runs before the transaction at position `awake`, and transactions in
/// parallel for which `beside` has a time are executed on the block, in that time.
fn block_of_threads(
    experience: &mut Option<Experience>,
    transactions: u32,
    (in_order, parallel, handing_over): (impl Cost, impl Cost, impl Cost),
    awake: u32,
    beside: impl Fn(u32) -> Option<u64>,
) -> (u64, u32) {
    let mut pace = Pace::adaptive(transactions, *experience);
    let start = pace.since;
    let (mut taken, mut ahead, mut unknown) = (0, 0, 0);
    for index in 0..transactions {
        let together = pace.is_parallel();
        ahead += u32::from(together && index >= awake);
        taken += match together {
            true => parallel(index),
            false => in_order(index),
        };
        unknown += u32::from(!together);
        if let Some(beside) = beside(index).filter(|_| together) {
            let begun = taken.saturating_sub(beside);
            pace.begin_on_block_at(|| start + Duration::from_nanos(begun));
        }
        if pace.is_open() {
            let now = start + Duration::from_nanos(taken);
            let progress = Progress {
                left: transactions - index - 1,
                ahead: ahead.into(),
                begun: if together { WINDOW } else { 0 },
            };
            pace.committed_at(|| now, progress);
        }
        if pace.is_parallel() && !together {
            taken += handing_over(std::mem::take(&mut unknown));
            pace.handed_over_at(start + Duration::from_nanos(taken));
        }
    }
    *experience = pace.experience();
    let plain: u64 = (0..transactions).map(in_order).sum();
    (taken * 100 / plain, ahead)
}

#[test]
fn what_gains_is_executed_in_parallel() {
    let (percent, ahead) = block(544, |_| 66_000, |_| 40_000);
    assert!(percent <= 66 && ahead >= 450, "{percent} {ahead}");
    let (percent, ahead) = block(10_000, |_| 20_000, |_| 12_000);
    assert!(percent <= 62 && ahead >= 9_700, "{percent} {ahead}");
}

#[test]
fn what_loses_is_executed_in_order() {
    for parallel in [|_| 21_000, |_| 30_000, |_| 400_000] as [AnyCost; 3] {
        let (percent, ahead) = block(10_000, |_| 20_000, parallel);
        assert!(percent <= 106 && ahead <= 390, "{percent} {ahead}");
    }
}

/// Something else has a core for some milliseconds, again and again.
#[test]
fn what_gains_goes_on_after_disturbances() {
    let disturbed: AnyCost = |index| match index % 1_100 {
        // The first trial is disturbed, too.
        60 => 2_000_000,
        _ => 12_000,
    };
    let (percent, ahead) = block(30_000, |_| 20_000, disturbed);
    assert!(percent <= 72 && ahead >= 29_000, "{percent} {ahead}");
    // Transactions take a little longer for a whole period, or for parts of two periods.
    let starts = (0..2_000).step_by(100);
    let blocks = starts.map(|start| {
        let disturbed = |index| match (index + start) % 2_000 {
            1_000..1_300 => 21_000,
            _ => 12_000,
        };
        block(30_000, |_| 20_000, disturbed)
    });
    let blocks: Vec<_> = blocks.collect();
    let percent: Vec<_> = blocks.iter().map(|block| block.0).collect();
    assert!(percent.iter().all(|percent| *percent <= 72), "{blocks:?}");
    assert!(percent.iter().sum::<u64>() <= 70 * 20, "{blocks:?}");
    // A core is gone for a while, every now and then.
    let disturbed: AnyCost = |index| match index % 3_000 {
        1_000..1_200 => 60_000,
        _ => 12_000,
    };
    let (percent, ahead) = block(30_000, |_| 20_000, disturbed);
    assert!(percent <= 90 && ahead >= 14_000, "{percent} {ahead}");
}

/// A thread wakes, or the machine does something else: in the probe, in the first check, when transactions in
/// parallel begin, or for so long that the trial ends.
#[test]
fn a_moment_decides_nothing() {
    let in_order: AnyCost = |index| match index {
        20 | 190 => 120_000,
        _ => 20_000,
    };
    let (percent, ahead) = block(10_000, in_order, |_| 21_000);
    assert!(percent <= 102 && ahead <= 390, "{percent} {ahead}");
    let begins_late = |index| if index == 32 { 500_000 } else { 12_000 };
    let (percent, ahead) = block(544, |_| 20_000, begins_late);
    assert!(percent <= 75 && ahead >= 450, "{percent} {ahead}");
    let stands_still = |index| if index == 50 { 9_000_000 } else { 12_000 };
    let (percent, ahead) = block(4_000, |_| 20_000, stands_still);
    assert!(percent <= 80 && ahead >= 3_300, "{percent} {ahead}");
    let stands_still = |index| if index == 36 { 1_400_000 } else { 12_000 };
    let (percent, ahead) = block(10_000, |_| 17_000, stands_still);
    assert!(percent <= 80 && ahead >= 9_000, "{percent} {ahead}");
}

#[test]
fn threads_may_take_time_to_start() {
    let costs: (AnyCost, AnyCost, AnyCost) = (
        |_| 20_000,
        |index| if index < 70 { 21_000 } else { 12_000 },
        |_| 0,
    );
    let (percent, ahead) = block_of_threads(&mut None, 544, costs, 70, |_| None);
    assert!(percent <= 75 && ahead >= 400, "{percent} {ahead}");
    // But not for ever.
    let (percent, ahead) = block_of_threads(&mut None, 544, costs, 544, |_| None);
    assert!(percent <= 101 && ahead == 0, "{percent} {ahead}");
}

/// The first transactions load nodes, and are much dearer in order than all later ones.
#[test]
fn a_check_finds_that_transactions_became_cheaper() {
    let cheaper = |index| if index < 100 { 5_000 } else { 400 };
    let (percent, ahead) = block(10_000, cheaper, |_| 2_000);
    assert!(percent <= 110 && ahead <= 260, "{percent} {ahead}");
    // They become cheaper later, so that only a later check can find it.
    let cheaper = |index| if index < 2_000 { 5_000 } else { 1_500 };
    let (percent, ahead) = block(20_000, cheaper, |_| 2_500);
    assert!(percent <= 100 && ahead <= 5_000, "{percent} {ahead}");
}

/// Transactions become cheaper in order and in parallel, long before the next check is due.
#[test]
fn cheaper_transactions_in_parallel_are_a_reason_for_a_check() {
    let of_half = |dear, cheap| move |index| if index < 3_000 { dear } else { cheap };
    let (percent, ahead) = block(12_000, of_half(5_000, 1_500), of_half(3_000, 2_200));
    assert!(percent <= 90 && ahead <= 4_000, "{percent} {ahead}");
    // If nothing changes, there are four checks in all.
    let (_, ahead) = block(12_000, |_| 20_000, |_| 12_000);
    assert!(ahead >= 11_780, "{ahead}");
}

/// The times of transactions on the block are enough, if they are much more than the time in parallel.
#[test]
fn what_surely_gains_needs_one_check() {
    let one_check = WINDOW + SETTLE + CHECK;
    let in_order = SETTLE + PROBE + one_check;
    let (percent, ahead) = block_beside(12_000, |_| 20_000, |_| 12_000, |_| 23_000);
    assert_eq!(ahead, 12_000 - in_order, "{percent}");
    // Transactions that become cheaper need no further check.
    let of_half = |dear, cheap| move |index| if index < 3_000 { dear } else { cheap };
    let (percent, ahead) = block_beside(
        12_000,
        of_half(20_000, 10_000),
        of_half(12_000, 6_000),
        of_half(23_000, 11_500),
    );
    assert_eq!(ahead, 12_000 - in_order, "{percent}");
    // Nor do transactions that become dearer, even when the first time in order is no measure any more.
    let (percent, ahead) = block_beside(
        12_000,
        of_half(20_000, 60_000),
        of_half(12_000, 36_000),
        of_half(23_000, 69_000),
    );
    assert!(percent <= 65 && ahead > 11_000, "{percent} {ahead}");
    // Transactions that then become slower in parallel are found out without a check.
    let parallel: AnyCost = |index| match index {
        0..3_000 => 12_000,
        3_000..6_000 => 6_000,
        _ => 13_000,
    };
    let (percent, ahead) = block_beside(
        12_000,
        of_half(20_000, 10_000),
        parallel,
        of_half(23_000, 11_500),
    );
    assert!(percent <= 82 && ahead < 8_000, "{percent} {ahead}");
    // Beside other threads, transactions take longer than alone, so that parallel execution gains nothing, or little.
    for (alone, most) in [(20_000, 103), (22_000, 96)] {
        let (percent, ahead) = block_beside(12_000, |_| alone, |_| 20_500, |_| 24_000);
        let checked = ahead < 12_000 - in_order;
        assert!(percent <= most && checked, "{percent} {ahead}");
    }
    // They take much longer if they wait for memory: the check finds out how much.
    let (percent, ahead) = block_beside(
        12_000,
        of_half(20_000, 10_000),
        of_half(13_000, 11_000),
        of_half(30_000, 15_000),
    );
    assert!(percent <= 90 && ahead < 4_500, "{percent} {ahead}");
    // A few transactions on the block are not enough.
    let costs: (AnyCost, AnyCost, AnyCost) = (|_| 20_000, |_| 12_000, |_| 0);
    let few = |index: u32| index.is_multiple_of(100).then_some(23_000);
    let (_, ahead) = block_of_threads(&mut None, 12_000, costs, 0, few);
    assert!(ahead < 12_000 - in_order, "{ahead}");
    // Transactions become much cheaper in order, and only a little in parallel.
    let (percent, ahead) = block_beside(
        12_000,
        of_half(5_000, 1_500),
        of_half(3_000, 2_500),
        of_half(5_500, 1_800),
    );
    assert!(percent <= 100 && ahead <= 6_000, "{percent} {ahead}");
}

/// A check near the end would cost more than it could save.
#[test]
fn near_the_end_there_is_no_check() {
    let check = WINDOW + SETTLE + CHECK;
    for (transactions, in_order) in [(500, 32), (520, 32 + check)] {
        let (_, ahead) = block(transactions, |_| 20_000, |_| 12_000);
        assert_eq!(ahead, transactions - in_order, "{transactions}");
    }
}

#[test]
fn the_first_transactions_say_little() {
    let dear_at_first: AnyCost = |index| if index < 16 { 30_000 } else { 1_500 };
    let (percent, ahead) = block(10_000, dear_at_first, |_| 4_500);
    assert!(percent <= 105 && ahead <= 70, "{percent} {ahead}");
}

/// Short transactions are not tried in parallel, even if the first ones take longer. They are tried once they take
/// longer.
#[test]
fn short_transactions_are_executed_in_order() {
    let loading_first = |index| if index < 90 { 5_000 } else { 200 };
    for in_order in [|_| 200, |_| 1_900, loading_first] as [AnyCost; 3] {
        let mut experience = None;
        let block = block_after(&mut experience, 10_000, in_order, |_| 300, |_| 100_000);
        assert_eq!((block, experience), ((100, 0), None));
    }
    let longer: AnyCost = |index| if index < 600 { 200 } else { 20_000 };
    let (percent, ahead) = block(10_000, longer, |_| 12_000);
    assert!(percent <= 75 && ahead >= 8_000, "{percent} {ahead}");
    // A block of short transactions found out nothing, so the next block measures again.
    let mut experience = None;
    let mut block =
        |in_order: AnyCost| block_after(&mut experience, 1_000, in_order, |_| 12_000, |_| 0);
    assert_eq!(block(|_| 200), (100, 0));
    assert!(block(|_| 20_000).1 > 800);
}

/// The time to hand over changes is no part of the time in parallel; but trials that need much of it are rare.
#[test]
fn handing_over_is_told_apart() {
    let block = |transactions, parallel: AnyCost| {
        block_after(&mut None, transactions, |_| 6_000, parallel, |_| 300_000)
    };
    let (percent, ahead) = block(10_000, |_| 4_000);
    assert!(percent <= 75 && ahead >= 9_600, "{percent} {ahead}");
    let (percent, ahead) = block(2_000, |_| 7_000);
    assert!(percent <= 104 && ahead <= 130, "{percent} {ahead}");
    // As measured with transfers among 10,000 accounts, which cost little more than what they load.
    let in_order: AnyCost = |index| match index {
        0..100 => 9_000,
        100..600 => 4_500,
        _ => 2_000,
    };
    let parallel: AnyCost = |index| if index < 200 { 7_000 } else { 8_500 };
    let (percent, ahead) = block_after(&mut None, 10_000, in_order, parallel, |handed| {
        600 * u64::from(handed)
    });
    assert!(percent <= 103 && ahead <= 170, "{percent} {ahead}");
    // The trial itself loses little, but the next one would have to hand over much more.
    let (percent, ahead) = block_after(
        &mut None,
        10_000,
        |_| 4_000,
        |_| 4_300,
        |handed| 3_000 * u64::from(handed),
    );
    assert!(percent <= 102 && ahead <= 130, "{percent} {ahead}");
}

#[test]
fn a_block_begins_as_the_one_before_it_ended() {
    let mut experience = None;
    let mut chain = |blocks: u32, transactions: u32, parallel: AnyCost| -> Vec<(u64, u32)> {
        let block = |_| block_after(&mut experience, transactions, |_| 66_000, parallel, |_| 0);
        (0..blocks).map(block).collect()
    };
    let measured = |blocks: &[(u64, u32)], ahead: u32| {
        let ahead = blocks.iter().filter(|block| block.1 == ahead);
        blocks.len() - ahead.count()
    };
    let gaining = chain(35, 544, |_| 40_000);
    assert_eq!(measured(&gaining, 544), 3, "{gaining:?}");
    assert!(gaining.iter().all(|block| block.0 <= 66), "{gaining:?}");
    // One slower comparison is no reason to give up.
    let slow_at_first: AnyCost = |index| if index < 128 { 70_000 } else { 40_000 };
    assert_eq!(measured(&chain(3, 544, slow_at_first), 544), 0);
    // The chain finds out that it gains no more, and tries less and less often.
    let losing = chain(50, 544, |_| 70_000);
    assert!(losing.iter().all(|block| block.0 <= 104), "{losing:?}");
    let tried = losing.iter().zip(0..).filter(|(block, _)| block.1 > 0);
    let tried: Vec<u32> = tried.map(|(_, number)| number).collect();
    let waits: Vec<_> = tried.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(waits, [1, 5, 9, 17, 17], "{losing:?}");
    // A large block tries again.
    let large = chain(2, 10_000, |_| 40_000);
    assert!(large[0].1 > 9_000 && large[1].1 > large[0].1, "{large:?}");
    // Small blocks forget nothing, and measure nothing.
    let small = chain(3, 40, |_| 40_000);
    assert_eq!(small, [(100, 0); 3]);
}

/// Blocks too small for a check follow a block that gained, and gain nothing.
#[test]
fn small_blocks_lose_once() {
    for transactions in [100, 200, 400] {
        for parallel in [24_000, 26_000, 39_000] {
            let mut experience = None;
            let gained = block_after(&mut experience, 544, |_| 70_000, |_| 40_000, |_| 0);
            assert!(gained.0 <= 66, "{gained:?}");
            let costs = (|_| 20_000, |_| parallel, |_| 0);
            let beside = |index: u32| index.is_multiple_of(2).then_some(22_000);
            let mut block = || block_of_threads(&mut experience, transactions, costs, 0, beside).0;
            let losing: Vec<_> = (0..16).map(|_| block()).collect();
            assert!(
                losing[1..].iter().all(|percent| *percent <= 110),
                "{losing:?}"
            );
            let sum: u64 = losing.iter().sum();
            assert!(sum <= 107 * 16, "{transactions} {parallel} {losing:?}");
        }
    }
}

/// A first trial is a part of the block's time.
#[test]
fn a_small_block_loses_little_in_a_trial() {
    for transactions in [100, 200] {
        for parallel in [24_000, 39_000, 100_000] {
            let (percent, _) = block(transactions, |_| 20_000, |_| parallel);
            assert!(percent <= 110, "{transactions} {parallel}: {percent}");
        }
    }
}

/// A block of little work starts no thread, whatever the block before it gained.
#[test]
fn little_work_is_done_in_order() {
    let mut experience = None;
    block_after(&mut experience, 544, |_| 70_000, |_| 1_000, |_| 0);
    let mut little = experience.unwrap();
    little.in_order = LITTLE / 101;
    assert!(!Pace::adaptive(100, Some(little)).is_open());
    assert!(Pace::adaptive(102, Some(little)).is_open());
}
