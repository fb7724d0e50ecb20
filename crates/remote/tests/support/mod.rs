//! A node that answers from a state in memory, correctly or with a fault.

#![allow(dead_code, clippy::unwrap_used, unreachable_pub)]

use povmeter::{Block, NodeSource, Root, TrieId};
use povmeter_delta_root::{push_compact, Blake2b256, CHILD_ROOT_PREFIX};
use serde_json::{json, Value};
use std::{
    net::{TcpListener, TcpStream},
    sync::{
        atomic::{AtomicU64, AtomicUsize, Ordering},
        Arc, Mutex,
    },
    thread,
    time::Duration,
};
use tungstenite::{accept, Message, WebSocket};

/// A block, and the root of the state after it.
#[derive(Clone)]
pub struct FakeBlock {
    pub parent: [u8; 32],
    pub number: u32,
    pub state_root: [u8; 32],
    pub extrinsics_root: [u8; 32],
    pub logs: Vec<Vec<u8>>,
    pub body: Vec<Vec<u8>>,
}

impl FakeBlock {
    pub fn header(&self) -> Vec<u8> {
        let mut header = self.parent.to_vec();
        push_compact(&mut header, self.number as usize);
        header.extend(self.state_root);
        header.extend(self.extrinsics_root);
        push_compact(&mut header, self.logs.len());
        header.extend(self.logs.concat());
        header
    }

    pub fn hash(&self) -> [u8; 32] {
        Blake2b256::hash(&self.header()).into()
    }
}

/// What the node does wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    None,
    /// Each node of a proof has a changed byte.
    WrongNodes,
    /// Proofs have the root node alone.
    MissingNodes,
    /// Proofs have this many nodes more, to which no node refers.
    MoreNodes(u32),
    /// Answers end in the middle.
    CutOff,
    /// An error in place of a proof.
    Refuses(i64, &'static str),
    /// No answer to requests for proofs.
    Silent,
    /// No answer to requests for proofs after this many.
    SilentAfter(u64),
    /// No answer, but other messages with this pause between them.
    Chatters(Duration),
    /// Refuses this many requests because there are too many.
    Limits(u64),
    /// Closes the connection in place of this many answers.
    Closes(u64),
    /// Closes each connection in place of the answer after this many.
    ClosesAfter(u64),
    /// Headers have another parent.
    OtherHeader,
    /// Proofs of more than this many keys are too large.
    LargestProof(usize),
    /// Proofs are of another block's state.
    OtherState,
    /// Blocks have one extrinsic less.
    OtherBody,
    /// The hash of a number is that of the block before.
    OtherHash,
}

/// A running node. It ends with the test.
pub struct FakeNode {
    pub port: u16,
    served: Arc<Served>,
}

struct Served {
    blocks: Mutex<Vec<FakeBlock>>,
    nodes: Box<dyn NodeSource + Send + Sync>,
    fault: Mutex<Fault>,
    requests: AtomicU64,
    /// The most requests that waited together.
    waiting: AtomicUsize,
    /// Whether to wait for more requests before each answer.
    collects: bool,
}

impl FakeNode {
    /// Serves `blocks`, beginning with the genesis block, and the states in `nodes`. A proof ends above a node
    /// that is missing in `nodes`.
    pub fn new(blocks: Vec<FakeBlock>, nodes: impl NodeSource + Send + Sync + 'static) -> Self {
        Self::start(blocks, Box::new(nodes), false)
    }

    /// Serves like [`Self::new`], but waits for more requests before it answers.
    pub fn collecting(
        blocks: Vec<FakeBlock>,
        nodes: impl NodeSource + Send + Sync + 'static,
    ) -> Self {
        Self::start(blocks, Box::new(nodes), true)
    }

    fn start(
        blocks: Vec<FakeBlock>,
        nodes: Box<dyn NodeSource + Send + Sync>,
        collects: bool,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = Arc::new(Served {
            blocks: Mutex::new(blocks),
            nodes,
            fault: Mutex::new(Fault::None),
            requests: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            collects,
        });
        let shared = Arc::clone(&served);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let served = Arc::clone(&shared);
                thread::spawn(move || served.serve(stream));
            }
        });
        Self { port, served }
    }

    pub fn url(&self) -> String {
        format!("ws://127.0.0.1:{}", self.port)
    }

    /// Serves the chain of these blocks from now on.
    pub fn serve(&self, blocks: Vec<FakeBlock>) {
        *self.served.blocks.lock().unwrap() = blocks;
    }

    pub fn fail(&self, fault: Fault) {
        *self.served.fault.lock().unwrap() = fault;
    }

    pub fn requests(&self) -> u64 {
        self.served.requests.load(Ordering::SeqCst)
    }

    pub fn most_waiting(&self) -> usize {
        self.served.waiting.load(Ordering::SeqCst)
    }
}

fn hex(bytes: &[u8]) -> String {
    format!("0x{}", hex::encode(bytes))
}

fn bytes(value: &Value) -> Vec<u8> {
    hex::decode(value.as_str().unwrap().strip_prefix("0x").unwrap()).unwrap()
}

impl Served {
    /// Answers on one connection until it ends.
    fn serve(&self, stream: TcpStream) {
        let Ok(mut socket) = accept(stream) else {
            return;
        };
        let mut answered = 0;
        loop {
            let Ok(message) = socket.read() else { return };
            let mut messages = vec![message];
            if self.collects {
                let wait = Some(Duration::from_millis(200));
                socket.get_ref().set_read_timeout(wait).unwrap();
                while let Ok(message) = socket.read() {
                    messages.push(message);
                }
                socket.get_ref().set_read_timeout(None).unwrap();
                self.waiting.fetch_max(messages.len(), Ordering::SeqCst);
            }
            for message in messages {
                let Message::Text(text) = message else { return };
                self.requests.fetch_add(1, Ordering::SeqCst);
                let request: Value = serde_json::from_str(text.as_str()).unwrap();
                let fault = self.fault.lock().unwrap().clone();
                if let Fault::Closes(left @ 1..) = fault {
                    *self.fault.lock().unwrap() = Fault::Closes(left - 1);
                    return;
                }
                if matches!(fault, Fault::ClosesAfter(most) if answered >= most) {
                    return;
                }
                if let Fault::Chatters(pause) = fault {
                    return chatter(&mut socket, pause);
                }
                let Some(answer) = self.answer(&request, &fault) else {
                    continue;
                };
                let mut answer = answer.to_string();
                if fault == Fault::CutOff {
                    answer.truncate(answer.len() / 2);
                }
                if socket.send(Message::text(answer)).is_err() {
                    return;
                }
                answered += 1;
            }
        }
    }

    fn answer(&self, request: &Value, fault: &Fault) -> Option<Value> {
        let (id, parameters) = (&request["id"], &request["params"]);
        let method = request["method"].as_str().unwrap();
        let error = |code: i64, message: &str| json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
        if let Fault::Limits(left @ 1..) = fault {
            *self.fault.lock().unwrap() = Fault::Limits(left - 1);
            return Some(error(-32029, "Too many requests"));
        }
        let result = match method {
            "chain_getBlockHash" => match parameters[0].as_u64() {
                None => self.last_hash(),
                Some(number) => {
                    let number = number.saturating_sub(u64::from(*fault == Fault::OtherHash));
                    let blocks = self.blocks.lock().unwrap();
                    let block = blocks.iter().find(|block| u64::from(block.number) == number);
                    block.map_or(Value::Null, |block| json!(hex(&block.hash())))
                }
            },
            "chain_getFinalizedHead" => self.last_hash(),
            "chain_getHeader" => self.block(&parameters[0]).map_or(Value::Null, |block| header(&block, fault)),
            "chain_getBlock" => self.block(&parameters[0]).map_or(Value::Null, |block| {
                let body = block.body.iter().map(|extrinsic| {
                    let mut encoded = Vec::new();
                    push_compact(&mut encoded, extrinsic.len());
                    json!(hex(&[&encoded[..], extrinsic].concat()))
                });
                let mut body: Vec<Value> = body.collect();
                if *fault == Fault::OtherBody {
                    body.pop();
                }
                json!({"block": {"header": header(&block, fault), "extrinsics": body}, "justifications": null})
            }),
            "state_getReadProof" | "state_getChildReadProof" => {
                let child = (method == "state_getChildReadProof").then(|| {
                    bytes(&parameters[0]).strip_prefix(CHILD_ROOT_PREFIX).unwrap().to_vec()
                });
                let rest = usize::from(child.is_some());
                let keys: Vec<Vec<u8>> = parameters[rest].as_array().unwrap().iter().map(bytes).collect();
                let at = &parameters[rest + 1];
                match fault {
                    Fault::Silent | Fault::SilentAfter(0) => return None,
                    Fault::SilentAfter(left) => *self.fault.lock().unwrap() = Fault::SilentAfter(left - 1),
                    Fault::Refuses(code, message) => return Some(error(*code, message)),
                    Fault::LargestProof(most) if keys.len() > *most => {
                        return Some(error(-32008, "Response is too big"));
                    }
                    _ => {}
                }
                let Some(block) = self.block(at) else {
                    return Some(error(4003, "Client error: UnknownBlock: Header was not found in the database"));
                };
                let at = if *fault == Fault::OtherState { json!(hex(&[7; 32])) } else { at.clone() };
                json!({"at": at, "proof": self.proof(&block, child.as_deref(), &keys, fault)})
            }
            _ => return Some(error(-32601, "Method not found")),
        };
        Some(json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    fn block(&self, hash: &Value) -> Option<FakeBlock> {
        let hash = bytes(hash);
        let blocks = self.blocks.lock().unwrap();
        let found = blocks.iter().find(|block| block.hash()[..] == hash);
        found.cloned()
    }

    fn last_hash(&self) -> Value {
        json!(hex(&self.blocks.lock().unwrap().last().unwrap().hash()))
    }

    fn proof(
        &self,
        block: &FakeBlock,
        child: Option<&[u8]>,
        keys: &[Vec<u8>],
        fault: &Fault,
    ) -> Vec<String> {
        let mut reads = Block::new(&self.nodes, Root::from(block.state_root));
        let trie = child.map_or(TrieId::Top, TrieId::Child);
        for key in keys {
            let _ = reads.get(trie, key);
        }
        let proof = reads.recorded_proof();
        let mut nodes: Vec<Vec<u8>> = proof.nodes().iter().map(|node| node.to_vec()).collect();
        match fault {
            Fault::WrongNodes => nodes
                .iter_mut()
                .for_each(|node| *node.last_mut().unwrap() ^= 1),
            Fault::MissingNodes => {
                let root = |node: &Vec<u8>| Blake2b256::hash(node).as_bytes() == &block.state_root;
                nodes.retain(root);
            }
            Fault::MoreNodes(count) => {
                let more = (0..*count).map(|number| number.to_le_bytes().to_vec());
                // Before and after the others.
                nodes.splice(0..0, more.clone());
                nodes.extend(more.map(|node| [node, vec![1]].concat()));
            }
            _ => {}
        }
        nodes.iter().map(|node| hex(node)).collect()
    }
}

/// Sends notifications and answers to no request, for some time.
fn chatter(socket: &mut WebSocket<TcpStream>, pause: Duration) {
    let notification =
        json!({"jsonrpc": "2.0", "method": "chain_newHead", "params": {"result": null}});
    let answer = json!({"jsonrpc": "2.0", "id": "999999", "result": null});
    for message in [notification, answer].iter().cycle().take(40) {
        if socket.send(Message::text(message.to_string())).is_err() {
            return;
        }
        thread::sleep(pause);
    }
}

fn header(block: &FakeBlock, fault: &Fault) -> Value {
    let mut parent = block.parent;
    if *fault == Fault::OtherHeader {
        parent[0] ^= 1;
    }
    let logs: Vec<String> = block.logs.iter().map(|log| hex(log)).collect();
    json!({
        "parentHash": hex(&parent),
        "number": format!("{:#x}", block.number),
        "stateRoot": hex(&block.state_root),
        "extrinsicsRoot": hex(&block.extrinsics_root),
        "digest": {"logs": logs},
    })
}
