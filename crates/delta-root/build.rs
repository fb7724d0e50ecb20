//! Sets `cfg(has_avx512)` on x86-64 with the feature `std`, which detects AVX-512 at run time, if the
//! compiler knows its intrinsics: they are stable since Rust 1.89, one release after the oldest Rust
//! that builds this crate.

use std::{env, process::Command};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(has_avx512)");
    let on_x86_64 = env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64");
    let with_std = env::var_os("CARGO_FEATURE_STD").is_some();
    if on_x86_64 && with_std && minor_version().is_some_and(|minor| minor >= 89) {
        println!("cargo::rustc-cfg=has_avx512");
    }
}

/// The compiler's minor version, 95 in "rustc 1.95.0 (...)"; `None` if the compiler prints another form.
fn minor_version() -> Option<u32> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().ok()?;
    let version = String::from_utf8(version.stdout).ok()?;
    version.split('.').nth(1)?.parse().ok()
}
