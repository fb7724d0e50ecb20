//! Types that may go to another thread, as those of the original may.

use sp_core::Blake2Hasher;
use sp_state_machine::{
    Ext, InMemoryBackend, OverlayedChanges, ReadOnlyExternalities, TestExternalities,
    TrieBackendBuilder,
};

type Backend = InMemoryBackend<Blake2Hasher>;

const fn is_send<T: Send>() {}
const fn is_sync<T: Sync>() {}

// The original's first, so that it shows what this crate must do.
const _: () = {
    type Original = original::InMemoryBackend<Blake2Hasher>;
    is_send::<original::Ext<'static, Blake2Hasher, Original>>();
    is_send::<original::OverlayedChanges<Blake2Hasher>>();
    is_send::<original::TestExternalities<Blake2Hasher>>();
    is_send::<Original>();
    is_sync::<Original>();
    is_send::<original::ReadOnlyExternalities<'static, Blake2Hasher, Original>>();
};
const _: () = {
    is_send::<Ext<'static, Blake2Hasher, Backend>>();
    is_send::<OverlayedChanges<Blake2Hasher>>();
    is_send::<TestExternalities<Blake2Hasher>>();
    is_send::<Backend>();
    is_sync::<Backend>();
    is_send::<ReadOnlyExternalities<'static, Blake2Hasher, Backend>>();
};

/// The same for a backend as a client has it.
#[test]
fn externalities_go_to_another_thread() {
    use sp_externalities::Externalities;
    use sp_state_machine::backend::AsTrieBackend;
    let state: Backend = sp_state_machine::new_in_mem();
    let backend = TrieBackendBuilder::wrap(state.as_trie_backend())
        .with_recorder(Default::default())
        .build();
    let mut overlay = OverlayedChanges::default();
    let mut ext = Ext::new(&mut overlay, &backend, None);
    std::thread::scope(|threads| {
        threads.spawn(move || ext.set_storage(b"key".to_vec(), vec![1]));
    });
    let changes = overlay.drain_storage_changes(&backend, Default::default());
    assert_eq!(
        changes.map(|changes| changes.main_storage_changes.len()),
        Ok(1)
    );
}
