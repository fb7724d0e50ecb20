//! The memory of a call that reads a large state.
#![allow(clippy::unwrap_used)]

use povmeter_dev_allocations::{live_bytes, Counting};
use sp_core::{storage::StateVersion, Blake2Hasher};
use sp_externalities::Externalities;
use sp_state_machine::{backend::Backend, new_in_mem, Ext, OverlayedChanges};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const VERSION: StateVersion = StateVersion::V1;
const MIB: usize = 1 << 20;
const MOST: i64 = 128 << 20;

/// Changes and open transactions stay when what was read is forgotten.
#[test]
fn a_call_keeps_a_part_of_what_it_reads() {
    let value = |number: u16| [&number.to_be_bytes()[..], &[7; MIB]].concat();
    let key = |number: u16| number.to_be_bytes().to_vec();
    let values = (0..300).map(|number| (key(number), Some(value(number))));
    let state = new_in_mem::<Blake2Hasher>().update([(None, values.collect())], VERSION);
    let mut overlay = OverlayedChanges::default();
    let mut most = 0;
    {
        let mut ext = Ext::new(&mut overlay, &state, None);
        ext.set_storage(key(1), vec![1]);
        ext.storage_start_transaction();
        ext.set_storage(key(2), vec![2]);
        // The first access makes the node cache.
        assert_eq!(ext.storage(&key(3)), Some(value(3)));
        let before = live_bytes();
        for number in 3..300 {
            assert_eq!(ext.storage(&key(number)), Some(value(number)));
            most = most.max(live_bytes() - before);
        }
        assert_eq!(ext.storage(&key(2)), Some(vec![2]));
        ext.storage_rollback_transaction().unwrap();
        assert_eq!(ext.storage(&key(2)), Some(value(2)));
    }
    // Some of the state, and not all of it.
    assert!((MOST / 2..MOST / 8 * 9).contains(&most), "{most} bytes");
    let changes = overlay.drain_storage_changes(&state, VERSION).unwrap();
    let delta = [(&key(1)[..], Some(&[1][..]))];
    let expected = state.storage_root(delta.into_iter(), VERSION).0;
    assert_eq!(changes.transaction_storage_root, expected);
}
