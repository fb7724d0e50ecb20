//! A pallet whose calls write, shorten and delete child tries, and which puts the proof size of each
//! block into the state.
//!
//! Because the size is part of the state, and so of the state root, an importer on another state machine
//! accepts a block only if it comes to the author's size.

// The macro generates public items without docs, and casts.
#![allow(missing_docs, unreachable_pub, clippy::cast_possible_truncation)]

pub use pallet::*;

#[frame_support::pallet]
mod pallet {
    use cumulus_primitives_proof_size_hostfunction::storage_proof_size::storage_proof_size;
    use frame_support::{pallet_prelude::*, storage::child};
    use frame_system::pallet_prelude::*;
    use sp_core::storage::ChildInfo;

    /// The most entries that a call may write or remove.
    pub const MAX_ENTRIES: u32 = 1_024;
    /// The most bytes of a value.
    pub const MAX_LENGTH: u32 = 4_096;

    #[pallet::config]
    pub trait Config: frame_system::Config {}

    #[pallet::pallet]
    pub struct Pallet<T>(_);

    /// The proof size at the end of the last block, as the host reported it to the runtime.
    #[pallet::storage]
    pub type LastProofSize<T> = StorageValue<_, u64>;

    #[pallet::error]
    pub enum Error<T> {
        /// The call names more than `MAX_ENTRIES` entries.
        TooManyEntries,
        /// The values have more than `MAX_LENGTH` bytes.
        ValueTooLong,
    }

    #[pallet::hooks]
    impl<T: Config> Hooks<BlockNumberFor<T>> for Pallet<T> {
        /// Pays for `on_finalize`.
        fn on_initialize(_: BlockNumberFor<T>) -> Weight {
            T::DbWeight::get().writes(1)
        }

        fn on_finalize(_: BlockNumberFor<T>) {
            LastProofSize::<T>::put(storage_proof_size());
        }
    }

    #[pallet::call]
    impl<T: Config> Pallet<T> {
        /// Writes `count` values of `length` bytes into a child trie, at the keys from `first` on.
        #[pallet::call_index(0)]
        #[pallet::weight(T::DbWeight::get().reads_writes(1, u64::from(*count) + 1))]
        pub fn write(
            origin: OriginFor<T>,
            trie: u8,
            first: u32,
            count: u32,
            length: u32,
        ) -> DispatchResult {
            ensure_signed(origin)?;
            ensure!(count <= MAX_ENTRIES, Error::<T>::TooManyEntries);
            ensure!(length <= MAX_LENGTH, Error::<T>::ValueTooLong);
            let info = child_info(trie);
            for index in first..first.saturating_add(count) {
                // Hash the block's number, too, so that a value written again differs.
                let number = frame_system::Pallet::<T>::block_number();
                let seed = sp_io::hashing::blake2_256(&(number, index).encode());
                let value: alloc::vec::Vec<u8> =
                    seed.iter().copied().cycle().take(length as usize).collect();
                child::put_raw(&info, &key(index), &value);
            }
            Ok(())
        }

        /// Removes `count` values from a child trie, at the keys from `first` on.
        #[pallet::call_index(1)]
        #[pallet::weight(T::DbWeight::get().reads_writes(1, u64::from(*count) + 1))]
        pub fn remove(origin: OriginFor<T>, trie: u8, first: u32, count: u32) -> DispatchResult {
            ensure_signed(origin)?;
            ensure!(count <= MAX_ENTRIES, Error::<T>::TooManyEntries);
            let info = child_info(trie);
            for index in first..first.saturating_add(count) {
                child::kill(&info, &key(index));
            }
            Ok(())
        }

        /// Deletes up to `MAX_ENTRIES` entries of a child trie.
        #[pallet::call_index(2)]
        #[pallet::weight(T::DbWeight::get().reads_writes(
            u64::from(MAX_ENTRIES),
            u64::from(MAX_ENTRIES),
        ))]
        pub fn clear(origin: OriginFor<T>, trie: u8) -> DispatchResult {
            ensure_signed(origin)?;
            let _ = child::clear_storage(&child_info(trie), Some(MAX_ENTRIES), None);
            Ok(())
        }
    }

    fn child_info(trie: u8) -> ChildInfo {
        ChildInfo::new_default(&[b"child", [trie].as_slice()].concat())
    }

    /// A key that has no common prefix with the keys of neighbouring indices.
    fn key(index: u32) -> [u8; 16] {
        sp_io::hashing::blake2_128(&index.encode())
    }
}
