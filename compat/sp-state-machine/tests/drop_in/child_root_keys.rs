//! Writes of a runtime to the keys under which the roots of child tries lie.

use sp_core::{
    storage::{ChildInfo, StateVersion},
    Blake2Hasher,
};
use sp_externalities::Externalities;
use sp_state_machine::{new_in_mem, Ext, OverlayedChanges};

const VERSION: StateVersion = StateVersion::V1;

/// What a runtime does must not end the node, so the call is ignored.
#[test]
fn nothing_is_written_to_the_root_of_a_child() {
    let child = ChildInfo::new_default(b"child");
    let values = vec![(b"key".to_vec(), Some(vec![7; 40]))];
    let state = new_in_mem::<Blake2Hasher>().update([(Some(child.clone()), values)], VERSION);
    let key = child.prefixed_storage_key().into_inner();
    let mut overlay = OverlayedChanges::default();
    let mut ext = Ext::new(&mut overlay, &state, None);
    let root = ext.storage(&key);
    assert_eq!(root.as_ref().map(Vec::len), Some(32));
    ext.storage_append(key.clone(), vec![4]);
    ext.place_storage(key.clone(), Some(vec![1; 32]));
    let absent = ChildInfo::new_default(b"absent").prefixed_storage_key();
    ext.storage_append(absent.clone().into_inner(), vec![4]);
    assert_eq!(ext.storage(&key), root);
    assert_eq!(ext.storage(&absent), None);
    let sealed = overlay.drain_storage_changes(&state, VERSION).unwrap();
    assert_eq!(sealed.transaction_storage_root, *state.root());
    assert_eq!(sealed.main_storage_changes, []);
}
