//! Fills the report on replayed blocks, block by block, and shows it as a table.

use crate::{
    attribution::Attributing,
    attribution_report::AttributionReport,
    counted::counted,
    one_line::one_line,
    pov::{LimitArg, PovRow},
    replay_report::{Checks, ReplayReport, Row, ALL_REPLAYED, SIZES, STATE_MACHINES},
};
use povmeter_attribution::ByteTally;
use povmeter_dev_data::{
    wasm::ReplayAttribution, wasm::ReplayMode, wasm::ReplaySizes, wasm::ReplayedBlock,
};
use std::fmt;

impl ReplayReport {
    pub(crate) fn new(name: String, mode: ReplayMode, sizes: &ReplaySizes) -> Self {
        let [povmeter, peer, both] = STATE_MACHINES;
        let on = match mode {
            ReplayMode::Ours => povmeter,
            ReplayMode::Peer => peer,
            ReplayMode::Lockstep => both,
        };
        let [reads, estimate, record] = SIZES;
        let sizes = match sizes {
            ReplaySizes::Reads => reads,
            ReplaySizes::Estimate => estimate,
            ReplaySizes::Record(_) => record,
        };
        Self {
            name,
            on: on.to_owned(),
            sizes: sizes.to_owned(),
            blocks: Vec::new(),
            checks: Vec::new(),
            error: None,
            tally: ByteTally::default(),
            attribution: None,
        }
    }

    /// The bytes of all proofs, added up.
    pub(crate) fn tally(&self) -> &ByteTally {
        &self.tally
    }

    /// Attributes the bytes of the next block's proof.
    fn attribute(
        &mut self,
        block: &ReplayedBlock,
        attributing: &Attributing,
    ) -> Option<AttributionReport> {
        let ReplayAttribution {
            block: noted,
            names,
        } = block.attribution.as_ref()?;
        // If the runtime does not name its items, the well-known names and the user's table do.
        let of_runtime = names.as_ref().as_ref().map_or(&[][..], Vec::as_slice);
        let names = attributing.names(of_runtime.iter().cloned());
        let tally = ByteTally::of(noted, &names);
        self.tally.add(&tally);
        let sizes = &block.sizes;
        let nodes = block.proof.iter_nodes();
        let nodes = nodes.map(|node| node.len() as u64).sum();
        let report = attributing.report(&tally).with_overhead(sizes, nodes);
        let all = attributing.report(&self.tally);
        self.attribution = Some(match self.attribution.take() {
            None => report.clone(),
            Some(before) => all.by_phase().after(&before).with_overhead(sizes, nodes),
        });
        Some(report)
    }

    /// Adds a flame graph of the bytes, for a page.
    pub(crate) fn draw(&mut self) {
        if let Some(attribution) = &mut self.attribution {
            attribution.draw(&self.tally);
        }
    }

    /// Adds the results of the next block.
    pub(crate) fn add(
        &mut self,
        block: &ReplayedBlock,
        attributing: Option<&Attributing>,
        limit: LimitArg,
    ) {
        let pov = PovRow::from(block.pov);
        let attribution = attributing.and_then(|attributing| self.attribute(block, attributing));
        let calls = &block.calls;
        let counted = |count| (calls.all > 0).then_some(count);
        self.blocks.push(Row {
            number: block.number,
            hash: block.hash.into(),
            state_root: block.state_root.into(),
            extrinsics: block.extrinsics,
            whole_ms: block.times.whole.cpu.as_secs_f64() * 1e3,
            steps_ms: block.times.steps.cpu.as_secs_f64() * 1e3,
            reads: counted(calls.reads),
            writes: counted(calls.writes),
            recorded: block.sizes.recorded,
            encoded: block.sizes.encoded,
            compact: block.sizes.compact,
            nodes: block.sizes.nodes,
            pov: Some(pov),
            pov_limit: limit.judge(&pov, block.sizes.recorded),
            estimate_after_last: block.estimate.map(|estimate| estimate.total()),
            truth_after_last: block.truth,
            sizes_told: block.told.len(),
            attribution,
        });
        self.check("state root as published", true, block.number, "");
        for check in &block.checks {
            let of_kind = self.check(check.name, check.holds, block.number, &check.detail);
            if let Some(by_design) = &check.by_design {
                of_kind.by_design += 1;
                let first = || format!("block {}: {by_design}", block.number);
                of_kind.first_by_design.get_or_insert_with(first);
            }
        }
    }

    fn check(&mut self, name: &str, holds: bool, number: u32, detail: &str) -> &mut Checks {
        let known = self.checks.iter().position(|check| check.name == name);
        let at = known.unwrap_or_else(|| {
            self.checks.push(Checks {
                name: name.to_owned(),
                holds: 0,
                of: 0,
                by_design: 0,
                first_by_design: None,
                first_failure: None,
            });
            self.checks.len() - 1
        });
        let check = &mut self.checks[at];
        check.of += 1;
        check.holds += usize::from(holds);
        if !holds && check.first_failure.is_none() {
            check.first_failure = Some(format!("block {number}: {detail}"));
        }
        check
    }

    /// The names of the checks that failed for a block.
    pub(crate) fn failed(&self) -> Vec<String> {
        let failed = self.checks.iter().filter(|check| check.holds < check.of);
        failed.map(|check| check.name.clone()).collect()
    }
}

impl ReplayReport {
    /// Writes the largest PoV.
    fn pov(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blocks = self.blocks.iter();
        let povs = blocks.filter_map(|row| Some((row.number, row.pov?, row.pov_limit)));
        let Some((number, pov, limit)) = povs.max_by_key(|(_, pov, _)| pov.compressed) else {
            return Ok(());
        };
        match self.blocks.len() {
            1 => writeln!(f)?,
            _ => writeln!(f, "\nthe largest PoV is that of block {number}:")?,
        }
        pov.lines(f)?;
        let Some(limit) = limit else { return Ok(()) };
        limit.lines(f, &pov)?;
        let limits = self.blocks.iter().filter_map(|row| row.pov_limit);
        let over = limits.filter(|limit| !limit.fits).count();
        match over {
            0 | 1 => Ok(()),
            over => writeln!(
                f,
                "{over} of {} blocks have a PoV above the limit",
                self.blocks.len()
            ),
        }
    }

    /// Writes the table of the blocks; with the PoV if it is limited.
    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_limited = self.blocks.iter().any(|row| row.pov_limit.is_some());
        let pov = |text: &str| match is_limited {
            true => format!(" {text:>11}"),
            false => String::new(),
        };
        writeln!(
            f,
            "{:>9} {:>5} {:>9} {:>9} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9} {:>6}{}  {:<10}",
            "block",
            "txs",
            "whole ms",
            "steps ms",
            "reads",
            "writes",
            "estimate",
            "truth",
            "recorded",
            "compact",
            "nodes",
            pov("PoV"),
            "state root",
        )?;
        let or_none = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |c| c.to_string());
        for row in &self.blocks {
            let is_over = row.pov_limit.is_some_and(|limit| !limit.fits);
            let size = or_none(row.pov.map(|pov| pov.compressed));
            writeln!(
                f,
                "{:>9} {:>5} {:>9.3} {:>9.3} {:>7} {:>7} {:>9} {:>9} {:>9} {:>9} {:>6}{}  {:<10}",
                row.number,
                row.extrinsics,
                row.whole_ms,
                row.steps_ms,
                or_none(row.reads),
                or_none(row.writes),
                or_none(row.estimate_after_last),
                or_none(row.truth_after_last),
                row.recorded,
                row.compact,
                row.nodes,
                pov(&if is_over { format!("> {size}") } else { size }),
                row.state_root.start(),
            )?;
        }
        writeln!(
            f,
            "\nestimate and truth: bytes after the last extrinsic; finalizing the block adds to them"
        )?;
        match is_limited {
            true => writeln!(
                f,
                "PoV: bytes as they are sent to validators; > marks those above the limit"
            ),
            false => Ok(()),
        }
    }
}

impl fmt::Display for ReplayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, on) = (one_line(&self.name), &self.on);
        let blocks = counted(self.blocks.len() as u64, "block");
        writeln!(f, "{name}: {blocks} on {on}")?;
        let questions: usize = self.blocks.iter().map(|row| row.sizes_told).sum();
        if questions > 0 {
            let sizes = &self.sizes;
            writeln!(
                f,
                "{} for the proof size, answered from: {sizes}",
                counted(questions as u64, "question"),
            )?;
        }
        writeln!(f)?;
        self.table(f)?;
        self.pov(f)?;
        if let Some(attribution) = &self.attribution {
            writeln!(f, "\n{attribution}")?;
        }
        for check in &self.checks {
            let Checks {
                name,
                holds,
                of,
                by_design,
                first_by_design,
                first_failure,
            } = check;
            let verdict = if holds == of { "ok" } else { "FAILED" };
            let of = counted(*of as u64, "block");
            write!(f, "\n{verdict:<7}{name}: {holds} of {of}")?;
            if let Some(failure) = first_failure {
                write!(f, "; {}", one_line(failure))?;
            }
            if let Some(first) = first_by_design {
                write!(
                    f,
                    "\n       {by_design} of them differ by design (docs/differences.md), the first: {}",
                    one_line(first)
                )?;
            }
        }
        if self.error.is_some() {
            write!(f, "\nFAILED {ALL_REPLAYED}: only those before the error")?;
        }
        Ok(())
    }
}
