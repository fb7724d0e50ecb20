//! Reads the output of callgrind.
//!
//! ```text
//! fn=(3) name              the next lines belong to this function; its name is written once
//! 12 400                   400 instructions of its own in line 12
//! cfn=(4) callee
//! calls=2 0                it called `callee` twice ...
//! 15 900                   ... which cost 900 instructions, including the calls inside
//! ```

use crate::{names, phase_of, PHASES};
use std::collections::{BTreeMap, HashMap};

/// Instructions of a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Instructions {
    /// By phase, including all calls inside.
    pub(crate) phases: [u64; PHASES.len()],
    /// By function, without its calls; functions of one name are added up.
    pub(crate) functions: BTreeMap<String, u64>,
}

impl Instructions {
    /// The counts in the output of callgrind.
    ///
    /// # Errors
    /// The first line that is not understood.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut counts = Self::default();
        let mut names: HashMap<&str, &str> = HashMap::new();
        let (mut function, mut callee, mut in_call) = ("", "", false);
        for line in text.lines() {
            let odd = || line.to_owned();
            if let Some(name) = line.strip_prefix("fn=") {
                function = resolve(&mut names, name).ok_or_else(odd)?;
            } else if let Some(name) = line.strip_prefix("cfn=") {
                callee = resolve(&mut names, name).ok_or_else(odd)?;
            } else if line.starts_with("calls=") {
                in_call = true;
            } else if line
                .starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first))
            {
                let count = line.split(' ').nth(1).and_then(|count| count.parse().ok());
                let count: u64 = count.ok_or_else(odd)?;
                if !in_call {
                    *counts.functions.entry(function.to_owned()).or_default() += count;
                } else if let Some(phase) = phase_of(callee) {
                    counts.phases[phase] += count;
                }
                in_call = false;
            }
        }
        Ok(counts)
    }

    /// Divides the counts of `blocks` blocks by their number.
    pub(crate) fn divide(&mut self, blocks: u64) {
        for count in self.phases.iter_mut().chain(self.functions.values_mut()) {
            *count /= blocks.max(1);
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.phases.iter().sum()
    }

    /// By crate: the own instructions of its functions.
    pub(crate) fn crates(&self) -> BTreeMap<String, u64> {
        let mut crates = BTreeMap::new();
        for (function, count) in &self.functions {
            *crates.entry(names::crate_of(function)).or_default() += count;
        }
        crates
    }
}

/// The name in `(3) name`, or the name that an earlier line gave to `(3)`.
fn resolve<'t>(names: &mut HashMap<&'t str, &'t str>, text: &'t str) -> Option<&'t str> {
    match text.split_once(' ') {
        Some((id, name)) => {
            names.insert(id, name);
            Some(name)
        }
        None => names.get(text).copied(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUT: &str = "\
# callgrind format
events: Ir

ob=(1) /bin/blocks
fl=(1) ???
fn=(1) blocks::main
12 5
cfn=(2) blocks::phase_extrinsics
calls=2 0
12 100
+1 7
cfn=(2)
calls=1 0
* 11

fn=(3) povmeter_overlay::overlay::Overlay::set
0 60
fi=(2)
-3 40
fe=(1)
fn=(2)
0 11
fn=(4) malloc
0 3
totals: 126
";

    #[test]
    fn phases_with_what_they_call_and_functions_alone() {
        let counts = Instructions::parse(OUT).unwrap();
        assert_eq!(counts.phases, [0, 111, 0, 0, 0]);
        assert_eq!(counts.functions["blocks::main"], 12);
        assert_eq!(
            counts.functions["povmeter_overlay::overlay::Overlay::set"],
            100
        );
        assert_eq!(counts.crates()["povmeter_overlay"], 100);
        assert_eq!(counts.crates()["libc and others"], 3);
    }

    #[test]
    fn what_is_not_understood_is_told() {
        assert_eq!(Instructions::parse("fn=(7)\n"), Err("fn=(7)".to_owned()));
        assert_eq!(Instructions::parse("12 x\n"), Err("12 x".to_owned()));
    }
}
