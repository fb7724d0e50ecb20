//! Places among keys in order, found without a look at the keys.
//!
//! ```text
//! shared:  how many bytes all keys begin with alike
//! heads:   of each key the 8 bytes behind those, as a number that sorts like them
//!
//! place of a key:  its first bytes are not those shared?  before or behind all
//!                  else count the heads that are less than its own
//!                  and look at the keys that have the same head, if any
//! ```
//!
//! The keys lie elsewhere, so each function takes a way to look at the one of an index.

use alloc::vec::Vec;

/// See the top of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heads {
    heads: Vec<u64>,
    shared: usize,
    /// How often fewer bytes were shared than before.
    drops: u8,
}

/// Nothing is shared any more after so many drops, each of which looks at all keys: who adds keys to
/// that end shall not have it done for every key.
const MOST_DROPS: u8 = 16;

impl Heads {
    /// Of `len` keys; with room for `room`.
    pub(crate) fn new<'a>(len: usize, room: usize, key: impl Fn(usize) -> &'a [u8]) -> Self {
        let mut heads = Self {
            heads: Vec::with_capacity(room),
            ..Self::default()
        };
        if let Some(last) = len.checked_sub(1) {
            heads.shared = common(key(0), key(last));
            heads.look_again(len, key);
        }
        heads
    }

    /// How many keys are less than `key`, or are `key` unless that is `inclusive`.
    #[inline]
    pub(crate) fn place<'a>(
        &self,
        sought: &[u8],
        inclusive: bool,
        key: impl Fn(usize) -> &'a [u8],
    ) -> usize {
        if self.heads.is_empty() {
            return 0;
        }
        let (shared, ours) = (&key(0)[..self.shared], sought.get(..self.shared));
        if ours != Some(shared) {
            return if sought < shared { 0 } else { self.heads.len() };
        }
        let head = head(sought, self.shared);
        let less = self.heads.partition_point(|other| *other < head);
        let alike = self.heads[less..]
            .iter()
            .take_while(|other| **other == head);
        let alike = less + alike.count();
        let (mut start, mut end) = (less, alike);
        while start < end {
            let middle = start + (end - start) / 2;
            let other = key(middle);
            if other < sought || !inclusive && other == sought {
                start = middle + 1;
            } else {
                end = middle;
            }
        }
        start
    }

    /// Takes note of a key that is at `at` by now.
    pub(crate) fn insert<'a>(&mut self, at: usize, key: impl Fn(usize) -> &'a [u8]) {
        let (len, added) = (self.heads.len(), key(at));
        if len == 0 {
            self.shared = added.len();
        } else {
            let other = key(usize::from(at == 0));
            let shared = common(added, other).min(self.shared);
            if shared < self.shared {
                self.drops += 1;
                self.shared = if self.drops < MOST_DROPS { shared } else { 0 };
                return self.look_again(len + 1, key);
            }
        }
        self.heads.insert(at, head(added, self.shared));
    }

    /// Takes note that the key at `at` is gone.
    pub(crate) fn remove(&mut self, at: usize) {
        self.heads.remove(at);
    }

    fn look_again<'a>(&mut self, len: usize, key: impl Fn(usize) -> &'a [u8]) {
        self.heads.clear();
        let heads = (0..len).map(|at| head(key(at), self.shared));
        self.heads.extend(heads);
    }

    /// Forgets all; keeps memory for up to `most`.
    pub(crate) fn reset(&mut self, most: usize) {
        let Self {
            heads,
            shared,
            drops,
        } = self;
        heads.clear();
        heads.shrink_to(most);
        (*shared, *drops) = (0, 0);
    }
}

/// The 8 bytes of `key` from `from` on; zeros where there are none.
#[inline(always)]
fn head(key: &[u8], from: usize) -> u64 {
    let rest = &key[from..];
    if let Some(head) = rest.first_chunk() {
        return u64::from_be_bytes(*head);
    }
    let mut head = [0; 8];
    head[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(head)
}

/// How many bytes `a` and `b` begin with alike.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
impl Heads {
    /// As good as new but for memory. Names every field.
    pub(crate) fn assert_as_new(&self) {
        let Self {
            heads,
            shared,
            drops,
        } = self;
        assert!(heads.is_empty());
        assert_eq!((*shared, *drops), (0, 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of all kinds of beginnings, some of them beginnings of others, added in any order.
    #[test]
    fn places_are_those_of_the_keys() {
        let long = |len, end: &[u8]| [&alloc::vec![7; len][..], end].concat();
        let mut all: Vec<Vec<u8>> = Vec::new();
        for len in [0, 1, 7, 8, 9, 31, 32, 40] {
            for end in [
                &b""[..],
                b"\0",
                b"\0\0",
                b"a",
                b"a\0",
                b"abcdefgh",
                b"abcdefgh\0",
                b"\xff",
            ] {
                all.push(long(len, end));
            }
        }
        let mut state = 1_u32;
        for round in 0..200 {
            let mut keys: Vec<Vec<u8>> = Vec::new();
            let mut heads = Heads::default();
            for _ in 0..round % 50 {
                state = state.wrapping_mul(0x9e37_79b1).wrapping_add(7);
                let new = &all[state as usize / 7 % all.len()];
                let at = heads.place(new, true, |at| &keys[at]);
                assert_eq!(keys.binary_search(new).unwrap_or_else(|at| at), at);
                if keys.get(at) == Some(new) {
                    keys.remove(at);
                    heads.remove(at);
                } else {
                    keys.insert(at, new.clone());
                    heads.insert(at, |at| &keys[at]);
                }
            }
            let built = Heads::new(keys.len(), 0, |at| &keys[at]);
            for heads in [&heads, &built] {
                for sought in &all {
                    let place = |inclusive| heads.place(sought, inclusive, |at| &keys[at]);
                    assert_eq!(place(true), keys.partition_point(|key| key < sought));
                    assert_eq!(place(false), keys.partition_point(|key| key <= sought));
                }
            }
        }
    }

    #[test]
    fn reset_heads_are_as_new() {
        let keys: [&[u8]; 3] = [b"aaa", b"aab", b"ab"];
        let mut heads = Heads::default();
        (0..3).for_each(|len| heads.insert(len, |at| keys[at]));
        assert!(heads.shared > 0 && heads.drops > 0);
        heads.reset(0);
        heads.assert_as_new();
    }

    /// Each key shares a byte less with those before.
    #[test]
    fn keys_made_to_share_less_and_less_are_looked_at_a_few_times() {
        let keys: Vec<Vec<u8>> = (0..100)
            .rev()
            .map(|len| [&alloc::vec![1; len][..], &[2]].concat())
            .collect();
        let mut heads = Heads::default();
        for len in 1..=keys.len() {
            heads.insert(len - 1, |at| &keys[at]);
        }
        assert_eq!(heads.drops, MOST_DROPS);
        for (at, sought) in keys.iter().enumerate() {
            assert_eq!(heads.place(sought, true, |at| &keys[at]), at);
        }
    }
}
