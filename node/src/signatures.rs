//! Checked signatures, remembered for all calls into the runtime.
//!
//! The pool, the author and the importer check the same signatures. With one cache for all of them, a node checks each
//! signature once.

use povmeter_node_runtime::{opaque::Block, Hash};
use povmeter_signatures::{SignatureCache, SignatureCacheExt};
use sc_client_api::execution_extensions::ExtensionsFactory;
use sp_externalities::Extensions;
use std::{fmt, sync::Arc};

/// The checked signatures of a chain. Remembers none if it has no cache.
#[derive(Clone)]
pub(crate) struct Signatures(Option<Arc<SignatureCache>>);

impl Signatures {
    /// Remembers signatures in a cache of `mib` MiB; 0 for no cache.
    pub(crate) fn new(mib: u32) -> Self {
        let bytes = u64::from(mib) << 20;
        Self((bytes > 0).then(|| Arc::new(SignatureCache::new(bytes))))
    }

    /// Whether it has a cache.
    pub(crate) fn are_remembered(&self) -> bool {
        self.0.is_some()
    }
}

/// Gives the cache to each call into the runtime.
impl ExtensionsFactory<Block> for Signatures {
    fn extensions_for(&self, _: Hash, _: u32) -> Extensions {
        let mut extensions = Extensions::new();
        if let Some(cache) = &self.0 {
            extensions.register(SignatureCacheExt::new(cache.clone()));
        }
        extensions
    }
}

/// How many signatures were checked, and how many checks the cache saved.
impl fmt::Display for Signatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(cache) => write!(
                f,
                "signatures: {} checked, {} remembered",
                cache.checked(),
                cache.remembered()
            ),
            None => f.write_str("signatures: not remembered"),
        }
    }
}
