//! A Redis Cluster of three masters on the loopback address, without replicas, in a temporary folder.
//! Dropping the cluster ends the servers.
#![allow(dead_code, reason = "each program uses its part")]

use redis::{cmd, Connection, FromRedisValue};
use std::collections::BTreeSet;
use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Number of masters of a test's cluster.
pub(crate) const MASTERS: usize = 3;
const SLOTS: usize = 16_384;
/// How long a cluster may take to start or to heal, and a master to answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Node time-out for tests that kill or stop a master: a master that is silent for this long counts as
/// failed.
pub(crate) const QUICK: Duration = Duration::from_secs(1);
/// Node time-out for tests without faults, because on a busy machine a process may stand still for
/// seconds.
pub(crate) const PATIENT: Duration = Duration::from_secs(60);
/// The server program, of Redis or of Valkey, whichever is installed.
const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];

/// All ports that masters in this process have had. A master that was killed starts again on its ports, so no other
/// cluster may take them meanwhile.
static DRAWN_PORTS: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A running cluster.
pub(crate) struct TestCluster {
    folder: TempDir,
    program: &'static str,
    node_timeout: Duration,
    servers: Vec<Server>,
}

struct Server {
    port: u16,
    bus_port: u16,
    process: Child,
}

impl TestCluster {
    /// Starts a cluster with the node time-out `node_timeout` ([`QUICK`] or [`PATIENT`]). Returns
    /// `None`, with a message on standard error, if no server is installed.
    pub(crate) fn start(node_timeout: Duration) -> Option<Self> {
        let Some(program) = PROGRAMS.into_iter().find(|program| is_installed(program)) else {
            eprintln!("skipped: no redis-server here, and no valkey-server");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let mut cluster = Self {
            servers: Vec::new(),
            program,
            node_timeout,
            folder,
        };
        for index in 0..MASTERS {
            cluster.servers.push(cluster.start_on_free_ports(index));
        }
        cluster.join();
        Some(cluster)
    }

    /// Gives each master a third of the slots, and makes the masters known to each other.
    fn join(&self) {
        for (index, server) in self.servers.iter().enumerate() {
            let first = SLOTS * index / MASTERS;
            let last = SLOTS * (index + 1) / MASTERS - 1;
            let epoch = index + 1;
            self.tell::<()>(index, &format!("CLUSTER ADDSLOTSRANGE {first} {last}"));
            self.tell::<()>(index, &format!("CLUSTER SET-CONFIG-EPOCH {epoch}"));
            let (port, bus_port) = (server.port, server.bus_port);
            for earlier in 0..index {
                self.tell::<()>(
                    earlier,
                    &format!("CLUSTER MEET 127.0.0.1 {port} {bus_port}"),
                );
            }
        }
        self.wait_until_healthy();
    }

    /// Waits until every master knows the others and serves its slots.
    pub(crate) fn wait_until_healthy(&self) {
        let is_healthy = |index| {
            let info: Option<String> = self.try_tell(index, "CLUSTER INFO");
            info.is_some_and(|info| {
                [
                    "cluster_state:ok",
                    "cluster_slots_ok:16384",
                    "cluster_known_nodes:3",
                ]
                .iter()
                .all(|line| info.contains(line))
            })
        };
        let started = Instant::now();
        while !(0..MASTERS).all(is_healthy) {
            assert!(
                started.elapsed() < PATIENCE,
                "the cluster does not get healthy"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The addresses of all masters, for the client.
    pub(crate) fn addresses(&self) -> Vec<String> {
        let address = |server: &Server| format!("redis://127.0.0.1:{}", server.port);
        self.servers.iter().map(address).collect()
    }

    pub(crate) fn port(&self, index: usize) -> u16 {
        self.servers[index].port
    }

    /// Returns the answer of master `index` to the command `words`, which are separated by spaces.
    pub(crate) fn tell<T: FromRedisValue>(&self, index: usize, words: &str) -> T {
        self.command(
            index,
            &words.split(' ').map(str::as_bytes).collect::<Vec<_>>(),
        )
    }

    /// The answer of master `index` to a command.
    pub(crate) fn command<T: FromRedisValue>(&self, index: usize, words: &[&[u8]]) -> T {
        let answer = query(&mut self.connection(index).unwrap(), words);
        answer.unwrap_or_else(|error| panic!("master {index}: {words:?}: {error}"))
    }

    fn try_tell<T: FromRedisValue>(&self, index: usize, words: &str) -> Option<T> {
        let words: Vec<_> = words.split(' ').map(str::as_bytes).collect();
        query(&mut self.connection(index).ok()?, &words).ok()
    }

    fn connection(&self, index: usize) -> redis::RedisResult<Connection> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port(index)))?;
        let connection = client.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        Ok(connection)
    }

    /// Ends master `index` at once, as `kill -9` does.
    pub(crate) fn kill(&mut self, index: usize) {
        let process = &mut self.servers[index].process;
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Starts master `index` anew, with its data and the slots it had.
    pub(crate) fn start_again(&mut self, index: usize) {
        let Server { port, bus_port, .. } = self.servers[index];
        self.servers[index].process = self.spawn(index, port, bus_port);
    }

    /// Sends the process of master `index` a signal, such as `STOP`.
    pub(crate) fn signal(&self, index: usize, signal: &str) {
        let id = self.servers[index].process.id().to_string();
        let status = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(status.unwrap().success());
    }

    /// Starts a server. Another program may take a port that was free, so a server that ends is started
    /// again on other ports.
    fn start_on_free_ports(&self, index: usize) -> Server {
        let folder = self.folder_of(index);
        std::fs::create_dir(&folder).unwrap();
        for _ in 0..5 {
            let [port, bus_port] = draw_ports();
            let mut process = self.spawn(index, port, bus_port);
            let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
            let started = Instant::now();
            while process.try_wait().unwrap().is_none() && started.elapsed() < PATIENCE {
                if client.get_connection().is_ok() {
                    return Server {
                        port,
                        bus_port,
                        process,
                    };
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = process.kill();
            let _ = process.wait();
        }
        let log = std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        panic!("no server starts; the last one says:\n{log}");
    }

    fn spawn(&self, index: usize, port: u16, bus_port: u16) -> Child {
        let folder = self.folder_of(index);
        let log = File::create(folder.join("log")).unwrap();
        let (port, bus_port) = (port.to_string(), bus_port.to_string());
        let node_timeout = self.node_timeout.as_millis().to_string();
        Command::new(self.program)
            .args(["--bind", "127.0.0.1", "--port", &port])
            .args(["--cluster-enabled", "yes", "--cluster-port", &bus_port])
            .args(["--cluster-node-timeout", &node_timeout])
            // After a kill a restarted server has all writes that it acknowledged.
            .args(["--appendonly", "yes", "--appendfsync", "no", "--save", ""])
            .args(["--enable-debug-command", "yes"])
            .arg("--dir")
            .arg(folder)
            .stdout(log)
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn folder_of(&self, index: usize) -> PathBuf {
        self.folder.path().join(index.to_string())
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        for server in &mut self.servers {
            // A server may have ended already.
            let _ = server.process.kill();
            let _ = server.process.wait();
        }
    }
}

/// Returns two ports that are free, and that no master in this process has had.
fn draw_ports() -> [u16; 2] {
    let mut drawn = DRAWN_PORTS.lock().unwrap_or_else(PoisonError::into_inner);
    // Bound until both are found, so that no port comes twice.
    let mut bound = Vec::new();
    [(); 2].map(|()| loop {
        let free = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        bound.push(free);
        if drawn.insert(port) {
            break port;
        }
    })
}

fn query<T: FromRedisValue>(connection: &mut Connection, words: &[&[u8]]) -> redis::RedisResult<T> {
    let mut command = cmd(std::str::from_utf8(words[0]).unwrap());
    for word in &words[1..] {
        command.arg(*word);
    }
    command.query(connection)
}

fn is_installed(program: &str) -> bool {
    let run = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    run.is_ok_and(|status| status.success())
}
