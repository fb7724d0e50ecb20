//! Keys and values for random calls, also for those in lockstep with sp-state-machine, in
//! `dev/oracle/tests/overlay_peer.rs`.

/// Few, so that calls meet at the same key; prefixes of each other, so that they are sorted and cleared
/// together.
pub(crate) const KEYS: [&[u8]; 12] = [
    b"",
    b"a",
    b"ab",
    b"abc",
    b"abd",
    b"ab\0",
    b"ab\xff",
    b"b",
    b"ba",
    b"\xff",
    b"\xff\xff",
    b"\xff\xffa",
];

/// Lists about to outgrow their prefix, and values that are no lists. The first is the longest list, which
/// an append makes overflow.
pub(crate) const VALUES: [&[u8]; 16] = [
    b"\x03\xff\xff\xff\xff", // 2^32 - 1, the most
    b"",
    b"\0",
    b"\x04x",
    b"\xf8elements",           // 62
    b"\xfc",                   // 63, the most in one byte
    b"\xf9\xff",               // 16,382
    b"\xfd\xffelements",       // 16,383, the most in two
    b"\xfe\xff\xff\xff",       // 2^30 - 1, the most in four
    b"\x03\0\0\0\x40elements", // 2^30
    b"\x01\0",                 // 0 in two bytes
    b"\x02\0\0\0",             // 0 in four
    b"\x03\0\0\0\0",           // 0 in five
    b"\x03\xff",               // cut off
    b"\x13\0\0\0\0\0\0\0\x01", // too large
    b"a value of thirty-two bytes.....",
];
