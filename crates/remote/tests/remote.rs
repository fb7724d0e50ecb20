//! States of a node that answers correctly, and of nodes that do not.

#![allow(clippy::unwrap_used)]

mod support;

use povmeter::{Block, Bytes, NodeSource, Root, StateVersion, TrieId};
use povmeter_delta_root::push_compact;
use povmeter_remote::{
    BlockId, DiskCache, NotingSource, Recording, RecordingError, RemoteError, RemoteKey,
    RemoteNode, RemoteState, RpcOptions,
};
use povmeter_store::{MemoryStore, NodeStore};
use rand::{rngs::SmallRng, Rng, SeedableRng};
use std::{collections::BTreeSet, time::Duration};
use support::{FakeBlock, FakeNode, Fault};

/// Keys of the states: short and long ones, with common prefixes of even and odd lengths.
fn key(rng: &mut SmallRng) -> Vec<u8> {
    let short = [rng.random_range(0..8) << 5, rng.random_range(0..4)];
    match rng.random_range(0..3) {
        0 => short[..1].to_vec(),
        1 => short.to_vec(),
        _ => [&short[..], &[rng.random_range(0..3); 30]].concat(),
    }
}

fn value(rng: &mut SmallRng) -> Vec<u8> {
    vec![rng.random_range(0..4); [0, 1, 31, 32, 33, 200][rng.random_range(0..6usize)]]
}

const CHILDREN: [&[u8]; 2] = [b"first", b"second child"];

fn trie(rng: &mut SmallRng) -> TrieId<'static> {
    match rng.random_range(0..4) {
        0 => TrieId::Child(CHILDREN[0]),
        1 => TrieId::Child(CHILDREN[1]),
        _ => TrieId::Top,
    }
}

/// A store with a random state.
fn state(seed: u64, version: StateVersion) -> MemoryStore {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut store = MemoryStore::new();
    let mut block = Block::new(&store, store.root());
    for _ in 0..150 {
        let trie = trie(&mut rng);
        block.set(trie, &key(&mut rng), &value(&mut rng)).unwrap();
    }
    let sealed = block.seal(version).unwrap();
    store.commit(sealed.update()).unwrap();
    store
}

/// The root of the trie of a block's extrinsics.
fn extrinsics_root(body: &[Vec<u8>], version: StateVersion) -> [u8; 32] {
    let store = MemoryStore::new();
    let mut block = Block::new(&store, store.root());
    let compact = |number| {
        let mut encoded = Vec::new();
        push_compact(&mut encoded, number);
        encoded
    };
    for (number, extrinsic) in body.iter().enumerate() {
        let encoded = [&compact(extrinsic.len())[..], extrinsic].concat();
        block.set(TrieId::Top, &compact(number), &encoded).unwrap();
    }
    block.root(version).unwrap().root.into()
}

/// The genesis block of a state, and an empty block on it.
fn blocks(store: &MemoryStore) -> Vec<FakeBlock> {
    let genesis = FakeBlock {
        parent: [0; 32],
        number: 0,
        state_root: store.root().into(),
        extrinsics_root: extrinsics_root(&[], StateVersion::V1),
        logs: Vec::new(),
        body: Vec::new(),
    };
    let body = vec![vec![4, 1, 2], vec![9; 100]];
    let first = FakeBlock {
        parent: genesis.hash(),
        number: 1,
        extrinsics_root: extrinsics_root(&body, StateVersion::V1),
        // What a seal looks like: kind, engine, bytes.
        logs: vec![[&[5][..], b"aura", &[8, 1, 2]].concat()],
        body,
        ..genesis.clone()
    };
    vec![genesis, first]
}

fn serve(store: &MemoryStore) -> FakeNode {
    FakeNode::new(blocks(store), store.clone())
}

/// Options with two attempts. Every answer is expected in time, even by a process that gets no processor for a while.
fn options() -> RpcOptions {
    let mut options = RpcOptions::default();
    options.timeout = Duration::from_secs(60);
    options.attempts = 2;
    options.pause = Duration::from_millis(10);
    options
}

/// Options for a node that does not answer. Long enough to connect to it first.
fn impatient() -> RpcOptions {
    let mut options = options();
    options.timeout = Duration::from_secs(2);
    options
}

fn client(node: &FakeNode, options: RpcOptions) -> RemoteNode {
    RemoteNode::new(node.url().parse().unwrap(), options)
}

fn first_state(node: &RemoteNode) -> RemoteState {
    let block = node.block(&BlockId::Number(1)).unwrap();
    node.parent_state(&block).unwrap()
}

/// Runs random reads, changes and estimates on `source`. Returns the results with the root, and the proof.
fn run(
    source: impl NodeSource,
    root: Root,
    seed: u64,
    version: StateVersion,
) -> (Vec<String>, Vec<u8>) {
    let mut rng = SmallRng::seed_from_u64(seed ^ 0xabc);
    let mut block = Block::new(source, root);
    let mut seen = Vec::new();
    for _ in 0..60 {
        let (trie, key) = (trie(&mut rng), key(&mut rng));
        match rng.random_range(0..6) {
            0 => seen.push(format!("{:?}", block.get(trie, &key).unwrap())),
            1 => seen.push(format!("{:?}", block.next_key(trie, &key).unwrap())),
            2 | 3 => block.remove(trie, &key).unwrap(),
            4 => block.set(trie, &key, &value(&mut rng)).unwrap(),
            _ => seen.push(format!("{:?}", block.proof_size().unwrap())),
        }
    }
    let sealed = block.seal(version).unwrap();
    seen.push(format!("{}", sealed.update().root));
    (seen, sealed.proof().encode())
}

#[test]
fn a_remote_state_gives_what_the_whole_state_gives() {
    for seed in 0..40 {
        let version = if seed % 2 == 0 {
            StateVersion::V0
        } else {
            StateVersion::V1
        };
        let store = state(seed, version);
        let served = serve(&store);
        let node = client(&served, options());
        let remote = first_state(&node);
        assert_eq!(remote.root(), store.root());
        let expected = run(&store, store.root(), seed, version);
        assert_eq!(
            run(&remote, remote.root(), seed, version),
            expected,
            "{seed}"
        );
        // The noted nodes alone are enough to repeat the run.
        let noting = NotingSource::new(remote.clone());
        assert_eq!(
            run(&noting, remote.root(), seed, version),
            expected,
            "{seed}"
        );
        let recording = Recording::new(
            "test".to_owned(),
            node.block(&BlockId::Number(1)).unwrap(),
            noting.noted(),
        );
        let recording = Recording::from_bytes(&recording.unwrap().to_bytes().unwrap()).unwrap();
        let again = run(recording.source(), recording.parent_root, seed, version);
        assert_eq!(again, expected, "{seed}");
        assert!(remote.failure().is_none());
    }
}

#[test]
fn a_block_has_its_header_and_its_extrinsics() {
    let store = state(1, StateVersion::V1);
    let served = serve(&store);
    let node = client(&served, options());
    let expected = &blocks(&store)[1];
    for id in [
        BlockId::Number(1),
        BlockId::Hash(expected.hash()),
        BlockId::Best,
        BlockId::Finalized,
    ] {
        let block = node.block(&id).unwrap();
        assert_eq!(block.header, expected.header());
        assert_eq!((block.hash, &block.body), (expected.hash(), &expected.body));
    }
    let error = node.block(&BlockId::Hash([9; 32])).unwrap_err();
    assert!(matches!(error, RemoteError::UnknownBlock { .. }), "{error}");
    assert!(
        error.to_string().contains("expected block 0x0909"),
        "{error}"
    );
    let error = node.block(&BlockId::Number(7)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "expected block 7, found that the chain's best block is 1, so block 7 does not exist yet"
    );
    let error = node.block(&BlockId::Number(0)).unwrap_err();
    assert!(matches!(error, RemoteError::GenesisBlock), "{error}");
}

#[test]
fn a_second_run_asks_nothing() {
    let store = state(2, StateVersion::V1);
    let served = serve(&store);
    let folder = tempfile::tempdir().unwrap();
    let mut results = BTreeSet::new();
    for round in 0..3 {
        let cache = DiskCache::open(folder.path()).unwrap();
        let node = client(&served, options()).with_cache(cache);
        let remote = first_state(&node);
        results.insert(run(&remote, remote.root(), 2, StateVersion::V1));
        // The second run asks which chain is there, and no more.
        assert_eq!(node.requests() == 1, round > 0, "{}", node.requests());
    }
    assert_eq!(results.len(), 1);
    // A node on disk with a changed byte is requested again.
    let file = folder.path().join("nodes.cache");
    let mut bytes = std::fs::read(&file).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    let node = client(&served, options()).with_cache(DiskCache::open(folder.path()).unwrap());
    let remote = first_state(&node);
    results.insert(run(&remote, remote.root(), 2, StateVersion::V1));
    assert_eq!(results.len(), 1);
    assert!(node.requests() > 1);
    // The file is cut off within a record: the records before it stay.
    let whole = DiskCache::open(folder.path()).unwrap().len();
    std::fs::write(&file, &bytes[..bytes.len() - 3]).unwrap();
    let cut = DiskCache::open(folder.path()).unwrap().len();
    assert!(cut > 10 && cut < whole, "{cut} of {whole}");
    std::fs::write(&file, b"another program's file, long enough").unwrap();
    let error = DiskCache::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("found another file"), "{error}");
}

#[test]
fn announced_keys_cost_few_requests() {
    let store = state(3, StateVersion::V1);
    let served = serve(&store);
    let node = client(&served, options());
    let remote = first_state(&node);
    let mut rng = SmallRng::seed_from_u64(3);
    let keys: Vec<RemoteKey> = (0..100)
        .map(|index| {
            let child = (index % 5 == 0).then(|| CHILDREN[0].to_vec());
            (child, key(&mut rng))
        })
        .collect();
    let before = node.requests();
    remote.prefetch(&keys).unwrap();
    // Two for the top trie, one for the child trie.
    assert!(
        node.requests() - before <= 3,
        "{}",
        node.requests() - before
    );
    let after = node.requests();
    let mut block = Block::new(&remote, remote.root());
    for (child, key) in &keys {
        let trie = child.as_deref().map_or(TrieId::Top, TrieId::Child);
        block.get(trie, key).unwrap();
        remote.will_read((child.clone(), key.clone()));
    }
    assert_eq!(node.requests(), after);
    // Changed keys are requested with the next key that is read.
    let other = first_state(&node);
    let before = node.requests();
    for (child, key) in &keys[..20] {
        other.will_change((child.clone(), key.clone()));
    }
    assert_eq!(node.requests(), before);
    other.will_read((None, vec![0xff; 9]));
    assert!((1..=2).contains(&(node.requests() - before)));
    let after = node.requests();
    let mut block = Block::new(&other, other.root());
    for (child, key) in &keys[..20] {
        let trie = child.as_deref().map_or(TrieId::Top, TrieId::Child);
        block.get(trie, key).unwrap();
    }
    assert_eq!(node.requests(), after);
}

#[test]
fn requests_in_flight_are_limited() {
    let store = state(4, StateVersion::V0);
    let served = FakeNode::collecting(blocks(&store), store.clone());
    let mut options = options();
    options.in_flight = 3;
    options.keys = 1;
    let node = client(&served, options);
    let remote = first_state(&node);
    let keys: Vec<RemoteKey> = (0..10).map(|byte| (None, vec![byte << 4, 1])).collect();
    remote.prefetch(&keys).unwrap();
    assert_eq!(served.most_waiting(), 3);
}

/// Returns the error of reads on a node with this fault. The state machine's error must contain it.
#[track_caller]
fn refused(fault: Fault) -> RemoteError {
    refused_with(options(), fault)
}

#[track_caller]
fn refused_with(read: RpcOptions, fault: Fault) -> RemoteError {
    let store = state(5, StateVersion::V1);
    let served = serve(&store);
    // With patience, because only the reads may time out.
    let block = client(&served, options()).block(&BlockId::Number(1));
    let node = client(&served, read);
    let remote = node.parent_state(&block.unwrap()).unwrap();
    served.fail(fault);
    let mut block = Block::new(&remote, remote.root());
    let long = [&[0x20, 1][..], &[1; 30]].concat();
    let error = block.get(TrieId::Top, &long).unwrap_err();
    let failure = remote.failure().unwrap();
    let mut chain = String::new();
    let mut below: Option<&dyn std::error::Error> = Some(&error);
    while let Some(error) = below {
        chain += &format!("{error}: ");
        below = error.source();
    }
    assert!(chain.contains(&failure.to_string()), "{chain}");
    // The state stays failed, and sends no more requests.
    let asked = node.requests();
    served.fail(Fault::None);
    assert!(block.get(TrieId::Top, &[0xe0]).is_err());
    assert!(block.get(TrieId::Child(CHILDREN[0]), &[0]).is_err());
    assert_eq!(node.requests(), asked);
    failure
}

#[test]
fn lies_and_silence_are_errors_with_their_names() {
    for fault in [Fault::WrongNodes, Fault::MissingNodes] {
        let error = refused(fault);
        assert!(matches!(error, RemoteError::NodeHash { .. }), "{error}");
        assert!(error.to_string().contains("the path 0x"), "{error}");
    }
    let error = refused(Fault::CutOff);
    assert!(matches!(error, RemoteError::Answer { .. }), "{error}");
    let error = refused(Fault::OtherState);
    assert!(matches!(error, RemoteError::Answer { .. }), "{error}");
    let error = refused_with(impatient(), Fault::Silent);
    assert!(
        matches!(error, RemoteError::TimedOut { attempts: 2, .. }),
        "{error}"
    );
    // Other messages are no answers, and so do not prolong the wait.
    let error = refused_with(impatient(), Fault::Chatters(impatient().timeout / 4));
    assert!(
        matches!(error, RemoteError::TimedOut { attempts: 2, .. }),
        "{error}"
    );
    let error = refused(Fault::Closes(9));
    assert!(
        matches!(error, RemoteError::Broken { attempts: 2, .. }),
        "{error}"
    );
    let error = refused(Fault::Limits(9));
    assert!(
        matches!(error, RemoteError::Limited { code: -32029, .. }),
        "{error}"
    );
    for (code, message) in [
        (
            4003,
            "Client error: UnknownBlock: State already discarded for 0x12",
        ),
        (-32000, "Client error: State already discarded for 0x12"),
        (
            4003,
            "Client error: UnknownBlock: Header was not found in the database",
        ),
    ] {
        let error = refused(Fault::Refuses(code, message));
        assert!(matches!(error, RemoteError::NoState { .. }), "{error}");
        assert!(error.to_string().contains(message), "{error}");
    }
    let error = refused(Fault::Refuses(-32601, "Method not found"));
    assert!(
        matches!(error, RemoteError::Refused { code: -32601, .. }),
        "{error}"
    );
    let error = refused(Fault::LargestProof(0));
    assert!(matches!(error, RemoteError::TooLarge { .. }), "{error}");
}

#[test]
fn what_passes_is_tried_again() {
    let store = state(6, StateVersion::V1);
    let served = serve(&store);
    let expected = run(&store, store.root(), 6, StateVersion::V1);
    for fault in [Fault::Limits(1), Fault::Closes(1), Fault::LargestProof(1)] {
        let node = client(&served, options());
        let remote = first_state(&node);
        served.fail(fault.clone());
        assert_eq!(
            run(&remote, remote.root(), 6, StateVersion::V1),
            expected,
            "{fault:?}"
        );
        served.fail(Fault::None);
    }
    // A large batch is split until its answer is small enough.
    let remote = first_state(&client(&served, options()));
    served.fail(Fault::LargestProof(3));
    let keys: Vec<RemoteKey> = (0..16).map(|byte| (None, vec![byte << 4, 1])).collect();
    remote.prefetch(&keys).unwrap();
    assert!(remote.failure().is_none());
}

#[test]
fn attempts_that_bring_answers_are_not_used_up() {
    let store = state(9, StateVersion::V1);
    let served = serve(&store);
    let keys: Vec<RemoteKey> = (0..10).map(|byte| (None, vec![byte << 4, 1])).collect();
    let mut options = options();
    (options.keys, options.in_flight) = (1, 1);
    let prefetch = |answers| {
        let remote = first_state(&client(&served, options));
        served.fail(Fault::ClosesAfter(answers));
        let prefetched = remote.prefetch(&keys);
        served.fail(Fault::None);
        prefetched
    };
    // Each of five connections brings two answers.
    prefetch(2).unwrap();
    let error = prefetch(0).unwrap_err();
    assert!(
        matches!(error, RemoteError::Broken { attempts: 2, .. }),
        "{error}"
    );
}

/// Otherwise a node could fill the memory and the disk.
#[test]
fn nodes_that_nobody_refers_to_are_not_kept() {
    let store = state(6, StateVersion::V1);
    let served = serve(&store);
    let expected = run(&store, store.root(), 6, StateVersion::V1);
    let kept = [Fault::None, Fault::MoreNodes(500)].map(|fault| {
        let folder = tempfile::tempdir().unwrap();
        let cache = DiskCache::open(folder.path()).unwrap();
        let remote = first_state(&client(&served, options()).with_cache(cache.clone()));
        served.fail(fault);
        let ran = run(&remote, remote.root(), 6, StateVersion::V1);
        served.fail(Fault::None);
        assert_eq!(ran, expected);
        (remote.loaded_nodes(), cache.len())
    });
    assert_eq!(kept[0], kept[1]);
}

#[test]
fn answers_before_a_failure_are_kept() {
    let store = state(9, StateVersion::V1);
    let served = serve(&store);
    let folder = tempfile::tempdir().unwrap();
    // With patience, because only the proofs may time out.
    let block = client(&served, options())
        .block(&BlockId::Number(1))
        .unwrap();
    let keys: Vec<RemoteKey> = (0..10).map(|byte| (None, vec![byte << 4, 1])).collect();
    let mut rounds = Vec::new();
    for (fault, mut options) in [
        (Fault::SilentAfter(6), impatient()),
        (Fault::None, options()),
        (Fault::None, options()),
    ] {
        options.keys = 1;
        let cache = DiskCache::open(folder.path()).unwrap();
        let node = client(&served, options).with_cache(cache.clone());
        let remote = node.parent_state(&block).unwrap();
        let (cached, sent) = (cache.len(), node.requests());
        served.fail(fault.clone());
        let result = remote.prefetch(&keys);
        assert_eq!(result.is_ok(), fault == Fault::None, "{result:?}");
        // An answer is known at once, without the cache.
        assert!(remote.loaded_nodes() > 1);
        rounds.push((cache.len() - cached, node.requests() - sent));
    }
    let [(first, _), (second, asked), last] = rounds[..] else {
        panic!("three rounds")
    };
    assert!(first > 1 && second > 0, "{first} and {second}");
    // Some of the keys without an answer end at nodes that are there.
    assert!((1..=4).contains(&asked), "{asked}");
    assert_eq!(last, (0, 0));
}

#[test]
fn another_hasher_and_no_node_at_all() {
    let store = state(7, StateVersion::V1);
    let served = serve(&store);
    served.fail(Fault::OtherHeader);
    let error = client(&served, options())
        .block(&BlockId::Number(1))
        .unwrap_err();
    assert!(matches!(error, RemoteError::HeaderHash { .. }), "{error}");
    assert!(error.to_string().contains("another hasher"), "{error}");
    served.fail(Fault::OtherBody);
    let [cache, other_cache] = [(), ()].map(|()| tempfile::tempdir().unwrap());
    let cached = |folder: &tempfile::TempDir| {
        let cache = DiskCache::open(folder.path()).unwrap();
        client(&served, options()).with_cache(cache)
    };
    let error = cached(&cache).block(&BlockId::Number(1)).unwrap_err();
    assert!(
        matches!(error, RemoteError::ExtrinsicsRoot { .. }),
        "{error}"
    );
    served.fail(Fault::OtherHash);
    let error = cached(&other_cache).block(&BlockId::Number(1)).unwrap_err();
    assert!(
        matches!(
            error,
            RemoteError::Number {
                expected: 1,
                found: 0
            }
        ),
        "{error}"
    );
    // What was wrong is not kept.
    served.fail(Fault::None);
    assert_eq!(
        cached(&other_cache)
            .block(&BlockId::Number(1))
            .unwrap()
            .parts
            .number,
        1
    );
    assert_eq!(
        cached(&cache)
            .block(&BlockId::Number(1))
            .unwrap()
            .body
            .len(),
        2
    );
    // Another chain at the same address.
    let mut others = blocks(&state(8, StateVersion::V0));
    others[1].extrinsics_root = extrinsics_root(&others[1].body, StateVersion::V0);
    let expected = others[1].hash();
    served.serve(others);
    assert_eq!(
        cached(&cache).block(&BlockId::Number(1)).unwrap().hash,
        expected
    );
    // A port whose listener never answers, and a port without a listener: not one that was free a moment ago, which
    // the node of another test could get.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_url = format!("ws://{}", silent.local_addr().unwrap());
    for (url, options, is_silent) in [
        (&silent_url[..], impatient(), true),
        ("ws://127.0.0.1:1", options(), false),
    ] {
        let node = RemoteNode::new(url.parse().unwrap(), options);
        let error = node.block_hash(&BlockId::Best).unwrap_err();
        let is_expected = match is_silent {
            true => matches!(error, RemoteError::NoHandshake { attempts: 2, .. }),
            false => matches!(error, RemoteError::Connect { .. }),
        };
        assert!(is_expected, "{error}");
        assert!(!error.to_string().contains("(os error 11)"), "{error}");
    }
    if !cfg!(feature = "tls") {
        let node = RemoteNode::new("wss://localhost:1".parse().unwrap(), options());
        let error = node.block_hash(&BlockId::Best).unwrap_err();
        assert!(matches!(error, RemoteError::NoTls { .. }), "{error}");
    }
}

#[test]
fn damaged_recordings_are_errors() {
    let store = state(8, StateVersion::V1);
    let served = serve(&store);
    let node = client(&served, options());
    let noting = NotingSource::new(first_state(&node));
    run(&noting, store.root(), 8, StateVersion::V1);
    let block = node.block(&BlockId::Number(1)).unwrap();
    let good = Recording::new("test".to_owned(), block, noting.noted()).unwrap();
    let bytes = good.to_bytes().unwrap();
    assert_eq!(Recording::from_bytes(&bytes).unwrap(), good);
    for length in 0..bytes.len() {
        let error = Recording::from_bytes(&bytes[..length]).unwrap_err();
        let expected = match length {
            0..8 => matches!(error, RecordingError::Foreign),
            _ => matches!(error, RecordingError::Damaged(_)),
        };
        assert!(expected, "{length}: {error}");
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        // Changes to the time and the system in gzip's header, and to its padding bits, have no effect.
        match Recording::from_bytes(&changed) {
            Ok(same) => assert!(same == good, "{at}"),
            Err(RecordingError::Foreign) => assert!(at < 7),
            Err(RecordingError::Version { found }) => assert_eq!((at, found), (7, 0x11)),
            Err(_) => assert!(at > 7),
        }
    }
    let longer = [&bytes[..], &[0]].concat();
    let error = Recording::from_bytes(&longer).unwrap_err();
    assert!(
        matches!(error, RecordingError::LeftOver { bytes: 1 }),
        "{error}"
    );
    let other = Recording {
        parent_root: Root::EMPTY,
        ..good.clone()
    };
    let error = Recording::from_bytes(&other.to_bytes().unwrap()).unwrap_err();
    assert!(
        matches!(error, RecordingError::OtherState { .. }),
        "{error}"
    );
    let other = Recording {
        parent: Some(good.header.clone()),
        ..good.clone()
    };
    let error = Recording::from_bytes(&other.to_bytes().unwrap()).unwrap_err();
    assert!(
        matches!(error, RecordingError::OtherParent { .. }),
        "{error}"
    );
    // A missing node is an error of the source.
    let fewer = Recording {
        nodes: good.nodes[1..].to_vec(),
        ..good
    };
    let source = Recording::from_bytes(&fewer.to_bytes().unwrap())
        .unwrap()
        .source();
    let hash = povmeter_delta_root::Blake2b256::hash(&noting.noted()[0]);
    let error = source.node(&hash, (&[], None)).unwrap_err().to_string();
    assert!(error.contains(&hash.to_string()), "{error}");
}

#[test]
fn more_than_the_limit_is_not_unpacked() {
    use std::io::Write;
    let head = b"povmrec\x01".to_vec();
    let mut bomb = flate2::write::GzEncoder::new(head, flate2::Compression::fast());
    let zeros = vec![0; 1 << 20];
    for _ in 0..=Recording::LIMIT >> 20 {
        bomb.write_all(&zeros).unwrap();
    }
    let error = Recording::from_bytes(&bomb.finish().unwrap()).unwrap_err();
    assert!(matches!(error, RecordingError::TooLarge { .. }), "{error}");
}

#[test]
fn more_than_the_limit_is_not_written() {
    let store = state(8, StateVersion::V1);
    let node = client(&serve(&store), options());
    let block = node.block(&BlockId::Number(1)).unwrap();
    let nodes = |count| vec![Bytes::from(vec![0; 1 << 20]); count];
    let most = (Recording::LIMIT >> 20) as usize;
    let large = Recording::new("test".to_owned(), block, nodes(most)).unwrap();
    let error = large.to_bytes().unwrap_err();
    assert!(matches!(error, RecordingError::TooLarge { .. }), "{error}");
    let path = std::env::temp_dir().join(format!("povmeter-too-large-{}", std::process::id()));
    let error = large.write(&path).unwrap_err();
    assert!(matches!(error, RecordingError::TooLarge { .. }), "{error}");
    assert!(!path.exists());
}

#[test]
fn a_recording_is_written_beside_the_files_of_other_writers() {
    let (recording, _) = recording_of((1, &[4]), (1, &[0]));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("block");
    let id = std::process::id();
    let others = [format!("block.{id}.part"), format!("block.{id}.0.part")];
    for other in &others {
        std::fs::write(folder.path().join(other), other).unwrap();
    }
    std::thread::scope(|scope| {
        // Other systems than Unix may refuse to replace a file that another thread is replacing.
        for _ in 0..if cfg!(unix) { 4 } else { 1 } {
            scope.spawn(|| {
                for _ in 0..10 {
                    recording.write(&path).unwrap();
                    assert!(Recording::read(&path).unwrap() == recording);
                }
            });
        }
    });
    for other in &others {
        let content = std::fs::read_to_string(folder.path().join(other));
        assert_eq!(&content.unwrap(), other);
    }
    // Nothing is left of a write that fails, because a folder has the name.
    std::fs::create_dir_all(folder.path().join("folder/inside")).unwrap();
    let error = recording.write(&folder.path().join("folder")).unwrap_err();
    assert!(matches!(error, RecordingError::File(_)), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4);
}

/// The content of a recording whose lists have these numbers of entries, all with the same bytes.
fn recording_of(extrinsics: (usize, &[u8]), nodes: (usize, &[u8])) -> (Recording, Vec<u8>) {
    use std::io::Write;
    let store = state(8, StateVersion::V1);
    let node = client(&serve(&store), options());
    let block = node.block(&BlockId::Number(1)).unwrap();
    let mut recording = Recording::new("test".to_owned(), block, Vec::new()).unwrap();
    let mut content = Vec::new();
    for part in [
        recording.name.as_bytes(),
        recording.parent_root.as_bytes(),
        recording.parent.as_ref().unwrap(),
        &recording.header,
    ] {
        push_compact(&mut content, part.len());
        content.extend(part);
    }
    for (count, entry) in [extrinsics, nodes] {
        push_compact(&mut content, count);
        let mut part = Vec::new();
        push_compact(&mut part, entry.len());
        part.extend(entry);
        content.extend(part.repeat(count));
    }
    recording.body = vec![extrinsics.1.to_vec(); extrinsics.0];
    recording.nodes = vec![Bytes::copy_from_slice(nodes.1); nodes.0];
    let head = b"povmrec\x01".to_vec();
    let mut packed = flate2::write::GzEncoder::new(head, flate2::Compression::fast());
    packed.write_all(&content).unwrap();
    (recording, packed.finish().unwrap())
}

#[test]
fn empty_entries_are_neither_read_nor_written() {
    for (extrinsics, nodes, name) in [
        (1 << 20, 0, "an extrinsic of one byte"),
        (0, 1 << 20, "a node of one byte"),
    ] {
        let (recording, packed) = recording_of((extrinsics, b""), (nodes, b""));
        for error in [
            Recording::from_bytes(&packed).unwrap_err(),
            recording.to_bytes().unwrap_err(),
        ] {
            assert!(matches!(error, RecordingError::Part { .. }), "{error}");
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}

#[test]
fn short_entries_count_for_the_memory_they_need() {
    // Each counts for 128 bytes besides its length and its byte.
    let most = usize::try_from(Recording::LIMIT).unwrap() / 130;
    for (extrinsics, nodes) in [(most, 0), (0, most), (most / 2, most / 2 + 1)] {
        let (recording, packed) = recording_of((extrinsics, &[4]), (nodes, &[0]));
        for error in [
            Recording::from_bytes(&packed).unwrap_err(),
            recording.to_bytes().unwrap_err(),
        ] {
            assert!(matches!(error, RecordingError::TooLarge { .. }), "{error}");
        }
    }
    let (recording, packed) = recording_of((most / 2, &[4]), (most / 2 - 9, &[0]));
    assert!(Recording::from_bytes(&packed).unwrap() == recording);
    assert!(recording.to_bytes().is_ok());
}
