//! The state version that a runtime tells without being executed: its build embeds its version in the wasm.
//!
//! ```text
//! unpack the code                     if it is compressed
//! for each custom section             in the order of the wasm
//!     `runtime_version`               names, versions and an empty list of APIs, encoded
//!     `runtime_apis`                  8 bytes of id and 4 of version for each API
//! decode the version                  the version of the API `Core` tells which fields it has
//! ```
//!
//! The few lines that find a section are written here, because otherwise only a program with the feature `wasm` has
//! a parser of today's wasm.

use sp_core::storage::StateVersion;
use sp_crypto_hashing::blake2_64;
use sp_maybe_compressed_blob::{decompress, CODE_BLOB_BOMB_LIMIT};
use sp_version::RuntimeVersion;

/// Why the version in a runtime can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddedVersionError {
    /// The compressed code can't be unpacked.
    #[error("expected a compressed runtime of at most {limit} bytes unpacked, found: {0}", limit = CODE_BLOB_BOMB_LIMIT)]
    Compressed(#[source] sp_maybe_compressed_blob::Error),
    /// The code does not begin like wasm.
    #[error("expected a runtime in wasm, found other bytes")]
    NotWasm,
    /// A section is longer than the code.
    #[error("expected a whole section at byte {at} of the runtime, found its end")]
    CutOff {
        /// Place of the section in the unpacked code.
        at: usize,
    },
    /// The list of APIs is not one of pairs of id and version.
    #[error(
        "expected 12 bytes for each API in the section `runtime_apis`, found {0} bytes in all"
    )]
    Apis(usize),
    /// The version can't be decoded.
    #[error("expected a runtime's version in the section `runtime_version`, found: {0}")]
    Version(#[source] codec::Error),
}

/// What each wasm of version 1 begins with.
const START: &[u8] = b"\0asm\x01\0\0\0";
/// The kind of a custom section.
const CUSTOM: u8 = 0;
/// Bytes of an API's id, and of the id with its version.
const API_ID: usize = 8;
const API: usize = API_ID + 4;

/// Returns the state version that the runtime `code` tells; `None` if its build embedded none, as builds before 2021.
/// The state version 1 came later, so such a runtime has version 0.
///
/// # Errors
/// An [`EmbeddedVersionError`] if the code is no wasm, plain or compressed, or what it embeds is damaged.
pub fn embedded_state_version(code: &[u8]) -> Result<Option<StateVersion>, EmbeddedVersionError> {
    let wasm = decompress(code, CODE_BLOB_BOMB_LIMIT).map_err(EmbeddedVersionError::Compressed)?;
    let [mut version, mut apis] = [None; 2];
    for_each_custom_section(&wasm, |name, content| match name {
        b"runtime_version" => version = Some(content),
        b"runtime_apis" => apis = Some(content),
        _ => (),
    })?;
    let (Some(mut version), Some(apis)) = (version, apis) else {
        return Ok(None);
    };
    let core = core_version(apis)?;
    // Without `Core` nothing tells which fields the version has.
    if core.is_none() {
        return Ok(None);
    }
    let version = RuntimeVersion::decode_with_version_hint(&mut version, core)
        .map_err(EmbeddedVersionError::Version)?;
    Ok(Some(version.state_version()))
}

/// The version of the API `Core` in a section of APIs.
fn core_version(apis: &[u8]) -> Result<Option<u32>, EmbeddedVersionError> {
    if !apis.len().is_multiple_of(API) {
        return Err(EmbeddedVersionError::Apis(apis.len()));
    }
    let id = blake2_64(b"Core");
    let mut apis = apis.chunks_exact(API);
    let core = apis.find_map(|api| api.strip_prefix(&id)?.try_into().ok());
    Ok(core.map(u32::from_le_bytes))
}

/// Calls `found` with the name and the content of each custom section.
fn for_each_custom_section<'w>(
    wasm: &'w [u8],
    mut found: impl FnMut(&'w [u8], &'w [u8]),
) -> Result<(), EmbeddedVersionError> {
    let mut rest = wasm
        .strip_prefix(START)
        .ok_or(EmbeddedVersionError::NotWasm)?;
    while let [kind, after_kind @ ..] = rest {
        let at = wasm.len() - rest.len();
        let cut_off = || EmbeddedVersionError::CutOff { at };
        let (content, next) = counted(after_kind).ok_or_else(cut_off)?;
        if *kind == CUSTOM {
            let (name, content) = counted(content).ok_or_else(cut_off)?;
            found(name, content);
        }
        rest = next;
    }
    Ok(())
}

/// Splits `bytes` into the part whose length stands before it, and the rest; `None` if it is cut off.
fn counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    // LEB128: 7 bits in each byte, the lowest first; the highest bit tells that more follow. 5 bytes are 32 bits.
    let mut length = 0;
    for (place, byte) in bytes.iter().take(5).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return bytes.get(place + 1..)?.split_at_checked(length);
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use codec::Encode;
    use sp_maybe_compressed_blob::compress_weakly;

    /// A custom section.
    fn section(name: &str, content: &[u8]) -> Vec<u8> {
        let counted = |bytes: &[u8]| {
            let length = u8::try_from(bytes.len()).unwrap();
            assert!(length < 0x80);
            [&[length], bytes].concat()
        };
        let named = [&counted(name.as_bytes()), content].concat();
        [vec![CUSTOM], counted(&named)].concat()
    }

    /// A runtime with these sections.
    fn runtime(sections: &[Vec<u8>]) -> Vec<u8> {
        // A section of another kind, whose length has two bytes.
        let other = [&[1, 0x80, 0x01][..], &[7; 128]].concat();
        [START, &other, &sections.concat()].concat()
    }

    /// The version in a section, whose list of APIs is empty.
    fn version(system_version: u8) -> Vec<u8> {
        let fields = ("spec", "impl", 1u32, 2u32, 3u32);
        let end = (Vec::<([u8; 8], u32)>::new(), 4u32, system_version);
        section("runtime_version", &(fields, end).encode())
    }

    fn apis(core: u32) -> Vec<u8> {
        let apis = [([9; 8], 1u32), (blake2_64(b"Core"), core)];
        let encoded = apis.map(|(id, version)| [&id[..], &version.to_le_bytes()].concat());
        section("runtime_apis", &encoded.concat())
    }

    #[test]
    fn a_version_is_read_plain_and_compressed() {
        for (core, system, expected) in [
            (3, 1, StateVersion::V0),
            (4, 0, StateVersion::V0),
            (4, 1, StateVersion::V1),
            (5, 2, StateVersion::V1),
        ] {
            let code = runtime(&[apis(core), version(system)]);
            let compressed = compress_weakly(&code, CODE_BLOB_BOMB_LIMIT).unwrap();
            for code in [code, compressed] {
                let found = embedded_state_version(&code).unwrap();
                assert_eq!(found, Some(expected), "{core} {system}");
            }
        }
    }

    #[test]
    fn what_is_not_embedded_is_not_told() {
        for sections in [&[][..], &[version(1)], &[apis(4)]] {
            assert_eq!(embedded_state_version(&runtime(sections)).unwrap(), None);
        }
        let no_core = section("runtime_apis", &[9; API]);
        let code = runtime(&[no_core, version(1)]);
        assert_eq!(embedded_state_version(&code).unwrap(), None);
    }

    #[test]
    fn damage_is_an_error() {
        let whole = runtime(&[apis(4), version(1)]);
        let compressed = compress_weakly(&whole, CODE_BLOB_BOMB_LIMIT).unwrap();
        let short = section("runtime_version", &[8, b'a']);
        for (code, part) in [
            (Vec::new(), "a runtime in wasm"),
            (b"\0asm".to_vec(), "a runtime in wasm"),
            (whole[..whole.len() - 1].to_vec(), "a whole section at byte"),
            ([&whole[..], &[CUSTOM]].concat(), "a whole section at byte"),
            (
                [&whole[..], &[1, 0xff, 0xff, 0xff, 0xff, 0xff]].concat(),
                "a whole section at byte",
            ),
            (
                compressed[..compressed.len() - 9].to_vec(),
                "a compressed runtime",
            ),
            (
                runtime(&[section("runtime_apis", &[9; 13]), version(1)]),
                "found 13 bytes",
            ),
            (
                runtime(&[apis(4), short]),
                "in the section `runtime_version`",
            ),
        ] {
            let error = embedded_state_version(&code).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        // No place at which the code ends makes it panic.
        for end in 0..whole.len() {
            let _ = embedded_state_version(&whole[..end]);
        }
    }
}
