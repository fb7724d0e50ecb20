//! What the fuzzers run on their bytes. Each returns, or panics where something is wrong.

use crate::{run_case, Case};
use bytes::Bytes;
use povmeter::{
    Accounting, Advisory, Block, BlockError, CompactProof, Consensus, LoadError, NodeHash,
    NodePrefix, NodeSource, ProofError, Root, SourceError, StateVersion, StorageProof, TrieId,
};
use povmeter_delta_root::Blake2b256;
use std::error::Error;

/// Runs the case that `bytes` stand for on povmeter and on the peer, in both accountings.
///
/// # Panics
/// If the two differ.
pub fn fuzz_block(bytes: &[u8]) {
    let case = Case::from_bytes(bytes);
    agree::<Consensus>(&case);
    agree::<Advisory>(&case);
}

fn agree<A: Accounting>(case: &Case) {
    if let Err(mismatch) = run_case::<A>(case) {
        let mut text = mismatch.to_string();
        let mut below = mismatch.source();
        while let Some(error) = below {
            text = format!("{text}: {error}");
            below = error.source();
        }
        panic!("sizes proven: {}: {text}\n{case}", A::PROVEN);
    }
}

/// Takes `bytes` for a proof, of either form, and executes a block from it.
///
/// # Panics
/// If what was decoded does not encode to as many bytes as it says, or the size told of a
/// compact proof's block contradicts its proof.
pub fn fuzz_proof(bytes: &[u8]) {
    let Some((which, bytes)) = bytes.split_first() else {
        return;
    };
    let which = usize::from(*which);
    if let Ok(proof) = StorageProof::decode(bytes) {
        assert_eq!(proof.encode().len() as u64, proof.encoded_bytes());
        assert_eq!(
            StorageProof::decode(&proof.encode()).ok(),
            Some(proof.clone())
        );
        if let Some(node) = proof.nodes().get(which % proof.nodes().len().max(1)) {
            let root = Root::from(*Blake2b256::hash(node).as_bytes());
            // Whether these nodes can be packed is up to the input.
            let _ = proof.to_compact(root);
            // Any node may be the root here, so the tries may be none of a state: sizes go unchecked.
            let nodes = proof.to_source();
            let _ = block_on::<_, Consensus>(&nodes, root);
            let _ = block_on::<_, Advisory>(&nodes, root);
        }
    }
    if let Ok(proof) = CompactProof::decode(bytes) {
        assert_eq!(proof.encode().len() as u64, proof.encoded_bytes());
        assert_eq!(
            CompactProof::decode(&proof.encode()).ok(),
            Some(proof.clone())
        );
        let mut root = Root::EMPTY;
        let mut nodes = proof.to_source(root);
        // No input hits a root by chance; the error says which one it is a proof of.
        if let Err(ProofError::WrongRoot { found, .. }) = nodes {
            root = found;
            nodes = proof.to_source(root);
        }
        if let Ok(nodes) = nodes {
            execute(&nodes, root);
        }
    }
}

/// Serves pieces of `bytes` as nodes, some piece for whatever hash, and executes a block from them.
///
/// # Panics
/// If povmeter does.
pub fn fuzz_node(bytes: &[u8]) {
    let nodes = AnyNodes::new(bytes);
    let root = Root::from([0; 32]);
    block_on::<_, Consensus>(&nodes, root);
    block_on::<_, Advisory>(&nodes, root);
}

/// Has a node for every hash, so that tries may contain themselves.
struct AnyNodes(Vec<Bytes>);

impl AnyNodes {
    /// Each node is preceded by its length, in two bytes.
    fn new(mut bytes: &[u8]) -> Self {
        let mut nodes = Vec::new();
        while let [high, low, rest @ ..] = bytes {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            let (node, rest) = rest.split_at(length.min(rest.len()));
            nodes.push(Bytes::copy_from_slice(node));
            bytes = rest;
        }
        Self(nodes)
    }
}

impl NodeSource for AnyNodes {
    fn node(&self, hash: &NodeHash, _: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        let which = usize::from(hash.as_bytes()[0]) % self.0.len().max(1);
        Ok(self.0.get(which).cloned())
    }
}

/// Executes a block from nodes that hash to what they are called.
fn execute(nodes: &impl NodeSource, root: Root) {
    let sizes = [
        block_on::<_, Consensus>(nodes, root),
        block_on::<_, Advisory>(nodes, root),
    ];
    for size in sizes.into_iter().flatten() {
        assert_eq!(size.told, size.packed, "bytes of the compact proof");
    }
}

/// Bytes of a compact proof.
struct CompactBytes {
    told: u64,
    packed: u64,
}

/// Keys to read and write besides those that a walk finds.
const KEYS: [&[u8]; 5] = [b"", &[0x00], &[0x11, 0x12], &[0xf0; 33], b":code"];
/// Steps of a walk: a trie that contains itself has no end of keys.
const STEPS: usize = 40;

/// Whether a call met a node that is none. Then the tries are those of no state, and a compact proof may
/// leave out what no walk can reach.
#[derive(Default)]
struct Damage(bool);

impl Damage {
    /// The result, with damage noted.
    fn of<T>(&mut self, result: Result<T, BlockError>) -> Result<T, BlockError> {
        self.0 |= matches!(&result, Err(BlockError::Load(LoadError::Corrupt { .. })));
        result
    }
}

/// Does a bit of everything. Errors are right answers here; what follows one is done all the same.
fn block_on<S: NodeSource, A: Accounting>(source: S, root: Root) -> Option<CompactBytes> {
    let mut block = Block::with_accounting(source, root, A::default());
    let mut damage = Damage::default();
    let mut keys: Vec<Vec<u8>> = KEYS.map(<[u8]>::to_vec).to_vec();
    for trie in [TrieId::Top, TrieId::Child(b"c")] {
        let mut at = Vec::new();
        for _ in 0..STEPS {
            match damage.of(block.next_key(trie, &at)) {
                Ok(Some(next)) => at = next,
                _ => break,
            }
            keys.push(at.clone());
        }
        for key in &keys {
            let _ = damage.of(block.get(trie, key).map(|value| value.map(<[u8]>::len)));
            let _ = damage.of(block.value_hash(trie, key));
            let _ = damage.of(block.exists(trie, key));
        }
        let _ = change(&mut block, trie, &keys, &mut damage);
    }
    let told = block.compact_proof_bytes();
    let packed = block.recorded_proof().to_compact(root);
    let _ = block.root(StateVersion::V0).map(|update| update.root);
    let _ = block.seal(StateVersion::V1);
    match (told, packed) {
        (Ok(told), Ok(packed)) if !damage.0 => Some(CompactBytes {
            told,
            packed: packed.encoded_bytes(),
        }),
        _ => None,
    }
}

/// Writes and deletes in nested transactions, with a size asked for in each.
fn change<S: NodeSource, A: Accounting>(
    block: &mut Block<S, A>,
    trie: TrieId<'_>,
    keys: &[Vec<u8>],
    damage: &mut Damage,
) -> Result<(), BlockError> {
    for (at, key) in keys.iter().enumerate() {
        block.start_transaction();
        // A root under a child's key is refused; so are nodes that are none.
        let _ = damage.of(match at % 3 {
            0 => block.set(trie, key, &[7; 40]),
            1 => block.append(TrieId::Top, key, &[1]),
            _ => block.remove(trie, key),
        });
        let _ = damage.of(block.proof_size());
        match at % 4 {
            0 => block.rollback_transaction()?,
            _ => block.commit_transaction()?,
        }
    }
    block.start_transaction();
    let _ = damage.of(block.clear_prefix(trie, &[0x11], Some(20), None));
    let _ = damage.of(block.proof_size());
    let _ = block.root(StateVersion::V1).map(|update| update.root);
    block.commit_transaction()
}
