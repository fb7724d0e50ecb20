//! Attribution of the bytes of a block's proof: by extrinsic, by storage item, by cause.
//!
//! A [`Block`](povmeter::Block) with the accounting [`Attributed`](povmeter::Attributed) knows which
//! part of the block needed each recorded node. This crate adds up the bytes, under the names that a
//! runtime gives to its storage items.
//!
//! | type | what it is |
//! |---|---|
//! | [`BlockAttribution`], [`BlockPart`] | the recorded nodes and the parts of one block |
//! | [`Names`], [`StorageName`] | names of key prefixes |
//! | [`ByteTally`], [`CauseBytes`], [`Depth`], [`Item`] | byte sums by part, item, cause and depth, of one block or several |
//!
//! ```
//! use povmeter::{Attributed, Block, Consensus, StateVersion::V1, TrieId::Top};
//! use povmeter_attribution::{BlockAttribution, BlockPart, ByteTally, Item, Names, StorageName};
//! # use povmeter::Root;
//! # use povmeter_store::{MemoryStore, NodeStore};
//! # let mut store = MemoryStore::new();
//! # let mut genesis = Block::new(&store, Root::EMPTY);
//! # let account = |number: u8| {
//! #     let parts = [b"System".as_slice(), b"Account"].map(sp_crypto_hashing::twox_128);
//! #     [parts.concat(), vec![number]].concat()
//! # };
//! # for number in 0..100 {
//! #     genesis.set(Top, &account(number), &[number; 40])?;
//! # }
//! # store.commit(genesis.seal(V1)?.update())?;
//!
//! let mut block = Block::with_accounting(&store, store.root(), Attributed(Consensus));
//! let mut parts = Vec::new();
//! for extrinsic in 0..2 {
//!     block.begin_part();
//!     parts.push(BlockPart::Extrinsic(extrinsic));
//!     block.get(Top, &account(7))?;
//!     block.set(Top, &account(8), b"changed")?;
//! }
//! let sealed = block.seal(V1)?;
//! let attribution = sealed.attribution().ok_or("it was asked for")?;
//!
//! let mut names = Names::well_known();
//! names.add(StorageName::item("System", "Account"));
//! let tally = ByteTally::of(&BlockAttribution::new(parts, attribution.clone())?, &names);
//! assert_eq!(tally.total.bytes, sealed.proof().recorded_bytes());
//! let accounts = tally.by_item[&Item::One(StorageName::item("System", "Account"))];
//! assert_eq!(accounts.bytes, tally.total.bytes);
//! // Both extrinsics need the same nodes.
//! assert_eq!(tally.several_parts, tally.total.bytes);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The crate needs std, and has no features. A tally costs a look-up for each node and each key that needs it.
//! The rules are on [the page about attribution](https://github.com/povmeter/povmeter/blob/main/docs/attribution.md).

mod block;
mod names;
mod tally;

pub use block::{BlockAttribution, BlockPart, PartsError};
pub use names::{Names, NamesError, StorageName};
pub use tally::{ByteTally, CauseBytes, Depth, Item};
