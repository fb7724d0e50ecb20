//! Random PoVs, and random damage to them.

use crate::{Act, Candidate, Collator, CollatorError, Draft, Pov, PovVersion, RelayState, Step};
use povmeter_dev_runtime::{
    runtime::{BalancesCall, RuntimeCall, SystemCall},
    wasm::parachain,
    CallKind, Entries, Plan, PlanError, PlanOptions,
};
use povmeter_substrate::SizeSource;
use rand::{rngs::SmallRng, seq::IndexedRandom, Rng, SeedableRng};
use std::collections::BTreeMap;

/// The accounts of a random state.
const ACCOUNTS: u32 = 60;
/// The most bytes of a message to the relay chain or to another parachain; a longer one is dropped.
const MESSAGE: usize = 300;

/// A generator of PoVs and of damage to them. Equal seeds give equal PoVs.
pub struct RandomPovs {
    dice: SmallRng,
    sizes: SizeSource,
    /// Whether blocks ask by the second version of the host function, too.
    asks_rooted: bool,
}

/// Why no PoV was made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum RandomError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Collator(#[from] CollatorError),
}

impl RandomPovs {
    /// The generator of this seed; collators answer their runtimes by `sizes`. `asks_rooted` only for
    /// validators that know the second version of the host function.
    pub fn new(seed: u64, sizes: SizeSource, asks_rooted: bool) -> Self {
        Self {
            dice: SmallRng::seed_from_u64(seed),
            sizes,
            asks_rooted,
        }
    }

    /// A PoV of one to four blocks on a random state.
    ///
    /// # Errors
    /// [`RandomError`] if it can't be authored.
    pub fn candidate(&mut self) -> Result<Candidate, RandomError> {
        let blocks = *[1, 1, 1, 2, 4].choose(&mut self.dice).unwrap_or(&1);
        let per_block = self.dice.random_range(0..6);
        let plan = Plan::new(PlanOptions {
            accounts: ACCOUNTS,
            transfers: blocks * per_block,
            call: *[CallKind::TransferKeepAlive, CallKind::TransferAll]
                .choose(&mut self.dice)
                .unwrap_or(&CallKind::TransferAll),
            seed: self.dice.random(),
            ..PlanOptions::default()
        })?;
        let plan = self.with_calls(plan);
        let children = self.children();
        let mut collator = Collator::new(plan.genesis(), &children, parachain::STOCK)?;
        let mut extrinsics = plan.extrinsics().iter().cloned();
        let drafts: Vec<Draft> = (0..blocks)
            .map(|_| Draft {
                extrinsics: extrinsics.by_ref().take(per_block as usize).collect(),
                acts: self.acts(blocks == 1),
                steps: self.steps(),
                digest: Vec::new(),
                sealed: self.dice.random_bool(0.5),
                place_is_known: false,
            })
            .collect();
        let relay = RelayState {
            number: self.dice.random_range(1..1_000),
            downward: (0..self.dice.random_range(0..3))
                .map(|_| self.bytes(0, MESSAGE))
                .collect(),
            go_ahead: false,
        };
        let mut candidate = collator.author(&drafts, &relay, &self.sizes)?;
        if blocks == 1 && self.dice.random_bool(0.3) {
            candidate.pov.version = PovVersion::V0;
        }
        Ok(candidate)
    }

    /// The arguments of `validate_block` for `pov` with random damage, drawn anew with each call. Some damage
    /// consists of parts of `foreign`.
    pub fn damaged(&mut self, pov: &Pov, foreign: &Pov) -> Vec<u8> {
        let mut pov = pov.clone();
        let items = pov.proof.len();
        let item = self.dice.random_range(0..items.max(1));
        match self.dice.random_range(0..14) {
            0 => pov.relay_parent_number ^= 1,
            1 => pov.relay_parent_storage_root.0[self.dice.random_range(0..32)] ^= 1,
            2 => self.flip(&mut pov.parent_head),
            3 => drop(pov.proof.remove(item)),
            4 => pov.proof.insert(item, pov.proof[item].clone()),
            5 => pov.proof.swap(item, self.dice.random_range(0..items)),
            6 => pov.proof.push(self.foreign_item(foreign)),
            7 => pov.proof[item] = self.foreign_item(foreign),
            8 => {
                let mut bytes = pov.proof[item].to_vec();
                self.flip(&mut bytes);
                pov.proof[item] = bytes.into();
            }
            9 => {
                // Bytes after a node.
                let tail = self.bytes(1, 4);
                pov.proof[item] = [&pov.proof[item][..], &tail].concat().into();
            }
            10 => self.reorder(&mut pov),
            11 => pov.parent_head.clone_from(&foreign.parent_head),
            _ => return self.damaged_bytes(&pov),
        }
        pov.arguments()
    }

    /// The arguments with damage to the encoded blocks and proof.
    fn damaged_bytes(&mut self, pov: &Pov) -> Vec<u8> {
        let mut data = pov.block_data();
        match self.dice.random_range(0..4) {
            0 => data.truncate(self.dice.random_range(0..data.len())),
            1 => data.extend(self.bytes(1, 8)),
            _ => self.flip(&mut data),
        }
        pov.arguments_with(&data)
    }

    fn reorder(&mut self, pov: &mut Pov) {
        let block = self.dice.random_range(0..pov.blocks.len());
        let body = &mut pov.blocks[block].1;
        let extrinsic = self.dice.random_range(0..body.len());
        match self.dice.random_range(0..4) {
            0 => drop(body.remove(extrinsic)),
            1 => body.push(body[extrinsic].clone()),
            2 => body.reverse(),
            _ => drop(pov.blocks.remove(block)),
        }
    }

    fn flip(&mut self, bytes: &mut [u8]) {
        if let Some(last) = bytes.len().checked_sub(1) {
            bytes[self.dice.random_range(0..=last)] ^= 1 << self.dice.random_range(0..8);
        }
    }

    fn foreign_item(&mut self, foreign: &Pov) -> povmeter::Bytes {
        foreign
            .proof
            .choose(&mut self.dice)
            .cloned()
            .unwrap_or_default()
    }

    fn bytes(&mut self, least: usize, most: usize) -> Vec<u8> {
        let length = self.dice.random_range(least..=most);
        (0..length).map(|_| self.dice.random()).collect()
    }

    /// Replaces some transfers by remarks with an event, and some by burns.
    fn with_calls(&mut self, plan: Plan) -> Plan {
        let calls: Vec<RuntimeCall> = plan
            .extrinsics()
            .iter()
            .map(|extrinsic| match self.dice.random_range(0..4) {
                0 => SystemCall::remark_with_event {
                    remark: self.bytes(0, 200),
                }
                .into(),
                1 => BalancesCall::burn {
                    value: 1_000,
                    keep_alive: true,
                }
                .into(),
                _ => extrinsic.function.clone(),
            })
            .collect();
        plan.with_calls(calls)
    }

    /// Child tries of the parent state.
    fn children(&mut self) -> BTreeMap<Vec<u8>, Entries> {
        let mut children = BTreeMap::new();
        for name in 0..self.dice.random_range(0..3_u8) {
            let entries = (0..self.dice.random_range(1..12)).map(|_| (self.key(), self.value()));
            let entries: Entries = entries.collect();
            children.insert(vec![name], entries);
        }
        children
    }

    fn acts(&mut self, upgrades: bool) -> Vec<Act> {
        (0..self.dice.random_range(0..5))
            .map(|_| match self.dice.random_range(0..8) {
                0 | 1 => Act::SendUp(self.bytes(0, MESSAGE)),
                2 | 3 => Act::SendTo(self.dice.random_range(2_000..2_005), self.bytes(0, MESSAGE)),
                4 if upgrades => Act::Upgrade(self.bytes(1, 2_000)),
                5 => Act::Head(self.bytes(0, 50)),
                6 if self.asks_rooted => Act::RootedSize(self.key()),
                _ => Act::Size(self.key()),
            })
            .collect()
    }

    /// Storage calls, with transactions that are all closed.
    fn steps(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut open = 0;
        for _ in 0..self.dice.random_range(0..25) {
            let trie = (self.dice.random_bool(0.6)).then(|| vec![self.dice.random_range(0..4)]);
            let step = match self.dice.random_range(0..16) {
                0 => {
                    open += 1;
                    Step::Start
                }
                1 if open > 0 => {
                    open -= 1;
                    Step::Commit
                }
                2 if open > 0 => {
                    open -= 1;
                    Step::Rollback
                }
                3 | 4 => Step::Set(trie, self.key(), self.value()),
                5 | 6 => Step::Remove(trie, self.key()),
                7 => Step::Append(self.key(), vec![7; 3]),
                8 => Step::Exists(trie, self.key()),
                9 => Step::Next(trie, self.key()),
                10 => {
                    let limit = self
                        .dice
                        .random_bool(0.5)
                        .then(|| self.dice.random_range(0..4));
                    let first = self.dice.random_range(0..4);
                    let prefix = match (first, limit) {
                        // Nothing is cleared where the roots of child tries may lie.
                        (0, Some(0)) => b":child_storage:other".to_vec(),
                        (1, Some(0)) => b":child_sto".to_vec(),
                        // A whole child trie.
                        _ if trie.is_some() && self.dice.random_bool(0.2) => Vec::new(),
                        // At least one byte, so that the accounts of the top trie stay.
                        _ => vec![first],
                    };
                    Step::Clear(trie, prefix, limit, None)
                }
                11 => Step::Size,
                12 => Step::Root,
                13 => Step::ChildRoot(vec![self.dice.random_range(0..4)]),
                _ => Step::Get(trie, self.key()),
            };
            // The stock functions return roots that are out of date if nothing was changed since the last one.
            let change = (step == Step::Root).then(|| Step::Set(None, self.key(), self.value()));
            steps.push(step);
            steps.extend(change);
        }
        steps.extend((0..open).map(|_| Step::Commit));
        steps
    }

    /// Keys that share prefixes, and are prefixes of others.
    fn key(&mut self) -> Vec<u8> {
        let length = self.dice.random_range(1..4);
        (0..length).map(|_| self.dice.random_range(0..4)).collect()
    }

    fn value(&mut self) -> Vec<u8> {
        let length = *[0, 1, 31, 32, 33, 70].choose(&mut self.dice).unwrap_or(&1);
        vec![self.dice.random(); length]
    }
}
