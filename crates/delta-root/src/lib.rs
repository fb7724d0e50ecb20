//! Substrate state tries.
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod codec;
mod decode;
mod hash;
mod needs;
mod nibbles;
mod root;
mod scale;
mod shadow;
mod source;
mod state;
mod table;
mod update;
mod version;

pub use codec::{LayoutV0, LayoutV1, StateCodec};
pub use decode::{DecodeError, NodeReferences};
pub use hash::{Blake2b256, NodeHash, Root, HASH_LENGTH};
pub use needs::{Fate, RootNeeds};
pub use root::{state_update, state_update_of_loaded, Changes, KeyChanges, RootError};
pub use scale::{compact_bytes, push_compact, read_compact};
pub use shadow::{Observer, ShadowNode, ValuePlace};
pub use source::{NodePrefix, NodeSource, SourceError};
pub use state::{child_root_key, ShadowState, TrieHandle, TrieId, CHILD_ROOT_PREFIX};
pub use table::{KeyPath, LoadError, NodeId, NodeTable};
pub use update::{NodeChange, RootUpdate};
pub use version::StateVersion;
