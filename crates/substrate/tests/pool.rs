//! A machine that reuses the memory of an earlier one works like a new one, however the earlier one ended.
#![allow(clippy::unwrap_used)]

use povmeter::BlockPool;
use povmeter_store::{MemoryStore, NodeStore};
use povmeter_substrate::{MachineError, SealedMachine, SizeSource, StateMachine};
use sp_core::storage::StateVersion::V1;
use sp_externalities::with_externalities;
use std::{
    panic::{catch_unwind, AssertUnwindSafe},
    sync::Arc,
};

type Machine<'a> = StateMachine<&'a MemoryStore>;

/// A state of 100 keys.
fn store() -> MemoryStore {
    let mut store = MemoryStore::new();
    let mut machine: Machine<'_> = StateMachine::new(&store, store.root(), SizeSource::Estimate);
    for key in 0..100_u8 {
        set(&mut machine, &[key], &[key; 40]);
    }
    let sealed = machine.seal(V1).unwrap();
    store.commit(sealed.block.update()).unwrap();
    store
}

fn set(machine: &mut Machine<'_>, key: &[u8], value: &[u8]) {
    let call = || with_externalities(|ext| ext.set_storage(key.to_vec(), value.to_vec()));
    machine.execute(call).unwrap();
}

/// Runs extrinsics that differ for each `number`.
fn work(machine: &mut Machine<'_>, number: u8) {
    for at in 0..10 {
        machine.start_transaction();
        set(machine, &[number + 7 * at], &[number; 50]);
        set(machine, &[b'n', number, at], b"new");
        let asked = || with_externalities(|ext| ext.storage(&[number + at]));
        machine.execute(asked).unwrap();
        machine.commit_transaction().unwrap();
        machine.proof_size().unwrap();
    }
}

fn outcome(sealed: &SealedMachine) -> String {
    format!("{sealed:?}")
}

#[track_caller]
fn assert_as_fresh(pool: &Arc<BlockPool>, store: &MemoryStore, number: u8) {
    let mut fresh: Machine<'_> = StateMachine::new(store, store.root(), SizeSource::Estimate);
    let (pool, parent) = (Arc::clone(pool), store.root());
    let mut pooled = StateMachine::pooled(Arc::clone(&pool), store, parent, SizeSource::Estimate);
    work(&mut fresh, number);
    work(&mut pooled, number);
    assert_eq!(fresh.sizes(), pooled.sizes());
    let sealed = pooled.seal(V1).unwrap();
    assert_eq!(outcome(&sealed), outcome(&fresh.seal(V1).unwrap()));
    pool.recycle(sealed.block);
    assert_eq!(pool.spare_blocks(), 1, "the memory came back, once");
}

#[test]
fn one_machine_after_the_other() {
    let (store, pool) = (store(), Arc::new(BlockPool::new()));
    for number in 0..4 {
        assert_as_fresh(&pool, &store, number);
    }
}

#[test]
fn a_machine_that_fails_leaves_nothing_and_its_memory() {
    let (store, pool) = (store(), Arc::new(BlockPool::new()));
    for number in 0..6 {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            let shared = Arc::clone(&pool);
            let sizes = SizeSource::Estimate;
            let mut machine = StateMachine::pooled(shared, &store, store.root(), sizes);
            work(&mut machine, number);
            machine.start_transaction();
            if number % 2 == 0 {
                assert!(machine.seal(V1).is_err(), "a transaction is open");
                return;
            }
            let _ = machine.execute(|| panic!("the runtime trapped"));
        }));
        assert_eq!(caught.is_err(), number % 2 == 1);
        assert_eq!(pool.spare_blocks(), 1, "no slot is lost");
        assert_as_fresh(&pool, &store, number + 1);
    }
}

/// Otherwise half of a call would be in the block, because no transaction of the host is open.
#[test]
fn a_machine_whose_call_panicked_is_not_sealed() {
    let store = store();
    let mut machine: Machine<'_> = StateMachine::new(&store, store.root(), SizeSource::Estimate);
    let half = |machine: &mut Machine<'_>| {
        let _ = machine.execute(|| {
            with_externalities(|ext| ext.set_storage(b"half".to_vec(), b"done".to_vec()));
            panic!("the runtime trapped")
        });
    };
    assert!(catch_unwind(AssertUnwindSafe(|| half(&mut machine))).is_err());
    assert!(machine.failure().is_none());
    assert!(machine.execute(|| ()).is_err());
    let error = MachineError::from(machine.seal(V1).unwrap_err());
    assert!(matches!(error, MachineError::Unfinished), "{error}");
}
