//! The nodes that a boundary counts, and the items of the compact proof.

use super::trie::{hash, nibbles, Bytes, Entries, Node, Set};
use std::collections::{BTreeMap, BTreeSet};

/// The values that the block holds for keys of the top trie and of child tries.
pub(crate) type Changes = BTreeMap<(Option<Bytes>, Bytes), Option<Bytes>>;

/// What the keys of the roots of child tries begin with.
pub(crate) const CHILD: &[u8] = b":child_storage:default:";

#[derive(Clone, Default)]
pub(crate) struct State {
    pub(crate) top: Entries,
    pub(crate) children: BTreeMap<Bytes, Entries>,
}

pub(crate) struct Tries {
    pub(crate) top: Node,
    children: BTreeMap<Bytes, Node>,
}

impl State {
    pub(crate) fn entries(&mut self, trie: &Option<Bytes>) -> &mut Entries {
        match trie {
            None => &mut self.top,
            Some(child) => self.children.entry(child.clone()).or_default(),
        }
    }

    pub(crate) fn tries(&self) -> Tries {
        let children = self
            .children
            .iter()
            .filter(|(_, entries)| !entries.is_empty());
        let children: BTreeMap<_, _> = children
            .map(|(key, entries)| (key.clone(), Node::trie(entries)))
            .collect();
        let mut top = self.top.clone();
        for (key, root) in &children {
            top.insert([CHILD, key].concat(), (hash(&root.bytes).to_vec(), 0));
        }
        Tries {
            top: Node::trie(&top),
            children,
        }
    }
}

impl Tries {
    /// Returns the trie. Counts the path to its root.
    pub(crate) fn open(&self, trie: &Option<Bytes>, set: &mut Set) -> Option<&Node> {
        let Some(child) = trie else {
            return Some(&self.top);
        };
        self.top.walk(&[CHILD, child].concat(), set)?;
        self.children.get(child)
    }

    pub(crate) fn boundary(&self, changes: &Changes, set: &mut Set) {
        let null = Node::trie(&Entries::new());
        let children: BTreeSet<_> = changes
            .keys()
            .filter_map(|(trie, _)| trie.clone())
            .collect();
        let mut roots = BTreeSet::new();
        for child in children {
            let root_key = [CHILD, &child].concat();
            let name = Some(child);
            let trie = self.open(&name, set).unwrap_or(&null);
            let live = needs(trie, &name, changes, BTreeSet::new(), set);
            self.top.walk(&root_key, set);
            if !live
                && changes
                    .iter()
                    .all(|((trie, _), value)| *trie != name || value.is_none())
            {
                roots.insert(nibbles(&root_key));
            }
        }
        needs(&self.top, &None, changes, roots, set);
    }

    /// Returns the items of the compact proof of the counted nodes.
    pub(crate) fn pack(&self, counted: &Set) -> Vec<usize> {
        let mut packed = Packed {
            counted,
            items: Vec::new(),
            nodes: Set::new(),
            values: Set::new(),
        };
        if packed.is_counted(&self.top) {
            packed.node(&self.top);
            let mut keys = Vec::new();
            child_keys(&self.top, Bytes::new(), counted, &mut keys);
            for key in keys {
                let Some(root) = self.children.get(&key) else {
                    continue;
                };
                if packed.is_counted(root) {
                    packed.node(root);
                }
            }
        }
        packed.items
    }
}

/// Counts the nodes of one trie that the root needs, and returns whether anything in it is live.
fn needs(
    trie: &Node,
    name: &Option<Bytes>,
    changes: &Changes,
    mut deleted: BTreeSet<Bytes>,
    set: &mut Set,
) -> bool {
    for ((_, key), value) in changes.iter().filter(|((trie, _), _)| trie == name) {
        trie.walk(key, set);
        if value.is_none() {
            deleted.insert(nibbles(key));
        }
    }
    let live = trie.settle(&[], &deleted, set);
    if !live && trie.bytes != [0] {
        Node::trie(&Entries::new()).count(set);
    }
    live
}

/// Finds the keys of child roots in the counted nodes, in order.
fn child_keys(node: &Node, path: Bytes, counted: &Set, keys: &mut Vec<Bytes>) {
    if node.hash.is_some_and(|hash| !counted.contains_key(&hash)) {
        return;
    }
    let path = [path, node.partial.clone()].concat();
    if let (Some(key), true) = (
        path.strip_prefix(nibbles(CHILD).as_slice()),
        node.value.is_some(),
    ) {
        keys.push(key.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect());
    }
    for (nibble, child) in &node.children {
        child_keys(child, [path.as_slice(), &[*nibble]].concat(), counted, keys);
    }
}

struct Packed<'a> {
    counted: &'a Set,
    items: Vec<usize>,
    nodes: Set,
    values: Set,
}

impl Packed<'_> {
    fn is_counted(&self, node: &Node) -> bool {
        node.hash
            .is_some_and(|hash| self.counted.contains_key(&hash))
    }

    fn node(&mut self, node: &Node) {
        node.count(&mut self.nodes);
        let at = self.items.len();
        self.items.push(0);
        let mut length = node.bytes.len();
        if let Some((value, true)) = &node.value {
            let met = self.values.contains_key(&hash(value));
            if self.counted.contains_key(&hash(value)) && !met {
                self.values.insert(hash(value), value.len());
                self.items.push(value.len());
                let (_, bits) = node.kind();
                length -= 30 + node.header((0, bits)).len() - node.header((0, 6)).len();
            }
        }
        for child in node.children.values().filter(|child| child.hash.is_some()) {
            let met = child
                .hash
                .is_some_and(|hash| self.nodes.contains_key(&hash));
            if self.is_counted(child) && !met {
                length -= 32;
                self.node(child);
            }
        }
        self.items[at] = length;
    }
}
