//! A source that does not panic.

use bytes::Bytes;
use povmeter::{NodeBatch, NodeHash, NodePrefix, NodeSource, SourceError};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Answers as the source inside. A panic of that source becomes the error of its request, so that the block decides,
/// as after an error. As a panic it would unwind through an executor, and look like a trap of the transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caught<P>(pub(crate) P);

#[derive(Debug, thiserror::Error)]
#[error("the source of the nodes panicked")]
struct SourcePanicked;

impl<P: NodeSource> NodeSource for Caught<P> {
    fn node(&self, hash: &NodeHash, prefix: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
        // The source is shared by threads, so it has to be sound after a panic in one of them.
        catch_unwind(AssertUnwindSafe(|| self.0.node(hash, prefix)))
            .unwrap_or_else(|_| Err(SourceError::new(SourcePanicked)))
    }

    fn nodes(&self, batch: &mut NodeBatch<'_>) {
        // Each answer of a batch is there or not, so a panic leaves none half done.
        if catch_unwind(AssertUnwindSafe(|| self.0.nodes(batch))).is_err() {
            for index in batch.open() {
                batch.answer(index, Err(SourceError::new(SourcePanicked)));
            }
        }
    }
}

#[cfg(all(test, not(any(povmeter_loom, povmeter_shuttle))))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use povmeter::NodeRequest;

    /// Has the nodes of hashes that begin with 0, lacks those with 1, and panics at all others.
    struct Faulty;

    impl NodeSource for Faulty {
        fn node(&self, hash: &NodeHash, _: NodePrefix<'_>) -> Result<Option<Bytes>, SourceError> {
            match hash.as_bytes()[0] {
                0 => Ok(Some(Bytes::from_static(b"node"))),
                1 => Ok(None),
                // Without the message of a panic.
                _ => std::panic::resume_unwind(Box::new(())),
            }
        }
    }

    #[test]
    fn only_a_panic_becomes_an_error() {
        let requests = [0, 1, 2, 0].map(|first| NodeRequest {
            hash: [first; 32].into(),
            prefix: (&[], None),
        });
        let single =
            requests.map(|NodeRequest { hash, prefix }| Caught(Faulty).node(&hash, prefix));
        assert_eq!(single[0].as_ref().unwrap().as_deref(), Some(&b"node"[..]));
        assert_eq!(single[1].as_ref().unwrap(), &None);
        assert!(single[2].is_err());

        let mut batch = NodeBatch::of(&requests).next().unwrap();
        Caught(Faulty).nodes(&mut batch);
        assert_eq!(batch.get(0).unwrap(), Some(&b"node"[..]));
        assert_eq!(
            batch.get(1).unwrap_err().to_string(),
            SourcePanicked.to_string()
        );
        assert!(batch.get(2).is_err());
    }
}
