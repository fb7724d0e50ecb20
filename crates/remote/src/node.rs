//! A running node, and its blocks.

use crate::{
    answer,
    block_id::BlockId,
    cache::{DiskCache, Kind},
    client::{Refusal, RpcClient, RpcOptions},
    error::RemoteError,
    header::{self, HeaderParts},
    state::RemoteState,
    url::NodeUrl,
};
use povmeter_delta_root::{push_compact, read_compact, Blake2b256, Root};
use serde_json::{json, Value};
use std::sync::{Arc, Mutex, PoisonError};

/// A running node. Connects at the first request. A clone is another handle.
#[derive(Clone)]
pub struct RemoteNode(Arc<Inner>);

struct Inner {
    client: RpcClient,
    cache: Option<DiskCache>,
    /// Hash of the genesis block, once it was requested.
    genesis: Mutex<Option<[u8; 32]>>,
    /// Number of the last finalized block, once it was requested.
    finalized: Mutex<Option<u64>>,
}

/// A block of a running node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteBlock {
    /// Hash of the block.
    pub hash: [u8; 32],
    /// The encoded header, with its seal.
    pub header: Vec<u8>,
    /// The decoded parts of the header.
    pub parts: HeaderParts,
    /// The encoded header of the parent block.
    pub parent: Vec<u8>,
    /// Encoded extrinsics in order, each without its length prefix.
    pub body: Vec<Vec<u8>>,
}

impl RemoteNode {
    /// The node at `url`.
    pub fn new(url: NodeUrl, options: RpcOptions) -> Self {
        Self(Arc::new(Inner {
            client: RpcClient::new(url, options),
            cache: None,
            genesis: Mutex::default(),
            finalized: Mutex::default(),
        }))
    }

    /// Returns the same node with `cache`, which then serves and keeps blocks and the nodes of states.
    #[must_use]
    pub fn with_cache(self, cache: DiskCache) -> Self {
        let client = &self.0.client;
        Self(Arc::new(Inner {
            client: RpcClient::new(client.url().clone(), *client.options()),
            cache: Some(cache),
            genesis: Mutex::default(),
            finalized: Mutex::default(),
        }))
    }

    /// How many requests were sent, repeated ones included.
    pub fn requests(&self) -> u64 {
        self.0.client.sent()
    }

    /// The address.
    pub fn url(&self) -> &NodeUrl {
        self.0.client.url()
    }

    pub(crate) fn client(&self) -> &RpcClient {
        &self.0.client
    }

    pub(crate) fn cache(&self) -> Option<&DiskCache> {
        self.0.cache.as_ref()
    }

    pub(crate) fn keys_of_request(&self) -> usize {
        self.0.client.options().keys.max(1)
    }

    fn call(&self, method: &'static str, parameters: Value) -> Result<Value, RemoteError> {
        let answer = self.0.client.call(method, parameters)?;
        answer.map_err(|refusal| RemoteError::Refused {
            method,
            code: refusal.code,
            message: refusal.message,
        })
    }

    /// The hash of a block. A hash is returned as it is, without a request.
    ///
    /// # Errors
    /// [`RemoteError::BeyondBest`] if the number is above that of the best block, [`RemoteError::UnknownBlock`] if
    /// the node does not know the block for another reason; with a cache [`RemoteError::Number`] if the header has
    /// another number; others if the node does not answer.
    pub fn block_hash(&self, id: &BlockId) -> Result<[u8; 32], RemoteError> {
        const METHOD: &str = "chain_getBlockHash";
        const FINALIZED: &str = "chain_getFinalizedHead";
        match id {
            // Whoever reads the block finds out whether the node has it.
            BlockId::Hash(hash) => Ok(*hash),
            BlockId::Best => answer::hash(METHOD, &self.call(METHOD, json!([]))?),
            BlockId::Finalized => answer::hash(FINALIZED, &self.call(FINALIZED, json!([]))?),
            BlockId::Number(number) => {
                if self.cache().is_none() {
                    return self.requested_hash(*number);
                }
                let key = self.number_key(*number)?;
                let cached = self.cached(Kind::Number, &key)?;
                if let Some(hash) = cached.and_then(|hash| hash.try_into().ok()) {
                    return Ok(hash);
                }
                // Asked for first: a block that becomes final in between could have had another hash before.
                let finalized = self.finalized()?;
                let hash = self.requested_hash(*number)?;
                if *number <= finalized {
                    // What is kept is not requested again.
                    let (_, parts) = self.header(&hash)?;
                    expect_number(*number, parts.number)?;
                    self.put(Kind::Number, &key, &hash)?;
                }
                Ok(hash)
            }
        }
    }

    /// The hash of the block `number`, as the node says now.
    fn requested_hash(&self, number: u64) -> Result<[u8; 32], RemoteError> {
        const METHOD: &str = "chain_getBlockHash";
        let answer = self.call(METHOD, json!([number]))?;
        if answer.is_null() {
            return Err(self.without(number));
        }
        answer::hash(METHOD, &answer)
    }

    /// The error for the block `number`, of which the node has no hash. If the node does not tell its best block,
    /// the error does not name it.
    fn without(&self, number: u64) -> RemoteError {
        let best = self.block_hash(&BlockId::Best);
        match best.and_then(|hash| self.header(&hash)) {
            Ok((_, best)) if best.number < number => RemoteError::BeyondBest {
                block: number,
                best: best.number,
            },
            _ => unknown(&BlockId::Number(number)),
        }
    }

    /// Hash of the genesis block. Requested once.
    fn genesis(&self) -> Result<[u8; 32], RemoteError> {
        let known = &self.0.genesis;
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hash) = *known {
            return Ok(hash);
        }
        let hash = self.requested_hash(0)?;
        *known = Some(hash);
        Ok(hash)
    }

    /// Number of the last finalized block. Requested once, because a finalized block stays final.
    fn finalized(&self) -> Result<u64, RemoteError> {
        let mut known = self
            .0
            .finalized
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = *known {
            return Ok(number);
        }
        let hash = self.block_hash(&BlockId::Finalized)?;
        let number = self.header(&hash)?.1.number;
        *known = Some(number);
        Ok(number)
    }

    /// The key in the cache for a block number of this node, made from the address, the genesis block and the number. An
    /// address may serve another chain later, as that of a development node does.
    fn number_key(&self, number: u64) -> Result<[u8; 32], RemoteError> {
        let genesis = answer::hex_text(&self.genesis()?);
        let name = format!("{} {genesis} {number}", self.url().whole());
        Ok(Blake2b256::hash(name.as_bytes()).into())
    }

    fn cached(&self, kind: Kind, key: &[u8; 32]) -> Result<Option<Vec<u8>>, RemoteError> {
        let cached = self.cache().map(|cache| cache.get(kind, key)).transpose()?;
        Ok(cached.flatten())
    }

    fn put(&self, kind: Kind, key: &[u8; 32], value: &[u8]) -> Result<(), RemoteError> {
        if let Some(cache) = self.cache() {
            cache.put(kind, key, value)?;
        }
        Ok(())
    }

    /// The encoded header with this hash, and its parts.
    ///
    /// # Errors
    /// [`RemoteError::HeaderHash`] if the node's header has another hash, [`RemoteError::UnknownBlock`] if the
    /// node has none; others if the node does not answer.
    pub fn header(&self, hash: &[u8; 32]) -> Result<(Vec<u8>, HeaderParts), RemoteError> {
        const METHOD: &str = "chain_getHeader";
        let cached = self.cached(Kind::Header, hash)?;
        let encoded = match cached.filter(|encoded| header::hash(encoded) == *hash) {
            Some(encoded) => encoded,
            None => {
                let text = answer::hex_text(hash);
                let answer = self.call(METHOD, json!([text]))?;
                if answer.is_null() {
                    return Err(unknown(&BlockId::Hash(*hash)));
                }
                let encoded = header::encode(METHOD, &answer)?;
                let found = header::hash(&encoded);
                if found != *hash {
                    return Err(RemoteError::HeaderHash {
                        expected: text,
                        found: answer::hex_text(&found),
                    });
                }
                self.put(Kind::Header, hash, &encoded)?;
                encoded
            }
        };
        let parts = HeaderParts::of(&encoded).map_err(|source| RemoteError::Header {
            block: answer::hex_text(hash),
            source,
        })?;
        Ok((encoded, parts))
    }

    /// The hash of a block, and its encoded header, which has the number that was asked for.
    ///
    /// # Errors
    /// Those of [`Self::block_hash`] and [`Self::header`]; [`RemoteError::Number`] if the header has another number.
    pub fn head(&self, id: &BlockId) -> Result<([u8; 32], Vec<u8>), RemoteError> {
        let (hash, header, _) = self.head_in_parts(id)?;
        Ok((hash, header))
    }

    fn head_in_parts(&self, id: &BlockId) -> Result<([u8; 32], Vec<u8>, HeaderParts), RemoteError> {
        let hash = self.block_hash(id)?;
        let (header, parts) = self.header(&hash)?;
        if let BlockId::Number(expected) = *id {
            expect_number(expected, parts.number)?;
        }
        Ok((hash, header, parts))
    }

    /// A block with its header, its parent's header and its extrinsics.
    ///
    /// # Errors
    /// Those of [`Self::head`]; [`RemoteError::ExtrinsicsRoot`] if the extrinsics are not those of the header;
    /// [`RemoteError::GenesisBlock`] for the genesis block, which has no parent.
    pub fn block(&self, id: &BlockId) -> Result<RemoteBlock, RemoteError> {
        let (hash, header, parts) = self.head_in_parts(id)?;
        if parts.number == 0 {
            return Err(RemoteError::GenesisBlock);
        }
        let (parent, _) = self.header(&parts.parent)?;
        let body = self.body(&hash, parts.extrinsics_root)?;
        Ok(RemoteBlock {
            hash,
            header,
            parts,
            parent,
            body,
        })
    }

    fn body(&self, hash: &[u8; 32], root: Root) -> Result<Vec<Vec<u8>>, RemoteError> {
        const METHOD: &str = "chain_getBlock";
        let cached = self.cached(Kind::Body, hash)?;
        let cached = cached.and_then(|encoded| unpack_body(&encoded));
        if let Some(body) = cached.filter(|body| header::commits_to(root, body)) {
            return Ok(body);
        }
        let answer = self.call(METHOD, json!([answer::hex_text(hash)]))?;
        if answer.is_null() {
            return Err(unknown(&BlockId::Hash(*hash)));
        }
        let extrinsics = answer::list(METHOD, &answer["block"]["extrinsics"])?;
        let mut body = Vec::with_capacity(extrinsics.len());
        for value in extrinsics {
            let encoded = answer::bytes(METHOD, value)?;
            let length = read_compact(&encoded);
            let length = length.filter(|(length, used)| encoded.len() - used == *length);
            let (_, used) = length.ok_or_else(|| {
                answer::unexpected(METHOD, "an extrinsic with its length before it", value)
            })?;
            body.push(encoded[used..].to_vec());
        }
        if !header::commits_to(root, &body) {
            return Err(RemoteError::ExtrinsicsRoot {
                block: answer::hex_text(hash),
                expected: answer::hex_text(root.as_bytes()),
            });
        }
        self.put(Kind::Body, hash, &pack_body(&body))?;
        Ok(body)
    }

    /// The state that `block` starts from.
    ///
    /// # Errors
    /// [`RemoteError::Header`] if the parent's header can't be decoded.
    pub fn parent_state(&self, block: &RemoteBlock) -> Result<RemoteState, RemoteError> {
        self.state(block.parts.parent, &block.parent)
    }

    /// The state after the block with this hash.
    ///
    /// # Errors
    /// Those of [`Self::header`].
    pub fn state_after(&self, hash: &[u8; 32]) -> Result<RemoteState, RemoteError> {
        let (header, _) = self.header(hash)?;
        self.state(*hash, &header)
    }

    fn state(&self, hash: [u8; 32], header: &[u8]) -> Result<RemoteState, RemoteError> {
        let parts = HeaderParts::of(header).map_err(|source| RemoteError::Header {
            block: answer::hex_text(&hash),
            source,
        })?;
        Ok(RemoteState::new(self.clone(), hash, parts.state_root))
    }

    /// The error for a refused request for the state after block `at`.
    pub(crate) fn state_refused(
        &self,
        method: &'static str,
        at: &str,
        refusal: Refusal,
    ) -> RemoteError {
        let is_too_large = refusal.is_too_large();
        let Refusal { code, message } = refusal;
        let lower = message.to_lowercase();
        let gone = [
            "discarded",
            "unknownblock",
            "unknown block",
            "not found",
            "not available",
            "pruned",
        ];
        if gone.iter().any(|part| lower.contains(part)) && code != -32601 {
            return RemoteError::NoState {
                block: at.to_owned(),
                code,
                message,
            };
        }
        if is_too_large {
            return RemoteError::TooLarge {
                method,
                reason: message,
            };
        }
        RemoteError::Refused {
            method,
            code,
            message,
        }
    }
}

fn unknown(id: &BlockId) -> RemoteError {
    RemoteError::UnknownBlock {
        block: id.to_string(),
    }
}

/// Encodes the extrinsics one after the other, each after its length.
fn pack_body(body: &[Vec<u8>]) -> Vec<u8> {
    let mut packed = Vec::new();
    for extrinsic in body {
        push_compact(&mut packed, extrinsic.len());
        packed.extend(extrinsic);
    }
    packed
}

/// Decodes the bytes of [`pack_body`]; `None` if they are damaged.
fn unpack_body(mut packed: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut body = Vec::new();
    while !packed.is_empty() {
        let (length, used) = read_compact(packed)?;
        let (extrinsic, rest) = packed.get(used..)?.split_at_checked(length)?;
        body.push(extrinsic.to_vec());
        packed = rest;
    }
    Some(body)
}

impl std::fmt::Debug for RemoteNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteNode")
            .field("url", self.url())
            .field("requests", &self.requests())
            .finish_non_exhaustive()
    }
}
fn expect_number(expected: u64, found: u64) -> Result<(), RemoteError> {
    match found == expected {
        true => Ok(()),
        false => Err(RemoteError::Number { expected, found }),
    }
}
