//! The host functions by which a Substrate runtime asks how large the storage proof is.
//!
//! | version | import in wasm | what it returns |
//! |---|---|---|
//! | 1 | `ext_storage_proof_size_storage_proof_size_version_1` | the size of [`ProofSizeExt`]: the function that chains have today |
//! | 2 | `ext_storage_proof_size_storage_proof_size_version_2` | the recorded size plus what computing the root would add, as in Polkadot's RFC-0158 |
//!
//! Both return [`PROOF_RECORDING_DISABLED`] where no proof is recorded, usually off chain.
//!
//! A node passes [`storage_proof_size::HostFunctions`] to its executor *in place of* those of
//! `cumulus-primitives-proof-size-hostfunction`, which has only the first version. A runtime calls
//! [`storage_proof_size::storage_proof_size`], which is version 2; version 1 is what runtimes with that other crate
//! import. A runtime that imports the second version does not
//! start on nodes that lack it, so upgrade all nodes of a chain first.
//!
//! ```
//! use povmeter_proof_size::{storage_proof_size, RootedProofSizeExt, PROOF_RECORDING_DISABLED};
//! # use sp_externalities::Extensions;
//! // Without externalities that record there is no size.
//! # let mut ext = sp_state_machine::BasicExternalities::default();
//! ext.execute_with(|| {
//!     assert_eq!(storage_proof_size::storage_proof_size(), PROOF_RECORDING_DISABLED);
//! });
//! // What a machine does that knows the size.
//! ext.extensions().register(RootedProofSizeExt::new(1_234));
//! ext.execute_with(|| assert_eq!(storage_proof_size::storage_proof_size(), 1_234));
//! ```
//!
//! # Features
//! - `std` (default): the host's side. A runtime in wasm uses the crate without it.
#![cfg_attr(not(feature = "std"), no_std)]
// The items that the macro generates have no docs.
#![allow(missing_docs)]

#[cfg(feature = "std")]
use sp_externalities::ExternalitiesExt;
use sp_runtime_interface::runtime_interface;
#[cfg(feature = "std")]
use sp_trie::proof_size_extension::ProofSizeExt;

/// The size that both versions return where no proof is recorded.
pub const PROOF_RECORDING_DISABLED: u64 = u64::MAX;

#[cfg(feature = "std")]
sp_externalities::decl_extension! {
    /// The size that the second version returns. The owner of the externalities sets it before the
    /// runtime reads it.
    pub struct RootedProofSizeExt(u64);
}

#[cfg(feature = "std")]
impl RootedProofSizeExt {
    /// Makes an extension that returns `size`, in bytes.
    pub fn new(size: u64) -> Self {
        Self(size)
    }
}

/// The size of the storage proof, in bytes.
#[runtime_interface]
pub trait StorageProofSize {
    /// Size recorded so far, as the existing host function counts it.
    fn storage_proof_size(&mut self) -> u64 {
        self.extension::<ProofSizeExt>()
            .map_or(PROOF_RECORDING_DISABLED, |extension| {
                extension.storage_proof_size()
            })
    }

    /// Size recorded so far, plus the nodes that computing the storage root would add.
    #[version(2)]
    fn storage_proof_size(&mut self) -> u64 {
        self.extension::<RootedProofSizeExt>()
            .map_or(PROOF_RECORDING_DISABLED, |extension| extension.0)
    }
}
