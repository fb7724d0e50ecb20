//! A block to run: the state before it, and the calls.

use super::{generator::Generator, ByteDice, Op, TrieName};
use povmeter::{child_root_key, NodeHash, NodePrefix, NodeSource, SourceError};
use povmeter_dev_runtime::{runtime::Hashing, MemoryNodes, Parent};
use povmeter_vectors::Hex;
use rand::{rngs::SmallRng, Rng, SeedableRng};
use sp_core::{
    hexdisplay::HexDisplay,
    storage::{ChildInfo, StateVersion, Storage, StorageChild},
    H256,
};
use sp_state_machine::{Backend, InMemoryBackend};
use sp_trie::PrefixedMemoryDB;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

/// Entries of a trie.
pub type TrieEntries = BTreeMap<Vec<u8>, Vec<u8>>;

/// The kind of block of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flavour {
    /// Short keys of few nibbles, so that many are prefixes of others.
    Adversarial,
    /// Hashed keys as in runtimes, mostly overwritten.
    Mixed,
    /// Keys of few nibbles, most operations delete.
    DeleteHeavy,
}

impl Flavour {
    /// All flavours.
    pub const ALL: [Self; 3] = [Self::Adversarial, Self::Mixed, Self::DeleteHeavy];

    /// Returns the name of the flavour in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Adversarial => "adversarial",
            Self::Mixed => "mixed",
            Self::DeleteHeavy => "delete_heavy",
        }
    }
}

/// The state before a block.
#[derive(Clone, Debug)]
pub struct ParentState {
    /// Entries of the top trie.
    pub top: TrieEntries,
    /// Entries of child tries by storage key; none is empty.
    pub children: BTreeMap<Vec<u8>, TrieEntries>,
    /// Entries of the top trie that were written after the others, in state version 1.
    pub rewritten: TrieEntries,
    /// The state version in which the state was first written.
    pub version: StateVersion,
}

impl Default for ParentState {
    fn default() -> Self {
        Self {
            top: TrieEntries::new(),
            children: BTreeMap::new(),
            rewritten: TrieEntries::new(),
            version: StateVersion::V1,
        }
    }
}

/// A block to run.
#[derive(Clone, Debug)]
pub struct Case {
    /// The state before it.
    pub parent: ParentState,
    /// The calls.
    pub ops: Vec<Op>,
    /// The state version in which the block writes.
    pub version: StateVersion,
}

impl Case {
    /// Returns the random case of `seed`.
    pub fn random(seed: u64, flavour: Flavour) -> Self {
        Generator::new(SmallRng::seed_from_u64(seed), flavour).case()
    }

    /// Returns the case that `bytes` describe. Every choice consumes some of the bytes; after their
    /// end it reads zeros.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let (first, rest) = bytes.split_first().unwrap_or((&0, &[]));
        let flavour = Flavour::ALL[usize::from(*first) % Flavour::ALL.len()];
        Generator::thrifty(ByteDice::new(rest), flavour).case()
    }

    /// Returns this case with questions for the roots of its child tries at random places.
    #[must_use]
    pub fn asking_for_child_roots(mut self, seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut children: BTreeSet<Vec<u8>> = self.parent.children.keys().cloned().collect();
        children.extend(self.ops.iter().filter_map(|op| match op {
            Op::Set { trie, .. } | Op::Remove { trie, .. } | Op::Get { trie, .. } => match trie {
                TrieName::Top => None,
                TrieName::Child(child) => Some(child.clone()),
            },
            _ => None,
        }));
        let children: Vec<_> = children.into_iter().map(Hex).collect();
        if children.is_empty() {
            return self;
        }
        let mut ops = Vec::new();
        for op in self.ops {
            ops.push(op);
            while rng.random_bool(0.2) {
                let child = children[rng.random_range(0..children.len())].clone();
                let read = Op::Get {
                    trie: TrieName::Top,
                    key: child_root_key(&child.0),
                };
                ops.push(Op::ChildRoot { child });
                ops.extend(rng.random_bool(0.3).then_some(read));
            }
        }
        self.ops = ops;
        self
    }

    /// Returns this case with a block that writes in `version`. For version 0 the parent state is of
    /// version 0, too, because no chain goes back from version 1.
    #[must_use]
    pub fn in_version(mut self, version: StateVersion) -> Self {
        if version == StateVersion::V0 {
            self.parent.version = version;
            self.parent.rewritten.clear();
        }
        Self { version, ..self }
    }

    /// Returns [`Self::version`] as povmeter's type.
    pub fn our_version(&self) -> povmeter::StateVersion {
        match self.version {
            StateVersion::V0 => povmeter::StateVersion::V0,
            StateVersion::V1 => povmeter::StateVersion::V1,
        }
    }
}

impl fmt::Display for Case {
    /// Writes all parts of the case, one line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parent = &self.parent;
        writeln!(f, "parent {:?}, block {:?}", parent.version, self.version)?;
        let mut entries = |name: &str, entries: &TrieEntries| {
            entries.iter().try_for_each(|(key, value)| {
                let (key, bytes) = (HexDisplay::from(key), value.len());
                let of = value.first().copied().unwrap_or_default();
                if value.iter().any(|byte| *byte != of) {
                    return writeln!(f, "  {name} 0x{key}: 0x{}", HexDisplay::from(value));
                }
                writeln!(f, "  {name} 0x{key}: {bytes} bytes of {of}")
            })
        };
        entries("top", &parent.top)?;
        entries("rewritten", &parent.rewritten)?;
        for (child, of_child) in &parent.children {
            entries(&TrieName::Child(child.clone()).to_string(), of_child)?;
        }
        let mut ops = self.ops.iter().enumerate();
        ops.try_for_each(|(at, op)| writeln!(f, "{at}: {op}"))
    }
}

/// A parent state with its nodes, for both sides.
#[derive(Clone)]
pub struct ParentNodes {
    nodes: Arc<MemoryNodes<sp_trie::PrefixedKey<Hashing>>>,
    root: H256,
}

impl ParentNodes {
    /// Builds the nodes of `state` with the peer.
    pub fn new(state: &ParentState) -> Self {
        let child = |(key, data): (&Vec<u8>, &TrieEntries)| {
            let (data, child_info) = (data.clone(), ChildInfo::new_default(key));
            (key.clone(), StorageChild { data, child_info })
        };
        let storage = Storage {
            top: state.top.clone(),
            children_default: state.children.iter().map(child).collect(),
        };
        let mut backend: InMemoryBackend<Hashing> = (storage, state.version).into();
        if !state.rewritten.is_empty() {
            let delta = state.rewritten.iter();
            let delta = delta.map(|(key, value)| (key.as_slice(), Some(value.as_slice())));
            let (root, update) = backend.storage_root(delta, StateVersion::V1);
            backend.apply_transaction(root, update);
        }
        let root = *backend.root();
        let nodes = Arc::new(MemoryNodes(backend.backend_storage().clone()));
        Self { nodes, root }
    }

    /// Returns the state's root as povmeter's type.
    pub fn root(&self) -> povmeter::Root {
        self.root.0.into()
    }

    /// Returns the parent state as the peer's type.
    pub fn parent(&self) -> Parent {
        Parent {
            root: self.root,
            nodes: self.nodes.clone(),
        }
    }

    /// Returns all nodes and value nodes by hash.
    pub(super) fn by_hash(&self) -> BTreeMap<[u8; 32], Vec<u8>> {
        let nodes = self.nodes.0.clone().drain().into_iter();
        let live = nodes.filter(|(_, (_, references))| *references > 0);
        let by_hash = live.filter_map(|(key, (node, _))| Some((*key.last_chunk()?, node)));
        by_hash.collect()
    }

    /// Returns all nodes, keyed by place and hash.
    pub fn nodes(&self) -> &PrefixedMemoryDB<Hashing> {
        &self.nodes.0
    }
}

/// Finds nodes by place and hash, so that a wrong place is an error.
impl NodeSource for ParentNodes {
    fn node(
        &self,
        hash: &NodeHash,
        prefix: NodePrefix<'_>,
    ) -> Result<Option<bytes::Bytes>, SourceError> {
        let node = hash_db::HashDB::get(&self.nodes.0, &H256(*hash.as_bytes()), prefix);
        Ok(node.map(Into::into))
    }
}
