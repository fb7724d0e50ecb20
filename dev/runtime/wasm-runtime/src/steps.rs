//! Storage calls that a test puts into the header of a block.
//!
//! A pre-runtime item of the digest with the id [`ENGINE`] holds steps. Everyone who executes the
//! block, its author included, runs them before the inherents.

use crate::{
    runtime::Runtime,
    validator::{Step, Trie},
};
use alloc::vec::Vec;
use codec::DecodeAll;
use cumulus_primitives_proof_size_hostfunction::storage_proof_size;
use frame_support::traits::PreInherents;
use sp_core::storage::StateVersion;
use sp_runtime::ConsensusEngineId;

/// The id of digest items that hold steps, encoded as a list.
const ENGINE: ConsensusEngineId = *b"STEP";

/// Runs the steps of the block's digest.
pub struct StepsOfDigest;

impl PreInherents for StepsOfDigest {
    fn pre_inherents() {
        let digest = frame_system::Pallet::<Runtime>::digest();
        for item in digest.logs() {
            if let Some((ENGINE, steps)) = item.as_pre_runtime() {
                let steps = Vec::<Step>::decode_all(&mut &steps[..]);
                steps.expect("a list of steps").into_iter().for_each(take);
            }
        }
    }
}

/// Runs one step as a call of the runtime to its host.
fn take(step: Step) {
    use sp_io::{default_child_storage as child, storage as top};
    match step {
        Step::Start => top::start_transaction(),
        Step::Commit => top::commit_transaction(),
        Step::Rollback => top::rollback_transaction(),
        Step::Set(None, key, value) => top::set(&key, &value),
        Step::Set(Some(trie), key, value) => child::set(&trie, &key, &value),
        Step::Remove(None, key) => top::clear(&key),
        Step::Remove(Some(trie), key) => child::clear(&trie, &key),
        Step::Append(key, element) => top::append(&key, element),
        Step::Get(None, key) => _ = top::get(&key),
        Step::Get(Some(trie), key) => drop(child::get(&trie, &key)),
        Step::Exists(None, key) => drop(top::exists(&key)),
        Step::Exists(Some(trie), key) => drop(child::exists(&trie, &key)),
        Step::Next(None, key) => drop(top::next_key(&key)),
        Step::Next(Some(trie), key) => drop(child::next_key(&trie, &key)),
        Step::Clear(trie, prefix, limit, _) => clear(trie, &prefix, limit),
        Step::Root => drop(top::root(StateVersion::V1)),
        // Written, so that a block tells which root it got.
        Step::ChildRoot(trie) => {
            let root = child::root(&trie, StateVersion::V1);
            top::set(&[b"child root of ", &trie[..]].concat(), &root);
        }
        // The version of the host function that sp-state-machine answers, too.
        Step::Size => _ = storage_proof_size::storage_proof_size(),
        Step::Enter | Step::Exit | Step::Hash(..) => panic!("no call of a runtime"),
    }
}

fn clear(trie: Trie, prefix: &[u8], limit: Option<u32>) {
    use sp_io::{default_child_storage as child, storage as top};
    drop(match trie {
        None => top::clear_prefix(prefix, limit),
        Some(trie) => child::clear_prefix(&trie, prefix, limit),
    });
}
