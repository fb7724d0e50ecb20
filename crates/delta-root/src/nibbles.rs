//! Keys and partial keys, nibble by nibble.
//!
//! A key of n bytes is a path of 2n nibbles, high half first. A node stores its partial key right
//! aligned: with an odd count the first byte holds one nibble, in its low half.

use crate::NodePrefix;
use core::cmp::Ordering;
use povmeter_primitives::common_bytes;

/// Number of nibbles in `key`.
#[inline]
pub(crate) fn count(key: &[u8]) -> usize {
    key.len() * 2
}

/// Nibble `index` of `key`; the caller has checked that it is there.
#[inline]
pub(crate) fn at(key: &[u8], index: usize) -> u8 {
    let byte = key[index / 2];
    if index.is_multiple_of(2) {
        byte >> 4
    } else {
        byte & 0x0f
    }
}

/// Number of nibbles in the common prefix of `a` and `b`.
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let bytes = common_bytes(a, b);
    match (a.get(bytes), b.get(bytes)) {
        (Some(a), Some(b)) => 2 * bytes + usize::from(a >> 4 == b >> 4),
        _ => 2 * bytes,
    }
}

/// Whether the first `count` nibbles of `whole` equal those after the first nibble of `shifted`. Neither ends
/// before them.
fn is_shifted(shifted: &[u8], whole: &[u8], count: usize) -> bool {
    let bytes = count / 2;
    let pairs = shifted.iter().zip(&shifted[1..]);
    let joined = pairs.map(|(high, low)| high << 4 | low >> 4);
    // Compares all bytes, because eight or more at once cost as much as one.
    let differing = joined
        .zip(&whole[..bytes])
        .fold(0, |differing, (a, b)| differing | (a ^ b));
    let one_more = count % 2 == 1;
    differing == 0 && (!one_more || shifted[bytes] & 0x0f == whole[bytes] >> 4)
}

/// Length in nibbles of the common prefix of `one` from nibble `from` on and `other` from nibble `at` on: at
/// most `most`, which both have.
fn common_from((one, from): (&[u8], usize), (other, at): (&[u8], usize), most: usize) -> usize {
    if most == 0 {
        return 0;
    }
    match (from % 2, at % 2) {
        (0, 1) => common_shifted(&other[at / 2..], &one[from / 2..], most),
        (1, 0) => common_shifted(&one[from / 2..], &other[at / 2..], most),
        (odd, _) => {
            if odd == 1 && self::at(one, from) != self::at(other, at) {
                return 0;
            }
            let bytes = (most - odd).div_ceil(2);
            let one = &one[from.div_ceil(2)..][..bytes];
            let other = &other[at.div_ceil(2)..][..bytes];
            // The nibble after the last one may be equal, too.
            most.min(odd + common_prefix(one, other))
        }
    }
}

/// Length in nibbles of the common prefix of `whole` and of `shifted` without its first nibble: at most
/// `most`, which both have.
fn common_shifted(shifted: &[u8], whole: &[u8], most: usize) -> usize {
    let pairs = shifted.iter().zip(&shifted[1..]);
    let joined = pairs.map(|(high, low)| high << 4 | low >> 4);
    let mut bytes = joined.zip(whole).take(most / 2).enumerate();
    let differing = bytes.find(|(_, (joined, whole))| joined != *whole);
    if let Some((index, (joined, whole))) = differing {
        return 2 * index + usize::from(joined >> 4 == whole >> 4);
    }
    let last = most / 2;
    let one_more = most % 2 == 1 && shifted[last] & 0x0f == whole[last] >> 4;
    2 * last + usize::from(one_more)
}

/// A partial key as a node stores it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Partial<'a> {
    bytes: &'a [u8],
    count: usize,
}

impl<'a> Partial<'a> {
    /// The partial key of `count` nibbles in `bytes`, which are exactly as many as it needs.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], count: usize) -> Self {
        debug_assert_eq!(bytes.len(), count.div_ceil(2));
        Self { bytes, count }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The bytes as a node stores them.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Nibble `index`, which is below [`Self::len`].
    #[inline]
    pub(crate) fn at(&self, index: usize) -> u8 {
        at(self.bytes, index + self.count % 2)
    }

    /// Whether `key` holds this partial key at nibble `depth`.
    #[inline]
    pub(crate) fn is_prefix_at(&self, key: &[u8], depth: usize) -> bool {
        if depth + self.count > count(key) {
            return false;
        }
        // Most branches have no partial key if keys are hashed.
        if self.count == 0 {
            return true;
        }
        let odd = self.count % 2;
        if depth % 2 != odd {
            // Not aligned. This happens in branches only: the partial key of a leaf ends with a whole byte.
            let key = &key[depth / 2..];
            return match odd {
                1 => is_shifted(self.bytes, key, self.count),
                _ => is_shifted(key, self.bytes, self.count),
            };
        }
        let whole = &key[depth.div_ceil(2)..][..self.count / 2];
        (odd == 0 || self.bytes[0] == at(key, depth)) && &self.bytes[odd..] == whole
    }

    /// Length of the common prefix of this partial key from nibble `skip` on and `key` from `depth` on.
    pub(crate) fn shared_at(&self, skip: usize, key: &[u8], depth: usize) -> usize {
        let rest = count(key).saturating_sub(depth);
        let most = rest.min(self.count - skip);
        common_from((self.bytes, skip + self.count % 2), (key, depth), most)
    }

    /// Compares this partial key with `key` from nibble `depth` on: `Equal` also where one of the two
    /// is a prefix of the other. The second result is the number of nibbles in their common prefix.
    pub(crate) fn compare_at(&self, key: &[u8], depth: usize) -> (Ordering, usize) {
        let common = self.shared_at(0, key, depth);
        let order = match common == self.count || depth + common >= count(key) {
            true => Ordering::Equal,
            false => self.at(common).cmp(&at(key, depth + common)),
        };
        (order, common)
    }
}

/// A path that grows and shrinks by nibbles, and can be read as a key at any time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path {
    /// The last of an odd number of nibbles is in a high half, with zeros in the low half.
    bytes: alloc::vec::Vec<u8>,
    len: usize,
}

impl Path {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push(&mut self, nibble: u8) {
        match self.bytes.last_mut() {
            Some(last) if self.len % 2 == 1 => *last |= nibble,
            _ => self.bytes.push(nibble << 4),
        }
        self.len += 1;
    }

    pub(crate) fn push_partial(&mut self, Partial { bytes, count }: Partial<'_>) {
        let odd = self.len % 2;
        self.len += count;
        let Some((first, rest)) = bytes.split_first() else {
            return;
        };
        let last = self.bytes.last_mut().filter(|_| odd == 1);
        if odd == count % 2 {
            // Bytes of the partial key become bytes of the path.
            match last {
                Some(last) => {
                    *last |= first & 0x0f;
                    self.bytes.extend_from_slice(rest);
                }
                None => self.bytes.extend_from_slice(bytes),
            }
            return;
        }
        if let Some(last) = last {
            *last |= first >> 4;
        }
        let next = rest.iter().chain(&[0]);
        let halves = bytes.iter().zip(next);
        self.bytes
            .extend(halves.map(|(high, low)| high << 4 | low >> 4));
    }

    pub(crate) fn truncate(&mut self, length: usize) {
        if length >= self.len {
            return;
        }
        self.len = length;
        self.bytes.truncate(length.div_ceil(2));
        if length % 2 == 1 {
            if let Some(last) = self.bytes.last_mut() {
                *last &= 0xf0;
            }
        }
    }

    /// The path as a key: whole bytes, and the last of an odd number of nibbles, in a high half.
    #[inline]
    pub(crate) fn as_key(&self) -> (&[u8], Option<u8>) {
        match self.bytes.split_last() {
            Some((last, whole)) if self.len % 2 == 1 => (whole, Some(*last)),
            _ => (&self.bytes, None),
        }
    }
}

/// A path built from its end, in reused memory.
#[derive(Debug, Default)]
pub(crate) struct BackwardPath {
    nibbles: alloc::vec::Vec<u8>,
}

impl BackwardPath {
    pub(crate) fn clear(&mut self) {
        self.nibbles.clear();
    }

    /// Puts `nibble` before the path.
    pub(crate) fn push(&mut self, nibble: u8) {
        self.nibbles.push(nibble);
    }

    /// Puts `partial` before the path.
    pub(crate) fn push_partial(&mut self, partial: Partial<'_>) {
        let backwards = (0..partial.len()).rev();
        self.nibbles
            .extend(backwards.map(|index| partial.at(index)));
    }

    /// The nibbles in the order of the path, one a byte. The results of several paths compare in the order
    /// in which a walk through the trie meets them.
    pub(crate) fn into_nibbles(mut self) -> alloc::vec::Vec<u8> {
        self.nibbles.reverse();
        self.nibbles
    }
}

/// Paths as node prefixes, in reused memory.
#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    next: BackwardPath,
    bytes: alloc::vec::Vec<u8>,
}

/// Where a prefix lies in [`Prefixes`].
#[derive(Clone, Debug)]
pub(crate) struct PrefixRange {
    bytes: core::ops::Range<usize>,
    odd: Option<u8>,
}

impl Prefixes {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// The next path, empty, which [`Self::keep`] keeps once it is built.
    pub(crate) fn next(&mut self) -> &mut BackwardPath {
        self.next.clear();
        &mut self.next
    }

    /// Keeps the path that was built in [`Self::next`], after `keyspace`.
    pub(crate) fn keep(&mut self, keyspace: &[u8]) -> PrefixRange {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(keyspace);
        let mut forwards = self.next.nibbles.iter().rev();
        loop {
            match (forwards.next(), forwards.next()) {
                (Some(high), Some(low)) => self.bytes.push(high << 4 | low),
                (odd, _) => {
                    let odd = odd.map(|nibble| nibble << 4);
                    let bytes = start..self.bytes.len();
                    return PrefixRange { bytes, odd };
                }
            }
        }
    }

    /// Keeps `prefix`, after `keyspace`.
    pub(crate) fn keep_prefix(&mut self, keyspace: &[u8], prefix: NodePrefix<'_>) -> PrefixRange {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(keyspace);
        self.bytes.extend_from_slice(prefix.0);
        PrefixRange {
            bytes: start..self.bytes.len(),
            odd: prefix.1,
        }
    }

    pub(crate) fn prefix(&self, range: &PrefixRange) -> NodePrefix<'_> {
        (&self.bytes[range.bytes.clone()], range.odd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn partial_of(nibbles: &[u8]) -> Vec<u8> {
        let mut padded = Vec::new();
        if nibbles.len() % 2 == 1 {
            padded.push(0);
        }
        padded.extend_from_slice(nibbles);
        padded
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect()
    }

    #[test]
    fn prefix_test_agrees_with_nibble_vectors() {
        let key = [0x12, 0x34, 0x12, 0x34, 0x56];
        let all: Vec<u8> = (0..10).map(|index| at(&key, index)).collect();
        for depth in 0..=10 {
            for length in 0..=10usize {
                for start in 0..(10usize.saturating_sub(length) + 1) {
                    let nibbles = &all[start..(start + length).min(10)];
                    let bytes = partial_of(nibbles);
                    let partial = Partial::new(&bytes, nibbles.len());
                    let rest = &all[depth..];
                    assert_eq!(partial.is_prefix_at(&key, depth), rest.starts_with(nibbles));
                    let common = nibbles.iter().zip(rest).take_while(|(a, b)| a == b).count();
                    let expected = if common == nibbles.len().min(rest.len()) {
                        Ordering::Equal
                    } else {
                        nibbles.cmp(rest)
                    };
                    assert_eq!(partial.compare_at(&key, depth), (expected, common));
                }
            }
        }
    }

    /// The partial keys are long enough for comparisons of many bytes at once, and one nibble differs.
    #[test]
    fn prefix_test_finds_each_nibble_that_differs() {
        let key: Vec<u8> = (0..48_u8).map(|byte| byte.wrapping_mul(0x9d)).collect();
        let all: Vec<u8> = (0..96).map(|index| at(&key, index)).collect();
        for depth in [0, 1, 2, 5, 8] {
            for length in [1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 87, 88] {
                let mut nibbles = all[depth..depth + length].to_vec();
                let is_prefix = |nibbles: &[u8]| {
                    Partial::new(&partial_of(nibbles), length).is_prefix_at(&key, depth)
                };
                assert!(is_prefix(&nibbles));
                for index in 0..length {
                    nibbles[index] ^= 1 << (index % 4);
                    assert!(!is_prefix(&nibbles), "{depth} {length} {index}");
                    nibbles[index] = all[depth + index];
                }
            }
        }
    }

    /// At several places of both, with one nibble that differs, or none.
    #[test]
    fn shared_nibbles_end_where_one_differs() {
        let key: Vec<u8> = (0..48_u8).map(|byte| byte.wrapping_mul(0x9d)).collect();
        let all: Vec<u8> = (0..96).map(|index| at(&key, index)).collect();
        for depth in [0, 1, 2, 5, 8] {
            for length in [0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 64, 87, 88] {
                for skip in 0..length.min(4) {
                    let mut nibbles = all[depth..depth + length].to_vec();
                    for index in skip..=length {
                        if index < length {
                            nibbles[index] ^= 1 << (index % 4);
                        }
                        let bytes = partial_of(&nibbles);
                        let partial = Partial::new(&bytes, length);
                        let shared = partial.shared_at(skip, &key, depth + skip);
                        assert_eq!(shared, index - skip, "{depth} {length} {skip}");
                        let order = nibbles[..].cmp(&all[depth..depth + length]);
                        let compared = partial.compare_at(&key, depth);
                        assert_eq!(compared, (order, index), "{depth} {length}");
                        // The key may also end before that nibble.
                        let short = &key[..(depth + index) / 2];
                        let rest = (2 * short.len()).saturating_sub(depth + skip);
                        assert_eq!(partial.shared_at(skip, short, depth + skip), rest);
                        if index < length {
                            nibbles[index] = all[depth + index];
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn shared_nibbles_are_at_most_so_many() {
        let key = [0x11; 20];
        for (from, at) in [(0, 0), (1, 1), (2, 4), (3, 2), (4, 5)] {
            for most in 0..=34 {
                assert_eq!(common_from((&key, from), (&key, at), most), most);
            }
        }
    }

    #[test]
    fn partial_keys_extend_a_path_as_their_nibbles_do() {
        let all: Vec<u8> = (0..40_u8)
            .map(|index| index.wrapping_mul(7) & 0x0f)
            .collect();
        for before in 0..4 {
            for length in 0..36 {
                for behind in 0..3 {
                    let bytes = partial_of(&all[before..before + length]);
                    let (mut path, mut by_nibble) = (Path::default(), Path::default());
                    let after = &all[before + length..][..behind.min(40 - before - length)];
                    all[..before].iter().for_each(|nibble| path.push(*nibble));
                    path.push_partial(Partial::new(&bytes, length));
                    after.iter().for_each(|nibble| path.push(*nibble));
                    let nibbles = &all[..before + length + after.len()];
                    nibbles.iter().for_each(|nibble| by_nibble.push(*nibble));
                    assert_eq!(path.as_key(), by_nibble.as_key(), "{before} {length}");
                    assert_eq!(path.len(), nibbles.len());
                }
            }
        }
    }

    #[test]
    fn common_prefixes_end_at_the_nibble() {
        let key: Vec<u8> = (0..20).collect();
        assert_eq!(common_prefix(&key, &key), 40);
        assert_eq!(common_prefix(&key, &key[..7]), 14);
        assert_eq!(common_prefix(&[], &key), 0);
        for nibble in 0..40 {
            let mut other = key.clone();
            other[nibble / 2] ^= if nibble % 2 == 0 { 0x80 } else { 0x08 };
            assert_eq!(common_prefix(&key, &other), nibble);
            assert_eq!(common_prefix(&other, &key), nibble);
        }
    }

    #[test]
    fn path_turns_into_a_prefix() {
        let mut path = Path::default();
        path.push(0xa);
        assert_eq!(path.as_key(), (&[][..], Some(0xa0)));
        path.push_partial(Partial::new(&[0x01, 0x23], 3));
        assert_eq!(path.as_key(), (&[0xa1, 0x23][..], None));
        path.truncate(3);
        assert_eq!(path.as_key(), (&[0xa1][..], Some(0x20)));
        path.push(0xf);
        assert_eq!(path.as_key(), (&[0xa1, 0x2f][..], None));
        path.truncate(9);
        assert_eq!(path.as_key(), (&[0xa1, 0x2f][..], None));
        path.truncate(1);
        assert_eq!(path.as_key(), (&[][..], Some(0xa0)));
    }

    #[test]
    fn paths_from_the_end_are_those_from_the_beginning() {
        let long = partial_of(&[1, 2, 3, 4, 5]);
        for (first, second) in [(0, 0), (1, 0), (2, 3), (5, 4), (5, 5)] {
            let (mut forwards, mut prefixes) = (Path::default(), Prefixes::default());
            prefixes.next().push(9);
            prefixes.keep(&[]);
            let backwards = prefixes.next();
            let partial = |count: usize| Partial::new(&long[..count.div_ceil(2)], count);
            forwards.push_partial(partial(first));
            forwards.push(7);
            forwards.push_partial(partial(second));
            backwards.push_partial(partial(second));
            backwards.push(7);
            backwards.push_partial(partial(first));
            let (bytes, odd) = forwards.as_key();
            let path = prefixes.keep(&[]);
            assert_eq!(prefixes.prefix(&path), (bytes, odd));
            let below = prefixes.keep(b"pool");
            assert_eq!(
                prefixes.prefix(&below),
                ([b"pool", bytes].concat().as_slice(), odd)
            );
            let same = prefixes.keep_prefix(b"pool", (bytes, odd));
            assert_eq!(prefixes.prefix(&same), prefixes.prefix(&below));
            let whole = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
            let nibbles: Vec<u8> = whole.chain(odd.map(|odd| odd >> 4)).collect();
            assert_eq!(nibbles.len(), forwards.len());
            assert_eq!(prefixes.next.into_nibbles(), nibbles);
        }
    }
}
