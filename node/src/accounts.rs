//! The accounts of a development chain: keys that follow from their index.

use povmeter_node_runtime::AccountId;
use rand_chacha::{rand_core::SeedableRng, ChaCha20Rng};
use schnorrkel::context::{attach_rng, signing_context};
use sp_core::{sr25519, Pair};
use sp_io::hashing::blake2_256;

/// The context in which Substrate signs.
const CONTEXT: &[u8] = b"substrate";

/// The key of account `index`. Account 0 has the sudo key.
pub(crate) fn key(index: u32) -> sr25519::Pair {
    let seed = [b"povmeter-node account".as_slice(), &index.to_le_bytes()].concat();
    sr25519::Pair::from_seed(&blake2_256(&seed))
}

/// Signs `message` with a key of this chain. The signature is the same each time, so that the same calls make the
/// same blocks; the keys are known to everybody, so nothing is lost by it.
pub(crate) fn sign(key: &sr25519::Pair, message: &[u8]) -> sr25519::Signature {
    let key: &schnorrkel::Keypair = key.as_ref();
    let transcript = signing_context(CONTEXT).bytes(message);
    let signature = key.sign(attach_rng(transcript, ChaCha20Rng::from_seed([0; 32])));
    sr25519::Signature::from_raw(signature.to_bytes())
}

/// The id of account `index`.
pub(crate) fn id(index: u32) -> AccountId {
    key(index).public().into()
}

/// The ids of the first `count` accounts.
pub(crate) fn ids(count: u32) -> Vec<AccountId> {
    (0..count).map(id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_valid_and_the_same_each_time() {
        let key = key(7);
        let signature = sign(&key, b"message");
        assert!(sr25519::Pair::verify(&signature, b"message", &key.public()));
        assert!(!sr25519::Pair::verify(
            &signature,
            b"massage",
            &key.public()
        ));
        assert_eq!(signature, sign(&key, b"message"));
        assert_ne!(signature, sign(&key, b"another"));
    }
}
