//! What a number of a result measures, and whether a change of it is good or bad.

use schemars::JsonSchema;
use serde::Serialize;

/// What a number measures. Proofs and allocations are exact, but for the compressed size of a newly signed block;
/// times are as noisy as the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Measure {
    Proof,
    Allocations,
    Time,
}

impl Measure {
    pub(crate) const ALL: [Self; 3] = [Self::Proof, Self::Allocations, Self::Time];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Proof => "proof",
            Self::Allocations => "allocations",
            Self::Time => "time",
        }
    }
}

/// How to read a change of a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gauge {
    pub(crate) measure: Measure,
    /// Whether a smaller number is worse.
    pub(crate) more_is_better: bool,
    /// Whether a limit applies to the number.
    pub(crate) judged: bool,
    /// By how many percent the number differs from run to run of one program.
    pub(crate) noise_percent: f64,
}

pub(super) const PROOF: Gauge = Gauge::of(Measure::Proof);
pub(super) const ALLOCATIONS: Gauge = Gauge::of(Measure::Allocations);

/// The compressed size of a block whose signatures are made anew in each run. sr25519 signatures are random, and
/// zstd compresses some better than others: by up to 0.09 % of the size in 300 runs of 1 to 1,000 transfers.
pub(super) const COMPRESSED: Gauge = Gauge {
    noise_percent: 0.2,
    ..PROOF
};

/// A time. Measured once, it differs by so much on quiet and busy machines.
pub(super) const TIME: Gauge = Gauge {
    noise_percent: 20.0,
    ..Gauge::of(Measure::Time)
};

/// How many times as long the peer takes. If a result has such a ratio, the ratio is judged and times are
/// not, because a slow machine slows both sides.
pub(super) const SPEED: Gauge = Gauge {
    more_is_better: true,
    ..TIME
};

impl Gauge {
    const fn of(measure: Measure) -> Self {
        Self {
            measure,
            more_is_better: false,
            judged: true,
            noise_percent: 0.0,
        }
    }

    /// The same gauge for a number that is shown but not judged.
    pub(super) const fn shown(self) -> Self {
        Self {
            judged: false,
            ..self
        }
    }
}
