//! The report on the attribution of a proof's bytes, as tables and as JSON.

use crate::{attribution_files, one_line::one_line, spread::median};
use povmeter_attribution::{BlockPart, ByteTally, CauseBytes};
use povmeter_dev_runtime::ProofSizes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What each byte of the proof belongs to; missing with --no-attribute. The bytes of each list sum to
/// recorded.
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
    /// Bytes of shared nodes; a node shared in both ways counts in both numbers.
    shared_by: SharedBy,
    /// By depth in the trie; empty in results of earlier versions.
    #[serde(default)]
    by_depth: Vec<DepthRow>,
    /// What the forms of the proof add to its nodes, or leave out; missing if this is not known.
    // `None` is skipped, so the schema does not allow null.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Overhead")]
    overhead: Option<Overhead>,
    #[serde(skip)]
    top: usize,
    // Whether the text leaves out the tables by depth and by extrinsic.
    #[serde(skip)]
    brief: bool,
    #[serde(skip)]
    nodes: u64,
    // A flame graph of the bytes.
    #[serde(skip)]
    picture: Option<String>,
}

/// The bytes that a part of a block was the first to need.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct PartRow {
    /// Place of the extrinsic in the block; null for other parts.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) index: Option<usize>,
    /// Kind of the part.
    #[schemars(extend("enum" = PHASES))]
    pub(crate) phase: String,
    /// Bytes.
    pub(crate) bytes: u64,
    /// Nodes.
    pub(crate) nodes: u64,
    #[serde(flatten)]
    causes: Causes,
    /// Bytes if each node is divided equally among the parts that need it; 0 in results of earlier versions.
    #[serde(default)]
    pub(crate) divided: u64,
}

/// Nodes at a depth of the trie.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct DepthRow {
    /// Number of recorded nodes above a node in its trie; a root has 0.
    pub(crate) depth: usize,
    /// Bytes.
    pub(crate) bytes: u64,
    /// Nodes.
    pub(crate) nodes: u64,
    /// Bytes of nodes that several parts or items need.
    pub(crate) shared: u64,
    /// Mean number of parts of the block that need one of these nodes.
    pub(crate) needed_by: f64,
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
    /// Bytes of siblings that merge with their branch.
    sibling: u64,
    /// Bytes of value nodes.
    value: u64,
    /// Bytes of nodes that several parts or items need.
    shared: u64,
}

/// Bytes of shared nodes. A node shared in both ways counts in both numbers.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
struct SharedBy {
    /// Needed by several parts of the block.
    extrinsics: u64,
    /// Needed for several items.
    items: u64,
}

/// What the forms of a proof add to its nodes or leave out.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
struct Overhead {
    /// Recorded bytes that are the length prefixes of nodes.
    length_prefixes: u64,
    /// Bytes by which the encoded proof is longer than recorded.
    list_prefix: u64,
    /// Bytes by which the compact proof is shorter than the encoded one.
    compact_saves: u64,
}

impl From<&CauseBytes> for Causes {
    fn from(bytes: &CauseBytes) -> Self {
        let &CauseBytes {
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

/// The kinds of parts, in the order of the block.
const PHASES: [&str; 4] = ["before", "initialize", "extrinsic", "finalize"];

/// Returns the kind of a part, and the index of its extrinsic.
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
        // `divided` holds each part that needs nodes, even if an earlier part needed all of them.
        let parts = tally.divided.iter().map(|(part, divided)| {
            let (phase, index) = phase(*part);
            let none = CauseBytes::default();
            let bytes = tally.by_part.get(part).unwrap_or(&none);
            PartRow {
                divided: *divided,
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
        let by_depth = tally.by_depth.iter().map(|(depth, row)| DepthRow {
            depth: *depth,
            bytes: row.bytes,
            nodes: row.nodes,
            shared: row.shared,
            // Exact, because both are far below 2^52.
            needed_by: row.needed_by as f64 / row.nodes.max(1) as f64,
        });
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
            by_depth: by_depth.collect(),
            overhead: None,
            top,
            brief: false,
            nodes: tally.total.nodes,
            picture: None,
        }
    }

    /// Leaves the tables by depth and by extrinsic out of the text.
    pub(crate) fn brief(self) -> Self {
        Self {
            brief: true,
            ..self
        }
    }

    /// Adds the overhead of a proof with these `sizes`, whose nodes have `nodes` bytes together, to the
    /// overhead so far.
    pub(crate) fn with_overhead(mut self, sizes: &ProofSizes, nodes: u64) -> Self {
        let overhead = self.overhead.get_or_insert_default();
        overhead.length_prefixes += sizes.recorded.saturating_sub(nodes);
        overhead.list_prefix += sizes.encoded.saturating_sub(sizes.recorded);
        overhead.compact_saves += sizes.encoded.saturating_sub(sizes.compact);
        self
    }

    /// Replaces the overhead with the overhead of `before`.
    #[cfg(feature = "wasm")]
    pub(crate) fn after(mut self, before: &Self) -> Self {
        self.overhead = before.overhead;
        self
    }

    /// Sums the parts of several blocks by kind, without the indices of extrinsics.
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
        self.divided += other.divided;
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

/// A row of a table: name, bytes, nodes, causes, and divided bytes if the table shows them.
type Row = (String, u64, u64, Causes, Option<u64>);

impl AttributionReport {
    /// Writes the rows with the most bytes, and one for the others.
    fn table(&self, f: &mut fmt::Formatter<'_>, title: &str, mut rows: Vec<Row>) -> fmt::Result {
        rows.sort_by_key(|(_, bytes, ..)| std::cmp::Reverse(*bytes));
        let shown = rows.len().min(self.top);
        let divided = rows.first().is_some_and(|row| row.4.is_some());
        writeln!(
            f,
            "\n{:<NAME$} {:>9} {:>6} {:>6} {:>8} {:>8} {:>8} {:>8} {:>8}{}",
            format!("{title} ({shown} of {})", rows.len()),
            "bytes",
            "%",
            "nodes",
            "read",
            "root",
            "sibling",
            "value",
            "shared",
            if divided { "  divided" } else { "" },
        )?;
        for (name, bytes, nodes, causes, divided) in &rows[..shown] {
            let divided = divided.map_or_else(String::new, |divided| format!(" {divided:>8}"));
            writeln!(
                f,
                "{:<NAME$} {bytes:>9} {:>6.1} {nodes:>6} {:>8} {:>8} {:>8} {:>8} {:>8}{divided}",
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
            let nodes: u64 = others.iter().map(|(_, _, nodes, ..)| nodes).sum();
            writeln!(
                f,
                "{:<NAME$} {bytes:>9} {:>6.1} {nodes:>6}",
                format!("{} more", others.len()),
                percent(bytes, self.recorded),
            )?;
        }
        Ok(())
    }

    /// Writes the nodes by depth: which levels of the trie are shared, and by how many parts.
    fn depths(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:<NAME$} {:>9} {:>6} {:>6} {:>8} {:>10}",
            "nodes above it", "bytes", "%", "nodes", "shared", "needed by"
        )?;
        for row in &self.by_depth {
            writeln!(
                f,
                "{:<NAME$} {:>9} {:>6.1} {:>6} {:>8} {:>10.1}",
                row.depth,
                row.bytes,
                percent(row.bytes, self.recorded),
                row.nodes,
                row.shared,
                row.needed_by,
            )?;
        }
        Ok(())
    }

    /// The nodes by depth.
    pub(crate) fn by_depth(&self) -> &[DepthRow] {
        &self.by_depth
    }

    /// Two numbers of bytes for each extrinsic, by index: of nodes that it alone needs for one item, and its
    /// share of other nodes. Empty for several blocks.
    pub(crate) fn by_index(&self) -> Vec<(u64, u64)> {
        let rows = self.by_extrinsic.iter();
        let mut rows: Vec<_> = rows.filter_map(|row| Some((row.index?, row))).collect();
        rows.sort_by_key(|(index, _)| *index);
        let length = rows.last().map_or(0, |(index, _)| index + 1);
        let mut all = vec![(0, 0); length];
        for (index, row) in rows {
            let alone = row.bytes.saturating_sub(row.causes.shared);
            all[index] = (alone, row.divided.saturating_sub(alone));
        }
        all
    }

    /// Describes how the bytes divide among extrinsics; `None` for fewer than two extrinsics.
    pub(crate) fn division(&self) -> Option<String> {
        let mut divided: Vec<(u64, usize)> = self
            .by_extrinsic
            .iter()
            .filter_map(|row| Some((row.divided, row.index?)))
            .collect();
        if divided.len() < 2 {
            return None;
        }
        divided.sort_unstable();
        let (most, index) = *divided.last()?;
        // Exact, because sizes are far below 2^53.
        let median = median(divided.iter().map(|(bytes, _)| *bytes as f64));
        Some(format!(
            "If each node is divided equally among the extrinsics that need it, an extrinsic has {median} bytes in \
             the median, and {most} at most: extrinsic {index}."
        ))
    }

    /// Adds a flame graph of the bytes, for a page.
    pub(crate) fn draw(&mut self, tally: &ByteTally) {
        self.picture = attribution_files::picture(tally);
    }

    /// The flame graph that [`Self::draw`] added. It holds no script.
    pub(crate) fn picture(&self) -> Option<&str> {
        self.picture.as_deref()
    }

    /// Returns the bytes of all proofs.
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
                "one extrinsic, one item; not read, on the path of a change",
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

impl AttributionReport {
    /// Whether no byte is attributed.
    pub(crate) fn is_empty(&self) -> bool {
        self.recorded == 0
    }
}

impl fmt::Display for AttributionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (recorded, nodes) = (self.recorded, self.nodes);
        let more = match self.brief {
            true => "; --attribute shows all tables",
            false => "",
        };
        writeln!(
            f,
            "attribution of {recorded} bytes recorded, {nodes} nodes{more}\n"
        )?;
        self.causes(f)?;
        if let Some(division) = self.division() {
            writeln!(f, "{division}")?;
        }
        let items = self.by_item.iter();
        let items = items.map(|row| (row.name.clone(), row.bytes, row.nodes, row.causes, None));
        self.table(f, "item", items.collect())?;
        if self.brief {
            return Ok(());
        }
        self.depths(f)?;
        let parts = self.by_extrinsic.iter().map(|row| {
            let name = match row.index {
                Some(index) => index.to_string(),
                None => row.phase.clone(),
            };
            let divided = Some(row.divided);
            (name, row.bytes, row.nodes, row.causes, divided)
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
