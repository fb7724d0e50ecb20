//! Measurements of overlays: povmeter's beside sp-state-machine's, with the same calls in one run.
//!
//! The peer takes vectors where the host functions have slices, so its calls include the copies, as
//! in the host functions.
//!
//! ```text
//! for each round: the peer and ours, in the next round the other one first
//! a row:          medians over rounds of processor time of the thread, divided by the operations
//! ```

mod meter;
mod rows;
mod sides;
mod transfer;

use meter::Meter;
use povmeter_dev_allocations::Allocated;
use povmeter_dev_data::Trace;
use povmeter_overlay::Overlay;
use rows::Keys;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sides::Peer;
use transfer::Calls;

/// The cost of one operation on both sides.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct OverlayRow {
    /// The operation.
    pub operation: String,
    /// Processor time of sp-state-machine in nanoseconds, median.
    pub peer_ns: f64,
    /// Processor time of povmeter in nanoseconds, median.
    pub ours_ns: f64,
    /// How many times as long sp-state-machine takes.
    pub ratio: f64,
    /// Allocations of sp-state-machine.
    pub peer_allocations: f64,
    /// Allocations of povmeter.
    pub ours_allocations: f64,
}

/// Options of the measurement.
#[derive(Clone, Debug)]
pub struct OverlayOptions {
    /// Number of rounds. Those with 100,000 keys are a quarter as many.
    pub rounds: usize,
    /// Seed of the random keys.
    pub seed: u64,
    /// Measures only operations whose names contain this.
    pub only: String,
}

impl Default for OverlayOptions {
    fn default() -> Self {
        Self {
            rounds: 40,
            seed: 1,
            only: String::new(),
        }
    }
}

/// The cost of the overlay.
#[derive(Clone, Debug)]
pub struct OverlayReport {
    /// A row for each operation.
    pub rows: Vec<OverlayRow>,
    /// Memory of a block of new keys.
    pub memory: OverlayMemory,
}

/// Bytes in use per key that a block changed. Keys and values have 80 bytes each.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct OverlayMemory {
    /// Changed keys.
    pub keys: usize,
    /// Bytes of sp-state-machine.
    pub peer_bytes_per_key: f64,
    /// Bytes of povmeter.
    pub ours_bytes_per_key: f64,
}

/// One round of an operation on one side.
type Work<'a, T> = fn(&T, &mut Meter<'a>);

/// Measures the overlay. `trace` is a recorded block of transfers; without it there is no row for
/// transfers. `allocated` returns the allocations of this thread so far; `progress` gets the name of
/// each row before it is measured.
pub fn measure_overlay(
    options: &OverlayOptions,
    trace: Option<&Trace>,
    allocated: &dyn Fn() -> Allocated,
    mut progress: impl FnMut(&'static str),
) -> OverlayReport {
    let keys = Keys::new(options.seed);
    let mut rows = Vec::new();
    macro_rules! rows {
        ($($name:literal, $work:ident $(<$depth:literal>)?, $rounds:expr;)*) => {$(
            if $name.contains(&options.only) {
                progress($name);
                rows.push(row(
                    $name,
                    $rounds,
                    &keys,
                    rows::$work::<Peer $(, $depth)?>,
                    rows::$work::<Overlay $(, $depth)?>,
                    allocated,
                ));
            }
        )*};
    }
    let (rounds, few) = (options.rounds, options.rounds.div_ceil(4));
    rows! {
        "set new", set_new, rounds;
        "set new in a new overlay", set_new_at_first, rounds;
        "set again in a transaction", set_again, rounds;
        "get hit", get_hit, rounds;
        "get miss", get_miss, rounds;
        "get hit at depth 16", get_at_depth<16>, rounds;
        "get hit at depth 256", get_at_depth<256>, rounds;
        "get hit at depth 1,024", get_at_depth<1024>, rounds;
        "append", append, rounds;
        "start and commit", start_commit, rounds;
        "start and roll back", start_roll_back, rounds;
        "set in a transaction and commit", set_commit, rounds;
        "set in a transaction and roll back", set_roll_back, rounds;
        "next key", next_key, rounds;
        "next key, anywhere", next_key_anywhere, rounds;
        "set new and next key", set_new_next_key, rounds;
        "first next key of a block", first_next_key, rounds;
        "clear prefix, 10 of 100,000", clear_prefix, few;
        "first clear prefix, 10 of 100,000", first_clear_prefix, few;
    }
    if let Some(calls) = trace.map(|trace| Calls::new(&trace.records)) {
        let mut transfers = |name: &'static str, peer, ours| {
            if name.contains(&options.only) {
                progress(name);
                rows.push(row(name, rounds, &calls, peer, ours, allocated));
            }
        };
        transfers(
            "transfer",
            transfer::transfers::<Peer>,
            transfer::transfers::<Overlay>,
        );
        transfers(
            "transfer in a new overlay",
            transfer::transfers_at_first::<Peer>,
            transfer::transfers_at_first::<Overlay>,
        );
    }
    OverlayReport {
        rows,
        memory: OverlayMemory {
            keys: rows::KEYS,
            peer_bytes_per_key: rows::bytes_per_key::<Peer>(&keys, allocated),
            ours_bytes_per_key: rows::bytes_per_key::<Overlay>(&keys, allocated),
        },
    }
}

fn row<'a, T>(
    operation: &'static str,
    rounds: usize,
    input: &T,
    peer: Work<'a, T>,
    ours: Work<'a, T>,
    allocated: &'a dyn Fn() -> Allocated,
) -> OverlayRow {
    let (mut of_peer, mut of_ours) = (Meter::new(allocated), Meter::new(allocated));
    for round in 0..rounds.max(1) {
        if round % 2 == 0 {
            ours(input, &mut of_ours);
        }
        peer(input, &mut of_peer);
        if round % 2 == 1 {
            ours(input, &mut of_ours);
        }
    }
    let (peer_ns, ours_ns) = (of_peer.ns(), of_ours.ns());
    OverlayRow {
        operation: operation.to_owned(),
        peer_ns,
        ours_ns,
        ratio: peer_ns / ours_ns,
        peer_allocations: of_peer.allocations(),
        ours_allocations: of_ours.allocations(),
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_measured() {
        let lines = "tx 1\nhost-start\nget 01 -\nset 01 02\nhost-commit\nphase finalize\n";
        let trace: Trace = lines.parse().unwrap();
        let options = OverlayOptions {
            rounds: 1,
            ..OverlayOptions::default()
        };
        let mut announced = Vec::new();
        let nothing = || Allocated::default();
        let report = measure_overlay(&options, Some(&trace), &nothing, |name| {
            announced.push(name)
        });
        let names: Vec<_> = report.rows.iter().map(|row| &*row.operation).collect();
        assert_eq!(names, announced);
        assert_eq!(names.len(), 21);
        assert!(report
            .rows
            .iter()
            .all(|row| row.peer_ns > 0.0 && row.ours_ns > 0.0));

        let only = OverlayOptions {
            only: "get".to_owned(),
            ..options
        };
        let report = measure_overlay(&only, None, &nothing, |_| {});
        assert_eq!(report.rows.len(), 5);
    }
}
