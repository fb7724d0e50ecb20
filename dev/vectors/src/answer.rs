//! The answer to a call on a block.

use crate::Op;
use bytes::Bytes;
use povmeter::{Accounting, Block, BlockError, NodeSource, StateVersion};

/// The answer to an [`Op`], the same type for povmeter and for the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The call returns nothing.
    Done,
    /// The value that was read.
    Value(Option<Vec<u8>>),
    /// The hash that was read.
    Hash(Option<Vec<u8>>),
    /// Whether there is a value.
    Exists(bool),
    /// The next key.
    Key(Option<Vec<u8>>),
    /// How far the removal of a prefix got.
    Removed {
        /// First key of the parent state that is left.
        cursor: Option<Vec<u8>>,
        /// Keys of the parent state deleted.
        from_parent: u32,
        /// Keys deleted.
        unique: u32,
        /// Keys of the parent state visited.
        visited: u32,
    },
    /// The storage root, or the root of a child trie.
    Root(Vec<u8>),
}

/// The answer of `block` to `op`. A boundary makes no call here and answers [`Answer::Done`].
///
/// # Errors
/// Those of the block.
pub fn ask<S: NodeSource, A: Accounting>(
    block: &mut Block<S, A>,
    op: &Op,
    version: StateVersion,
) -> Result<Answer, BlockError> {
    match op {
        Op::HostStart | Op::Start => block.start_transaction(),
        Op::HostCommit | Op::Commit => block.commit_transaction()?,
        Op::HostRollback | Op::Rollback => block.rollback_transaction()?,
        Op::Enter => block.enter_runtime()?,
        Op::Exit => drop(block.exit_runtime()?),
        // Choose by the length, so that both ways to set a value are used.
        Op::Set { trie, key, value } if value.len().is_multiple_of(2) => {
            block.set_bytes(trie.id(), key, &Bytes::copy_from_slice(value))?;
        }
        Op::Set { trie, key, value } => block.set(trie.id(), key, value)?,
        Op::Remove { trie, key } => block.remove(trie.id(), key)?,
        Op::Append { trie, key, element } => block.append(trie.id(), key, element)?,
        Op::Boundary => {}
        _ => return read(block, op, version),
    }
    Ok(Answer::Done)
}

/// [`ask`], for the calls that return something.
fn read<S: NodeSource, A: Accounting>(
    block: &mut Block<S, A>,
    op: &Op,
    version: StateVersion,
) -> Result<Answer, BlockError> {
    Ok(match op {
        Op::Get { trie, key } => Answer::Value(block.get(trie.id(), key)?.map(<[u8]>::to_vec)),
        Op::Hash { trie, key } => {
            let hash = block.value_hash(trie.id(), key)?;
            Answer::Hash(hash.map(|hash| hash.as_bytes().to_vec()))
        }
        Op::Exists { trie, key } => Answer::Exists(block.exists(trie.id(), key)?),
        Op::Next { trie, key } => Answer::Key(block.next_key(trie.id(), key)?),
        Op::Clear {
            trie,
            prefix,
            limit,
            cursor,
        } => {
            let removal = block.clear_prefix(trie.id(), prefix, *limit, cursor.as_deref())?;
            Answer::Removed {
                cursor: removal.cursor,
                from_parent: removal.from_parent,
                unique: removal.unique,
                visited: removal.visited,
            }
        }
        Op::Root => Answer::Root(block.root(version)?.root.as_bytes().to_vec()),
        Op::ChildRoot { child } => {
            let root = block.child_root(&child.0, version)?;
            Answer::Root(root.as_bytes().to_vec())
        }
        _ => Answer::Done,
    })
}
