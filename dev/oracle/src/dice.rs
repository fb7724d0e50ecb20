//! Random choices made from bytes.

use rand::RngCore;

/// A source of random numbers that reads given bytes, and zeros after their end, so that a fuzzer's
/// input makes the choices.
#[derive(Clone, Debug)]
pub struct ByteDice<'a>(&'a [u8]);

impl<'a> ByteDice<'a> {
    /// Makes dice that read `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        let taken = self.0.len().min(N);
        let (head, rest) = self.0.split_at(taken);
        out[..taken].copy_from_slice(head);
        self.0 = rest;
        out
    }
}

impl RngCore for ByteDice<'_> {
    fn next_u32(&mut self) -> u32 {
        // Each choice reads one byte. As the highest byte it decides, because the generator chooses
        // among few.
        let [byte] = self.take();
        u32::from_be_bytes([byte, 0x55, 0x55, 0x55])
    }

    fn next_u64(&mut self) -> u64 {
        let [byte] = self.take();
        u64::from_be_bytes([byte, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55])
    }

    fn fill_bytes(&mut self, out: &mut [u8]) {
        for byte in out {
            [*byte] = self.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn bytes_decide_and_may_run_out() {
        let mut dice = ByteDice::new(&[0xff, 0x00]);
        assert_eq!(dice.random_range(0..100), 99);
        assert_eq!(dice.random_range(0..100), 0);
        let after: Vec<i32> = (0..4).map(|_| dice.random_range(0..100)).collect();
        assert_eq!(after, [0; 4]);
    }
}
