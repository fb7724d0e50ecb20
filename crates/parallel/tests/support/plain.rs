//! The reference: transactions on a plain block, one after the other.

use super::program::{refused, run, Ended, Programs, State, CHILD};
use povmeter::{
    child_root_key, Block, BlockError, NodeHash, ProofSize, Removal, Root, StateVersion::V1, TrieId,
};
use povmeter_parallel::{Rule, Verdict};
use povmeter_store::MemoryStore;
use std::panic::{catch_unwind, AssertUnwindSafe};

pub struct Sequential<'b, 's>(pub &'b mut Block<&'s MemoryStore>);

impl Sequential<'_, '_> {
    pub fn run(&mut self, programs: &Programs) -> Vec<(String, ProofSize)> {
        let mut done = Vec::new();
        for index in 0..u32::try_from(programs.len()).unwrap() {
            self.0.start_transaction();
            self.0.enter_runtime().unwrap();
            let ran = catch_unwind(AssertUnwindSafe(|| run(programs, index, self)));
            self.0.exit_runtime().unwrap();
            let trapped = match ran {
                Ok(Ok(output)) => {
                    let size = self.0.proof_size().unwrap();
                    match programs.verdict(index, size) {
                        Verdict::Keep => {
                            self.0.commit_transaction().unwrap();
                            done.push((format!("kept {output}"), self.0.proof_size().unwrap()));
                            continue;
                        }
                        Verdict::LeaveOut => format!("left out {output}"),
                        Verdict::Stop => {
                            self.0.rollback_transaction().unwrap();
                            done.push((format!("left out {output}"), self.0.proof_size().unwrap()));
                            return done;
                        }
                    }
                }
                Ok(Err(Ended::Failed)) => "trapped: the transaction failed: it had to".to_owned(),
                Ok(Err(Ended::State(error))) if refused(&error) => {
                    format!("trapped: the transaction made a call that a block refuses: {error}")
                }
                Ok(Err(Ended::State(error))) => panic!("{error}"),
                Err(_) => format!("trapped: the transaction panicked: transaction {index}"),
            };
            self.0.rollback_transaction().unwrap();
            done.push((trapped, self.0.proof_size().unwrap()));
        }
        done
    }
}

impl State for Sequential<'_, '_> {
    type Error = BlockError;

    fn get(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, BlockError> {
        Ok(self.0.get(trie, key)?.map(<[u8]>::to_vec))
    }

    fn guess(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, BlockError> {
        Ok(self.0.get(TrieId::Top, key)?.map(<[u8]>::to_vec))
    }

    fn exists(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<bool, BlockError> {
        self.0.exists(trie, key)
    }

    fn hash(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<NodeHash>, BlockError> {
        self.0.value_hash(trie, key)
    }

    fn next(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, BlockError> {
        self.0.next_key(trie, key)
    }

    fn set(&mut self, trie: TrieId<'_>, key: &[u8], value: &[u8]) -> Result<(), BlockError> {
        self.0.set(trie, key, value)
    }

    fn remove(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<(), BlockError> {
        self.0.remove(trie, key)
    }

    fn append(&mut self, trie: TrieId<'_>, key: &[u8], element: &[u8]) -> Result<(), BlockError> {
        self.0.append(trie, key, element)
    }

    fn update(
        &mut self,
        key: &[u8],
        rule: Rule,
        operand: &[u8],
        told: bool,
    ) -> Result<bool, BlockError> {
        let mut new = Vec::new();
        let current = self.0.get(TrieId::Top, key)?;
        let updated = rule(current, operand, &mut new);
        if updated {
            self.0.set(TrieId::Top, key, &new)?;
        }
        Ok(told && updated)
    }

    fn clear(&mut self, trie: TrieId<'_>, key: &[u8], most: u32) -> Result<Removal, BlockError> {
        self.0.clear_prefix(trie, key, Some(most), None)
    }

    fn size(&mut self) -> Result<ProofSize, BlockError> {
        self.0.proof_size()
    }

    fn size_at_most(&mut self, bytes: u64) -> Result<bool, BlockError> {
        Ok(self.0.proof_size()?.total_bytes() <= bytes)
    }

    fn recorded_size(&mut self) -> Result<ProofSize, BlockError> {
        Ok(self.0.recorded_size())
    }

    fn roots(&mut self) -> Result<[Root; 2], BlockError> {
        let update = self.0.root(V1)?.clone();
        let changed = update.children.iter().find(|(key, _)| key == CHILD);
        let expected = match changed {
            Some((_, root)) => *root,
            None => match self.0.get(TrieId::Top, &child_root_key(CHILD))? {
                Some(root) => Root::from(<[u8; 32]>::try_from(root).unwrap()),
                None => Root::EMPTY,
            },
        };
        // Also makes the root a change of the top trie.
        let child = self.0.child_root(CHILD, V1)?;
        assert_eq!(child, expected);
        Ok([update.root, child])
    }

    fn start(&mut self) -> Result<(), BlockError> {
        self.0.start_transaction();
        Ok(())
    }

    fn commit(&mut self) -> Result<(), BlockError> {
        self.0.commit_transaction()
    }

    fn roll_back(&mut self) -> Result<(), BlockError> {
        self.0.rollback_transaction()
    }
}
