//! The report on a block, as a table and as JSON.

use crate::{
    attribution_report::AttributionReport, checks::Check, options::UsedOptions, output::Heading,
};
use povmeter_dev_runtime::{BlockOutcome, BoundarySize, Phases, Plan, Spent};
use serde::Serialize;
use std::fmt;

/// The report on a block.
#[derive(Serialize)]
pub(crate) struct BlockReport {
    #[serde(flatten)]
    heading: Heading,
    pub(crate) options: UsedOptions,
    pub(crate) parent_root: String,
    pub(crate) root: String,
    pub(crate) extrinsics: Extrinsics,
    per_extrinsic_us: PerExtrinsic,
    growth_bytes: Option<Growth>,
    pub(crate) proof_bytes: Proof,
    pub(crate) phases: PhaseTimes,
    /// After the inherent and after each extrinsic.
    estimates: Vec<Estimate>,
    /// The proof sizes that the runtime was told, in order.
    told: Vec<u64>,
    pub(crate) checks: Vec<Check>,
}

#[derive(Serialize)]
pub(crate) struct Extrinsics {
    pub(crate) applied: usize,
    pub(crate) failed: usize,
    pub(crate) refused: usize,
}

/// Mean processor time in microseconds, the inherent counted as one extrinsic.
#[derive(Serialize)]
struct PerExtrinsic {
    execute: f64,
    estimate: f64,
}

/// What single extrinsics add to the estimate.
#[derive(Serialize)]
struct Growth {
    first: u64,
    last: u64,
    min: u64,
    max: u64,
}

#[derive(Serialize)]
pub(crate) struct Proof {
    pub(crate) estimate_after_last: u64,
    /// The part of the last estimate that only the root computation needs.
    pub(crate) root_adds_after_last: u64,
    pub(crate) recorded: u64,
    pub(crate) encoded: u64,
    pub(crate) compact: u64,
    pub(crate) nodes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attribution: Option<AttributionReport>,
}

#[derive(Serialize)]
struct Estimate {
    recorded: u64,
    root_adds: u64,
    total: u64,
}

/// Milliseconds.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct Time {
    pub(crate) cpu_ms: f64,
    pub(crate) wall_ms: f64,
}

#[derive(Serialize)]
pub(crate) struct PhaseTimes {
    initialize: Time,
    extrinsics: Time,
    estimates: Time,
    finalize: Time,
    seal: Time,
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

impl From<&BoundarySize> for Estimate {
    fn from(size: &BoundarySize) -> Self {
        Self {
            recorded: size.recorded,
            root_adds: size.root_adds,
            total: size.total(),
        }
    }
}

impl BlockReport {
    pub(crate) fn new(
        options: UsedOptions,
        plan: &Plan,
        outcome: &BlockOutcome,
        checks: Vec<Check>,
    ) -> Self {
        let last = outcome.boundaries.last();
        let count = plan.extrinsics().len() + 1;
        // Exact, because the count is far below 2^52.
        let mean = |spent: Spent| spent.cpu.as_secs_f64() * 1e6 / count as f64;
        Self {
            heading: Heading::BLOCK,
            options,
            parent_root: format!("{:?}", plan.parent().state_root),
            root: format!("{:?}", outcome.built.root),
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
            phases: PhaseTimes::from(&outcome.phases),
            estimates: outcome.boundaries.iter().map(Estimate::from).collect(),
            told: outcome.built.told.clone().unwrap_or_default(),
            checks,
        }
    }

    /// Adds the attribution of the proof's bytes, if there is one.
    pub(crate) fn with_attribution(mut self, attribution: Option<AttributionReport>) -> Self {
        self.proof_bytes.attribution = attribution;
        self
    }
}

/// What each extrinsic after the inherent adds; `None` without extrinsics.
fn growth(boundaries: &[BoundarySize]) -> Option<Growth> {
    let steps = boundaries.windows(2);
    let steps: Vec<u64> = steps
        .map(|pair| pair[1].total().saturating_sub(pair[0].total()))
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
        let size = |f: &mut fmt::Formatter<'_>, name: &str, bytes: u64, note: &str| {
            let text = format!("{name:<24} {bytes:>12} {note}");
            writeln!(f, "{}", text.trim_end())
        };
        let proof = &self.proof_bytes;
        size(f, "estimate after last", proof.estimate_after_last, "bytes")?;
        let adds = "bytes that only the root needs";
        size(f, "  of which root", proof.root_adds_after_last, adds)?;
        if let Some(growth) = &self.growth_bytes {
            size(f, "  first extrinsic adds", growth.first, "bytes")?;
            size(f, "  last extrinsic adds", growth.last, "bytes")?;
            size(f, "  least", growth.min, "bytes")?;
            size(f, "  most", growth.max, "bytes")?;
        }
        size(f, "proof recorded", proof.recorded, "bytes")?;
        size(f, "proof encoded", proof.encoded, "bytes")?;
        size(f, "proof compact", proof.compact, "bytes")?;
        size(f, "proof nodes", proof.nodes, "")
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
