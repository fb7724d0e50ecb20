use super::*;
use povmeter_dev_allocations::{live_bytes, Counting};
use sp_core::{ecdsa, ed25519, sr25519, Pair};
use sp_externalities::Extensions;
use sp_io::{crypto as stock, UseDalekExt};
use sp_state_machine::BasicExternalities;
use sp_wasm_interface::HostFunctions as _;
use std::{collections::BTreeSet, sync::Arc};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `call` with `cache`.
fn with<T>(cache: &Arc<SignatureCache>, call: impl FnOnce() -> T) -> T {
    with_others(cache, call, |_| {})
}

fn with_others<T>(
    cache: &Arc<SignatureCache>,
    call: impl FnOnce() -> T,
    others: impl FnOnce(&mut Extensions),
) -> T {
    let mut ext = BasicExternalities::default();
    ext.extensions()
        .register(SignatureCacheExt::new(cache.clone()));
    others(ext.extensions());
    ext.execute_with(call)
}

/// All answers of `$functions` for one signature of each kind, with one bit of the message, the signature or the key
/// flipped. `stock` are Substrate's functions.
macro_rules! answers {
    ($functions:ident, $flip:expr) => {{
        let (part, bit): (usize, usize) = $flip;
        let flip = |number: usize, bytes: &mut [u8]| {
            if part == number {
                let bit = bit % (bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        };
        let mut message = *b"a message of 32 bytes, as hashes";
        let sr = sr25519::Pair::from_seed(&[1; 32]);
        let ed = ed25519::Pair::from_seed(&[2; 32]);
        let ec = ecdsa::Pair::from_seed(&[3; 32]);
        let (mut sr_signature, mut sr_key) = (sr25519_signature(), sr.public());
        let (mut ed_signature, mut ed_key) = (ed.sign(&message), ed.public());
        let (mut ec_signature, mut ec_key) = (ec.sign(&message), ec.public());
        let mut prehashed = ec.sign_prehashed(&message);
        flip(0, &mut message);
        for signature in [
            &mut sr_signature.0[..],
            &mut ed_signature.0,
            &mut ec_signature.0,
            &mut prehashed.0,
        ] {
            flip(1, signature);
        }
        for key in [&mut sr_key.0[..], &mut ed_key.0, &mut ec_key.0] {
            flip(2, key);
        }
        format!(
            "{:?}",
            (
                $functions::sr25519_verify(&sr_signature, &message, &sr_key),
                $functions::ed25519_verify(&ed_signature, &message, &ed_key),
                $functions::ecdsa_verify(&ec_signature, &message, &ec_key),
                $functions::ecdsa_verify_prehashed(&prehashed, &message, &ec_key),
                $functions::secp256k1_ecdsa_recover(&prehashed.0, &message).map_err(|_| ()),
                $functions::secp256k1_ecdsa_recover_compressed(&prehashed.0, &message)
                    .map_err(|_| ()),
            )
        )
    }};
}

/// Signs once, because each signing makes another signature.
fn sr25519_signature() -> sr25519::Signature {
    static SIGNATURE: std::sync::OnceLock<sr25519::Signature> = std::sync::OnceLock::new();
    let pair = sr25519::Pair::from_seed(&[1; 32]);
    *SIGNATURE.get_or_init(|| pair.sign(b"a message of 32 bytes, as hashes"))
}

/// Bits to flip, and one flip of nothing. Some flips make a function recover no key, or another key.
fn flips() -> impl Iterator<Item = (usize, usize)> {
    let bits = [0, 1, 77, 200, 255, 256, 300, 511, 512, 513, 519];
    let flips = (0..3).flat_map(move |part| bits.map(|bit| (part, bit)));
    flips.chain([(3, 0)])
}

#[test]
fn answers_are_those_of_substrate_with_a_cache_and_without() {
    let cache = Arc::new(SignatureCache::default());
    for round in 0..3 {
        for flip in flips() {
            let expected = answers!(stock, flip);
            let plain = BasicExternalities::default().execute_with(|| answers!(crypto, flip));
            assert_eq!(plain, expected, "{flip:?}");
            assert_eq!(
                answers!(crypto, flip),
                expected,
                "without externalities, {flip:?}"
            );
            let found = with(&cache, || answers!(crypto, flip));
            assert_eq!(found, expected, "round {round}, {flip:?}");
        }
    }
    // All answers are remembered, except where no key was recovered.
    assert!(cache.remembered() > 2 * cache.checked() / 3);
}

#[test]
fn the_first_library_for_ed25519_has_answers_of_its_own() {
    let cache = Arc::new(SignatureCache::default());
    // Valid only for today's library.
    let (signature, key) = (ed25519::Signature::default(), ed25519::Public::default());
    let verify = || crypto::ed25519_verify(&signature, &[], &key);
    for _ in 0..2 {
        assert!(with(&cache, verify));
        let old = |extensions: &mut Extensions| extensions.register(UseDalekExt);
        assert!(!with_others(&cache, verify, old));
    }
    assert_eq!((cache.checked(), cache.remembered()), (2, 2));
}

/// A signature of 65 bytes with a key of 33 bytes is the same bytes as a signature of 64 with a key of 32 and two bytes
/// of message.
#[test]
fn functions_do_not_meet() {
    let cache = Arc::new(SignatureCache::default());
    let bytes = [9; 65 + 33];
    with(&cache, || {
        let sr = sr25519::Signature::try_from(&bytes[..64]).unwrap();
        let ec = ecdsa::Signature::try_from(&bytes[..65]).unwrap();
        let sr_key = sr25519::Public::try_from(&bytes[..32]).unwrap();
        let ec_key = ecdsa::Public::try_from(&bytes[..33]).unwrap();
        crypto::sr25519_verify(&sr, &[9; 2], &sr_key);
        crypto::ecdsa_verify(&ec, &[], &ec_key);
        let ed = ed25519::Signature::try_from(&bytes[..64]).unwrap();
        crypto::ed25519_verify(
            &ed,
            &[9; 2],
            &ed25519::Public::try_from(&bytes[..32]).unwrap(),
        );
    });
    assert_eq!((cache.checked(), cache.remembered()), (3, 0));
}

#[test]
fn a_cache_is_never_larger_than_it_may_be() {
    let (signature, key) = (sr25519::Signature::default(), sr25519::Public::default());
    for bytes in [0, 1_000, 100_000] {
        let cache = Arc::new(SignatureCache::new(bytes));
        with(&cache, || {
            for number in 0..2_000_u32 {
                let message = vec![7; number as usize % 300];
                crypto::sr25519_verify(
                    &signature,
                    &[&number.to_le_bytes()[..], &message].concat(),
                    &key,
                );
                assert!(cache.bytes() <= bytes, "{cache:?}");
            }
            // Larger than the cache.
            crypto::sr25519_verify(&signature, &[7; 200_000], &key);
        });
        assert!(cache.bytes() <= bytes);
        assert_eq!(cache.checked(), 2_001);
    }
}

/// Each function replaces a function of Substrate with its name and signature, and none is an older version.
#[test]
fn names_are_those_of_substrate() {
    let names = |functions: Vec<&'static dyn sp_wasm_interface::Function>| -> BTreeSet<_> {
        let each = functions.into_iter();
        each.map(|function| {
            (
                function.name().to_owned(),
                format!("{:?}", function.signature()),
            )
        })
        .collect()
    };
    let ours = names(HostFunctions::host_functions());
    let theirs = names(stock::HostFunctions::host_functions());
    assert!(ours.is_subset(&theirs), "{:?}", ours.difference(&theirs));
    let ours: Vec<_> = ours.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        ours,
        [
            "ext_crypto_ecdsa_verify_prehashed_version_1",
            "ext_crypto_ecdsa_verify_version_2",
            "ext_crypto_ed25519_verify_version_1",
            "ext_crypto_secp256k1_ecdsa_recover_compressed_version_2",
            "ext_crypto_secp256k1_ecdsa_recover_version_2",
            "ext_crypto_sr25519_verify_version_2",
        ]
    );
}

/// For messages of any length, and with more signatures than the cache has room for.
#[test]
fn memory_stays_below_the_capacity() {
    for (bytes, length) in [
        (2 << 20, 1),
        (2 << 20, 150),
        (5 << 20, 32),
        (16 << 20, 1),
        (16 << 20, 250),
    ] {
        let before = live_bytes();
        let cache = Arc::new(SignatureCache::new(bytes));
        let mut most = 0;
        let more = 2 * bytes / (cache::ENTRY_BYTES + length as u64);
        for number in 0..u32::try_from(more).unwrap() {
            let key = number.to_le_bytes().repeat(8);
            let message = vec![7; length];
            let question =
                cache::Question::new(cache::Function::Sr25519, [&[9; 64], &key, &message]);
            cache.keep(question, cache::Answer::Valid(true));
            most = most.max(live_bytes() - before);
        }
        let found = u64::try_from(most).unwrap();
        println!(
            "{bytes} B, messages of {length} B: {found} B, weight {}",
            cache.bytes()
        );
        assert!(found <= bytes + (64 << 10), "{found} of {bytes}");
        assert!(found > bytes / 3, "{found} of {bytes}");
    }
}
