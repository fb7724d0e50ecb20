//! Sets `cfg(has_avx512)` where the compiler knows the intrinsics of AVX-512: they are stable since
//! Rust 1.89, one release after the oldest that builds this crate.

use std::{env, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(has_avx512)");
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output();
    let version = version.map_or_else(|_| Vec::new(), |output| output.stdout);
    // "rustc 1.95.0 (...)"; a compiler that says something else goes without.
    let minor = String::from_utf8_lossy(&version);
    let minor = minor.split('.').nth(1).and_then(|minor| minor.parse().ok());
    if minor.is_some_and(|minor: u32| minor >= 89) {
        println!("cargo::rustc-cfg=has_avx512");
    }
}
