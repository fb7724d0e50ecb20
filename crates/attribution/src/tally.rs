//! Sums of proof bytes by part, by item and by cause.

use super::{BlockAttribution, Names, StorageName};
use crate::BlockPart;
use povmeter::{Cause, RecordedEntry, TrieId, Want};
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

/// Names of an [`Item`] that is several.
const SEVERAL_ITEMS: &str = "(several items)";
const SEVERAL_PALLETS: &str = "(several pallets)";

impl Item {
    /// The names of a folded stack: pallet, then item.
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
pub struct Bytes {
    /// Sum of the causes.
    pub bytes: u64,
    /// Number of nodes.
    pub nodes: u64,
    /// Nodes that one part reads for one item.
    pub read: u64,
    /// Nodes that only the root computation needs, for one part and one item.
    pub root: u64,
    /// Siblings that are merged, for one part and one item.
    pub sibling: u64,
    /// Value nodes that one part reads for one item.
    pub value: u64,
    /// Nodes that several parts need, or one part for several items.
    pub shared: u64,
}

impl Bytes {
    /// The bytes of each cause, by name. Their sum is [`Self::bytes`].
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

/// Proof bytes of one block or several, by part, by item and by cause. Each sum contains each
/// recorded node once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByteTally {
    /// All bytes, by cause.
    pub total: Bytes,
    /// Bytes by the first part that needed them, in the order of the block; `None` for what was
    /// needed before the first part.
    pub by_part: BTreeMap<Option<BlockPart>, Bytes>,
    /// Bytes by the item that needs them.
    pub by_item: BTreeMap<Item, Bytes>,
    /// Bytes that several parts need, for one item or several.
    pub several_parts: u64,
    /// Bytes that several items need, in one part or several.
    pub several_items: u64,
}

impl ByteTally {
    /// Returns the bytes of `block`, with the names of its items from `names`.
    pub fn of(block: &BlockAttribution, names: &Names) -> Self {
        Self::of_some(block, names, |_| true)
    }

    /// Returns the bytes of those nodes of `block` that `counts` holds for, as [`Self::of`].
    pub fn of_some(
        block: &BlockAttribution,
        names: &Names,
        counts: impl Fn(&RecordedEntry<'_>) -> bool,
    ) -> Self {
        let mut tally = Self::default();
        let mut items = Items::new(names);
        for entry in block.attribution().entries().filter(counts) {
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
        }
        tally
    }

    /// Adds the bytes of other blocks.
    pub fn add(&mut self, other: &Self) {
        let Self {
            total,
            by_part,
            by_item,
            several_parts,
            several_items,
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
    }

    /// The total as the sum by part, by item, and by cause. The three are equal.
    pub fn sums(&self) -> [(&'static str, u64); 3] {
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
        ]
    }

    /// Folded stacks, the input of flame graph programs: a line `pallet;item;cause BYTES` for each
    /// pallet, item and cause with bytes.
    pub fn folded(&self) -> Vec<String> {
        let rows = self.by_item.iter().flat_map(|(item, row)| {
            let frames: Vec<&str> = item.frames().collect();
            let stack = frames.join(";");
            let causes = row.by_cause().into_iter().filter(|(_, bytes)| *bytes > 0);
            causes.map(move |(cause, bytes)| format!("{stack};{cause} {bytes}"))
        });
        rows.collect()
    }
}

/// Storage items by id, so that each is named once and compared fast.
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

    /// The [`Item`] of an entry that several items need.
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
