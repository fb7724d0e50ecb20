//! The common prefix of two keys.

/// Bytes in the common prefix of `a` and `b`. Compares eight at a time.
#[inline]
pub fn common_bytes(a: &[u8], b: &[u8]) -> usize {
    let words = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0);
    let whole = 8 * words.take_while(|(a, b)| a == b).count();
    let rest = a[whole..].iter().zip(&b[whole..]);
    whole + rest.take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::common_bytes;

    #[test]
    fn counted_up_to_the_first_byte_that_differs() {
        let key: [u8; 40] = core::array::from_fn(|at| at.to_le_bytes()[0]);
        for length in 0..=key.len() {
            assert_eq!(common_bytes(&key, &key[..length]), length);
            assert_eq!(common_bytes(&key[..length], &key), length);
            for at in 0..length {
                let mut other = key;
                other[at] ^= 0x10;
                assert_eq!(common_bytes(&key[..length], &other), at);
            }
        }
    }
}
