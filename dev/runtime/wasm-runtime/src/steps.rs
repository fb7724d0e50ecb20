//! Storage calls that a test puts into the header of a block.
//!
//! A pre-runtime item of the digest with the id [`ENGINE`] holds steps. Everyone who executes the
//! block, its author included, runs them before the inherents.

use crate::{
    runtime::Runtime,
    validator::{Step, Trie},
};
use alloc::vec::Vec;
use codec::{DecodeAll, Encode};
use cumulus_primitives_proof_size_hostfunction::storage_proof_size;
use frame_support::traits::PreInherents;
use sp_core::storage::StateVersion;
use sp_runtime::ConsensusEngineId;

/// The id of digest items that hold steps, encoded as a list.
const ENGINE: ConsensusEngineId = *b"STEP";

/// The key of a hash of all answers to steps, so that a block tells which answers its runtime got.
const ANSWERS: &[u8] = b"answers to steps";

/// The beginning of keys whose values are read from byte 3 on, too.
const OFFSET: &[u8] = b"offset";

/// Runs the steps of the block's digest.
pub struct StepsOfDigest;

impl PreInherents for StepsOfDigest {
    fn pre_inherents() {
        let digest = frame_system::Pallet::<Runtime>::digest();
        let mut answers = None;
        for item in digest.logs() {
            if let Some((ENGINE, steps)) = item.as_pre_runtime() {
                let steps = Vec::<Step>::decode_all(&mut &steps[..]).expect("a list of steps");
                let answers = answers.get_or_insert_with(Answers::default);
                steps.into_iter().for_each(|step| answers.take(step));
            }
        }
        if let Some(Answers(hash)) = answers {
            sp_io::storage::set(ANSWERS, &hash);
        }
    }
}

/// The hash of all answers so far.
#[derive(Default)]
struct Answers([u8; 32]);

impl Answers {
    fn add(&mut self, answer: impl Encode) {
        self.0 = sp_io::hashing::blake2_256(&(self.0, answer).encode());
    }

    /// Runs one step as a call of the runtime to its host.
    fn take(&mut self, step: Step) {
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
            Step::Get(trie, key) => self.get(trie, &key),
            Step::Exists(None, key) => self.add(top::exists(&key)),
            Step::Exists(Some(trie), key) => self.add(child::exists(&trie, &key)),
            Step::Next(None, key) => self.add(top::next_key(&key)),
            Step::Next(Some(trie), key) => self.add(child::next_key(&trie, &key)),
            Step::Clear(trie, prefix, limit, _) => self.clear(trie, &prefix, limit),
            Step::Root => self.add(top::root(StateVersion::V1)),
            // Written, so that a block tells which root it got.
            Step::ChildRoot(trie) => {
                let root = child::root(&trie, StateVersion::V1);
                top::set(&[b"child root of ", &trie[..]].concat(), &root);
            }
            // The version of the host function that sp-state-machine answers, too.
            Step::Size => self.add(storage_proof_size::storage_proof_size()),
            Step::Enter | Step::Exit | Step::Hash(..) => panic!("no call of a runtime"),
        }
    }

    /// Reads a value, and its first bytes; for keys that begin with [`OFFSET`] those from byte 3 on.
    fn get(&mut self, trie: Trie, key: &[u8]) {
        use sp_io::{default_child_storage as child, storage as top};
        let mut part = [0; 8];
        let offset = if key.starts_with(OFFSET) { 3 } else { 0 };
        let (value, length) = match trie {
            None => (
                top::get(key).map(|value| value.to_vec()),
                top::read(key, &mut part, offset),
            ),
            Some(trie) => (
                child::get(&trie, key),
                child::read(&trie, key, &mut part, offset),
            ),
        };
        self.add((value, length, part));
    }

    fn clear(&mut self, trie: Trie, prefix: &[u8], limit: Option<u32>) {
        use sp_io::{default_child_storage as child, storage as top};
        self.add(match trie {
            None => top::clear_prefix(prefix, limit),
            Some(trie) if prefix.is_empty() => child::storage_kill(&trie, limit),
            Some(trie) => child::clear_prefix(&trie, prefix, limit),
        });
    }
}
