//! Proofs of reads, with the client's trie cache where it has one.

use crate::{
    backend::{AsTrieBackend, Backend, IterArgs},
    Error, KeyValueStates, KeyValueStorageLevel, MemoryDB, StorageProof, TrieBackend,
    TrieBackendBuilder, TrieBackendStorage, MAX_NESTED_TRIE_DEPTH,
};
use codec::Codec;
use hash_db::Hasher;
use sp_core::storage::{
    well_known_keys::is_child_storage_key, ChildInfo, ChildType, PrefixedStorageKey,
};
use sp_trie::{cache::LocalTrieCache, recorder::Recorder};
use std::collections::HashSet;

/// Keys, values and whether the range ends with them.
type RangeRead = (Vec<(Vec<u8>, Vec<u8>)>, bool);

/// A backend that reads through the cache of another one, and records.
type Proving<'b, S, H> = TrieBackend<&'b S, H, &'b LocalTrieCache<H>>;

fn proving_on<S: TrieBackendStorage<H>, H: Hasher>(
    backend: &TrieBackend<S, H>,
    recorder: Recorder<H>,
) -> Proving<'_, S, H>
where
    H::Out: Codec,
{
    TrieBackendBuilder::wrap(backend)
        .with_recorder(recorder)
        .build()
}

fn proof_of<S: TrieBackendStorage<H>, H: Hasher>(proving: Proving<'_, S, H>) -> StorageProof
where
    H::Out: Codec,
{
    proving.extract_proof().expect("it has a recorder")
}

fn boxed<E: Error>(error: E) -> Box<dyn Error> {
    Box::new(error)
}

/// Where a walk through the top trie is that enters each child trie at the key of its root. A root that several child
/// tries have is entered once.
struct Range {
    /// The key of the root of the child trie that the walk is in.
    child: Option<Vec<u8>>,
    /// The root of the child trie that the walk begins in.
    child_root: Option<Vec<u8>>,
    /// The last key that was passed in this trie.
    after: Option<Vec<u8>>,
    entered: HashSet<Vec<u8>>,
}

impl Range {
    /// A walk that begins after `start_at`: a key of the top trie, or the key of a child's root and a key of the child.
    fn new<H: Hasher, B: Backend<H>>(
        backend: &B,
        start_at: &[Vec<u8>],
    ) -> Result<Self, Box<dyn Error>> {
        let mut range = Self {
            child: None,
            child_root: None,
            after: None,
            entered: HashSet::new(),
        };
        match start_at {
            [] => {}
            [key] => range.after = Some(key.clone()),
            [child, key] => {
                let root = backend.storage(child).map_err(boxed)?;
                let Some(root) = root else {
                    return Err(Box::new(
                        "expected the root of a child trie at the start, found none",
                    ));
                };
                range.enter_once(&root);
                range.child_root = Some(root);
                range.child = Some(child.clone());
                range.after = Some(key.clone());
            }
            _ => {
                let found = start_at.len();
                return Err(Box::new(format!(
                    "expected a start of at most {MAX_NESTED_TRIE_DEPTH} keys, found {found}"
                )));
            }
        }
        Ok(range)
    }

    /// 2 in a child trie, 1 in the top trie.
    fn depth(&self) -> usize {
        1 + usize::from(self.child.is_some())
    }

    /// The rest of the trie that the walk is in.
    fn args(&self) -> Result<IterArgs<'_>, Box<dyn Error>> {
        let mut args = IterArgs::default();
        if let Some(key) = &self.child {
            match ChildType::from_prefixed_key(PrefixedStorageKey::new_ref(key)) {
                Some((ChildType::ParentKeyId, name)) => {
                    args.child_info = Some(ChildInfo::new_default(name));
                }
                None => {
                    return Err(Box::new(
                        "expected the key of a child trie's root at the start, found another",
                    ))
                }
            }
        }
        args.start_at = self.after.as_deref();
        args.start_at_exclusive = true;
        Ok(args)
    }

    /// Whether the root of a child trie lies at `key` of the trie that the walk is in.
    fn is_child_root(&self, key: &[u8]) -> bool {
        self.child.is_none() && is_child_storage_key(key)
    }

    /// Whether no child trie with this root was entered. It then counts as entered.
    fn enter_once(&mut self, root: &[u8]) -> bool {
        self.entered.insert(root.to_vec())
    }

    /// Goes to the start of the child trie whose root lies at `key`.
    fn enter(&mut self, key: Vec<u8>) {
        self.child = Some(key);
        self.after = None;
    }

    /// Goes back to the top trie, after the key of the child's root. Returns whether the walk was in a child trie.
    fn leave(&mut self) -> bool {
        self.after = self.child.take();
        self.after.is_some()
    }
}

/// The proof of reads of `keys`.
///
/// # Errors
/// If a node is missing or damaged.
pub fn prove_read<B, H, I>(backend: B, keys: I) -> Result<StorageProof, Box<dyn Error>>
where
    B: AsTrieBackend<H>,
    H: Hasher,
    H::Out: Ord + Codec,
    I: IntoIterator,
    I::Item: AsRef<[u8]>,
{
    prove_read_on_trie_backend(backend.as_trie_backend(), keys)
}

/// As [`prove_read`].
///
/// # Errors
/// If a node is missing or damaged.
pub fn prove_read_on_trie_backend<S, H, I>(
    trie_backend: &TrieBackend<S, H>,
    keys: I,
) -> Result<StorageProof, Box<dyn Error>>
where
    S: TrieBackendStorage<H>,
    H: Hasher,
    H::Out: Ord + Codec,
    I: IntoIterator,
    I::Item: AsRef<[u8]>,
{
    let proving = proving_on(trie_backend, Recorder::default());
    for key in keys {
        proving.storage(key.as_ref()).map_err(boxed)?;
    }
    Ok(proof_of(proving))
}

/// The proof of reads of `keys` of a child trie.
///
/// # Errors
/// If a node is missing or damaged.
pub fn prove_child_read<B, H, I>(
    backend: B,
    child_info: &ChildInfo,
    keys: I,
) -> Result<StorageProof, Box<dyn Error>>
where
    B: AsTrieBackend<H>,
    H: Hasher,
    H::Out: Ord + Codec,
    I: IntoIterator,
    I::Item: AsRef<[u8]>,
{
    prove_child_read_on_trie_backend(backend.as_trie_backend(), child_info, keys)
}

/// As [`prove_child_read`].
///
/// # Errors
/// If a node is missing or damaged.
pub fn prove_child_read_on_trie_backend<S, H, I>(
    trie_backend: &TrieBackend<S, H>,
    child_info: &ChildInfo,
    keys: I,
) -> Result<StorageProof, Box<dyn Error>>
where
    S: TrieBackendStorage<H>,
    H: Hasher,
    H::Out: Ord + Codec,
    I: IntoIterator,
    I::Item: AsRef<[u8]>,
{
    let proving = proving_on(trie_backend, Recorder::default());
    for key in keys {
        let value = proving.child_storage(child_info, key.as_ref());
        value.map_err(boxed)?;
    }
    Ok(proof_of(proving))
}

/// The proof of a range of keys, child tries included, of about `size_limit` bytes, and how many keys it has.
///
/// # Errors
/// If a node is missing or damaged, or `start_at` names no place.
pub fn prove_range_read_with_child_with_size<B, H>(
    backend: B,
    size_limit: usize,
    start_at: &[Vec<u8>],
) -> Result<(StorageProof, u32), Box<dyn Error>>
where
    B: AsTrieBackend<H>,
    H: Hasher,
    H::Out: Ord + Codec,
{
    let backend = backend.as_trie_backend();
    prove_range_read_with_child_with_size_on_trie_backend(backend, size_limit, start_at)
}

/// As [`prove_range_read_with_child_with_size`].
///
/// # Errors
/// If a node is missing or damaged, or `start_at` names no place.
pub fn prove_range_read_with_child_with_size_on_trie_backend<S, H>(
    trie_backend: &TrieBackend<S, H>,
    size_limit: usize,
    start_at: &[Vec<u8>],
) -> Result<(StorageProof, u32), Box<dyn Error>>
where
    S: TrieBackendStorage<H>,
    H: Hasher,
    H::Out: Ord + Codec,
{
    let recorder = Recorder::default();
    let proving = proving_on(trie_backend, recorder.clone());
    let mut range = Range::new(&proving, start_at)?;
    let mut count = 0;
    loop {
        let mut pairs = proving.pairs(range.args()?).map_err(boxed)?;
        let mut entered = None;
        for pair in pairs.by_ref() {
            let (key, value) = pair.map_err(boxed)?;
            if range.is_child_root(&key) {
                // Always counts, because the reader gets it before the contents of the child.
                count += 1;
                if range.enter_once(&value) {
                    entered = Some(key);
                    break;
                }
            } else if recorder.estimate_encoded_size() <= size_limit {
                count += 1;
            } else {
                break;
            }
        }
        match entered {
            Some(key) => range.enter(key),
            None if pairs.was_complete() && range.leave() => {}
            None => break,
        }
    }
    Ok((proof_of(proving), count))
}

/// The proof of a range of keys of one trie, of about `size_limit` bytes, and how many keys it has.
///
/// # Errors
/// If a node is missing or damaged.
pub fn prove_range_read_with_size<B, H>(
    backend: B,
    child_info: Option<&ChildInfo>,
    prefix: Option<&[u8]>,
    size_limit: usize,
    start_at: Option<&[u8]>,
) -> Result<(StorageProof, u32), Box<dyn Error>>
where
    B: AsTrieBackend<H>,
    H: Hasher,
    H::Out: Ord + Codec,
{
    let backend = backend.as_trie_backend();
    prove_range_read_with_size_on_trie_backend(backend, child_info, prefix, size_limit, start_at)
}

/// As [`prove_range_read_with_size`].
///
/// # Errors
/// If a node is missing or damaged.
pub fn prove_range_read_with_size_on_trie_backend<S, H>(
    trie_backend: &TrieBackend<S, H>,
    child_info: Option<&ChildInfo>,
    prefix: Option<&[u8]>,
    size_limit: usize,
    start_at: Option<&[u8]>,
) -> Result<(StorageProof, u32), Box<dyn Error>>
where
    S: TrieBackendStorage<H>,
    H: Hasher,
    H::Out: Ord + Codec,
{
    let recorder = Recorder::default();
    let proving = proving_on(trie_backend, recorder.clone());
    let mut args = IterArgs::default();
    args.child_info = child_info.cloned();
    args.prefix = prefix;
    args.start_at = start_at;
    let mut count = 0;
    // The values are needed in the proof, so keys alone would not do.
    for pair in proving.pairs(args).map_err(boxed)? {
        pair.map_err(boxed)?;
        if count > 0 && recorder.estimate_encoded_size() > size_limit {
            break;
        }
        count += 1;
    }
    Ok((proof_of(proving), count))
}

/// The value at `key`, from a proof.
///
/// # Errors
/// If the proof lacks a node.
pub fn read_proof_check_on_proving_backend<H>(
    proving_backend: &TrieBackend<MemoryDB<H>, H>,
    key: &[u8],
) -> Result<Option<Vec<u8>>, Box<dyn Error>>
where
    H: Hasher,
    H::Out: Ord + Codec,
{
    proving_backend.storage(key).map_err(boxed)
}

/// The value at `key` of a child trie, from a proof.
///
/// # Errors
/// If the proof lacks a node.
pub fn read_child_proof_check_on_proving_backend<H>(
    proving_backend: &TrieBackend<MemoryDB<H>, H>,
    child_info: &ChildInfo,
    key: &[u8],
) -> Result<Option<Vec<u8>>, Box<dyn Error>>
where
    H: Hasher,
    H::Out: Ord + Codec,
{
    let value = proving_backend.child_storage(child_info, key);
    value.map_err(boxed)
}

/// Up to `count` keys of a range with their values, from a proof, and whether the range ends with them.
///
/// # Errors
/// If a node is damaged.
pub fn read_range_proof_check_on_proving_backend<H>(
    proving_backend: &TrieBackend<MemoryDB<H>, H>,
    child_info: Option<&ChildInfo>,
    prefix: Option<&[u8]>,
    count: Option<u32>,
    start_at: Option<&[u8]>,
) -> Result<RangeRead, Box<dyn Error>>
where
    H: Hasher,
    H::Out: Ord + Codec,
{
    let mut args = IterArgs::default();
    args.child_info = child_info.cloned();
    args.prefix = prefix;
    args.start_at = start_at;
    args.stop_on_incomplete_database = true;
    let mut pairs = proving_backend.pairs(args).map_err(boxed)?;
    let mut values = Vec::new();
    let most = count.map_or(usize::MAX, |count| count as usize);
    for pair in pairs.by_ref() {
        values.push(pair.map_err(boxed)?);
        // At least one value is returned, as by the original.
        if values.len() >= most {
            break;
        }
    }
    Ok((values, pairs.was_complete()))
}

/// The keys of a range with their values, child tries included, from a proof, and at which depth the proof ends.
///
/// # Errors
/// If a node is damaged, or `start_at` names no place.
pub fn read_range_proof_check_with_child_on_proving_backend<H>(
    proving_backend: &TrieBackend<MemoryDB<H>, H>,
    start_at: &[Vec<u8>],
) -> Result<(KeyValueStates, usize), Box<dyn Error>>
where
    H: Hasher,
    H::Out: Ord + Codec,
{
    let level = |state_root| KeyValueStorageLevel {
        state_root,
        parent_storage_keys: Vec::new(),
        key_values: Vec::new(),
    };
    let mut range = Range::new(proving_backend, start_at)?;
    let mut top = level(Vec::new());
    let mut children: Vec<_> = range.child_root.take().map(level).into_iter().collect();
    let depth = loop {
        let mut args = range.args()?;
        args.stop_on_incomplete_database = true;
        let mut pairs = proving_backend.pairs(args).map_err(boxed)?;
        let mut entered = None;
        for pair in pairs.by_ref() {
            let (key, value) = pair.map_err(boxed)?;
            let into = children.last_mut().filter(|_| range.child.is_some());
            let is_entered = range.is_child_root(&key) && range.enter_once(&value);
            if is_entered {
                entered = Some((key.clone(), value.clone()));
            }
            into.unwrap_or(&mut top).key_values.push((key, value));
            if is_entered {
                break;
            }
        }
        match entered {
            Some((key, root)) => {
                children.push(level(root));
                range.enter(key);
            }
            None if !pairs.was_complete() => break range.depth(),
            None if range.leave() => {}
            None => break 0,
        }
    };
    let levels = std::iter::once(top).chain(children).collect();
    Ok((KeyValueStates(levels), depth))
}
