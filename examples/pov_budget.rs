//! A block author with a byte limit: it tries each transfer in a transaction, and drops it if the
//! proof would be too large.
//!
//! `cargo run --example pov_budget`

use povmeter::{Block, BlockError, Root, StateVersion::V1, TrieId::Top};
use povmeter_store::{MemoryStore, NodeStore};

const LIMIT: u64 = 100_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut store = MemoryStore::new();
    let mut genesis = Block::new(&store, Root::EMPTY);
    for account in 0..10_000 {
        genesis.set(Top, &key(account), &1000_u64.to_le_bytes())?;
    }
    store.commit(genesis.seal(V1)?.update())?;

    let mut block = Block::new(&store, store.root());
    let (mut included, mut cheapest_left_out) = (0, u64::MAX);
    let mut size = block.proof_size()?.total_bytes();
    for transfer in 0..1000 {
        block.start_transaction();
        pay(&mut block, transfer, 9_999 - transfer, 10)?;
        let with_it = block.proof_size()?.total_bytes();
        if with_it <= LIMIT {
            block.commit_transaction()?;
            (included, size) = (included + 1, with_it);
        } else {
            // The rollback restores the size, so the next transfer is compared with the same one.
            block.rollback_transaction()?;
            cheapest_left_out = cheapest_left_out.min(with_it - size);
        }
    }

    let sealed = block.seal(V1)?;
    // The last estimate is the size of the proof.
    assert_eq!(sealed.proof().recorded_bytes(), size);
    assert!(size <= LIMIT);
    println!("{included} transfers, {size} of {LIMIT} bytes");
    println!("the cheapest one left out would have added {cheapest_left_out} bytes");
    Ok(())
}

/// A key that is spread evenly, like those of a hashed storage map.
fn key(account: u32) -> [u8; 32] {
    povmeter_delta_root::Blake2b256::hash(&account.to_le_bytes()).into()
}

fn pay(block: &mut Block<&MemoryStore>, from: u32, to: u32, sum: u64) -> Result<(), BlockError> {
    for (account, plus, minus) in [(from, 0, sum), (to, sum, 0)] {
        let value = block.get(Top, &key(account))?.unwrap_or_default();
        let balance = value.try_into().map_or(0, u64::from_le_bytes);
        block.set(Top, &key(account), &(balance + plus - minus).to_le_bytes())?;
    }
    Ok(())
}
