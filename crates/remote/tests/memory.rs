//! The memory of answers, counted by the allocator.
#![allow(clippy::unwrap_used)]

use povmeter_dev_allocations::{peak_of, Counting};
use povmeter_remote::{BlockId, RemoteError, RemoteNode, RpcOptions};
use serde_json::Value;
use std::{net::TcpListener, thread};
use tungstenite::{accept, Message};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What one call needs if the node's answer continues with `rest` after the id: its result, and the most bytes of
/// memory at a time.
fn called(rest: String) -> (Result<[u8; 32], RemoteError>, usize) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let node = thread::spawn(move || {
        let mut socket = accept(listener.accept().unwrap().0).unwrap();
        let Message::Text(request) = socket.read().unwrap() else {
            panic!("a request is a text")
        };
        let request: Value = serde_json::from_str(&request).unwrap();
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{},{rest}}}"#, request["id"]);
        drop(rest);
        socket.send(Message::text(answer)).unwrap();
    });
    let mut options = RpcOptions::default();
    options.attempts = 1;
    let client = RemoteNode::new(url.parse().unwrap(), options);
    // Without the node, which has a thread of its own.
    let (result, most) = peak_of(|| client.block_hash(&BlockId::Best));
    node.join().unwrap();
    (result, usize::try_from(most).unwrap())
}

#[test]
fn an_answer_needs_memory_for_its_bytes_and_few_values() {
    const BYTES: usize = 16 << 20;
    // Beside a few times the bytes of the answer.
    const VALUES: usize = 128 << 20;
    let nested = format!("{}0{},", r#"{"":"#.repeat(100), "}".repeat(100));
    // Each with the commas and brackets in it.
    for (text, values) in [
        ("0,", 1),
        ("\"\",", 1),
        ("{},", 2),
        ("[0],", 2),
        (r#"{"a":0},"#, 2),
        (&nested, 101),
    ] {
        // Almost as many as there may be, and as many as fit into the bytes.
        let few = ((1 << 18) - 9) / values * text.len();
        for bytes in [few, BYTES] {
            let list = text.repeat(bytes / text.len()) + "0";
            for rest in [
                format!(r#""result":[{list}]"#),
                format!(r#""error":{{"code":1,"message":"","data":[{list}]}}"#),
            ] {
                let (result, most) = called(rest);
                let error = result.unwrap_err();
                assert!(
                    most <= 5 * bytes + VALUES,
                    "{most} for {bytes} of {text}: {error}"
                );
            }
        }
    }
    // One long value.
    let text = format!(r#""result":"0x{}""#, "00".repeat(BYTES / 2));
    let (result, most) = called(text);
    let error = result.unwrap_err();
    assert!(error.to_string().contains("a hash of 32 bytes"), "{error}");
    assert!(most <= 5 * BYTES, "{most}");
}
