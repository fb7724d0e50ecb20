//! What a validation costs: the stock function beside povmeter's, in turns.

use crate::{
    random::RandomError, Act, Candidate, Collator, CollatorError, Draft, RelayState, Step,
    ValidationReport, ValidationRow, Validator, ValidatorError,
};
use povmeter_dev_runtime::{
    runtime::SystemCall, wasm::parachain, CallKind, Entries, Plan, PlanOptions,
};
use povmeter_substrate::SizeSource;
use rand::{rngs::SmallRng, seq::SliceRandom, SeedableRng};
use std::collections::BTreeMap;

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum MeasureError {
    #[error("the blocks were not made")]
    Blocks(#[from] RandomError),
    #[error("a blob can't be run")]
    Validator(#[from] ValidatorError),
    #[error("case {case}: expected a valid PoV, found it refused: {reason}")]
    Refused { case: String, reason: String },
}

impl From<CollatorError> for MeasureError {
    fn from(error: CollatorError) -> Self {
        Self::Blocks(error.into())
    }
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct MeasureOptions {
    /// Measured rounds after one warm-up.
    pub rounds: u32,
    /// Accounts of the parent states of plain transfers.
    pub accounts: Vec<u32>,
    /// Accounts of the parent states of the other cases.
    pub usual_accounts: u32,
    /// Transfers of a block.
    pub transfers: u32,
}

/// One case: a parent state, and the blocks on it.
struct Case {
    name: &'static str,
    accounts: u32,
    plan: Plan,
    children: BTreeMap<Vec<u8>, Entries>,
    drafts: Vec<Draft>,
}

/// Measures validation by `options`; calls `step` after each case, of which there are
/// [`MeasureOptions::cases`].
///
/// # Errors
/// [`MeasureError`].
pub fn measure(
    options: &MeasureOptions,
    mut step: impl FnMut(),
) -> Result<ValidationReport, MeasureError> {
    let sides = Sides {
        stock: Validator::new(parachain::STOCK)?,
        reads: Validator::new(parachain::READS)?,
        estimate: Validator::new(parachain::ESTIMATE)?,
    };
    let mut report = ValidationReport {
        rounds: options.rounds,
        stock_blob_bytes: parachain::STOCK.len(),
        ours_blob_bytes: parachain::READS.len(),
        rows: Vec::new(),
        same_results: true,
        roles: true,
    };
    for index in 0..options.cases() {
        let case = options.case(index)?;
        sides.add(&case, options.rounds, &mut report)?;
        step();
    }
    Ok(report)
}

impl MeasureOptions {
    /// How many cases there are.
    pub fn cases(&self) -> usize {
        self.accounts.len() + 4
    }

    fn case(&self, index: usize) -> Result<Case, MeasureError> {
        let usual = self.usual_accounts;
        match self.accounts.get(index) {
            Some(accounts) => self.transfers("transfer", *accounts, CallKind::TransferKeepAlive, 1),
            None => match index - self.accounts.len() {
                0 => self.transfers("transfer_all", usual, CallKind::TransferAll, 1),
                1 => self.remarks(usual),
                2 => self.contract(usual),
                _ => self.transfers("6 blocks", usual, CallKind::TransferKeepAlive, 6),
            },
        }
    }

    fn plan(&self, accounts: u32, call: CallKind) -> Result<Plan, MeasureError> {
        let plan = Plan::new(PlanOptions {
            accounts,
            transfers: self.transfers,
            call,
            ..PlanOptions::default()
        });
        Ok(plan.map_err(RandomError::from)?)
    }

    fn transfers(
        &self,
        name: &'static str,
        accounts: u32,
        call: CallKind,
        blocks: usize,
    ) -> Result<Case, MeasureError> {
        let plan = self.plan(accounts, call)?;
        let per_block = plan.extrinsics().len().div_ceil(blocks).max(1);
        let drafts = plan.extrinsics().chunks(per_block).map(|extrinsics| Draft {
            extrinsics: extrinsics.to_vec(),
            ..Draft::default()
        });
        Ok(Case {
            name,
            accounts,
            drafts: drafts.collect(),
            plan,
            children: BTreeMap::new(),
        })
    }

    /// 16 remarks of 64 KiB.
    fn remarks(&self, accounts: u32) -> Result<Case, MeasureError> {
        let remarks = (0..16_u8).map(|number| {
            let remark = vec![number; 1 << 16];
            SystemCall::remark { remark }.into()
        });
        let plan = self
            .plan(accounts, CallKind::TransferKeepAlive)?
            .with_calls(remarks);
        let draft = Draft {
            extrinsics: plan.extrinsics().iter().take(16).cloned().collect(),
            ..Draft::default()
        };
        Ok(Case {
            name: "remarks of 1 MB",
            accounts,
            drafts: vec![draft],
            plan,
            children: BTreeMap::new(),
        })
    }

    /// Calls on 20 child tries with 500 entries each, as contracts make them.
    fn contract(&self, accounts: u32) -> Result<Case, MeasureError> {
        let key = |trie: u8, entry: u16| {
            sp_io::hashing::blake2_256(&[&[trie], &entry.to_le_bytes()[..]].concat()).to_vec()
        };
        let children = (0..20_u8).map(|trie| {
            let entries: Entries = (0..500)
                .map(|entry| (key(trie, entry), vec![trie; 40]))
                .collect();
            (vec![trie; 32], entries)
        });
        let calls = (0..60_u16).flat_map(|call| (0..20_u8).map(move |trie| (call, trie)));
        let steps = calls.flat_map(|(call, trie)| {
            let child = || Some(vec![trie; 32]);
            [
                Step::Get(child(), key(trie, call * 3)),
                Step::Set(child(), key(trie, call * 3 + 1), vec![1; 40]),
                Step::Set(child(), key(trie, 1_000 + call), vec![2; 40]),
                Step::Remove(child(), key(trie, call * 3 + 2)),
            ]
        });
        let draft = Draft {
            steps: steps.collect(),
            acts: vec![Act::Size(b"size".to_vec())],
            ..Draft::default()
        };
        Ok(Case {
            name: "child tries",
            accounts,
            plan: self.plan(accounts, CallKind::TransferKeepAlive)?,
            children: children.collect(),
            drafts: vec![draft],
        })
    }
}

impl Case {
    /// The PoV of the case, authored with these sizes.
    fn candidate(&self, sizes: &SizeSource) -> Result<Candidate, CollatorError> {
        let mut collator = Collator::new(self.plan.genesis(), &self.children, parachain::STOCK)?;
        collator.author(&self.drafts, &RelayState::default(), sizes)
    }
}

/// The blobs.
struct Sides {
    stock: Validator,
    reads: Validator,
    estimate: Validator,
}

impl Sides {
    fn add(
        &self,
        case: &Case,
        rounds: u32,
        report: &mut ValidationReport,
    ) -> Result<(), MeasureError> {
        let candidate = case.candidate(&SizeSource::Reads)?;
        let with_root = case.candidate(&SizeSource::Estimate)?;
        let pov_bytes = candidate.pov.block_data().len();
        let (arguments, rooted) = (candidate.pov.arguments(), with_root.pov.arguments());
        let blobs = [
            (&self.stock, &arguments),
            (&self.reads, &arguments),
            (&self.estimate, &rooted),
        ];
        let (mut times, mut pages) = ([const { Vec::new() }; 3], [0; 3]);
        let (mut order, mut rng) = ([0, 1, 2], SmallRng::seed_from_u64(0));
        for round in 0..=rounds {
            let mut results = [const { Vec::new() }; 3];
            // A validation finds the processor's caches as the one before it left them.
            order.shuffle(&mut rng);
            for side in order {
                let (validator, arguments) = blobs[side];
                let validation = validator.validate(arguments)?;
                (pages[side], results[side]) =
                    (validation.pages, accepted(case, validation.result)?);
                // The first round warms up.
                if round > 0 {
                    times[side].push(validation.time.as_secs_f64() * 1_000.0);
                }
            }
            report.same_results &= results[0] == results[1];
        }
        // Other sizes do not always lead to another block.
        let heads = [&candidate, &with_root].map(|candidate| candidate.pov.blocks.last());
        if heads[0].map(|block| &block.0) != heads[1].map(|block| &block.0) {
            report.roles &= self.stock.validate(&rooted)?.result.is_err();
        }
        let [stock_pages, ours_pages, _] = pages;
        let [(stock_ms, stock_range_ms), (ours_ms, ours_range_ms), (with_root_ms, _)] =
            times.map(median);
        report.rows.push(ValidationRow {
            case: case.name.to_owned(),
            accounts: case.accounts,
            blocks: candidate.pov.blocks.len(),
            pov_bytes,
            stock_ms,
            stock_range_ms,
            ours_ms,
            ours_range_ms,
            ratio: ours_ms / stock_ms,
            with_root_ms,
            stock_pages,
            ours_pages,
        });
        Ok(())
    }
}

fn accepted(case: &Case, result: Result<Vec<u8>, String>) -> Result<Vec<u8>, MeasureError> {
    result.map_err(|reason| MeasureError::Refused {
        case: case.name.to_owned(),
        reason,
    })
}

/// The median, the least and the most of `times`.
fn median(mut times: Vec<f64>) -> (f64, [f64; 2]) {
    times.sort_by(f64::total_cmp);
    let last = times.len().saturating_sub(1);
    let at = |index: usize| times.get(index).copied().unwrap_or(f64::NAN);
    (
        (at(last / 2) + at(last.div_ceil(2))) / 2.0,
        [at(0), at(last)],
    )
}
