//! Test vectors of the counting rule, for other implementations.
//!
//! A [`Vector`] is a [`Case`] with the sizes that povmeter returns at each boundary.

use super::{case::ParentNodes, traps, Case, Flavour, ParentState, TrieEntries};
use povmeter::{Accounting, Advisory, Block, BlockError, Consensus};
use povmeter_vectors::{AccountingName, Hex, Pairs, Part, Sealed, Step, Vector, VectorFile};
use sp_core::storage::StateVersion;

/// Returns the vectors of the project: the traps of the rule, written by hand, and small random
/// blocks.
///
/// # Errors
/// [`BlockError`], which no case is known to cause.
pub fn generate_vectors() -> Result<VectorFile, BlockError> {
    let mut cases = traps::blocks();
    for flavour in Flavour::ALL {
        // Small enough to be read.
        let random = (0..5_000).map(|seed| (seed, Case::random(seed, flavour)));
        let small = random.filter(|(_, case)| {
            (8..30).contains(&case.ops.len()) && (1..16).contains(&case.parent.top.len())
        });
        cases.extend(
            small
                .take(8)
                .map(|(seed, case)| (format!("{flavour:?} {seed}").to_lowercase(), case)),
        );
    }
    vectors_of(&cases)
}

/// Returns the vectors of `cases`, each with its name, in both accountings.
///
/// # Errors
/// [`BlockError`] if a block fails.
pub fn vectors_of(cases: &[(String, Case)]) -> Result<VectorFile, BlockError> {
    let mut vectors = Vec::new();
    for (name, case) in cases {
        for accounting in [AccountingName::Consensus, AccountingName::Advisory] {
            vectors.push(vector(name, case, accounting)?);
        }
    }
    Ok(VectorFile::new(vectors))
}

fn vector(name: &str, case: &Case, accounting: AccountingName) -> Result<Vector, BlockError> {
    let (operations, sealed) = match accounting {
        AccountingName::Consensus => results::<Consensus>(case)?,
        AccountingName::Advisory => results::<Advisory>(case)?,
    };
    Ok(Vector {
        name: name.to_owned(),
        state: parts(&case.parent),
        parent_root: Hex(ParentNodes::new(&case.parent).root().as_bytes().to_vec()),
        version: u8::from(case.version == StateVersion::V1),
        accounting,
        operations,
        sealed,
    })
}

/// Returns the block of `vector`, to execute it elsewhere.
pub fn case_of(vector: &Vector) -> Case {
    let mut parent = ParentState {
        version: version(vector.state.first().map_or(1, |part| part.version)),
        ..ParentState::default()
    };
    if let Some(first) = vector.state.first() {
        parent.top = entries(&first.top);
        parent.children = first
            .children
            .iter()
            .map(|(key, pairs)| (key.0.clone(), entries(pairs)))
            .collect();
    }
    let rewritten = vector.state.get(1);
    parent.rewritten = rewritten.map_or_else(TrieEntries::new, |part| entries(&part.top));
    let operations = vector.operations.iter();
    Case {
        parent,
        ops: operations.map(|step| step.op.clone()).collect(),
        version: version(vector.version),
    }
}

fn version(version: u8) -> StateVersion {
    match version {
        0 => StateVersion::V0,
        _ => StateVersion::V1,
    }
}

fn entries(pairs: &Pairs) -> TrieEntries {
    pairs
        .iter()
        .map(|(key, value)| (key.0.clone(), value.0.clone()))
        .collect()
}

fn pairs(entries: &TrieEntries) -> Pairs {
    entries
        .iter()
        .map(|(key, value)| (Hex(key.clone()), Hex(value.clone())))
        .collect()
}

fn parts(parent: &ParentState) -> Vec<Part> {
    let children = parent
        .children
        .iter()
        .map(|(key, of)| (Hex(key.clone()), pairs(of)));
    let mut parts = vec![Part {
        version: u8::from(parent.version == StateVersion::V1),
        top: pairs(&parent.top),
        children: children.collect(),
    }];
    if !parent.rewritten.is_empty() {
        let top = pairs(&parent.rewritten);
        parts.push(Part {
            version: 1,
            top,
            children: Vec::new(),
        });
    }
    parts
}

/// Returns the operations of `case` with the sizes at its boundaries and at its end.
fn results<A: Accounting>(case: &Case) -> Result<(Vec<Step>, Sealed), BlockError> {
    let parent = ParentNodes::new(&case.parent);
    let root = parent.root();
    let mut block = Block::with_accounting(parent, root, A::default());
    let version = case.our_version();
    let ops = case.ops.iter();
    let steps = ops.map(|op| Step::make(&mut block, op, version));
    let steps = steps.collect::<Result<_, _>>()?;
    Ok((steps, Sealed::new(&block.seal(version)?)?))
}
