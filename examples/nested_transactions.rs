//! Transactions inside a block: what a rollback undoes, and what stays in the proof.
//!
//! `cargo run --example nested_transactions`

use povmeter::{Block, Root, StateVersion::V1, TrieId::Top};
use povmeter_store::{MemoryStore, NodeStore};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut store = MemoryStore::new();
    let mut genesis = Block::new(&store, Root::EMPTY);
    for account in 0..1000_u32 {
        genesis.set(Top, &account.to_be_bytes(), &[7; 40])?;
    }
    let genesis = genesis.seal(V1)?;
    store.commit(genesis.update())?;

    let mut block = Block::new(&store, store.root());
    println!("an empty block:             {:5} bytes", total(&mut block)?);

    // The host opens a transaction for each extrinsic; the runtime opens its own inside.
    block.start_transaction();
    block.enter_runtime()?;
    block.set(Top, &1_u32.to_be_bytes(), b"paid the fee")?;
    println!("one write:                  {:5} bytes", total(&mut block)?);

    block.start_transaction();
    block.get(Top, &500_u32.to_be_bytes())?;
    block.remove(Top, &900_u32.to_be_bytes())?;
    println!("a call that reads, deletes: {:5} bytes", total(&mut block)?);

    // The size stays, because a validator also runs the call and its rollback and needs the nodes.
    block.rollback_transaction()?;
    println!("the call rolled back:       {:5} bytes", total(&mut block)?);

    // The runtime cannot close a transaction of the host.
    if let Err(refused) = block.rollback_transaction() {
        println!("the runtime goes further:   {refused}");
    }

    // The host drops the extrinsic. No block contains it, so none of its nodes count.
    block.exit_runtime()?;
    block.rollback_transaction()?;
    println!("the extrinsic dropped:      {:5} bytes", total(&mut block)?);

    assert_eq!(block.seal(V1)?.update().root, store.root());
    Ok(())
}

/// Bytes of the proof if the block ended now.
fn total(block: &mut Block<&MemoryStore>) -> Result<u64, povmeter::BlockError> {
    Ok(block.proof_size()?.total_bytes())
}
