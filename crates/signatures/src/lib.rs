//! Host functions that check each signature once, and remember what they found.
//!
//! A node checks the signature of an extrinsic when the extrinsic enters the pool, when a block is built with it, and
//! when that block is imported: each time the same function of the same bytes, for 30 to 50 us, which is more than the
//! rest of many transfers. With a [`SignatureCache`] the node checks it once, and another thread can do so before the
//! runtime asks, as with [`Strategy::Prepare`] of `povmeter-parallel`.
//!
//! A node puts [`HostFunctions`] over Substrate's functions, in the type that it passes to `sc-executor`:
//!
//! ```text
//! type HostFunctions = ExtendedHostFunctions<sp_io::SubstrateHostFunctions, povmeter_signatures::HostFunctions>;
//! ```
//!
//! and registers the cache for each call into the runtime. Without the cache, the functions do what Substrate's do.
//!
//! ```
//! use povmeter_signatures::{crypto, SignatureCache, SignatureCacheExt};
//! use sp_core::{sr25519, Pair};
//! use std::sync::Arc;
//!
//! let cache = Arc::new(SignatureCache::default());
//! let pair = sr25519::Pair::from_seed(&[7; 32]);
//! let signature = pair.sign(b"message");
//! # let mut ext = sp_state_machine::BasicExternalities::default();
//! ext.extensions().register(SignatureCacheExt::new(cache.clone()));
//! // What the runtime in wasm calls.
//! let verify = || crypto::sr25519_verify(&signature, b"message", &pair.public());
//! assert!(ext.execute_with(verify) && ext.execute_with(verify));
//! assert_eq!((cache.checked(), cache.remembered()), (1, 1));
//! ```
//!
//! # Guarantees
//! - An answer is remembered for all that it depends on: function and version, signature, public key and message, byte by
//!   byte, and whether the chain checks `ed25519` as it did in its first blocks (`sp_io::UseDalekExt`). So what a cache
//!   holds, and who filled it, changes no result.
//! - A cache exceeds its capacity by some bytes for each of its parts at most: answers that were not asked for again make
//!   room for new ones.
//!
//! # Costs
//! A question costs one allocation, a hash of the bytes that are compared, and a lock on one of the cache's many parts.
//!
//! # Features
//! None. The crate runs on the host, so it needs std.
//!
//! [`Strategy::Prepare`]: https://docs.rs/povmeter-parallel/latest/povmeter_parallel/enum.Strategy.html
// The items that the macro generates have no docs.
#![allow(missing_docs)]

mod cache;
mod functions;

pub use cache::{SignatureCache, SignatureCacheExt};
pub use functions::{crypto, HostFunctions};

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
