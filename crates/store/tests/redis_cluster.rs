//! Tests of nodes in a Redis Cluster without faults: three masters, started here.
#![allow(clippy::unwrap_used)]

#[path = "common/blocks.rs"]
mod blocks;
#[path = "common/cluster.rs"]
mod cluster;
mod common;

use blocks::random_block;
use bytes::Bytes;
use cluster::{TestCluster, MASTERS, PATIENT};
use common::{change, changes, encoded, hash, root, Change};
use povmeter_delta_root::{
    Blake2b256, NodeBatch, NodeHash, NodeRequest, NodeSource, Root, RootUpdate,
};
use povmeter_store::{ClusterError, ClusterOptions, MemoryStore, NodeStore, RedisCluster};

fn connect(cluster: &TestCluster, namespace: &str) -> RedisCluster {
    let addresses = cluster.addresses();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let options = ClusterOptions::new(namespace)
        .unwrap()
        .connect_timeout(PATIENT / 4)
        .response_timeout(PATIENT / 4)
        .total_timeout(PATIENT);
    RedisCluster::connect(&addresses, options).unwrap()
}

/// An update from `parent` to the root `name`, which inserts that root's node and `nodes`.
fn update(parent: Root, name: &str, nodes: Vec<Change>) -> RootUpdate {
    let nodes: Vec<_> = nodes.into_iter().chain([change(name, &[], 1)]).collect();
    RootUpdate {
        parent,
        root: root(name),
        children: vec![],
        nodes: changes(&nodes),
    }
}

fn read(nodes: &RedisCluster, name: &str) -> Option<Bytes> {
    nodes.node(&hash(name), (&[], None)).unwrap()
}

/// The key of a node, as the documentation says.
fn node_key(namespace: &str, hash: &NodeHash) -> Vec<u8> {
    [namespace.as_bytes(), b":n", hash.as_bytes()].concat()
}

/// Sends a command to the master that has the key.
fn at_owner(cluster: &TestCluster, name: &str, key: &[u8], more: &[&[u8]]) {
    let words: Vec<&[u8]> = [name.as_bytes(), key]
        .into_iter()
        .chain(more.iter().copied())
        .collect();
    let slot: usize = cluster.command(0, &[b"CLUSTER", b"KEYSLOT", key]);
    let owner = (0..MASTERS)
        .rfind(|index| 16_384 * index / MASTERS <= slot)
        .unwrap();
    cluster.command::<redis::Value>(owner, &words);
}

#[test]
fn nodes_come_back_one_by_one_and_in_batches() {
    let Some(cluster) = TestCluster::start(PATIENT) else {
        return;
    };
    let nodes = connect(&cluster, "chain");
    let names: Vec<String> = (0..300).map(|number| format!("node {number}")).collect();
    let added = names.iter().map(|name| change(name, &[1], 1));
    nodes
        .insert(&update(Root::EMPTY, "first", added.collect()))
        .unwrap();

    for index in 0..MASTERS {
        let keys: usize = cluster.tell(index, "DBSIZE");
        assert!(keys > 60, "master {index} has {keys} of 302 keys");
    }
    // Another connection, as another worker has it.
    let nodes = connect(&cluster, "chain");
    assert_eq!(read(&nodes, "node 7"), Some(encoded("node 7")));
    assert_eq!(read(&nodes, "absent"), None);
    let null = Root::EMPTY.node_hash();
    assert_eq!(nodes.node(&null, (&[], None)).unwrap().unwrap(), &[0][..]);

    let absent = [
        "absent".to_owned(),
        "node 3".to_owned(),
        "absent".to_owned(),
    ];
    let asked: Vec<&String> = names.iter().chain(&absent).collect();
    let request = |hash| NodeRequest {
        hash,
        ..NodeRequest::default()
    };
    let hashes = asked.iter().map(|name| hash(name)).chain([null]);
    let requests: Vec<_> = hashes.map(request).collect();
    let mut answers = Vec::new();
    for mut batch in NodeBatch::of(&requests) {
        batch.answer_with_copy(0, b"answered before");
        nodes.nodes(&mut batch);
        assert_eq!(batch.get(0).unwrap().unwrap(), b"answered before");
        answers.extend((0..batch.len()).map(|index| batch.share(index)));
    }
    assert_eq!(answers.pop().unwrap().unwrap(), &[0][..]);
    for (index, (name, answer)) in asked.into_iter().zip(answers).enumerate() {
        let expected = (name != "absent").then(|| encoded(name));
        if index % NodeBatch::MOST != 0 {
            assert_eq!(answer, expected, "{name}");
        }
    }
}

#[test]
fn large_nodes_and_many_threads() {
    let Some(cluster) = TestCluster::start(PATIENT) else {
        return;
    };
    let nodes = connect(&cluster, "chain");
    let large: Vec<Bytes> = (1..)
        .zip([1, 33, 100_000, 5_000_000])
        .map(|(fill, size)| vec![fill; size].into())
        .collect();
    let added = large.iter().map(|encoded| Change {
        hash: Blake2b256::hash(encoded),
        encoded: encoded.clone(),
        ..change("large", &[], 1)
    });
    nodes
        .insert(&update(Root::EMPTY, "first", added.collect()))
        .unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for encoded in &large {
                    let found = nodes.node(&Blake2b256::hash(encoded), (&[], None)).unwrap();
                    assert!(found.as_ref() == Some(encoded), "{} bytes", encoded.len());
                }
            });
        }
    });
}

#[test]
fn random_blocks_are_those_over_memory() {
    let Some(cluster) = TestCluster::start(PATIENT) else {
        return;
    };
    let nodes = connect(&cluster, "chain");
    let mut memory = MemoryStore::new();
    for number in 0..12 {
        let operations = if number == 0 { 3_000 } else { 150 };
        let parent = memory.root();
        let (expected_sizes, expected) = random_block(&memory, parent, number, operations);
        let (sizes, sealed) = random_block(&nodes, parent, number, operations);
        assert_eq!(sizes, expected_sizes, "sizes in block {number}");
        assert!(sizes.len() > 5);
        assert_eq!(sealed.update(), expected.update(), "block {number}");
        assert_eq!(sealed.proof(), expected.proof(), "block {number}");
        nodes.insert(sealed.update()).unwrap();
        nodes.move_head(parent, sealed.update().root).unwrap();
        memory.commit(expected.update()).unwrap();
        assert_eq!(nodes.head().unwrap(), memory.root());
    }
    // Two forks: their states lie side by side.
    let parent = memory.root();
    for number in [100, 101] {
        let fork = random_block(&nodes, parent, number, 50).1;
        nodes.insert(fork.update()).unwrap();
    }
    for number in [100, 101] {
        let mut memory = memory.clone();
        let fork = random_block(&memory, parent, number, 50).1;
        memory.commit(fork.update()).unwrap();
        let expected = random_block(&memory, memory.root(), 102, 100);
        let found = random_block(&nodes, memory.root(), 102, 100);
        assert_eq!(found.0, expected.0, "sizes after fork {number}");
        assert_eq!(found.1.update(), expected.1.update(), "after fork {number}");
    }
}

#[test]
fn namespaces_are_separate() {
    let Some(cluster) = TestCluster::start(PATIENT) else {
        return;
    };
    let (one, other) = (connect(&cluster, "one"), connect(&cluster, "other"));
    one.insert(&update(Root::EMPTY, "first", vec![])).unwrap();
    one.move_head(Root::EMPTY, root("first")).unwrap();
    assert_eq!(read(&one, "first"), Some(encoded("first")));
    assert_eq!(read(&other, "first"), None);
    assert!(!other.is_published(root("first")).unwrap());
    assert_eq!(other.head().unwrap(), Root::EMPTY);
}

#[test]
fn a_root_needs_its_nodes_and_its_parent() {
    let Some(cluster) = TestCluster::start(PATIENT) else {
        return;
    };
    let nodes = connect(&cluster, "chain");
    let orphan = update(root("unknown"), "orphan", vec![]);
    let error = nodes.insert(&orphan).unwrap_err();
    assert!(
        matches!(error, ClusterError::UnknownParent { parent } if parent == root("unknown")),
        "{error}"
    );
    let rootless = RootUpdate {
        root: root("rootless"),
        ..update(Root::EMPTY, "other", vec![])
    };
    let error = nodes.insert(&rootless).unwrap_err();
    assert!(
        matches!(error, ClusterError::MissingRoot { root: r } if r == root("rootless")),
        "{error}"
    );
    let bare = Change {
        encoded: Bytes::new(),
        ..change("bare", &[4], 1)
    };
    let error = nodes
        .insert(&update(Root::EMPTY, "with bare", vec![bare]))
        .unwrap_err();
    assert!(
        matches!(error, ClusterError::MissingEncoding { hash: h } if h == hash("bare")),
        "{error}"
    );
    let wrong = Change {
        encoded: encoded("wrong"),
        ..change("right", &[4], 1)
    };
    let error = nodes
        .insert(&update(Root::EMPTY, "with wrong", vec![wrong]))
        .unwrap_err();
    assert!(
        matches!(&error, ClusterError::Corrupt(found) if found.expected == hash("right")),
        "{error}"
    );
    // Nothing was written.
    let keys: usize = (0..MASTERS)
        .map(|index| cluster.tell::<usize>(index, "DBSIZE"))
        .sum();
    assert_eq!(keys, 0);
    for name in ["orphan", "rootless", "with bare", "with wrong"] {
        assert!(!nodes.is_published(root(name)).unwrap());
    }
    assert!(nodes.is_published(Root::EMPTY).unwrap());
}

#[test]
fn one_of_two_writers_moves_the_head() {
    let Some(cluster) = TestCluster::start(PATIENT) else {
        return;
    };
    let nodes = connect(&cluster, "chain");
    assert_eq!(nodes.head().unwrap(), Root::EMPTY);
    let error = nodes.move_head(Root::EMPTY, root("a")).unwrap_err();
    assert!(
        matches!(error, ClusterError::Unpublished { root: r } if r == root("a")),
        "{error}"
    );
    for name in ["a", "b"] {
        nodes.insert(&update(Root::EMPTY, name, vec![])).unwrap();
    }
    let moved: Vec<_> = std::thread::scope(|scope| {
        let nodes = &nodes;
        let writers = ["a", "b"]
            .map(|name| scope.spawn(move || (name, nodes.move_head(Root::EMPTY, root(name)))));
        writers.map(|writer| writer.join().unwrap()).into()
    });
    let winners: Vec<_> = moved.iter().filter(|(_, result)| result.is_ok()).collect();
    assert_eq!(winners.len(), 1);
    let head = nodes.head().unwrap();
    assert_eq!(head, root(winners[0].0));
    for (_, result) in &moved {
        let Err(error) = result else { continue };
        assert!(
            matches!(error, ClusterError::HeadMoved { expected: Root::EMPTY, found } if *found == head),
            "{error}"
        );
    }
    nodes.move_head(head, Root::EMPTY).unwrap();
    assert_eq!(nodes.head().unwrap(), Root::EMPTY);
}

/// A client tries again after a lost answer, and so may its caller.
#[test]
fn a_move_of_the_head_can_be_repeated() {
    let Some(cluster) = TestCluster::start(PATIENT) else {
        return;
    };
    let nodes = connect(&cluster, "chain");
    for name in ["a", "b"] {
        nodes.insert(&update(Root::EMPTY, name, vec![])).unwrap();
    }
    for _ in 0..3 {
        nodes.move_head(Root::EMPTY, root("a")).unwrap();
        assert_eq!(nodes.head().unwrap(), root("a"));
    }
    // Another head is no reason to succeed, and stays.
    let error = nodes.move_head(Root::EMPTY, root("b")).unwrap_err();
    assert!(
        matches!(error, ClusterError::HeadMoved { expected: Root::EMPTY, found } if found == root("a")),
        "{error}"
    );
    nodes.move_head(root("a"), root("b")).unwrap();
    nodes.move_head(root("a"), root("b")).unwrap();
    let error = nodes.move_head(Root::EMPTY, root("a")).unwrap_err();
    assert!(matches!(error, ClusterError::HeadMoved { .. }), "{error}");
    assert_eq!(nodes.head().unwrap(), root("b"));
}

#[test]
fn a_lost_node_is_missing_until_it_is_inserted_again() {
    let Some(cluster) = TestCluster::start(PATIENT) else {
        return;
    };
    let nodes = connect(&cluster, "chain");
    let first = update(Root::EMPTY, "first", vec![change("a", &[1], 1)]);
    nodes.insert(&first).unwrap();
    at_owner(&cluster, "DEL", &node_key("chain", &hash("a")), &[]);
    assert_eq!(read(&nodes, "a"), None);
    assert_eq!(read(&nodes, "first"), Some(encoded("first")));
    nodes.insert(&first).unwrap();
    assert_eq!(read(&nodes, "a"), Some(encoded("a")));
}

#[test]
fn a_foreign_value_is_never_a_node() {
    let Some(cluster) = TestCluster::start(PATIENT) else {
        return;
    };
    let nodes = connect(&cluster, "chain");
    let added = ["a", "b", "c"].map(|name| change(name, &[1], 1));
    nodes
        .insert(&update(Root::EMPTY, "first", added.into()))
        .unwrap();
    at_owner(
        &cluster,
        "SET",
        &node_key("chain", &hash("a")),
        &[&encoded("b")],
    );
    let key = node_key("chain", &hash("c"));
    at_owner(&cluster, "DEL", &key, &[]);
    at_owner(&cluster, "RPUSH", &key, &[b"list"]);

    let error = nodes.node(&hash("a"), (&[], None)).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(&hash("a").to_string()) && text.contains(&hash("b").to_string()),
        "{text}"
    );
    let request = |name| NodeRequest {
        hash: hash(name),
        ..NodeRequest::default()
    };
    let requests = ["a", "b", "c"].map(request);
    let mut batch = NodeBatch::of(&requests).next().unwrap();
    nodes.nodes(&mut batch);
    assert_eq!(batch.get(0).unwrap_err().to_string(), text);
    assert_eq!(batch.get(1).unwrap(), Some(&encoded("b")[..]));
    let text = batch.get(2).unwrap_err().to_string();
    assert!(text.contains("another program's value"), "{text}");

    at_owner(&cluster, "SET", b"chain:head", &[b"no root"]);
    let error = nodes.head().unwrap_err();
    assert!(
        matches!(error, ClusterError::CorruptRoot { length: 7 }),
        "{error}"
    );
}

#[test]
fn namespaces_are_checked() {
    let long = "x".repeat(65);
    for bad in ["", "a b", "{tag}", "a:b", "ä", "a\n", &long] {
        let error = ClusterOptions::new(bad).unwrap_err();
        assert!(
            matches!(&error, ClusterError::Namespace { found } if found == bad),
            "{error}"
        );
    }
    ClusterOptions::new(&"x".repeat(64)).unwrap();
    ClusterOptions::new("chains/west-end_2.0").unwrap();
}

#[test]
fn works_inside_another_runtime() {
    fn assert_shared<T: Send + Sync + Clone + 'static>(_: &T) {}
    let Some(cluster) = TestCluster::start(PATIENT) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        let nodes = connect(&cluster, "chain");
        assert_shared(&nodes);
        nodes.insert(&update(Root::EMPTY, "first", vec![])).unwrap();
        assert_eq!(read(&nodes, "first"), Some(encoded("first")));
        assert!(!format!("{nodes:?}").contains("127.0.0.1"));
    });
}
