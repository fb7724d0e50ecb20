//! The strategies to estimate the size of the proof after every extrinsic.

use crate::{estimator::Estimator, rungs::Rung};
use povmeter_dev_runtime::{Peer, SplitRecorder};
use std::{
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

/// A strategy to estimate the size of the proof after every extrinsic, on the peer's overlay and
/// tries.
///
/// Each but the last two does less than the one before it. None changes the block: the root, the
/// proof and the sizes that the runtime gets are the same under every strategy.
#[derive(Clone, Copy)]
pub struct Strategy(pub(crate) &'static Rung);

impl Strategy {
    /// Name of the strategy, as [`FromStr`] reads it.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Whether the strategy claims never to underestimate.
    pub fn claims_complete(self) -> bool {
        self.0.claims_complete
    }

    /// Begins the estimates of a block of `peer` that has `recorder`.
    pub(crate) fn start(self, peer: &Peer, recorder: &SplitRecorder) -> Box<dyn Estimator> {
        (self.0.start)(peer, recorder)
    }
}

// Equality compares names, because no two strategies have the same name.
impl PartialEq for Strategy {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Strategy {}

impl Hash for Strategy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Strategy({})", self.name())
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error for a name that no strategy has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected one of {}, found {found:?}", Strategy::ALL.map(Strategy::name).join(", "))]
pub struct UnknownStrategy {
    /// The name.
    pub found: String,
}

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(name: &str) -> Result<Self, UnknownStrategy> {
        let named = Self::ALL
            .into_iter()
            .find(|strategy| strategy.name() == name);
        named.ok_or_else(|| UnknownStrategy {
            found: name.to_owned(),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_have_the_same_name() {
        let names: HashSet<_> = Strategy::ALL.map(Strategy::name).into();
        assert_eq!(names.len(), Strategy::ALL.len());
    }

    #[test]
    fn names_are_read_back() {
        for strategy in Strategy::ALL {
            assert_eq!(strategy.to_string().parse(), Ok(strategy));
        }
        let error = "fast".parse::<Strategy>().unwrap_err();
        assert!(
            error.to_string().contains("root-each-tx, incremental"),
            "{error}"
        );
    }
}
