//! The report on a block, as a table and as JSON.

use crate::{
    attribution_report::AttributionReport,
    checks::Check,
    counted::counted,
    options::UsedOptions,
    output::{CommandResult, HexHash},
    pov::{size_line, LimitArg, LimitRow, PovRow},
    spread::Spread,
};
use povmeter_dev_runtime::{BlockOutcome, BoundarySize, Phases, Plan, PovSizes, Spent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One block, built and checked.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct BlockReport {
    /// The block that was asked for.
    pub(crate) options: UsedOptions,
    /// Root of the state before the block.
    pub(crate) parent_root: HexHash,
    /// Root of the state after the block.
    pub(crate) root: HexHash,
    /// What became of the signed extrinsics.
    pub(crate) extrinsics: Extrinsics,
    /// Mean processor time in microseconds; the inherent counts as one extrinsic.
    pub(crate) per_extrinsic_us: PerExtrinsic,
    /// Bytes that single extrinsics add to the estimate; null if there is none.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) growth_bytes: Option<Growth>,
    /// Sizes of the proof in bytes.
    pub(crate) proof_bytes: Proof,
    /// The whole PoV in bytes; null in results of earlier versions.
    #[serde(default)]
    pub(crate) pov: Option<PovRow>,
    /// The block beside its limit; null without one.
    #[serde(default)]
    pub(crate) pov_limit: Option<LimitRow>,
    /// Time by phase.
    pub(crate) phases: PhaseTimes,
    /// The block built again in turns with sp-state-machine, which makes no estimates; null in results of
    /// earlier versions.
    #[serde(default)]
    pub(crate) beside_peer: Option<BesidePeer>,
    /// Estimates in bytes: after the inherent, then after each extrinsic.
    pub(crate) estimates: Vec<Estimate>,
    /// Sizes that the runtime was told, in order.
    pub(crate) told: Vec<u64>,
    /// What must hold.
    pub(crate) checks: Vec<Check>,
}

impl CommandResult for BlockReport {
    const COMMAND: &'static str = "block";
    const WHAT: &'static str = "block";
    const SCHEMA: u64 = 1;
}

/// A block built several times, in turns with sp-state-machine.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
pub(crate) struct BesidePeer {
    /// Blocks of each state machine.
    pub(crate) rounds: usize,
    /// How many times as long sp-state-machine takes, in processor time; median of the rounds.
    pub(crate) ratio: f64,
    /// Range of this ratio in the middle half of the rounds; null for fewer than four.
    #[serde(default)]
    pub(crate) ratio_spread: Option<Spread>,
}

/// What became of the signed extrinsics.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Extrinsics {
    /// Included in the block.
    pub(crate) applied: usize,
    /// Included, although the call failed.
    pub(crate) failed: usize,
    /// Left out.
    pub(crate) refused: usize,
}

/// Mean processor time in microseconds, the inherent counted as one extrinsic.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct PerExtrinsic {
    /// Executing an extrinsic.
    pub(crate) execute: f64,
    /// Estimating the size after it.
    pub(crate) estimate: f64,
}

/// What single extrinsics add to the estimate. Below zero where one undoes what earlier ones changed, or is refused.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Growth {
    /// Added by the first extrinsic.
    pub(crate) first: i64,
    /// Added by the last extrinsic.
    pub(crate) last: i64,
    /// The least that one adds.
    pub(crate) min: i64,
    /// The most that one adds.
    pub(crate) max: i64,
}

/// Sizes of a proof in bytes, and what the bytes belong to.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Proof {
    /// The estimate after the last extrinsic.
    pub(crate) estimate_after_last: u64,
    /// The part of this estimate that only the root needs.
    pub(crate) root_adds_after_last: u64,
    /// The proof of the whole block, each node with the prefix of its length.
    pub(crate) recorded: u64,
    /// The proof, encoded.
    pub(crate) encoded: u64,
    /// The compact proof, encoded.
    pub(crate) compact: u64,
    /// Number of nodes.
    pub(crate) nodes: u64,
    /// What the bytes belong to; missing with --no-attribute.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "AttributionReport")]
    pub(crate) attribution: Option<AttributionReport>,
}

/// An estimate in bytes.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Estimate {
    /// Bytes recorded so far.
    pub(crate) recorded: u64,
    /// Bytes that only the root needs.
    pub(crate) root_adds: u64,
    /// The sum of both.
    pub(crate) total: u64,
    /// Bytes of the header and of the extrinsics so far; null in results of earlier versions.
    #[serde(default)]
    pub(crate) block: Option<u64>,
    /// An upper bound of the PoV if the block ended here; null in results of earlier versions.
    #[serde(default)]
    pub(crate) pov_bound: Option<u64>,
}

/// Time in milliseconds.
#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Time {
    /// Processor time of the thread.
    pub(crate) cpu_ms: f64,
    /// Wall time.
    pub(crate) wall_ms: f64,
}

/// Time by phase.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct PhaseTimes {
    /// Initializing the block.
    pub(crate) initialize: Time,
    /// Executing the extrinsics.
    pub(crate) extrinsics: Time,
    /// Estimating the size after each of them.
    pub(crate) estimates: Time,
    /// Finalizing the block, in which the root is computed.
    pub(crate) finalize: Time,
    /// Making the changes and the proof.
    pub(crate) seal: Time,
    /// All phases.
    pub(crate) total: Time,
}

impl From<Spent> for Time {
    fn from(spent: Spent) -> Self {
        Self {
            cpu_ms: spent.cpu.as_secs_f64() * 1e3,
            wall_ms: spent.wall.as_secs_f64() * 1e3,
        }
    }
}

impl From<&Phases> for PhaseTimes {
    fn from(phases: &Phases) -> Self {
        Self {
            initialize: phases.initialize.into(),
            extrinsics: phases.extrinsics.into(),
            estimates: phases.boundaries.into(),
            finalize: phases.finalize.into(),
            seal: phases.finish.into(),
            total: phases.total().into(),
        }
    }
}

impl Estimate {
    /// Returns the estimate `size`, beside `block` bytes of header and extrinsics.
    fn new(size: &BoundarySize, block: u64) -> Self {
        let total = size.total();
        Self {
            recorded: size.recorded,
            root_adds: size.root_adds,
            total,
            block: Some(block),
            pov_bound: Some(PovSizes::bound(block, total)),
        }
    }
}

impl BlockReport {
    pub(crate) fn new(
        options: UsedOptions,
        plan: &Plan,
        (outcome, pov): (&BlockOutcome, PovRow),
        checks: Vec<Check>,
    ) -> Self {
        let last = outcome.boundaries.last();
        let estimates = outcome.boundaries.iter().zip(outcome.block_bytes(plan));
        let estimates = estimates.map(|(size, block)| Estimate::new(size, block));
        let count = plan.extrinsics().len() + 1;
        // Exact, because the count is far below 2^52.
        let mean = |spent: Spent| spent.cpu.as_secs_f64() * 1e6 / count as f64;
        Self {
            options,
            parent_root: plan.parent().state_root.into(),
            root: outcome.built.root.into(),
            extrinsics: Extrinsics {
                applied: outcome.applied,
                failed: outcome.failed.len(),
                refused: outcome.refused.len(),
            },
            per_extrinsic_us: PerExtrinsic {
                execute: mean(outcome.phases.extrinsics),
                estimate: mean(outcome.phases.boundaries),
            },
            growth_bytes: growth(&outcome.boundaries),
            proof_bytes: Proof {
                estimate_after_last: last.map_or(0, BoundarySize::total),
                root_adds_after_last: last.map_or(0, |size| size.root_adds),
                recorded: outcome.sizes.recorded,
                encoded: outcome.sizes.encoded,
                compact: outcome.sizes.compact,
                nodes: outcome.sizes.nodes,
                attribution: None,
            },
            pov: Some(pov),
            pov_limit: None,
            phases: PhaseTimes::from(&outcome.phases),
            beside_peer: None,
            estimates: estimates.collect(),
            told: outcome.built.told.clone().unwrap_or_default(),
            checks,
        }
    }

    /// Compares the block with the limit, if there is one.
    pub(crate) fn with_limit(self, limit: LimitArg) -> Self {
        let recorded = self.proof_bytes.recorded;
        Self {
            pov_limit: self.pov.as_ref().and_then(|pov| limit.judge(pov, recorded)),
            ..self
        }
    }

    /// Adds the comparison of times with sp-state-machine.
    pub(crate) fn with_peer(self, beside_peer: BesidePeer) -> Self {
        Self {
            beside_peer: Some(beside_peer),
            ..self
        }
    }

    /// Adds the attribution of the proof's bytes, if there is one.
    pub(crate) fn with_attribution(mut self, attribution: Option<AttributionReport>) -> Self {
        self.proof_bytes.attribution = attribution;
        self
    }
}

/// Returns what the extrinsics after the inherent add; `None` without extrinsics.
fn growth(boundaries: &[BoundarySize]) -> Option<Growth> {
    let steps = boundaries.windows(2);
    let steps: Vec<i64> = steps
        .map(|pair| pair[1].total().wrapping_sub(pair[0].total()).cast_signed())
        .collect();
    Some(Growth {
        first: *steps.first()?,
        last: *steps.last()?,
        min: *steps.iter().min()?,
        max: *steps.iter().max()?,
    })
}

impl fmt::Display for BlockReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, name: &str, text: fmt::Arguments<'_>| {
            writeln!(f, "{name:<24} {text}")
        };
        let Extrinsics {
            applied,
            failed,
            refused,
        } = self.extrinsics;
        line(f, "block", format_args!("{}", self.options.line()))?;
        line(f, "parent root", format_args!("{}", self.parent_root))?;
        line(f, "final root", format_args!("{}", self.root))?;
        line(
            f,
            "extrinsics",
            format_args!("{applied} applied, {failed} of them failed, {refused} refused"),
        )?;
        let PerExtrinsic { execute, estimate } = self.per_extrinsic_us;
        line(
            f,
            "per extrinsic",
            format_args!("{execute:.1} us to execute, {estimate:.2} us to estimate"),
        )?;
        writeln!(f)?;
        self.sizes(f)?;
        writeln!(f)?;
        self.phases.table(f)?;
        if let Some(beside) = &self.beside_peer {
            let BesidePeer { rounds, ratio, .. } = beside;
            let spread = beside.ratio_spread.map_or_else(String::new, |spread| {
                format!(", {:.2} to {:.2} in half of them", spread.low, spread.high)
            });
            writeln!(
                f,
                "sp-state-machine, without estimates, takes {ratio:.2} times as long (median of {}{spread})",
                counted(*rounds as u64, "round")
            )?;
        }
        if let Some(attribution) = &self.proof_bytes.attribution {
            writeln!(f, "\n{attribution}")?;
        }
        for Check {
            name,
            holds,
            detail,
        } in &self.checks
        {
            let verdict = if *holds { "ok" } else { "FAILED" };
            write!(f, "\n{verdict:<7}{name}: {detail}")?;
        }
        Ok(())
    }
}

impl BlockReport {
    fn sizes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = size_line;
        let proof = &self.proof_bytes;
        size(f, "estimate after last", proof.estimate_after_last, "bytes")?;
        let adds = "bytes that only the root needs";
        size(f, "  of which root", proof.root_adds_after_last, adds)?;
        if let Some(growth) = &self.growth_bytes {
            let adds = [
                ("  first extrinsic adds", growth.first),
                ("  last extrinsic adds", growth.last),
                ("  least", growth.min),
                ("  most", growth.max),
            ];
            for (name, bytes) in adds {
                size_line(f, name, bytes, "bytes")?;
            }
        }
        size(f, "proof recorded", proof.recorded, "bytes")?;
        size(f, "proof encoded", proof.encoded, "bytes")?;
        size(f, "proof compact", proof.compact, "bytes")?;
        size(f, "proof nodes", proof.nodes, "")?;
        let Some(pov) = &self.pov else { return Ok(()) };
        pov.lines(f)?;
        self.pov_limit
            .as_ref()
            .map_or(Ok(()), |limit| limit.lines(f, pov))
    }
}

impl PhaseTimes {
    /// The phases by name, and their total.
    pub(crate) fn named(&self) -> [(&'static str, Time); 6] {
        [
            ("initialize", self.initialize),
            ("extrinsics", self.extrinsics),
            ("estimates", self.estimates),
            ("finalize with root", self.finalize),
            ("seal", self.seal),
            ("total", self.total),
        ]
    }

    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<24} {:>12} {:>12}", "phase", "cpu ms", "wall ms")?;
        for (name, Time { cpu_ms, wall_ms }) in self.named() {
            writeln!(f, "{name:<24} {cpu_ms:>12.3} {wall_ms:>12.3}")?;
        }
        Ok(())
    }
}
