//! A record of the nodes that blocks ask for and change.

use crate::{
    access::Draw,
    state::{key, value, KEY_BYTES, VERSION},
    Access, CacheError, CacheOptions,
};
use bytes::Bytes;
use foldhash::HashMap;
use povmeter::{Block, BlockError, TrieId};
use povmeter_delta_root::{
    NodeBatch, NodeChange, NodeChanges, NodeHash, NodePrefix, NodeSource, Root, RootUpdate,
    SourceError,
};
use povmeter_store::{MemoryStore, NodeStore};
use rand::{rngs::SmallRng, Rng, SeedableRng};
use std::{cell::RefCell, ops::Range};

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Branch,
    Leaf,
    Value,
}

/// A node at a path.
#[derive(Clone, Debug)]
pub(crate) struct TracedNode {
    /// Number of its path.
    pub(crate) path: u32,
    pub(crate) hash: NodeHash,
    pub(crate) length: u32,
    pub(crate) kind: Kind,
}

/// Number of a node in a trace.
pub(crate) type NodeNumber = u32;

/// What one block asked for, and what its update did.
#[derive(Clone, Debug, Default)]
pub(crate) struct TracedBlock {
    pub(crate) reads: Vec<NodeNumber>,
    pub(crate) inserted: Vec<NodeNumber>,
    pub(crate) removed: Vec<NodeNumber>,
}

/// The record.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) nodes: Vec<TracedNode>,
    pub(crate) blocks: Vec<TracedBlock>,
    paths: Vec<(Range<usize>, Option<u8>)>,
    path_bytes: Vec<u8>,
}

/// The numbers of nodes and paths while a trace is recorded.
#[derive(Default)]
struct Recorder {
    trace: Trace,
    paths: HashMap<(Box<[u8]>, Option<u8>), u32>,
    nodes: HashMap<(u32, NodeHash), NodeNumber>,
    block: TracedBlock,
}

impl Recorder {
    fn path(&mut self, (bytes, odd): NodePrefix<'_>) -> u32 {
        let Self { trace, paths, .. } = self;
        *paths.entry((bytes.into(), odd)).or_insert_with(|| {
            let start = trace.path_bytes.len();
            trace.path_bytes.extend_from_slice(bytes);
            trace.paths.push((start..trace.path_bytes.len(), odd));
            number(trace.paths.len() - 1)
        })
    }

    fn node(&mut self, hash: NodeHash, prefix: NodePrefix<'_>, encoded: &[u8]) -> NodeNumber {
        let path = self.path(prefix);
        let nodes = &mut self.trace.nodes;
        *self.nodes.entry((path, hash)).or_insert_with(|| {
            nodes.push(TracedNode {
                path,
                hash,
                length: number(encoded.len()),
                kind: kind(prefix, encoded),
            });
            number(nodes.len() - 1)
        })
    }
}

/// Traces have fewer nodes than a number of 32 bits can count.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn kind(prefix: NodePrefix<'_>, encoded: &[u8]) -> Kind {
    if prefix.0.len() == KEY_BYTES && prefix.1.is_none() {
        return Kind::Value;
    }
    match encoded.first().map_or(0, |byte| byte >> 5) {
        // With a value, or with the hash of one.
        0b001..=0b011 => Kind::Leaf,
        _ => Kind::Branch,
    }
}

/// A store that notes the nodes that it returns.
struct Noting<'a>(&'a MemoryStore, &'a RefCell<Recorder>);

impl Noting<'_> {
    fn note(&self, hash: &NodeHash, prefix: NodePrefix<'_>, encoded: &[u8]) {
        let mut recorder = self.1.borrow_mut();
        let node = recorder.node(*hash, prefix, encoded);
        recorder.block.reads.push(node);
    }
}

impl NodeSource for Noting<'_> {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        let node = self.0.node(hash, prefix)?;
        if let Some(encoded) = &node {
            self.note(hash, prefix, encoded);
        }
        Ok(node)
    }

    fn nodes(&self, batch: &mut NodeBatch<'_>) {
        let asked = batch.open();
        self.0.nodes(batch);
        for index in asked {
            if let Ok(Some(encoded)) = batch.get(index) {
                let request = batch.request(index);
                self.note(&request.hash, request.prefix, encoded);
            }
        }
    }
}

impl Trace {
    /// Executes blocks on `store`: each touches some accounts, and writes `write_percent` of them.
    pub(crate) fn record(
        mut store: MemoryStore,
        access: Access,
        write_percent: u8,
        options: &CacheOptions,
    ) -> Result<Self, CacheError> {
        let mut dice = SmallRng::seed_from_u64(options.seed);
        let mut draw = Draw::new(access, options.accounts, &mut dice);
        let recorder = RefCell::new(Recorder::default());
        for number in 1..=options.blocks {
            let mut block = Block::new(Noting(&store, &recorder), store.root());
            for _ in 0..options.touched {
                let account = draw.account(&mut dice);
                let key = key(account);
                block.get(TrieId::Top, &key)?;
                if dice.random_range(0..100) < write_percent {
                    block.set(TrieId::Top, &key, &value(account, number))?;
                }
            }
            block.proof_size()?;
            let sealed = block.seal(VERSION).map_err(BlockError::from)?;
            let mut noted = recorder.borrow_mut();
            noted.note_update(&store, sealed.update())?;
            drop(noted);
            store.commit(sealed.update())?;
            draw.end_block(&mut dice);
        }
        Ok(recorder.into_inner().trace)
    }

    /// Position of a path.
    pub(crate) fn prefix(&self, path: u32) -> NodePrefix<'_> {
        let (range, odd) = &self.paths[path as usize];
        (&self.path_bytes[range.clone()], *odd)
    }

    pub(crate) fn node(&self, number: NodeNumber) -> &TracedNode {
        &self.nodes[number as usize]
    }

    /// The bytes that stand for a node: as many as the node has, with its number first.
    pub(crate) fn content<'m>(&self, number: NodeNumber, memory: &'m mut Vec<u8>) -> &'m [u8] {
        memory.clear();
        memory.extend_from_slice(&number.to_le_bytes());
        memory.resize(self.node(number).length as usize, 0);
        memory
    }

    /// Whether `found` are the bytes that stand for the node.
    pub(crate) fn is_content(&self, number: NodeNumber, found: &[u8]) -> bool {
        let length = self.node(number).length as usize;
        found.len() == length && found.starts_with(&number.to_le_bytes()[..length.min(4)])
    }

    /// The update of a block, with bytes that stand for the nodes.
    pub(crate) fn update(&self, block: &TracedBlock) -> RootUpdate {
        let mut memory = Vec::new();
        let contents: Vec<Vec<u8>> = (block.inserted.iter())
            .map(|&number| self.content(number, &mut memory).to_vec())
            .collect();
        let change = |number: NodeNumber, references, encoded| {
            let node = self.node(number);
            let (path, odd_nibble) = self.prefix(node.path);
            NodeChange {
                path,
                odd_nibble,
                hash: node.hash,
                references,
                encoded,
            }
        };
        let removed = block
            .removed
            .iter()
            .map(|&number| change(number, -1, &[][..]));
        let inserted = block.inserted.iter().zip(&contents);
        let inserted = inserted.map(|(&number, content)| change(number, 1, content));
        let nodes: NodeChanges = removed.chain(inserted).collect();
        RootUpdate {
            parent: Root::EMPTY,
            root: Root::EMPTY,
            children: Vec::new(),
            nodes,
        }
    }
}

impl Recorder {
    fn note_update(&mut self, store: &MemoryStore, update: &RootUpdate) -> Result<(), CacheError> {
        for node in update.removed() {
            let encoded = store.node(&node.hash, node.prefix())?.unwrap_or_default();
            let number = self.node(node.hash, node.prefix(), &encoded);
            self.block.removed.push(number);
        }
        for node in update.inserted() {
            let number = self.node(node.hash, node.prefix(), node.encoded);
            self.block.inserted.push(number);
        }
        self.trace.blocks.push(std::mem::take(&mut self.block));
        Ok(())
    }
}
