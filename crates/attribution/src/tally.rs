//! Sums of proof bytes by part, by item and by cause.

use super::{BlockAttribution, Names, StorageName};
use crate::BlockPart;
use povmeter::{Attribution, Cause, EntryKind, RecordedEntry, TrieId, Want};
use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

/// The storage items that need a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Item {
    /// One item.
    One(StorageName),
    /// Several items of one pallet.
    OfPallet(String),
    /// Items of several pallets.
    OfSeveral,
}

/// Names of an [`Item`] that stands for several storage items.
const SEVERAL_ITEMS: &str = "(several items)";
const SEVERAL_PALLETS: &str = "(several pallets)";

impl Item {
    /// Returns the frames of a folded stack: pallet, then item.
    pub fn frames(&self) -> impl Iterator<Item = &str> + '_ {
        let (pallet, item) = match self {
            Self::One(StorageName { pallet, item }) => (pallet.as_str(), item.as_deref()),
            Self::OfPallet(pallet) => (pallet.as_str(), Some(SEVERAL_ITEMS)),
            Self::OfSeveral => (SEVERAL_PALLETS, None),
        };
        [Some(pallet), item].into_iter().flatten()
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if matches!(self, Self::One(_)) {
            "."
        } else {
            " "
        };
        for (index, frame) in self.frames().enumerate() {
            let separator = if index == 0 { "" } else { separator };
            write!(f, "{separator}{frame}")?;
        }
        Ok(())
    }
}

/// Bytes of recorded nodes by [`Cause`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CauseBytes {
    /// Sum of the causes.
    pub bytes: u64,
    /// Number of nodes.
    pub nodes: u64,
    /// Bytes of nodes that one part reads for one item.
    pub read: u64,
    /// Bytes of nodes that only the root computation needs, for one part and one item.
    pub root: u64,
    /// Bytes of siblings that the root computation merges, for one part and one item.
    pub sibling: u64,
    /// Bytes of value nodes that one part reads for one item.
    pub value: u64,
    /// Bytes of nodes that several parts need, or one part for several items.
    pub shared: u64,
}

impl CauseBytes {
    /// Returns the bytes of each cause, by name. Their sum is [`Self::bytes`].
    pub fn by_cause(&self) -> [(&'static str, u64); 5] {
        [
            ("read", self.read),
            ("root", self.root),
            ("sibling", self.sibling),
            ("value", self.value),
            ("shared", self.shared),
        ]
    }

    fn add(&mut self, cause: Cause, bytes: u64) {
        self.bytes += bytes;
        self.nodes += 1;
        *match cause {
            Cause::Read => &mut self.read,
            Cause::Root => &mut self.root,
            Cause::Sibling => &mut self.sibling,
            Cause::Value => &mut self.value,
            Cause::Shared => &mut self.shared,
        } += bytes;
    }

    fn add_all(&mut self, other: &Self) {
        let Self {
            bytes,
            nodes,
            read,
            root,
            sibling,
            value,
            shared,
        } = self;
        *bytes += other.bytes;
        *nodes += other.nodes;
        *read += other.read;
        *root += other.root;
        *sibling += other.sibling;
        *value += other.value;
        *shared += other.shared;
    }
}

/// Nodes at one depth of the tries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Depth {
    /// Bytes of these nodes.
    pub bytes: u64,
    /// Number of these nodes.
    pub nodes: u64,
    /// Bytes of nodes that several parts need, or one part for several items.
    pub shared: u64,
    /// The number of parts that need a node, summed over these nodes.
    pub needed_by: u64,
}

impl Depth {
    fn add_all(&mut self, other: &Self) {
        let Self {
            bytes,
            nodes,
            shared,
            needed_by,
        } = self;
        *bytes += other.bytes;
        *nodes += other.nodes;
        *shared += other.shared;
        *needed_by += other.needed_by;
    }
}

/// Proof bytes of one block or several, by part, by item and by cause. Each sum contains each
/// recorded node once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ByteTally {
    /// All bytes, by cause.
    pub total: CauseBytes,
    /// Bytes by the first part that needed them, in the order of the block; `None` for bytes that were
    /// needed before the first part.
    pub by_part: BTreeMap<Option<BlockPart>, CauseBytes>,
    /// Bytes by the item that needs them.
    pub by_item: BTreeMap<Item, CauseBytes>,
    /// Bytes that several parts need, for one item or several.
    pub several_parts: u64,
    /// Bytes that several items need, in one part or several.
    pub several_items: u64,
    /// Bytes by part, each node divided equally among the parts that need it. The remaining bytes go to the
    /// first of these parts, one to each, so that the sum is exact.
    pub divided: BTreeMap<Option<BlockPart>, u64>,
    /// Nodes by their depth: the number of recorded nodes above a node in its trie. Roots and the null node
    /// have depth 0.
    pub by_depth: BTreeMap<usize, Depth>,
}

impl ByteTally {
    /// Returns the bytes of `block`, with the names of its items from `names`.
    pub fn of(block: &BlockAttribution, names: &Names) -> Self {
        Self::of_some(block, names, |_| true)
    }

    /// Returns the same bytes as [`Self::of`], but only of the nodes that `counts` accepts.
    pub fn of_some(
        block: &BlockAttribution,
        names: &Names,
        counts: impl Fn(&RecordedEntry<'_>) -> bool,
    ) -> Self {
        let mut tally = Self::default();
        let mut items = Items::new(names);
        let depths = depths(block.attribution());
        let counted = block.attribution().entries().zip(depths);
        for (entry, depth) in counted.filter(|(entry, _)| counts(entry)) {
            let owner = entry.owner(|want| items.id(want));
            let bytes = entry.bytes();
            let item = match owner.item {
                Some(id) => Item::One(items.names[id].clone()),
                None => items.several(&entry),
            };
            let part = tally.by_part.entry(block.part(owner.part)).or_default();
            part.add(owner.cause, bytes);
            tally.several_items += if owner.item.is_none() { bytes } else { 0 };
            tally.several_parts += if owner.several_parts { bytes } else { 0 };
            tally
                .by_item
                .entry(item)
                .or_default()
                .add(owner.cause, bytes);
            tally.total.add(owner.cause, bytes);
            let needed_by = tally.divide(block, &entry);
            tally.by_depth.entry(depth).or_default().add_all(&Depth {
                bytes,
                nodes: 1,
                shared: if owner.cause == Cause::Shared {
                    bytes
                } else {
                    0
                },
                needed_by,
            });
        }
        tally
    }

    /// Divides the bytes of `entry` among the parts that need it, and returns their number.
    fn divide(&mut self, block: &BlockAttribution, entry: &RecordedEntry<'_>) -> u64 {
        // Wants are ordered by part, so `dedup` leaves each part once.
        let mut parts: Vec<u32> = entry.wants().map(|want| want.part).collect();
        parts.dedup();
        // A node without wants counts as needed before the first part, as in `by_part`.
        if parts.is_empty() {
            parts.push(0);
        }
        let count = parts.len() as u64;
        let (each, left) = (entry.bytes() / count, entry.bytes() % count);
        for (index, part) in (0..).zip(parts) {
            *self.divided.entry(block.part(part)).or_default() += each + u64::from(index < left);
        }
        count
    }

    /// Adds the bytes of other blocks.
    pub fn add(&mut self, other: &Self) {
        let Self {
            total,
            by_part,
            by_item,
            several_parts,
            several_items,
            divided,
            by_depth,
        } = self;
        total.add_all(&other.total);
        for (part, bytes) in &other.by_part {
            by_part.entry(*part).or_default().add_all(bytes);
        }
        for (item, bytes) in &other.by_item {
            by_item.entry(item.clone()).or_default().add_all(bytes);
        }
        *several_parts += other.several_parts;
        *several_items += other.several_items;
        for (part, bytes) in &other.divided {
            *divided.entry(*part).or_default() += bytes;
        }
        for (depth, nodes) in &other.by_depth {
            by_depth.entry(*depth).or_default().add_all(nodes);
        }
    }

    /// Returns the sum of each breakdown. All are equal to the total.
    pub fn sums(&self) -> [(&'static str, u64); 5] {
        let sum = |rows: &mut dyn Iterator<Item = u64>| rows.sum();
        [
            (
                "by extrinsic",
                sum(&mut self.by_part.values().map(|row| row.bytes)),
            ),
            (
                "by item",
                sum(&mut self.by_item.values().map(|row| row.bytes)),
            ),
            (
                "by cause",
                sum(&mut self.total.by_cause().into_iter().map(|(_, bytes)| bytes)),
            ),
            ("divided", sum(&mut self.divided.values().copied())),
            (
                "by depth",
                sum(&mut self.by_depth.values().map(|row| row.bytes)),
            ),
        ]
    }

    /// Returns folded stacks, the input of flame graph programs: a line `pallet;item;cause BYTES` for each
    /// pallet, item and cause with bytes. A `;` in a name, which a runtime's metadata can have, becomes a `:`, because
    /// it would begin another frame. Line breaks in names stay.
    pub fn folded(&self) -> Vec<String> {
        let rows = self.by_item.iter().flat_map(|(item, row)| {
            let frames: Vec<String> = item.frames().map(|name| name.replace(';', ":")).collect();
            let stack = frames.join(";");
            let causes = row.by_cause().into_iter().filter(|(_, bytes)| *bytes > 0);
            causes.map(move |(cause, bytes)| format!("{stack};{cause} {bytes}"))
        });
        rows.collect()
    }
}

/// Returns the depth of each entry, in the order of the entries.
fn depths(attribution: &Attribution) -> Vec<usize> {
    // A value node has the path of its leaf or branch, and its kind sorts it below.
    fn place<'a>(entry: &RecordedEntry<'a>) -> (TrieId<'a>, &'a [u8], EntryKind) {
        (entry.trie(), entry.path(), entry.kind())
    }
    let entries: Vec<RecordedEntry<'_>> = attribution.entries().collect();
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by(|&a, &b| place(&entries[a]).cmp(&place(&entries[b])));
    let mut depths = vec![0; entries.len()];
    let mut above: Vec<usize> = Vec::new();
    for at in order {
        let (trie, path, _) = place(&entries[at]);
        above.retain(|&other| {
            let (other_trie, other_path, _) = place(&entries[other]);
            other_trie == trie && path.starts_with(other_path)
        });
        // The null node is a whole trie.
        if entries[at].kind() != EntryKind::Null {
            depths[at] = above.len();
        }
        if entries[at].kind() == EntryKind::Node {
            above.push(at);
        }
    }
    depths
}

/// Storage items by id, so that each is named once and comparisons are fast.
struct Items<'n> {
    table: &'n Names,
    names: Vec<StorageName>,
    by_name: HashMap<StorageName, usize>,
    by_key: HashMap<(Option<Vec<u8>>, Vec<u8>), usize>,
}

impl<'n> Items<'n> {
    fn new(table: &'n Names) -> Self {
        Self {
            table,
            names: Vec::new(),
            by_name: HashMap::new(),
            by_key: HashMap::new(),
        }
    }

    fn id(&mut self, want: &Want<'_>) -> usize {
        let key = match want.trie {
            TrieId::Top => {
                let longest = want.key.len().min(self.table.longest());
                (None, want.key[..longest].to_vec())
            }
            TrieId::Child(storage_key) => (Some(storage_key.to_vec()), Vec::new()),
        };
        if let Some(&known) = self.by_key.get(&key) {
            return known;
        }
        let name = match want.trie {
            TrieId::Top => self.table.name_of(want.key),
            TrieId::Child(storage_key) => Names::child(storage_key),
        };
        let Self { names, by_name, .. } = self;
        let id = *by_name.entry(name).or_insert_with_key(|name| {
            names.push(name.clone());
            names.len() - 1
        });
        self.by_key.insert(key, id);
        id
    }

    /// Returns the [`Item`] of an entry that several items need, or that has no wants.
    fn several(&mut self, entry: &RecordedEntry<'_>) -> Item {
        let mut of: Option<usize> = None;
        for want in entry.wants() {
            let id = self.id(&want);
            match of {
                Some(first) if self.names[first].pallet != self.names[id].pallet => {
                    return Item::OfSeveral
                }
                _ => of = Some(id),
            }
        }
        of.map_or(Item::OfSeveral, |id| {
            Item::OfPallet(self.names[id].pallet.clone())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use povmeter::{Attributed, Block, Consensus, Root, StateVersion, TrieId::Top};
    use povmeter_store::{MemoryStore, NodeStore};

    /// The attribution of a block of three parts: the first two each need one of the names, and the third
    /// needs both.
    fn block(names: [&[u8]; 2]) -> BlockAttribution {
        let mut store = MemoryStore::new();
        let mut genesis = Block::new(&store, Root::EMPTY);
        for name in [b"alice", b"bobby", b"carol"] {
            genesis.set(Top, name, &[name[0]; 40]).unwrap();
        }
        let genesis = genesis.seal(StateVersion::V1).unwrap();
        store.commit(genesis.update()).unwrap();
        let mut block = Block::with_accounting(&store, store.root(), Attributed(Consensus));
        for needed in [&names[..1], &names[1..], &names[..]] {
            block.begin_part();
            for name in needed {
                block.get(Top, name).unwrap();
            }
        }
        let sealed = block.seal(StateVersion::V1).unwrap();
        let parts = (0..3).map(BlockPart::Extrinsic).collect();
        BlockAttribution::new(parts, sealed.attribution().unwrap().clone()).unwrap()
    }

    #[test]
    fn each_part_of_a_block_has_a_name() {
        let whole = block([b"alice", b"bobby"]);
        for found in [0, 2, 4] {
            let parts = (0..found).map(BlockPart::Extrinsic).collect();
            let refused = BlockAttribution::new(parts, whole.attribution().clone()).unwrap_err();
            assert_eq!((refused.expected, refused.found), (3, found));
        }
    }

    #[test]
    fn shared_bytes_are_divided_among_those_who_need_them() {
        let tally = ByteTally::of(&block([b"alice", b"bobby"]), &Names::default());
        for (breakdown, sum) in tally.sums() {
            assert_eq!(sum, tally.total.bytes, "{breakdown}");
        }
        let divided: Vec<u64> = tally.divided.values().copied().collect();
        let [first, second, third] = divided[..] else {
            panic!("three parts, found {divided:?}")
        };
        // The root is needed by three parts; each leaf and each value by two.
        let root = tally.by_depth[&0].bytes;
        let [leaf, value] = [tally.by_depth[&1].bytes / 2, tally.by_depth[&2].bytes / 2];
        let halves = leaf.div_ceil(2) + value.div_ceil(2);
        assert_eq!(
            first,
            root / 3 + u64::from(!root.is_multiple_of(3)) + halves
        );
        assert_eq!(second, root / 3 + u64::from(root % 3 > 1) + halves);
        assert_eq!(third, root / 3 + 2 * (leaf / 2 + value / 2));
        // No node is needed by the third part first.
        assert!(!tally.by_part.contains_key(&Some(BlockPart::Extrinsic(2))));
    }

    #[test]
    fn a_name_is_one_frame_of_a_folded_stack() {
        let item = |pallet: &str, item: &str| Item::One(StorageName::item(pallet, item));
        let bytes = CauseBytes {
            bytes: 7,
            nodes: 1,
            read: 7,
            ..CauseBytes::default()
        };
        let tally = ByteTally {
            by_item: [
                (item("Pallet", "Item"), bytes),
                (item("a;b", ";c;;d"), bytes),
                (Item::OfPallet("e;f".to_owned()), bytes),
            ]
            .into(),
            ..ByteTally::default()
        };
        assert_eq!(
            tally.folded(),
            [
                "Pallet;Item;read 7",
                "a:b;:c::d;read 7",
                "e:f;(several items);read 7"
            ]
        );
    }

    #[test]
    fn depth_counts_the_nodes_above() {
        let tally = ByteTally::of(&block([b"alice", b"alice"]), &Names::default());
        let found: Vec<_> = tally.by_depth.iter().collect();
        let [(0, root), (1, leaf), (2, value)] = found[..] else {
            panic!("a root, a leaf and a value below each other, found {found:?}")
        };
        assert_eq!([root.nodes, leaf.nodes, value.nodes], [1; 3]);
        assert_eq!([root.needed_by, leaf.needed_by, value.needed_by], [3; 3]);
        assert_eq!(value.bytes, 41);
        let shared: u64 = tally.by_depth.values().map(|depth| depth.shared).sum();
        assert_eq!(shared, tally.total.shared);
    }
}
