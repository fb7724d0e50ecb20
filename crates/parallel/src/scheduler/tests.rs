use super::*;

fn scheduler(window: u32, left_to_block: u32) -> Scheduler {
    scheduler_where(window, left_to_block, 20)
}

fn scheduler_where(window: u32, left_to_block: u32, waiting: u32) -> Scheduler {
    Scheduler::new(Limits {
        transactions: 20,
        window,
        waiting,
        left_to_block,
    })
}

/// Returns the transaction that a worker is told to execute.
fn begun(scheduler: &Scheduler) -> Option<u32> {
    match scheduler.next_task(false)? {
        Task::Execute(index) => Some(index),
        Task::Validate(index) => panic!("{index} was not executed"),
    }
}

fn execute_and_commit(scheduler: &Scheduler, index: u32) {
    assert_eq!(scheduler.claim(index), Claim::ToExecute);
    scheduler.commit(index, false);
}

#[test]
#[cfg(target_pointer_width = "64")]
fn what_changes_all_the_time_is_one_line() {
    let others = size_of::<Apart<Fixed>>() + 2 * size_of::<Apart<Bell>>();
    assert_eq!(size_of::<Scheduler>() - others, align_of::<Scheduler>());
}

#[test]
fn the_block_finds_one_that_nobody_has_begun() {
    let none = scheduler(20, 0);
    assert_eq!([(); 3].map(|()| begun(&none)), [0, 1, 2].map(Some));

    let one = scheduler(20, 1);
    assert_eq!([(); 2].map(|()| begun(&one)), [1, 2].map(Some));
    assert_eq!(one.claim(0), Claim::ToExecute);
    // Another transaction is left as soon as the committer has begun this one, whether that is committed or not.
    assert_eq!([(); 2].map(|()| begun(&one)), [4, 5].map(Some));
    one.commit(0, false);
    for index in [1, 2] {
        assert_eq!(one.claim(index), Claim::Busy);
        one.finish(index, false, 0);
        assert_eq!(one.claim(index), Claim::Executed);
        one.commit(index, false);
    }
    assert_eq!(begun(&one), Some(6));
    assert_eq!(one.claim(3), Claim::ToExecute);
    // The committer leaves none to itself.
    assert_eq!(one.next_task(true), Some(Task::Execute(7)));
    assert_eq!(begun(&one), Some(9));
}

#[test]
fn several_are_left_together() {
    let scheduler = scheduler(20, 3);
    assert_eq!([(); 2].map(|()| begun(&scheduler)), [3, 4].map(Some));
    execute_and_commit(&scheduler, 0);
    execute_and_commit(&scheduler, 1);
    assert_eq!(begun(&scheduler), Some(5));
    assert_eq!(scheduler.claim(2), Claim::ToExecute);
    assert_eq!(begun(&scheduler), Some(9));
}

#[test]
fn what_is_left_to_the_block_is_taken_at_the_end_of_the_window() {
    let one = scheduler(3, 1);
    assert_eq!(
        [(); 4].map(|()| begun(&one)),
        [Some(1), Some(2), Some(0), None]
    );
    assert_eq!(one.claim(0), Claim::Busy);

    let three = scheduler(4, 3);
    assert_eq!(begun(&three), Some(3));
    execute_and_commit(&three, 0);
    assert_eq!(
        [(); 4].map(|()| begun(&three)),
        [Some(4), Some(1), Some(2), None]
    );

    let more_than_the_window = scheduler(2, 3);
    assert_eq!(
        [(); 3].map(|()| begun(&more_than_the_window)),
        [Some(0), Some(1), None]
    );
}

#[test]
fn none_is_begun_that_would_be_too_far_ahead_to_wait() {
    let scheduler = scheduler_where(12, 3, 2);
    assert_eq!(begun(&scheduler), Some(3));
    assert_eq!(scheduler.wait_for_turn(3, false), Turn::Never);
    scheduler.leave_to_turn(3);
    // Transactions that were left are taken back, and none is begun above them.
    assert_eq!(
        [(); 3].map(|()| begun(&scheduler)),
        [Some(0), Some(1), None]
    );
    assert!(!scheduler.has_task());
    scheduler.commit(0, false);
    assert_eq!([(); 2].map(|()| begun(&scheduler)), [Some(2), None]);
    for index in 1..4 {
        scheduler.commit(index, false);
    }
    assert_eq!(
        [(); 3].map(|()| begun(&scheduler)),
        [Some(4), Some(5), None]
    );
}

#[test]
fn none_is_left_where_transactions_wait_for_their_turns() {
    let scheduler = scheduler(3, 1);
    assert_eq!(begun(&scheduler), Some(1));
    execute_and_commit(&scheduler, 0);
    assert_eq!(scheduler.wait_for_turn(1, false), Turn::Now);
    assert_eq!([(); 2].map(|()| begun(&scheduler)), [2, 3].map(Some));
    for index in 1..4 {
        scheduler.commit(index, false);
    }
    // The next one is left three transactions above the last that waited.
    assert_eq!([(); 2].map(|()| begun(&scheduler)), [5, 6].map(Some));
}

#[test]
fn the_window_follows_the_use_of_executions() {
    let scheduler = scheduler(2, 0);
    let commit = |index| {
        assert_eq!(scheduler.claim(index), Claim::Executed);
        scheduler.commit(index, false);
    };
    assert_eq!(
        [(); 3].map(|()| begun(&scheduler)),
        [Some(0), Some(1), None]
    );
    (0..2).for_each(|index| scheduler.finish(index, false, 0));
    scheduler.compared(true);
    commit(0);
    // One more because of the commit, and one because the window has grown to three.
    assert_eq!(
        [(); 3].map(|()| begun(&scheduler)),
        [Some(2), Some(3), None]
    );
    scheduler.compared(false);
    commit(1);
    assert_eq!(begun(&scheduler), None);
    assert!(!scheduler.has_task());
    (2..4).for_each(|index| scheduler.finish(index, false, 0));
    commit(2);
    assert_eq!([(); 2].map(|()| begun(&scheduler)), [Some(4), None]);
}

#[test]
fn the_window_has_limits() {
    let window = Window::new(3);
    for _ in 0..100 {
        window.used();
    }
    assert_eq!(window.now(), Window::greatest(3));
    window.in_vain();
    assert_eq!(window.now(), Window::greatest(3) / 2);
    for _ in 0..100 {
        window.in_vain();
    }
    assert_eq!(window.now(), 3);
    // Without a window no transaction is executed ahead.
    let none = Window::new(0);
    none.used();
    assert_eq!(none.now(), 0);
    assert_eq!(Window::greatest(u32::MAX), u32::MAX);
}
