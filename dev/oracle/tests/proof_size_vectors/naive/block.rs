//! The blocks of the test vectors, operation by operation.

use super::{
    rule::{Changes, State, Tries, CHILD},
    trie::{compact, hash, nibbles, Bytes, Set},
};
use serde_json::Value;

fn s(n: usize) -> usize {
    n + compact(n).len()
}

/// The block of one vector.
struct Block<'a> {
    parent: State,
    tries: Tries,
    version: u64,
    advisory: bool,
    /// The changes of the block, and of each open transaction.
    changes: Vec<Changes>,
    reads: Set,
    root: Set,
    /// For each open transaction: whether the host opened it, and the sets at its start.
    open: Vec<(bool, Set, Set)>,
    in_runtime: bool,
    told: &'a Value,
}

fn bytes(hex: &Value) -> Bytes {
    sp_core::bytes::from_hex(hex.as_str().unwrap()).unwrap()
}

fn state(parts: &Value) -> State {
    let mut state = State::default();
    for part in parts.as_array().unwrap() {
        let version = part["version"].as_u64().unwrap();
        let children = part["children"].as_array().unwrap().iter();
        let children = children.map(|child| (Some(bytes(&child[0])), &child[1]));
        for (trie, pairs) in children.chain([(None, &part["top"])]) {
            for pair in pairs.as_array().unwrap() {
                let value = (bytes(&pair[1]), version);
                state.entries(&trie).insert(bytes(&pair[0]), value);
            }
        }
    }
    state
}

/// Checks all numbers of `vector`.
pub(crate) fn check(vector: &Value) {
    let parent = state(&vector["state"]);
    let tries = parent.tries();
    assert_eq!(
        bytes(&vector["parent_root"]),
        hash(&tries.top.bytes),
        "{vector}"
    );
    let mut block = Block {
        parent,
        tries,
        version: vector["version"].as_u64().unwrap(),
        advisory: vector["accounting"] == "advisory",
        changes: vec![Changes::new()],
        reads: Set::new(),
        root: Set::new(),
        open: Vec::new(),
        in_runtime: false,
        told: vector,
    };
    for operation in vector["operations"].as_array().unwrap() {
        block.run(operation);
    }
    block.compute_root();
    if block.advisory {
        block.root.clear();
    }
    block.compare(&vector["sealed"]);
    let root = hash(&block.tries_after().top.bytes);
    assert_eq!(bytes(&vector["sealed"]["root"]), root, "{vector}");
}

impl Block<'_> {
    fn all_changes(&self) -> Changes {
        self.changes
            .iter()
            .flatten()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    fn change(&mut self, trie: &Option<Bytes>, key: Bytes, value: Option<Bytes>) {
        self.changes
            .last_mut()
            .unwrap()
            .insert((trie.clone(), key), value);
    }

    /// The tries after all changes.
    fn tries_after(&self) -> Tries {
        let mut state = self.parent.clone();
        for ((trie, key), value) in self.all_changes() {
            if trie.is_none() && key.starts_with(CHILD) {
                continue;
            }
            let entries = state.entries(&trie);
            match value {
                Some(value) => drop(entries.insert(key, (value, self.version))),
                None => drop(entries.remove(&key)),
            }
        }
        state.tries()
    }

    /// Asks for the root of a child trie.
    fn child_root(&mut self, child: Bytes) {
        let root_key = [CHILD, &child].concat();
        let name = Some(child);
        if self.all_changes().keys().all(|(trie, _)| *trie != name) {
            self.read(&None, &root_key, true);
            return;
        }
        self.compute_root();
        let after = self.tries_after();
        let root = after.open(&name, &mut Set::new());
        let root = root.map(|root| hash(&root.bytes).to_vec());
        self.change(&None, root_key, root);
    }

    fn compute_root(&mut self) {
        let changes = self.all_changes();
        let set = if self.advisory {
            &mut self.reads
        } else {
            &mut self.root
        };
        self.tries.boundary(&changes, set);
    }

    fn compare(&self, told: &Value) {
        let sum = |set: &Set| set.values().map(|length| s(*length)).sum::<usize>();
        let only_root = self
            .root
            .iter()
            .filter(|(hash, _)| !self.reads.contains_key(*hash));
        let only_root = only_root.map(|(hash, length)| (*hash, *length)).collect();
        let counted = self
            .reads
            .clone()
            .into_iter()
            .chain(self.root.clone())
            .collect();
        let items = self.tries.pack(&counted);
        let length = compact(items.len()).len() + items.into_iter().map(s).sum::<usize>();
        let (reads, root) = (sum(&self.reads), sum(&only_root));
        for (name, found) in [
            ("read_bytes", reads),
            ("root_bytes", root),
            ("total_bytes", reads + root),
            ("nodes", counted.len()),
            ("compact_bytes", length),
        ] {
            assert_eq!(told[name], found, "{name} of {told} in {}", self.told);
        }
    }

    /// Returns the value that a read finds. Counts the nodes on the path to it, and its value node
    /// if `with_value`.
    fn read(&mut self, trie: &Option<Bytes>, key: &[u8], with_value: bool) -> Option<Bytes> {
        if let Some(value) = self.all_changes().get(&(trie.clone(), key.to_vec())) {
            return value.clone();
        }
        let found = self.tries.open(trie, &mut self.reads)?;
        let (value, is_node) = found.walk(key, &mut self.reads)?;
        if with_value && *is_node {
            self.reads.insert(hash(value), value.len());
        }
        Some(value.clone())
    }

    fn next_key(&mut self, trie: &Option<Bytes>, key: &[u8]) {
        let changes = self.all_changes();
        let mut after = nibbles(key);
        loop {
            let Some(found) = self.tries.open(trie, &mut self.reads) else {
                return;
            };
            let Some(next) = found.successor(&after, false, 0, &mut self.reads) else {
                return;
            };
            let of_trie = || changes.iter().filter(|((of, _), _)| of == trie);
            let written = of_trie().filter(|(_, value)| value.is_some());
            let mut before = written.map(|((_, key), _)| nibbles(key));
            let deleted =
                of_trie().any(|((_, key), value)| value.is_none() && nibbles(key) == next);
            if !deleted || before.any(|key| after < key && key < next) {
                return;
            }
            after = next;
        }
    }

    fn clear(&mut self, trie: &Option<Bytes>, operation: &Value) {
        let prefix = bytes(&operation["prefix"]);
        for (of, key) in self.all_changes().into_keys() {
            if of == *trie && key.starts_with(&prefix) {
                self.change(trie, key, None);
            }
        }
        let cursor = operation
            .get("cursor")
            .map_or(prefix.clone(), bytes)
            .max(prefix.clone());
        let limit = operation.get("limit").and_then(Value::as_u64);
        let (mut from, mut inclusive, mut found) = (nibbles(&cursor), true, 0);
        if !cursor.starts_with(&prefix) {
            if let Some(open) = self.tries.open(trie, &mut self.reads) {
                open.count(&mut self.reads);
            }
            return;
        }
        while let Some(open) = self.tries.open(trie, &mut self.reads) {
            let within = 2 * prefix.len();
            let next = open.successor(&from, inclusive, within, &mut self.reads);
            let Some(next) = next.filter(|_| limit.is_none_or(|most| found < most)) else {
                return;
            };
            let key = next.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
            self.change(trie, key, None);
            (from, inclusive, found) = (next, false, found + 1);
        }
    }

    fn close(&mut self, keep: bool) {
        let (by_host, reads, root) = self.open.pop().unwrap();
        let changes = self.changes.pop().unwrap();
        if keep {
            self.changes.last_mut().unwrap().extend(changes);
            return;
        }
        if by_host {
            self.reads = reads;
        }
        if by_host || self.advisory {
            self.root = root;
        }
    }

    fn run(&mut self, operation: &Value) {
        let trie = operation.get("child").map(bytes);
        let key = || bytes(&operation["key"]);
        match operation["op"].as_str().unwrap() {
            "get" => drop(self.read(&trie, &key(), true)),
            "exists" | "hash" => drop(self.read(&trie, &key(), false)),
            "next_key" => self.next_key(&trie, &key()),
            "remove" => self.change(&trie, key(), None),
            "set" => self.change(&trie, key(), Some(bytes(&operation["value"]))),
            "append" => {
                let list = self.read(&trie, &key(), true).unwrap_or_default();
                let list = append(&list, bytes(&operation["value"]));
                self.change(&trie, key(), Some(list));
            }
            "clear_prefix" => self.clear(&trie, operation),
            "start" => {
                let sets = (!self.in_runtime, self.reads.clone(), self.root.clone());
                self.open.push(sets);
                self.changes.push(Changes::new());
            }
            "commit" => self.close(true),
            "rollback" => self.close(false),
            "enter" => self.in_runtime = true,
            "exit" => {
                while self.open.last().is_some_and(|(by_host, _, _)| !by_host) {
                    self.close(false);
                }
                self.in_runtime = false;
            }
            "root" => self.compute_root(),
            "child_root" => self.child_root(trie.unwrap()),
            "boundary" => {
                self.tries.boundary(&self.all_changes(), &mut self.root);
                self.compare(operation);
            }
            unknown => panic!("operation {unknown}"),
        }
    }
}

/// A SCALE list with one more element. A value that is not a list counts as an empty list.
fn append(list: &[u8], element: Bytes) -> Bytes {
    let mut rest = list;
    let count = <codec::Compact<u32> as codec::Decode>::decode(&mut rest);
    let (count, rest) = count.map_or((0, &[][..]), |count| (count.0 as usize, rest));
    [compact(count + 1), rest.to_vec(), element].concat()
}
