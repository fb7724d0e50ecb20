//! The memory of answers, counted by the allocator.
#![allow(unsafe_code, clippy::unwrap_used)]

use povmeter_remote::{BlockId, RemoteError, RemoteNode, RpcOptions};
use serde_json::Value;
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    net::TcpListener,
    thread,
};
use tungstenite::{accept, Message};

thread_local! {
    /// Bytes that this thread has allocated and not freed, and the most so far. By thread, because the node of the
    /// tests has one of its own.
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

/// Memory may be freed on another thread than it was allocated on, so the sum may wrap.
fn add(bytes: usize) {
    let live = LIVE.get().wrapping_add(bytes);
    LIVE.set(live);
    // A sum that wrapped is below zero.
    if live.cast_signed() > MOST.get().cast_signed() {
        MOST.set(live);
    }
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every method passes its arguments to `System` and returns its result.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: see above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        add(layout.size().wrapping_neg());
        // SAFETY: see above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size.wrapping_sub(layout.size()));
        // SAFETY: see above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

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
    let before = LIVE.get();
    MOST.set(before);
    let result = client.block_hash(&BlockId::Best);
    let most = MOST.get() - before;
    node.join().unwrap();
    (result, most)
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
