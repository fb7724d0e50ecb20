//! The report on the attribution of a proof's bytes, as tables and as JSON.

use crate::{attribution_files, one_line::one_line};
use povmeter_attribution::{BlockPart, ByteTally, Bytes};
use povmeter_dev_runtime::ProofSizes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which bytes of the proof belong to whom, with --attribute; not there without. The bytes of each list
/// sum to recorded.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct AttributionReport {
    /// Bytes recorded.
    recorded: u64,
    /// By the part of the block that was the first to need a node, in the order of the block.
    pub(crate) by_extrinsic: Vec<PartRow>,
    /// By pallet and storage item, most bytes first.
    pub(crate) by_item: Vec<ItemRow>,
    /// By cause.
    by_cause: Causes,
    /// Bytes of shared nodes; those that are shared by both are in both.
    shared_by: SharedBy,
    /// What the forms of the proof add to its nodes, or leave out; not there if it is not known.
    // It is left out, so the schema does not allow null.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Overhead")]
    overhead: Option<Overhead>,
    #[serde(skip)]
    top: usize,
    #[serde(skip)]
    nodes: u64,
    // A flame graph of the bytes.
    #[serde(skip)]
    picture: Option<String>,
}

/// The bytes that a part of a block was the first to need.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PartRow {
    /// Place of the extrinsic in the block; null of other parts.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) index: Option<usize>,
    /// The part.
    #[schemars(extend("enum" = PHASES))]
    pub(crate) phase: String,
    /// Bytes.
    pub(crate) bytes: u64,
    /// Nodes.
    pub(crate) nodes: u64,
    #[serde(flatten)]
    causes: Causes,
}

/// The bytes that are needed for a storage item.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ItemRow {
    /// Name of the item.
    pub(crate) name: String,
    /// Bytes.
    pub(crate) bytes: u64,
    /// Nodes.
    pub(crate) nodes: u64,
    #[serde(flatten)]
    causes: Causes,
}

/// Bytes by cause.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
struct Causes {
    /// Bytes of nodes that were read.
    read: u64,
    /// Bytes of nodes that only the root computation needs, on the way to a changed key.
    root: u64,
    /// Bytes of siblings that merge.
    sibling: u64,
    /// Bytes of value nodes.
    value: u64,
    /// Bytes of nodes that several need.
    shared: u64,
}

/// Bytes of shared nodes. Those that are shared in both ways are in both numbers.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
struct SharedBy {
    /// By several parts of the block.
    extrinsics: u64,
    /// By several items.
    items: u64,
}

/// What the forms of a proof add to its nodes or leave out.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
struct Overhead {
    /// Bytes of the recorded ones that are lengths of nodes.
    length_prefixes: u64,
    /// Bytes that the encoded proof has more than were recorded.
    list_prefix: u64,
    /// Bytes that the compact proof has less than the encoded one.
    compact_saves: u64,
}

impl From<&Bytes> for Causes {
    fn from(bytes: &Bytes) -> Self {
        let &Bytes {
            read,
            root,
            sibling,
            value,
            shared,
            ..
        } = bytes;
        Self {
            read,
            root,
            sibling,
            value,
            shared,
        }
    }
}

/// The names of the parts of a block, in its order.
const PHASES: [&str; 4] = ["before", "initialize", "extrinsic", "finalize"];

/// The name of a part, and the index of its extrinsic.
fn phase(part: Option<BlockPart>) -> (String, Option<usize>) {
    let [before, initialize, extrinsic, finalize] = PHASES;
    let (name, index) = match part {
        None => (before, None),
        Some(BlockPart::Initialize) => (initialize, None),
        Some(BlockPart::Extrinsic(index)) => (extrinsic, Some(index)),
        Some(BlockPart::Finalize) => (finalize, None),
    };
    (name.to_owned(), index)
}

impl AttributionReport {
    pub(crate) fn new(tally: &ByteTally, top: usize) -> Self {
        let parts = tally.by_part.iter().map(|(part, bytes)| {
            let (phase, index) = phase(*part);
            PartRow {
                index,
                phase,
                bytes: bytes.bytes,
                nodes: bytes.nodes,
                causes: bytes.into(),
            }
        });
        let items = tally.by_item.iter().map(|(item, bytes)| ItemRow {
            name: item.to_string(),
            bytes: bytes.bytes,
            nodes: bytes.nodes,
            causes: bytes.into(),
        });
        let mut by_item: Vec<_> = items.collect();
        // The sort is stable, so items of equal size stay ordered by name.
        by_item.sort_by_key(|row| std::cmp::Reverse(row.bytes));
        Self {
            recorded: tally.total.bytes,
            by_extrinsic: parts.collect(),
            by_item,
            by_cause: (&tally.total).into(),
            shared_by: SharedBy {
                extrinsics: tally.several_parts,
                items: tally.several_items,
            },
            overhead: None,
            top,
            nodes: tally.total.nodes,
            picture: None,
        }
    }

    /// Adds the overhead of a proof with these `sizes`, whose nodes have `nodes` bytes together. It is
    /// summed over proofs.
    pub(crate) fn with_overhead(mut self, sizes: &ProofSizes, nodes: u64) -> Self {
        let overhead = self.overhead.get_or_insert_default();
        overhead.length_prefixes += sizes.recorded.saturating_sub(nodes);
        overhead.list_prefix += sizes.encoded.saturating_sub(sizes.recorded);
        overhead.compact_saves += sizes.encoded.saturating_sub(sizes.compact);
        self
    }

    /// Takes over the overhead of `before`.
    #[cfg(feature = "wasm")]
    pub(crate) fn after(mut self, before: &Self) -> Self {
        self.overhead = before.overhead;
        self
    }

    /// Sums the extrinsics of several blocks, without their indices.
    #[cfg(feature = "wasm")]
    pub(crate) fn by_phase(mut self) -> Self {
        let mut phases: Vec<PartRow> = Vec::new();
        for row in self.by_extrinsic {
            match phases.iter_mut().find(|known| known.phase == row.phase) {
                Some(known) => known.add(&row),
                None => phases.push(PartRow { index: None, ..row }),
            }
        }
        self.by_extrinsic = phases;
        self
    }
}

#[cfg(feature = "wasm")]
impl PartRow {
    fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.nodes += other.nodes;
        let Causes {
            read,
            root,
            sibling,
            value,
            shared,
        } = &mut self.causes;
        *read += other.causes.read;
        *root += other.causes.root;
        *sibling += other.causes.sibling;
        *value += other.causes.value;
        *shared += other.causes.shared;
    }
}

/// Characters of a name that fit into a table.
const NAME: usize = 36;

/// The name, shortened to fit a table.
fn short(name: &str) -> String {
    let name = one_line(name);
    if name.chars().count() <= NAME {
        return name.into_owned();
    }
    let start: String = name.chars().take(NAME - 2).collect();
    format!("{start}..")
}

fn percent(bytes: u64, of: u64) -> f64 {
    // Exact, because sizes are far below 2^52.
    100.0 * bytes as f64 / of.max(1) as f64
}

/// A row of a table: name, bytes, nodes, causes.
type Row = (String, u64, u64, Causes);

impl AttributionReport {
    /// The rows with the most bytes, and one for the others.
    fn table(&self, f: &mut fmt::Formatter<'_>, title: &str, mut rows: Vec<Row>) -> fmt::Result {
        rows.sort_by_key(|(_, bytes, ..)| std::cmp::Reverse(*bytes));
        let shown = rows.len().min(self.top);
        writeln!(
            f,
            "\n{:<NAME$} {:>9} {:>6} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8}",
            format!("{title} ({shown} of {})", rows.len()),
            "bytes",
            "%",
            "nodes",
            "read",
            "root",
            "sibling",
            "value",
            "shared"
        )?;
        for (name, bytes, nodes, causes) in &rows[..shown] {
            writeln!(
                f,
                "{:<NAME$} {bytes:>9} {:>6.1} {nodes:>6} {:>8} {:>8} {:>8} {:>8} {:>8}",
                short(name),
                percent(*bytes, self.recorded),
                causes.read,
                causes.root,
                causes.sibling,
                causes.value,
                causes.shared,
            )?;
        }
        let others = &rows[shown..];
        if !others.is_empty() {
            let bytes = others.iter().map(|(_, bytes, ..)| bytes).sum();
            let nodes: u64 = others.iter().map(|(_, _, nodes, _)| nodes).sum();
            writeln!(
                f,
                "{:<NAME$} {bytes:>9} {:>6.1} {nodes:>6}",
                format!("{} more", others.len()),
                percent(bytes, self.recorded),
            )?;
        }
        Ok(())
    }

    /// Adds a flame graph of the bytes, for a page.
    pub(crate) fn draw(&mut self, tally: &ByteTally) {
        self.picture = attribution_files::picture(tally);
    }

    /// The flame graph that [`Self::draw`] added. It holds no script.
    pub(crate) fn picture(&self) -> Option<&str> {
        self.picture.as_deref()
    }

    /// Bytes of all proofs.
    pub(crate) fn recorded(&self) -> u64 {
        self.recorded
    }

    /// Name, bytes and nodes of each storage item, most bytes first.
    pub(crate) fn items(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        let rows = self.by_item.iter();
        rows.map(|row| (row.name.as_str(), row.bytes, row.nodes))
    }

    /// Name, bytes and meaning of each cause.
    pub(crate) fn causes_with_words(&self) -> [(&'static str, u64, &'static str); 5] {
        let Causes {
            read,
            root,
            sibling,
            value,
            shared,
        } = self.by_cause;
        [
            ("read", read, "one extrinsic, one item; read"),
            (
                "root",
                root,
                "one extrinsic, one item; only the root needs it",
            ),
            (
                "sibling",
                sibling,
                "one extrinsic, one item; the root merges it after a deletion",
            ),
            ("value", value, "one extrinsic, one item; a value node"),
            (
                "shared",
                shared,
                "needed by several extrinsics or for several items",
            ),
        ]
    }

    fn causes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<10} {:>12} {:>6}", "cause", "bytes", "%")?;
        for (name, bytes, what) in self.causes_with_words() {
            let percent = percent(bytes, self.recorded);
            writeln!(f, "{name:<10} {bytes:>12} {percent:>6.1}  {what}")?;
        }
        let SharedBy { extrinsics, items } = self.shared_by;
        writeln!(
            f,
            "of the shared bytes, {extrinsics} by several extrinsics, {items} for several items"
        )
    }
}

impl fmt::Display for AttributionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (recorded, nodes) = (self.recorded, self.nodes);
        writeln!(
            f,
            "attribution of {recorded} bytes recorded, {nodes} nodes\n"
        )?;
        self.causes(f)?;
        let items = self.by_item.iter();
        let items = items.map(|row| (row.name.clone(), row.bytes, row.nodes, row.causes));
        self.table(f, "item", items.collect())?;
        let parts = self.by_extrinsic.iter().map(|row| {
            let name = match row.index {
                Some(index) => index.to_string(),
                None => row.phase.clone(),
            };
            (name, row.bytes, row.nodes, row.causes)
        });
        self.table(f, "first needed by extrinsic", parts.collect())?;
        if let Some(Overhead {
            length_prefixes,
            list_prefix,
            compact_saves,
        }) = self.overhead
        {
            write!(
                f,
                "\nrecorded: {length_prefixes} bytes of it are length prefixes of nodes; encoded: \
                 {list_prefix} more for the list's length; compact: {compact_saves} less than encoded, \
                 because it omits hashes that follow from other nodes"
            )?;
        }
        Ok(())
    }
}
