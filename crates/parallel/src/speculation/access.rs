//! The calls of a transaction executed ahead.

use super::{Scratch, Speculation};
use crate::{
    executor::{Executor, Stopped},
    record::Seen,
    update::{Kind, Rule},
    view::Access,
};
use povmeter::{NodeHash, NodeSource, ProofSize, Removal, Root, StateVersion, TrieId};
use povmeter_overlay::Lookup;

fn is_child_root(trie: TrieId<'_>, key: &[u8]) -> bool {
    trie == TrieId::Top && key.starts_with(povmeter_primitives::CHILD_ROOT_PREFIX)
}

impl<P: NodeSource, E: Executor> Access for Speculation<'_, '_, P, E> {
    fn current(&mut self) -> &mut dyn Access {
        match self {
            Self {
                at_turn: Some(at_turn),
                ..
            } => at_turn.access(),
            ahead => ahead,
        }
    }

    fn get(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<&[u8]>, Stopped> {
        self.going()?;
        if self.changed(trie, key) {
            return Ok(match self.scratch.overlay.get(trie, key) {
                Lookup::Value(value) => Some(value),
                Lookup::Deleted | Lookup::Untouched => None,
            });
        }
        let at = self.or_halt(|this| this.find(trie, key, true))?;
        Ok(self.value_at(at))
    }

    fn guess(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<&[u8]>, Stopped> {
        self.going()?;
        if self.changed(trie, key) {
            return self.get(trie, key);
        }
        let at = self.or_halt(|this| {
            let id = this.scratch.keys.number(trie, key);
            this.note_counted(id);
            this.find(trie, key, false)
        })?;
        Ok(self.value_at(at))
    }

    fn exists(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<bool, Stopped> {
        self.going()?;
        match self.scratch.overlay.get(trie, key) {
            Lookup::Value(_) => return Ok(true),
            Lookup::Deleted => return Ok(false),
            Lookup::Untouched => {}
        }
        self.or_halt(|this| {
            let asker = this.asker();
            let id = this.scratch.keys.number(trie, key);
            if this.scratch.has_pending(id) {
                // An update of an absent key may refuse. The read of an updated key counts already.
                let at = this.find(trie, key, true)?;
                return Ok(this.value_at(at).is_some());
            }
            let Scratch { record, below, .. } = &mut *this.scratch;
            let exists = below.exists(asker, id)?;
            if !record.has(
                id,
                |seen| matches!(seen, Seen::Exists(same) if same == exists),
            ) {
                record.push_of(id, Seen::Exists(exists), below.of_parent());
            }
            Ok(exists)
        })
    }

    fn value_hash(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<NodeHash>, Stopped> {
        self.on_block()?.value_hash(trie, key)
    }

    fn next_key(&mut self, trie: TrieId<'_>, key: &[u8]) -> Result<Option<Vec<u8>>, Stopped> {
        self.or_halt(|this| this.find_next(trie, key))
    }

    fn write(&mut self, trie: TrieId<'_>, key: &[u8], value: Option<&[u8]>) -> Result<(), Stopped> {
        self.going()?;
        if is_child_root(trie, key) {
            return self.in_order();
        }
        match value {
            Some(value) => self.scratch.overlay.set(trie, key, value),
            None => _ = self.scratch.overlay.remove(trie, key),
        }
        Ok(())
    }

    fn append(&mut self, trie: TrieId<'_>, key: &[u8], element: &[u8]) -> Result<(), Stopped> {
        self.going()?;
        if is_child_root(trie, key) {
            return self.in_order();
        }
        if self.changed(trie, key) {
            let nothing = || Ok::<Option<&[u8]>, std::convert::Infallible>(None);
            let appended = self.scratch.overlay.append(trie, key, element, nothing);
            return appended.map_err(|never| match never {});
        }
        self.or_halt(|this| this.push_pending(trie, key, Kind::Append, element))
    }

    fn update(
        &mut self,
        trie: TrieId<'_>,
        key: &[u8],
        (rule, operand): (Rule, &[u8]),
        told: bool,
    ) -> Result<bool, Stopped> {
        self.going()?;
        if is_child_root(trie, key) {
            return self.in_order();
        }
        if self.changed(trie, key) {
            return Ok(self.update_own(trie, key, (rule, operand)));
        }
        self.or_halt(|this| {
            let mut changes = false;
            if told {
                changes = this.tell(trie, key, (rule, operand))?;
            }
            this.push_pending(trie, key, Kind::Rule(rule), operand)?;
            Ok(changes)
        })
    }

    fn clear_prefix(
        &mut self,
        trie: TrieId<'_>,
        prefix: &[u8],
        limit: Option<u32>,
        cursor: Option<&[u8]>,
    ) -> Result<Removal, Stopped> {
        self.on_block()?.clear_prefix(trie, prefix, limit, cursor)
    }

    fn proof_size(&mut self) -> Result<ProofSize, Stopped> {
        self.on_block()?.proof_size()
    }

    fn proof_size_at_most(&mut self, bytes: u64) -> Result<bool, Stopped> {
        self.or_halt(|this| this.ask(bytes))
    }

    fn recorded_size(&mut self) -> Result<ProofSize, Stopped> {
        self.on_block()?.recorded_size()
    }

    fn root(&mut self, child: Option<&[u8]>, version: StateVersion) -> Result<Root, Stopped> {
        self.on_block()?.root(child, version)
    }

    fn is_ahead(&self) -> bool {
        self.at_turn.is_none()
    }

    fn is_alone(&self) -> bool {
        false
    }

    fn wait_for_turn(&mut self) -> Result<(), Stopped> {
        self.on_block().map(drop)
    }

    fn leave_to_turn(&mut self) -> Result<(), Stopped> {
        self.in_order()
    }

    fn start_transaction(&mut self) -> Result<(), Stopped> {
        self.going()?;
        self.scratch.overlay.start_transaction();
        self.scratch.open.push(self.scratch.pending.len());
        Ok(())
    }

    fn commit_transaction(&mut self) -> Result<(), Stopped> {
        self.or_halt(|this| {
            this.scratch.overlay.commit_transaction()?;
            this.scratch.open.pop();
            Ok(())
        })
    }

    fn rollback_transaction(&mut self) -> Result<(), Stopped> {
        self.or_halt(|this| {
            this.scratch.overlay.rollback_transaction()?;
            if let Some(pending) = this.scratch.open.pop() {
                this.scratch.truncate_pending(pending);
            }
            Ok(())
        })
    }
}
