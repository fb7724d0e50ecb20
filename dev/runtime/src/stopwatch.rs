//! A stopwatch for wall-clock time and processor time.

use cpu_time::ThreadTime;
use std::{
    ops::AddAssign,
    time::{Duration, Instant},
};

/// Time spent: wall-clock time, and processor time of the thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Wall-clock time.
    pub wall: Duration,
    /// Processor time of the calling thread, without its helpers.
    pub cpu: Duration,
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.wall += other.wall;
        self.cpu += other.cpu;
    }
}

impl Spent {
    /// Returns the result of `f` and adds the time it took. Costs about half a microsecond.
    pub fn during<R>(&mut self, f: impl FnOnce() -> R) -> R {
        let (wall, cpu) = (Instant::now(), ThreadTime::now());
        let result = f();
        *self += Self {
            cpu: cpu.elapsed(),
            wall: wall.elapsed(),
        };
        result
    }

    /// As [`Self::during`], without the processor time, for a part of a measured whole. Costs some 50
    /// nanoseconds.
    pub(crate) fn during_on_the_wall<R>(&mut self, f: impl FnOnce() -> R) -> R {
        let wall = Instant::now();
        let result = f();
        self.wall += wall.elapsed();
        result
    }

    /// Returns the processor time of the part that took `wall`, in proportion.
    pub(crate) fn cpu_of(&self, wall: Duration) -> Duration {
        match self.wall.is_zero() {
            true => Duration::ZERO,
            false => self
                .cpu
                .mul_f64(wall.as_secs_f64() / self.wall.as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_takes_time_on_the_wall_only() {
        let asleep = Duration::from_millis(20);
        let sleeps = [(); 50].map(|()| {
            let mut spent = Spent::default();
            spent.during(|| std::thread::sleep(asleep));
            assert!(spent.wall >= asleep, "{spent:?}");
            spent
        });
        // Not each of them, because the time that a hypervisor takes from a running thread counts as processor time.
        let least = sleeps.iter().map(|spent| spent.cpu).min();
        assert!(least < Some(asleep / 2), "{sleeps:?}");
    }
}
