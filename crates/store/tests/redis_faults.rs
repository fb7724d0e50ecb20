//! Tests of nodes in a Redis Cluster with faults: a master that ends or hangs, slots that move, access
//! that is denied. In each case a read returns the right node or an error that names the fault.
#![allow(clippy::unwrap_used)]

#[path = "common/blocks.rs"]
mod blocks;
#[path = "common/cluster.rs"]
mod cluster;

use blocks::random_block;
use bytes::Bytes;
use cluster::{TestCluster, MASTERS, PATIENT, QUICK};
use povmeter_delta_root::{NodeBatch, NodeHash, NodeRequest, NodeSource};
use povmeter_store::{ClusterError, ClusterOptions, MemoryStore, NodeStore, RedisCluster};
use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The longest wait for one node in tests that kill or stop masters. In other tests a client waits as
/// long as the masters wait for each other, because a busy machine is no fault.
const LIMIT: Duration = Duration::from_millis(1_500);

fn options(limit: Duration) -> ClusterOptions {
    ClusterOptions::new("chain")
        .unwrap()
        .connect_timeout(limit / 3)
        .response_timeout(limit / 5)
        .total_timeout(limit)
        .retries(4)
        .retry_wait(Duration::from_millis(10), Duration::from_millis(100))
}

fn try_connect(addresses: &[String], limit: Duration) -> Result<RedisCluster, ClusterError> {
    connect_with(addresses, options(limit))
}

fn connect_with(
    addresses: &[String],
    options: ClusterOptions,
) -> Result<RedisCluster, ClusterError> {
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    RedisCluster::connect(&addresses, options)
}

/// Repeats `attempt` until it succeeds, for parts without a fault where a client with [`LIMIT`] may give up on a busy
/// machine.
fn patiently<T>(mut attempt: impl FnMut() -> Result<T, ClusterError>) -> T {
    let started = Instant::now();
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(error) => assert!(started.elapsed() < PATIENT, "{error}"),
        }
    }
}

/// A cluster with the state of some random blocks, and the same state in memory.
struct Setting {
    cluster: TestCluster,
    nodes: RedisCluster,
    /// The longest wait of `nodes`.
    limit: Duration,
    memory: MemoryStore,
    hashes: Vec<NodeHash>,
}

fn setting(node_timeout: Duration) -> Option<Setting> {
    let cluster = TestCluster::start(node_timeout)?;
    let limit = if node_timeout == QUICK {
        LIMIT
    } else {
        node_timeout
    };
    let addresses = cluster.addresses();
    // Tries for seconds, because a busy master with a short node time-out may count as failed for a moment.
    let patient = connect_with(&addresses, options(PATIENT).retries(100)).unwrap();
    let mut memory = MemoryStore::new();
    let mut hashes = Vec::new();
    for number in 0..2 {
        let sealed = random_block(&memory, memory.root(), number, 1_500).1;
        patient.insert(sealed.update()).unwrap();
        memory.commit(sealed.update()).unwrap();
        hashes.extend(sealed.update().inserted().map(|node| node.hash));
    }
    let nodes = patiently(|| try_connect(&addresses, limit));
    hashes.retain(|hash| memory.node(hash, (&[], None)).unwrap().is_some());
    Some(Setting {
        cluster,
        nodes,
        limit,
        memory,
        hashes,
    })
}

impl Setting {
    fn expected(&self, hash: &NodeHash) -> Bytes {
        self.memory.node(hash, (&[], None)).unwrap().unwrap()
    }

    /// Reads every node once, in batches and alone in turns. Each answer must be the right node or an
    /// error; returns the texts of the errors.
    fn read_all(&self) -> BTreeSet<String> {
        let mut errors = BTreeSet::new();
        for (round, hashes) in self.hashes.chunks(NodeBatch::MOST).enumerate() {
            if round % 8 == 0 {
                for hash in &hashes[..2] {
                    match self.nodes.node(hash, (&[], None)) {
                        Ok(node) => assert_eq!(node, Some(self.expected(hash))),
                        Err(error) => drop(errors.insert(error.to_string())),
                    }
                }
            }
            let request = |hash: &NodeHash| NodeRequest {
                hash: *hash,
                ..NodeRequest::default()
            };
            let requests: Vec<_> = hashes.iter().map(request).collect();
            let mut batch = NodeBatch::of(&requests).next().unwrap();
            let started = Instant::now();
            self.nodes.nodes(&mut batch);
            // A generous bound, because this detects a hang and measures nothing.
            assert!(
                started.elapsed() < self.limit * 4,
                "a batch took {:?}",
                started.elapsed()
            );
            for (index, hash) in hashes.iter().enumerate() {
                match batch.get(index) {
                    Ok(node) => assert_eq!(node, Some(&self.expected(hash)[..])),
                    Err(error) => drop(errors.insert(error.to_string())),
                }
            }
        }
        errors
    }

    /// Reads again and again until all nodes are read without an error.
    fn assert_heals(&self) {
        let started = Instant::now();
        for passes in 1.. {
            let errors = self.read_all();
            if errors.is_empty() {
                return;
            }
            // On a busy machine a single pass may take as long as several elsewhere.
            assert!(
                passes < 5 || started.elapsed() < Duration::from_secs(30),
                "after {passes} passes: {errors:?}"
            );
        }
    }

    /// Calls `disturb` while two threads read; returns the texts of the errors that they met.
    fn read_during(&self, disturb: impl FnOnce()) -> BTreeSet<String> {
        let errors = Mutex::new(BTreeSet::new());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    // Reads at least once, because on a busy machine the thread may start late.
                    loop {
                        let found = self.read_all();
                        errors.lock().unwrap().extend(found);
                        if is_over.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(300));
            disturb();
            is_over.store(true, Ordering::Relaxed);
        });
        errors.into_inner().unwrap()
    }
}

fn assert_each_says(errors: &BTreeSet<String>, reasons: &[&str]) {
    assert!(!errors.is_empty(), "expected some error");
    for error in errors {
        assert!(
            reasons.iter().any(|reason| error.contains(reason)),
            "{error}"
        );
    }
}

const GONE: [&str; 3] = [
    "is unreachable",
    "no answer within",
    "does not serve the slot",
];

#[test]
fn a_master_is_killed_while_nodes_are_read_and_comes_back() {
    let Some(mut setting) = setting(QUICK) else {
        return;
    };
    let errors = setting.read_during(|| {
        setting.cluster.signal(1, "KILL");
        std::thread::sleep(Duration::from_secs(3));
    });
    assert_each_says(&errors, &GONE);
    // A write fails too, and then no root is published.
    let sealed = random_block(&setting.memory, setting.memory.root(), 7, 300).1;
    let error = setting.nodes.insert(sealed.update()).unwrap_err();
    assert_each_says(&[error.to_string()].into(), &GONE);

    setting.cluster.kill(1);
    setting.cluster.start_again(1);
    setting.cluster.wait_until_healthy();
    setting.assert_heals();
    let is_published = || patiently(|| setting.nodes.is_published(sealed.update().root));
    assert!(!is_published());
    patiently(|| setting.nodes.insert(sealed.update()));
    assert!(is_published());
}

#[test]
fn all_masters_are_killed_and_come_back() {
    let Some(mut setting) = setting(QUICK) else {
        return;
    };
    (0..MASTERS).for_each(|index| setting.cluster.kill(index));
    let hash = setting.hashes[0];
    for _ in 0..3 {
        let error = setting.nodes.node(&hash, (&[], None)).unwrap_err();
        assert_each_says(&[error.to_string()].into(), &GONE);
    }
    for index in 0..MASTERS {
        setting.cluster.start_again(index);
    }
    setting.cluster.wait_until_healthy();
    setting.assert_heals();
}

#[test]
fn a_master_that_hangs_is_a_time_out() {
    let Some(setting) = setting(QUICK) else {
        return;
    };
    let errors = setting.read_during(|| {
        setting.cluster.signal(2, "STOP");
        std::thread::sleep(Duration::from_secs(2));
    });
    assert_each_says(&errors, &GONE);
    let text = format!("no answer within {LIMIT:?}");
    assert!(
        errors.iter().any(|error| error.contains(&text)),
        "{errors:?}"
    );
    setting.cluster.signal(2, "CONT");
    setting.cluster.wait_until_healthy();
    setting.assert_heals();
}

#[test]
fn a_slow_master_is_waited_for() {
    let Some(setting) = setting(PATIENT) else {
        return;
    };
    let errors = setting.read_during(|| {
        setting.cluster.tell::<redis::Value>(0, "DEBUG SLEEP 0.15");
    });
    assert_eq!(errors, BTreeSet::new());
}

#[test]
fn slots_move_while_nodes_are_read() {
    let Some(setting) = setting(PATIENT) else {
        return;
    };
    let cluster = &setting.cluster;
    let ids: Vec<String> = (0..MASTERS)
        .map(|index| cluster.tell(index, "CLUSTER MYID"))
        .collect();
    let before: usize = cluster.tell(2, "DBSIZE");
    let mut moved = 0;
    let errors = setting.read_during(|| {
        for slot in 0..2_000 {
            let keys: Vec<Vec<u8>> = cluster.tell(0, &format!("CLUSTER GETKEYSINSLOT {slot} 1000"));
            if keys.is_empty() {
                continue;
            }
            moved += keys.len();
            cluster.tell::<()>(2, &format!("CLUSTER SETSLOT {slot} IMPORTING {}", ids[0]));
            cluster.tell::<()>(0, &format!("CLUSTER SETSLOT {slot} MIGRATING {}", ids[2]));
            let port = cluster.port(2).to_string();
            let to: [&[u8]; 7] = [
                b"MIGRATE",
                b"127.0.0.1",
                port.as_bytes(),
                b"",
                b"0",
                b"60000",
                b"KEYS",
            ];
            let words: Vec<&[u8]> = to
                .into_iter()
                .chain(keys.iter().map(Vec::as_slice))
                .collect();
            cluster.command::<redis::Value>(0, &words);
            for index in [2, 0, 1] {
                cluster.tell::<()>(index, &format!("CLUSTER SETSLOT {slot} NODE {}", ids[2]));
            }
        }
    });
    assert!(moved > 50, "only {moved} keys moved");
    assert_eq!(cluster.tell::<usize>(2, "DBSIZE"), before + moved);
    assert_eq!(errors, BTreeSet::new());
    assert_eq!(setting.read_all(), BTreeSet::new());
    // Further blocks are executed.
    let parent = setting.memory.root();
    let found = random_block(&setting.nodes, parent, 9, 300);
    let expected = random_block(&setting.memory, parent, 9, 300);
    assert_eq!(found.0, expected.0);
    assert_eq!(found.1.update(), expected.1.update());
}

#[test]
fn a_slot_that_stays_between_two_masters_is_served() {
    let Some(setting) = setting(PATIENT) else {
        return;
    };
    let cluster = &setting.cluster;
    let ids: Vec<String> = (0..MASTERS)
        .map(|index| cluster.tell(index, "CLUSTER MYID"))
        .collect();
    let slots = (0..5_000).filter(|slot| {
        let keys: usize = cluster.tell(0, &format!("CLUSTER COUNTKEYSINSLOT {slot}"));
        keys > 0
    });
    let slots: Vec<usize> = slots.take(40).collect();
    for slot in &slots {
        cluster.tell::<()>(1, &format!("CLUSTER SETSLOT {slot} IMPORTING {}", ids[0]));
        cluster.tell::<()>(0, &format!("CLUSTER SETSLOT {slot} MIGRATING {}", ids[1]));
        let keys: Vec<Vec<u8>> = cluster.tell(0, &format!("CLUSTER GETKEYSINSLOT {slot} 1"));
        let port = cluster.port(1).to_string();
        let words: [&[u8]; 6] = [
            b"MIGRATE",
            b"127.0.0.1",
            port.as_bytes(),
            &keys[0],
            b"0",
            b"60000",
        ];
        cluster.command::<redis::Value>(0, &words);
    }
    assert_eq!(setting.read_all(), BTreeSet::new());
}

#[test]
fn a_slot_without_a_master_is_an_error() {
    let Some(setting) = setting(PATIENT) else {
        return;
    };
    for index in 0..MASTERS {
        setting
            .cluster
            .tell::<()>(index, "CONFIG SET cluster-require-full-coverage no");
    }
    // A master that knows no owner of the slot refuses only this slot.
    let slot = {
        let keys: Vec<usize> = (0..5_000)
            .filter(|slot| {
                setting
                    .cluster
                    .tell::<usize>(0, &format!("CLUSTER COUNTKEYSINSLOT {slot}"))
                    > 0
            })
            .take(1)
            .collect();
        keys[0]
    };
    for index in 0..MASTERS {
        setting
            .cluster
            .tell::<()>(index, &format!("CLUSTER DELSLOTS {slot}"));
    }
    let errors = setting.read_all();
    assert_each_says(&errors, &["does not serve the slot"]);
}

#[test]
fn access_is_denied() {
    let Some(setting) = setting(PATIENT) else {
        return;
    };
    for index in 0..MASTERS {
        setting
            .cluster
            .tell::<()>(index, "CONFIG SET requirepass secret");
    }
    let addresses = setting.cluster.addresses();
    let error = try_connect(&addresses, setting.limit).unwrap_err();
    assert!(matches!(error, ClusterError::Denied { .. }), "{error:?}");
    let with = |password: &str| -> Vec<String> {
        let with = |address: &String| address.replace("//", &format!("//:{password}@"));
        addresses.iter().map(with).collect()
    };
    let error = try_connect(&with("wrong"), setting.limit).unwrap_err();
    assert!(matches!(error, ClusterError::Denied { .. }), "{error:?}");
    assert!(!error.to_string().contains("wrong"), "{error}");
    let nodes = try_connect(&with("secret"), setting.limit).unwrap();
    let hash = setting.hashes[0];
    assert_eq!(
        nodes.node(&hash, (&[], None)).unwrap(),
        Some(setting.expected(&hash))
    );
}

#[test]
fn a_full_cluster_refuses_the_block_and_serves_on() {
    let Some(setting) = setting(PATIENT) else {
        return;
    };
    for index in 0..MASTERS {
        setting
            .cluster
            .tell::<()>(index, "CONFIG SET maxmemory 1000");
    }
    let sealed = random_block(&setting.memory, setting.memory.root(), 7, 100).1;
    let error = setting.nodes.insert(sealed.update()).unwrap_err();
    assert!(matches!(error, ClusterError::Full { .. }), "{error:?}");
    assert!(!setting.nodes.is_published(sealed.update().root).unwrap());
    assert_eq!(setting.read_all(), BTreeSet::new());
}

#[test]
fn nobody_answers_at_the_address() {
    // No port that was free, because another test may take it.
    let address = "redis://127.0.0.1:1".to_owned();
    let error = try_connect(&[address], PATIENT).unwrap_err();
    assert!(
        matches!(error, ClusterError::Unreachable { .. }),
        "{error:?}"
    );

    // A listener that never answers.
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = format!("redis://{}", silent.local_addr().unwrap());
    let error = try_connect(&[address], LIMIT).unwrap_err();
    let text = error.to_string();
    assert!(GONE.iter().any(|reason| text.contains(reason)), "{error:?}");

    for bad in ["http://127.0.0.1", "127.0.0.1:x", ""] {
        let error = try_connect(&[bad.to_owned()], LIMIT).unwrap_err();
        assert!(
            matches!(error, ClusterError::Configuration { .. }),
            "{bad}: {error:?}"
        );
    }
    let error = try_connect(&[], LIMIT).unwrap_err();
    assert!(
        matches!(error, ClusterError::Configuration { .. }),
        "{error:?}"
    );
}

#[test]
fn a_block_over_a_cluster_that_fails_has_no_root() {
    let Some(mut setting) = setting(QUICK) else {
        return;
    };
    (0..MASTERS).for_each(|index| setting.cluster.kill(index));
    let mut block = povmeter::Block::new(&setting.nodes, setting.memory.root());
    let error = block.get(povmeter::TrieId::Top, b"key").unwrap_err();
    assert!(
        GONE.iter().any(|reason| error.to_string().contains(reason)),
        "{error}"
    );
    block.set(povmeter::TrieId::Top, b"key", b"value").unwrap();
    assert!(block.seal(povmeter::StateVersion::V1).is_err());
}
