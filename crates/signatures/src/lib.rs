//! Host functions that check each signature once, and remember what they found.
//!
//! A node checks the signature of an extrinsic when it enters the pool, when a block is built with it, and when that
//! block is imported: each time the same function of the same bytes, for 30 to 50 us, which is more than many
//! transfers take else. With a [`SignatureCache`] it does so once; and another thread can do it before the runtime asks,
//! as [`Strategy::Prepare`] of `povmeter-parallel` does.
//!
//! A node puts [`HostFunctions`] over Substrate's, as `sc-executor` has it:
//!
//! ```text
//! type HostFunctions = ExtendedHostFunctions<sp_io::SubstrateHostFunctions, povmeter_signatures::HostFunctions>;
//! ```
//!
//! and registers the cache for each call into the runtime. Without it they do what Substrate's do.
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
//! - A cache takes at most so many bytes; those of answers that were not asked for again make room.
//!
//! # Costs
//! A question costs one allocation, a hash of the bytes that are compared, and a lock of one of many parts of the cache.
//!
//! # Features
//! None. The crate is the host's: it needs std.
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
