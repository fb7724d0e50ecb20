//! Round numbers for axes.

/// The unit of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Unit {
    pub(super) name: &'static str,
    /// Bytes or microseconds in one unit.
    pub(super) size: f64,
}

impl Unit {
    /// The unit for numbers of bytes up to `most`.
    pub(super) fn of_bytes(most: f64) -> Self {
        let (name, size) = match most {
            _ if most < 10_240.0 => ("bytes", 1.0),
            _ if most < 10_485_760.0 => ("KiB", 1_024.0),
            _ => ("MiB", 1_048_576.0),
        };
        Self { name, size }
    }

    /// The unit for times of up to `most` microseconds.
    pub(super) fn of_microseconds(most: f64) -> Self {
        let (name, size) = match most {
            _ if most < 1.0 => ("ns", 1e-3),
            _ if most < 10_000.0 => ("µs", 1.0),
            _ => ("ms", 1e3),
        };
        Self { name, size }
    }
}

/// A round distance between ticks, for about `wanted` ticks from zero to `most`.
pub(super) fn step(most: f64, wanted: f64) -> f64 {
    if !(most > 0.0 && most.is_finite()) {
        return 1.0;
    }
    let rough = most / wanted;
    let power = 10f64.powf(rough.log10().floor());
    let lead = rough / power;
    let round = [1.0, 2.0, 5.0].into_iter().find(|round| lead <= *round);
    round.unwrap_or(10.0) * power
}

/// Most ticks of an axis, even if `most` is infinite.
const MOST_TICKS: u32 = 20;

/// The round numbers from zero to the first that is not below `most`.
pub(super) fn ticks(most: f64, wanted: f64) -> Vec<f64> {
    let step = step(most, wanted);
    let steps = (1..=MOST_TICKS).map(|number| f64::from(number) * step);
    let below = steps.clone().filter(|tick| *tick < most).count();
    let shown = if most > 0.0 { below + 1 } else { 0 };
    [0.0].into_iter().chain(steps.take(shown)).collect()
}

/// The label of a tick, on an axis whose ticks are `step` apart.
pub(super) fn tick_label(tick: f64, step: f64) -> String {
    let places = (0..6).find(|places| step * 10f64.powi(*places) >= 0.999);
    super::number::decimal(
        tick,
        places.map_or(6, |places| places.unsigned_abs() as usize),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(332.7, 5.0), [0.0, 100.0, 200.0, 300.0, 400.0]);
        assert_eq!(
            ticks(1.0, 5.0),
            [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]
        );
        assert_eq!(ticks(0.0, 5.0), [0.0]);
        assert!(ticks(f64::INFINITY, 5.0).len() < 30);
        assert_eq!(ticks(f64::NAN, 5.0), [0.0]);
        for most in [0.3, 7.0, 11.0, 99.0, 5_300.0, 1e12] {
            let ticks = ticks(most, 5.0);
            assert!((3..=7).contains(&ticks.len()), "{most}: {ticks:?}");
            assert!(ticks[ticks.len() - 1] >= most);
        }
    }

    #[test]
    fn labels_have_the_places_that_tell_ticks_apart() {
        assert_eq!(tick_label(0.6000000000000001, 0.2), "0.6");
        assert_eq!(tick_label(15_000.0, 5_000.0), "15,000");
        assert_eq!(tick_label(0.05, 0.01), "0.05");
    }

    #[test]
    fn units_fit() {
        assert_eq!(Unit::of_bytes(340_645.0).name, "KiB");
        assert_eq!(Unit::of_bytes(900.0).name, "bytes");
        assert_eq!(Unit::of_bytes(2e7).name, "MiB");
        assert_eq!(Unit::of_microseconds(0.4).name, "ns");
        assert_eq!(Unit::of_microseconds(120.0).name, "µs");
    }
}
