//! A parachain's `validate_block` on povmeter.
//!
//! Validators of the relay chain check a parachain's block with its runtime, in wasm, from the block and a
//! proof of its parent state alone. This crate replaces the `validate_block` of
//! `cumulus-pallet-parachain-system`: it accepts the same blocks with the same result, needs less time,
//! and can give the runtime proof sizes that include what the storage root needs.
//!
//! ```ignore
//! // In the runtime, in place of cumulus_pallet_parachain_system::register_validate_block:
//! povmeter_validate_block::register_validate_block! {
//!     Runtime = Runtime,
//!     BlockExecutor = cumulus_pallet_aura_ext::BlockExecutor::<Runtime, Executive>,
//! }
//! ```
//!
//! # Settings
//! | setting | values |
//! |---|---|
//! | `Runtime` | the runtime, which has the pallet `cumulus-pallet-parachain-system` |
//! | `BlockExecutor` | the type that executes its blocks, such as `frame_executive::Executive` |
//! | `Sizes` | [`Reads`] (default): the proof size is what is recorded so far, the rule of stock nodes. [`Estimate`]: with what the storage root needs; all collators must then answer by povmeter, with `SizeSource::Estimate` |
//! | `Hash` | [`Host`] (default): a host function hashes. [`Wasm`]: code in the blob hashes, which is slower |
//!
//! Give the settings in the order of the table; the last two can be left out.
//!
//! # Guarantees
//! - A block that the stock function accepts is accepted with the same `ValidationResult`, byte for byte,
//!   if the rule for sizes is the same. There are five exceptions, of which no pallet of FRAME meets the first three:
//!   - An append to a key that begins with `:child_storage:`, as those of the roots of child tries do, is ignored, as other
//!     writes there are; the stock function executes it.
//!   - After `storage_root`, with nothing but appends in between, `child_storage_root` returns and writes a changed child's
//!     new root; the stock function returns what a read of its key finds.
//!   - `storage_root` after an append includes the append; the stock function returns the root before it, if it has computed
//!     one.
//!   - A read that begins inside a value returns the length of the rest, as it does in nodes; in the stock function it
//!     returns the length of the whole value, so that it refuses what nodes author if this length matters.
//!   - With an absent key that is the beginning of other keys, a bug of trie-db can remove a value: a collator with
//!     sp-state-machine authors a block with the root without this value, which the stock function accepts and this one
//!     refuses. A runtime that may remove such keys needs collators on povmeter.
//! - A block that the stock function refuses is refused: the blob panics, with the reason in the message.
//!   The exceptions above count here, too: at the removal of such a key the stock function may also panic.
//! - A proof that lacks a node that the storage root needs is refused. The stock function uses the old root
//!   then, and compares it with the root in the header. A proof that lacks a node that clearing a prefix needs is
//!   refused, too. The stock function clears the keys that it can read, so a collator can choose what it clears.
//! - Hash tables are seeded with the block and the relay chain's state, so that users can't choose keys of
//!   the state that collide.
//!
//! # Limits
//! The runtime's headers must be hashed by `BlakeTwo256`. With another hasher, the runtime does not compile for wasm.
//! For PolkaVM (`riscv64`) no runtime with the macro compiles, because the function is exported to wasm alone.
//!
//! # Features
//! - `std` (default): for the native runtime, which has no `validate_block`: the macro expands to nothing.
//! - `rooted-size`: answers the second version of the proof-size function, which always includes what the root needs,
//!   for runtimes that call it. Validators do not have it, so the blob answers it itself. The runtime imports the
//!   function then, whether it calls it or not, and no node starts a runtime that imports a function it lacks. So all
//!   nodes of the chain need it first.
//! - `transaction-index`: replaces the host functions that index transactions by functions that do nothing.
#![cfg_attr(not(feature = "std"), no_std)]

#[cfg(not(feature = "std"))]
extern crate alloc;

#[cfg(not(feature = "std"))]
mod block_data;
#[cfg(not(feature = "std"))]
mod chain;
#[cfg(not(feature = "std"))]
mod entry;
#[cfg(not(feature = "std"))]
mod host;
#[cfg(not(feature = "std"))]
mod messages;
#[cfg(not(feature = "std"))]
mod session;
mod settings;
#[cfg(not(feature = "std"))]
mod state_hasher;
#[cfg(not(feature = "std"))]
mod validate;

pub use settings::{Estimate, HashRule, Host, Reads, SizeRule, Wasm};

/// Items for the code that the macro makes.
#[cfg(not(feature = "std"))]
#[doc(hidden)]
pub mod private {
    pub use crate::{entry::call, state_hasher::StateHasher};
    pub use sp_runtime::traits::GetRuntimeBlockType;
}

/// Exports `validate_block` from a runtime in wasm; expands to nothing with the feature `std`. See the
/// [crate page](crate) for the settings.
#[cfg(not(feature = "std"))]
#[macro_export]
macro_rules! register_validate_block {
    (BlockExecutor = $executor:ty, Runtime = $runtime:ty $(, $setting:ident = $value:ty)* $(,)?) => {
        $crate::register_validate_block! {
            Runtime = $runtime, BlockExecutor = $executor $(, $setting = $value)*
        }
    };
    (Runtime = $runtime:ty, BlockExecutor = $executor:ty $(,)?) => {
        $crate::register_validate_block! {
            Runtime = $runtime, BlockExecutor = $executor, Sizes = $crate::Reads, Hash = $crate::Host
        }
    };
    (Runtime = $runtime:ty, BlockExecutor = $executor:ty, Sizes = $sizes:ty $(,)?) => {
        $crate::register_validate_block! {
            Runtime = $runtime, BlockExecutor = $executor, Sizes = $sizes, Hash = $crate::Host
        }
    };
    (Runtime = $runtime:ty, BlockExecutor = $executor:ty, Hash = $hash:ty $(,)?) => {
        $crate::register_validate_block! {
            Runtime = $runtime, BlockExecutor = $executor, Sizes = $crate::Reads, Hash = $hash
        }
    };
    (
        Runtime = $runtime:ty,
        BlockExecutor = $executor:ty,
        Sizes = $sizes:ty,
        Hash = $hash:ty $(,)?
    ) => {
        #[doc(hidden)]
        mod parachain_validate_block {
            use super::*;

            // cumulus exports the function in another way there.
            #[cfg(target_arch = "riscv64")]
            compile_error!(
                "expected a runtime in wasm, found one for PolkaVM (riscv64): \
                 povmeter_validate_block::register_validate_block! exports validate_block to wasm alone. \
                 Use cumulus_pallet_parachain_system::register_validate_block! for this target"
            );

            #[no_mangle]
            unsafe extern "C" fn validate_block(arguments: *mut u8, arguments_len: usize) -> u64 {
                // SAFETY: the host calls this function with the memory that it allocated for the
                // arguments, and does not use that memory any more.
                unsafe {
                    $crate::private::call::<
                        <$runtime as $crate::private::GetRuntimeBlockType>::RuntimeBlock,
                        $executor,
                        $runtime,
                        $sizes,
                        $hash,
                    >(arguments, arguments_len)
                }
            }
        }
    };
}

/// Exports `validate_block` from a runtime in wasm; expands to nothing with the feature `std`. See the
/// [crate page](crate) for the settings.
#[cfg(feature = "std")]
#[macro_export]
macro_rules! register_validate_block {
    ($($settings:tt)*) => {};
}
