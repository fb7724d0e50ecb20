//! A block and everything that it reads, as one file.
//!
//! ```text
//! file    = "povmrec" version gzip(content)
//! content = name, root of the parent state, the parent's header or no bytes, header,
//!           number of extrinsics and each, number of nodes and each
//! ```
//!
//! Each name, root, header, extrinsic and node follows its length; lengths and numbers are SCALE compact
//! integers. An extrinsic or a node has one byte at least. The runtime is among the nodes, because its code is a
//! value of the state.

use crate::{
    header,
    header::{HeaderError, HeaderParts},
    node::RemoteBlock,
};
use bytes::{Buf, Bytes};
use flate2::{bufread::GzDecoder, write::GzEncoder, Compression};
use povmeter_delta_root::{
    push_compact, read_compact, Blake2b256, NodeHash, NodePrefix, NodeSource, Root, SourceError,
};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

const MAGIC: &[u8; 7] = b"povmrec";
const VERSION: u8 = 1;
/// Bytes that an extrinsic or a node counts for besides its own. A node's handle takes 32 in [`Recording::nodes`],
/// and 32 with 32 of its hash in [`RecordedNodes`], whose tree is not full.
const ENTRY: u64 = 128;

/// A block, and the nodes of the parent state that its execution reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Name of the chain or of the file, for people.
    pub name: String,
    /// Root of the state that the block starts from.
    pub parent_root: Root,
    /// The encoded header of the parent block, if it is known. [`Self::from_bytes`] checks it.
    pub parent: Option<Vec<u8>>,
    /// The encoded header, with its seal.
    pub header: Vec<u8>,
    /// Encoded extrinsics in order, each without its length prefix.
    pub body: Vec<Vec<u8>>,
    /// The nodes, each once, in any order.
    pub nodes: Vec<Bytes>,
}

/// Why a file can't be read or written as a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file system failed.
    #[error("expected a file that can be read and written, found: {0}")]
    File(#[source] io::Error),
    /// The file is of another kind.
    #[error("expected a recording of povmeter, which begins with `povmrec`, found other bytes")]
    Foreign,
    /// The file is of another version of povmeter.
    #[error("expected a recording of version {VERSION}, found version {found}")]
    Version {
        /// The version.
        found: u8,
    },
    /// The file is cut off or changed.
    #[error("expected a whole recording, found damage: {0}")]
    Damaged(#[source] io::Error),
    /// The content is larger than [`Recording::LIMIT`].
    #[error("expected at most {limit} bytes unpacked, with {ENTRY} more for each extrinsic and node, found more")]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// A part of the content is malformed.
    #[error("expected {part} in the recording, found other bytes")]
    Part {
        /// The part.
        part: &'static str,
    },
    /// Bytes are left at the end.
    #[error("expected the end of the recording, found {bytes} bytes more")]
    LeftOver {
        /// Number of bytes left.
        bytes: usize,
    },
    /// A header can't be decoded.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The parent's header is that of another block.
    #[error("expected the header of the parent {expected}, found that of {found}")]
    OtherParent {
        /// The hash in the block's header.
        expected: NodeHash,
        /// The hash of the parent's header.
        found: NodeHash,
    },
    /// The state is not that of the parent block.
    #[error("expected the state {expected} of the parent block, found {found}")]
    OtherState {
        /// The root in the parent's header.
        expected: Root,
        /// The root in the recording.
        found: Root,
    },
}

impl Recording {
    /// The most bytes of a recording after decompression. Each extrinsic and each node counts for 128 bytes more than
    /// it has, because millions of short ones would need far more memory than their bytes.
    pub const LIMIT: u64 = 256 << 20;

    /// A recording of `block` of the chain `name`, with the nodes that it reads.
    ///
    /// # Errors
    /// [`RecordingError::Header`] if the parent's header can't be decoded.
    pub fn new(
        name: String,
        block: RemoteBlock,
        nodes: Vec<Bytes>,
    ) -> Result<Self, RecordingError> {
        let parent_root = HeaderParts::of(&block.parent)?.state_root;
        Ok(Self {
            name,
            parent_root,
            parent: Some(block.parent),
            header: block.header,
            body: block.body,
            nodes,
        })
    }

    /// Whether `bytes` begin like a recording.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }

    /// Hash of the block.
    pub fn hash(&self) -> [u8; 32] {
        header::hash(&self.header)
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// Those of [`Self::from_bytes`], and [`RecordingError::File`].
    pub fn read(path: &Path) -> Result<Self, RecordingError> {
        let file = fs::File::open(path).map_err(RecordingError::File)?;
        let mut bytes = Vec::new();
        // Content that can't be compressed becomes longer by 5 bytes for each block of some 64 KiB.
        let most = Self::LIMIT + Self::LIMIT / 1024;
        let read = file.take(most).read_to_end(&mut bytes);
        read.map_err(RecordingError::File)?;
        Self::from_bytes(&bytes)
    }

    /// Writes the file at `path` as a whole or not at all. A process that is killed meanwhile can leave a file beside
    /// it, whose name ends in `.part`.
    ///
    /// # Errors
    /// Those of [`Self::to_bytes`], and [`RecordingError::File`] if the file system fails.
    pub fn write(&self, path: &Path) -> Result<(), RecordingError> {
        let bytes = self.to_bytes()?;
        let (mut file, beside) = made_beside(path).map_err(RecordingError::File)?;
        // Without the synchronization a crash of the machine could leave an empty file under the new name.
        let written = file.write_all(&bytes).and_then(|()| file.sync_all());
        // Not every system renames an open file.
        drop(file);
        let written = written.and_then(|()| fs::rename(&beside, path));
        if written.is_err() {
            // The error of the write says more than that of the removal.
            let _ = fs::remove_file(&beside);
        }
        written.map_err(RecordingError::File)
    }

    /// The bytes of the file. Equal recordings have equal bytes.
    ///
    /// # Errors
    /// [`RecordingError::TooLarge`] or [`RecordingError::Part`] if [`Self::from_bytes`] would refuse their size or
    /// an empty extrinsic or node.
    pub fn to_bytes(&self) -> Result<Vec<u8>, RecordingError> {
        let content = self.content()?;
        within_limit(content.len(), self.body.len() + self.nodes.len())?;
        let head = [&MAGIC[..], &[VERSION]].concat();
        let mut packed = GzEncoder::new(head, Compression::best());
        packed.write_all(&content).map_err(RecordingError::File)?;
        packed.finish().map_err(RecordingError::File)
    }

    /// The bytes before compression.
    fn content(&self) -> Result<Vec<u8>, RecordingError> {
        let mut content = Vec::new();
        let mut push = |part: &[u8]| {
            push_compact(&mut content, part.len());
            content.extend(part);
        };
        push(self.name.as_bytes());
        push(self.parent_root.as_bytes());
        push(self.parent.as_deref().unwrap_or_default());
        push(&self.header);
        let mut list = |part, entries: &mut dyn ExactSizeIterator<Item = &[u8]>| {
            push_compact(&mut content, entries.len());
            for entry in entries {
                not_empty(part, entry)?;
                push_compact(&mut content, entry.len());
                content.extend(entry);
            }
            Ok::<(), RecordingError>(())
        };
        list(EXTRINSIC, &mut self.body.iter().map(Vec::as_slice))?;
        list(NODE, &mut self.nodes.iter().map(|node| &node[..]))?;
        Ok(content)
    }

    /// Reads a recording. Checks that its headers and its state root belong together.
    ///
    /// # Errors
    /// A [`RecordingError`] if `bytes` are no recording, of another version, damaged or too large, or if the
    /// parts do not belong together.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RecordingError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(RecordingError::Foreign)?;
        let (version, packed) = rest.split_first().ok_or(RecordingError::Foreign)?;
        if *version != VERSION {
            return Err(RecordingError::Version { found: *version });
        }
        let mut rest = Parts::of(unpacked(packed)?);
        let name = String::from_utf8_lossy(&rest.part("a name")?).into_owned();
        let root = "the root of the parent state";
        let parent_root = <[u8; 32]>::try_from(&rest.part(root)?[..]);
        let parent_root = parent_root.map_err(|_| RecordingError::Part { part: root })?;
        let parent = Some(rest.part("the parent's header")?.to_vec());
        let mut recording = Self {
            name,
            parent_root: Root::from(parent_root),
            parent: parent.filter(|parent| !parent.is_empty()),
            header: rest.part("a header")?.to_vec(),
            body: Vec::new(),
            nodes: Vec::new(),
        };
        recording.check()?;
        recording.body = rest.list(EXTRINSIC, |extrinsic| extrinsic.to_vec())?;
        // The nodes share the memory of the content.
        recording.nodes = rest.list(NODE, |node| node)?;
        match rest.left.len() {
            0 => Ok(recording),
            bytes => Err(RecordingError::LeftOver { bytes }),
        }
    }

    /// Checks that the parent's header, if it is known, fits the header and the state root.
    fn check(&self) -> Result<(), RecordingError> {
        let parts = HeaderParts::of(&self.header)?;
        let Some(parent) = &self.parent else {
            return Ok(());
        };
        let found = header::hash(parent);
        if found != parts.parent {
            return Err(RecordingError::OtherParent {
                expected: parts.parent.into(),
                found: found.into(),
            });
        }
        let expected = HeaderParts::of(parent)?.state_root;
        if expected != self.parent_root {
            return Err(RecordingError::OtherState {
                expected,
                found: self.parent_root,
            });
        }
        Ok(())
    }

    /// The nodes as a source. It finds nodes by their own hashes, so a changed node counts as missing.
    pub fn source(&self) -> RecordedNodes {
        let nodes = self.nodes.iter();
        let nodes = nodes.map(|node| (Blake2b256::hash(node), node.clone()));
        RecordedNodes(Arc::new(nodes.collect()))
    }
}

/// The nodes of a recording, by hash. A node that the recording lacks is an error. A clone is another
/// handle.
#[derive(Clone, Debug)]
pub struct RecordedNodes(Arc<BTreeMap<NodeHash, Bytes>>);

/// The error inside the [`SourceError`] of [`RecordedNodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected the node {hash} in the recording, which has {nodes} nodes, found none: it was recorded for another execution, or changed")]
#[non_exhaustive]
pub struct NotRecorded {
    /// Hash of the node.
    pub hash: NodeHash,
    /// Number of nodes in the recording.
    pub nodes: usize,
}

impl NodeSource for RecordedNodes {
    fn node(&self, hash: &NodeHash, _: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        if let Some(node) = self.0.get(hash) {
            return Ok(Some(node.clone()));
        }
        Err(SourceError::new(NotRecorded {
            hash: *hash,
            nodes: self.0.len(),
        }))
    }
}

/// What an entry of a list is, for messages.
const EXTRINSIC: &str = "an extrinsic of one byte at least";
const NODE: &str = "a node of one byte at least";

/// Makes a new file beside `path`, and returns it with its path. Threads of this process and processes on other
/// machines, which may have the same number, can write the same recording, so the name must be free.
fn made_beside(path: &Path) -> io::Result<(fs::File, PathBuf)> {
    let mut number = 0_u32;
    loop {
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}.{number}.part", std::process::id()));
        match fs::File::create_new(&beside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < u32::MAX => {
                number += 1;
            }
            made => return Ok((made?, beside.into())),
        }
    }
}

/// Refuses an empty entry of a list: zeros would be millions of them.
fn not_empty(part: &'static str, entry: &[u8]) -> Result<(), RecordingError> {
    match entry.is_empty() {
        true => Err(RecordingError::Part { part }),
        false => Ok(()),
    }
}

/// Refuses more than [`Recording::LIMIT`] allows: `content` bytes, with this many entries of lists.
fn within_limit(content: usize, entries: usize) -> Result<(), RecordingError> {
    let limit = Recording::LIMIT;
    let counted = ENTRY.saturating_mul(entries as u64);
    match counted.saturating_add(content as u64) <= limit {
        true => Ok(()),
        false => Err(RecordingError::TooLarge { limit }),
    }
}

/// The content, from the bytes after the version.
fn unpacked(packed: &[u8]) -> Result<Vec<u8>, RecordingError> {
    let mut content = Vec::new();
    let mut unpacked = GzDecoder::new(packed).take(Recording::LIMIT + 1);
    let read = unpacked.read_to_end(&mut content);
    read.map_err(RecordingError::Damaged)?;
    within_limit(content.len(), 0)?;
    match unpacked.into_inner().into_inner().len() {
        0 => Ok(content),
        bytes => Err(RecordingError::LeftOver { bytes }),
    }
}

/// The content that is not read yet.
struct Parts {
    left: Bytes,
    /// Bytes of the whole content.
    content: usize,
    /// Entries of the lists so far.
    entries: usize,
}

impl Parts {
    fn of(content: Vec<u8>) -> Self {
        Self {
            content: content.len(),
            left: content.into(),
            entries: 0,
        }
    }

    fn number(&mut self, part: &'static str) -> Result<usize, RecordingError> {
        let (number, used) = read_compact(&self.left).ok_or(RecordingError::Part { part })?;
        self.left.advance(used);
        Ok(number)
    }

    fn part(&mut self, part: &'static str) -> Result<Bytes, RecordingError> {
        let length = self.number(part)?;
        if length > self.left.len() {
            return Err(RecordingError::Part { part });
        }
        Ok(self.left.split_to(length))
    }

    fn list<T>(
        &mut self,
        part: &'static str,
        entry: impl Fn(Bytes) -> T,
    ) -> Result<Vec<T>, RecordingError> {
        let count = self.number(part)?;
        self.entries = self.entries.saturating_add(count);
        within_limit(self.content, self.entries)?;
        // Memory grows with the bytes that follow, not with the announced count.
        let entries = (0..count).map(|_| {
            let bytes = self.part(part)?;
            not_empty(part, &bytes)?;
            Ok(entry(bytes))
        });
        entries.collect()
    }
}
