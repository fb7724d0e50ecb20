//! Test vectors of the counting rule, for other implementations.
//!
//! A [`Vector`] is a [`Case`] with the sizes that povmeter returns at each boundary.

use super::{
    answer::ask, case::ParentNodes, traps, Case, Flavour, Op, ParentState, TrieEntries, TrieName,
};
use povmeter::{Accounting, Advisory, Block, BlockError, Consensus};
use povmeter_vectors::{
    AccountingName, Hex, KeyValue, Keyed, Operation, Pairs, Part, Sealed, Sizes, Vector, VectorFile,
};
use sp_core::storage::StateVersion;

/// The vectors of the project: the traps of the rule, written by hand, and small random blocks.
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

/// The vectors of `cases`, each with its name, in both accountings.
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

/// The block of `vector`, to execute it elsewhere.
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
    let mut in_runtime = false;
    let operations = vector.operations.iter();
    Case {
        parent,
        ops: operations
            .map(|operation| op(operation, &mut in_runtime))
            .collect(),
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

/// The operations of `case` with the sizes at its boundaries and at its end.
fn results<A: Accounting>(case: &Case) -> Result<(Vec<Operation>, Sealed), BlockError> {
    let parent = ParentNodes::new(&case.parent);
    let root = parent.root();
    let mut block = Block::with_accounting(parent, root, A::default());
    let mut operations = Vec::new();
    for op in &case.ops {
        ask(&mut block, op, case.our_version())?;
        operations.push(match op {
            Op::Boundary => {
                let compact_bytes = block.compact_proof_bytes()?;
                let (size, proof) = (block.recorded_size(), block.recorded_proof());
                Operation::Boundary(Sizes::new(size, compact_bytes, &proof))
            }
            op => operation(op),
        });
    }
    let sealed = block.seal(case.our_version())?;
    let compact_bytes = sealed.proof().to_compact(root)?.encoded_bytes();
    let sizes = Sizes::new(sealed.size(), compact_bytes, sealed.proof());
    let root = Hex(sealed.update().root.as_bytes().to_vec());
    Ok((operations, Sealed { sizes, root }))
}

/// The operation for `op`. A boundary is made in `results`, with its sizes.
fn operation(op: &Op) -> Operation {
    let child = |trie: &TrieName| match trie {
        TrieName::Top => None,
        TrieName::Child(key) => Some(Hex(key.clone())),
    };
    let keyed = |trie: &TrieName, key: &[u8]| Keyed {
        child: child(trie),
        key: Hex(key.to_vec()),
    };
    match op {
        Op::HostStart | Op::Start => Operation::Start,
        Op::HostCommit | Op::Commit => Operation::Commit,
        Op::HostRollback | Op::Rollback => Operation::Rollback,
        Op::Enter => Operation::Enter,
        Op::Exit => Operation::Exit,
        Op::Root | Op::Boundary => Operation::Root,
        Op::Get { trie, key } => Operation::Get(keyed(trie, key)),
        Op::Exists { trie, key } => Operation::Exists(keyed(trie, key)),
        Op::Hash { trie, key } => Operation::Hash(keyed(trie, key)),
        Op::Next { trie, key } => Operation::NextKey(keyed(trie, key)),
        Op::Remove { trie, key } => Operation::Remove(keyed(trie, key)),
        Op::Set { trie, key, value } => Operation::Set(KeyValue {
            child: child(trie),
            key: Hex(key.clone()),
            value: Hex(value.clone()),
        }),
        Op::Append { key, element } => Operation::Append(KeyValue {
            child: None,
            key: Hex(key.clone()),
            value: Hex(element.clone()),
        }),
        Op::Clear {
            trie,
            prefix,
            limit,
            cursor,
        } => Operation::ClearPrefix {
            child: child(trie),
            prefix: Hex(prefix.clone()),
            limit: *limit,
            cursor: cursor.clone().map(Hex),
        },
    }
}

/// The call of `operation`; a transaction is the runtime's if it executes.
fn op(operation: &Operation, in_runtime: &mut bool) -> Op {
    let trie = |child: &Option<Hex>| match child {
        None => TrieName::Top,
        Some(key) => TrieName::Child(key.0.clone()),
    };
    let by = |runtime: Op, host: Op| if *in_runtime { runtime } else { host };
    match operation {
        Operation::Start => by(Op::Start, Op::HostStart),
        Operation::Commit => by(Op::Commit, Op::HostCommit),
        Operation::Rollback => by(Op::Rollback, Op::HostRollback),
        Operation::Enter => {
            *in_runtime = true;
            Op::Enter
        }
        Operation::Exit => {
            *in_runtime = false;
            Op::Exit
        }
        Operation::Root => Op::Root,
        Operation::Boundary { .. } => Op::Boundary,
        Operation::Get(at) => Op::Get {
            trie: trie(&at.child),
            key: at.key.0.clone(),
        },
        Operation::Exists(at) => Op::Exists {
            trie: trie(&at.child),
            key: at.key.0.clone(),
        },
        Operation::Hash(at) => Op::Hash {
            trie: trie(&at.child),
            key: at.key.0.clone(),
        },
        Operation::NextKey(at) => Op::Next {
            trie: trie(&at.child),
            key: at.key.0.clone(),
        },
        Operation::Remove(at) => Op::Remove {
            trie: trie(&at.child),
            key: at.key.0.clone(),
        },
        Operation::Set(set) => Op::Set {
            trie: trie(&set.child),
            key: set.key.0.clone(),
            value: set.value.0.clone(),
        },
        Operation::Append(append) => Op::Append {
            key: append.key.0.clone(),
            element: append.value.0.clone(),
        },
        Operation::ClearPrefix {
            child,
            prefix,
            limit,
            cursor,
        } => Op::Clear {
            trie: trie(child),
            prefix: prefix.0.clone(),
            limit: *limit,
            cursor: cursor.as_ref().map(|cursor| cursor.0.clone()),
        },
    }
}
