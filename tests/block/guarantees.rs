//! Trait bounds that users rely on.

use povmeter::{
    Advisory, Block, BlockError, CompactProof, Consensus, DecodeError, LoadError, ProofError,
    ProofNodes, ProofSize, Removal, Root, RootError, RootUpdate, SealedBlock, SourceError,
    StorageProof, TransactionError,
};
use povmeter_delta_root::{Search, ShadowState};
use povmeter_pov_estimate::Boundary;
use povmeter_store::MemoryStore;

fn shared<T: Send + Sync + 'static>() {}

#[test]
fn everything_crosses_threads() {
    shared::<Block<MemoryStore, Consensus>>();
    shared::<Block<MemoryStore, Advisory>>();
    shared::<Block<ProofNodes>>();
    shared::<ShadowState<MemoryStore>>();
    shared::<SealedBlock>();
    shared::<RootUpdate>();
    shared::<StorageProof>();
    shared::<CompactProof>();
    shared::<ProofSize>();
    shared::<Removal>();
    shared::<Root>();
}

#[test]
fn searches_and_boundaries_can_be_printed() {
    fn printed<T: std::fmt::Debug>() {}
    printed::<Search<'_, u32>>();
    printed::<Boundary<'_, '_>>();
}

#[test]
fn errors_fit_into_a_boxed_error() {
    fn error<E: std::error::Error + Send + Sync + 'static>() {}
    error::<BlockError>();
    error::<LoadError>();
    error::<RootError>();
    error::<DecodeError>();
    error::<SourceError>();
    error::<ProofError>();
    error::<TransactionError>();
}

#[test]
fn a_block_moves_to_another_thread_midway() {
    let store = crate::accounts(100);
    let root = povmeter_store::NodeStore::root(&store);
    let mut block = Block::new(store, root);
    block
        .set(povmeter::TrieId::Top, &crate::key(3), b"paid")
        .unwrap();
    let here = block.proof_size().unwrap();
    let mut block = std::thread::spawn(move || {
        block
            .set(povmeter::TrieId::Top, &crate::key(4), b"paid")
            .unwrap();
        block
    })
    .join()
    .unwrap();
    assert!(block.proof_size().unwrap().total_bytes() > here.total_bytes());
}
