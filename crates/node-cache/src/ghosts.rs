//! Paths whose nodes were evicted without a use after they entered.

/// A table with a part of each path's hash. A new path replaces an older path with the same index.
#[derive(Debug)]
pub(crate) struct Ghosts(Box<[u32]>);

impl Ghosts {
    /// Bytes of a path in the table.
    pub(crate) const BYTES: usize = size_of::<u32>();

    /// A table for about `count` paths.
    pub(crate) fn new(count: usize) -> Self {
        Self(vec![0; count.max(1)].into_boxed_slice())
    }

    /// Bytes of the table.
    pub(crate) fn bytes(&self) -> usize {
        self.0.len() * Self::BYTES
    }

    fn slot(&mut self, path: u64) -> (&mut u32, u32) {
        let [low, high] = halves(path);
        // The product is below the length times 2^32.
        let index = ((u64::from(low) * self.0.len() as u64) >> 32) as usize;
        // Zero is an empty place.
        (&mut self.0[index], high | 1)
    }

    pub(crate) fn insert(&mut self, path: u64) {
        let (slot, mark) = self.slot(path);
        *slot = mark;
    }

    /// Removes `path`, and returns whether it was there.
    pub(crate) fn take(&mut self, path: u64) -> bool {
        let (slot, mark) = self.slot(path);
        let found = *slot == mark;
        if found {
            *slot = 0;
        }
        found
    }

    pub(crate) fn clear(&mut self) {
        self.0.fill(0);
    }
}

/// The low and the high half.
fn halves(number: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = number.to_le_bytes();
    [[a, b, c, d], [e, f, g, h]].map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_until_another_takes_the_place() {
        let mut ghosts = Ghosts::new(4);
        assert!(!ghosts.take(0));
        let path = |low: u64, high: u64| high << 33 | low;
        for low in [0, 1 << 30, 1 << 31, 3 << 30] {
            ghosts.insert(path(low, 5));
        }
        ghosts.insert(path(7, 6));
        assert!(!ghosts.take(path(0, 5)), "its place is taken");
        assert!(ghosts.take(path(7, 6)) && !ghosts.take(path(7, 6)));
        assert!(ghosts.take(path(1 << 31, 5)));
        ghosts.clear();
        assert!(!ghosts.take(path(3 << 30, 5)));
    }
}
