//! Compiles the runtime to wasm if the feature `wasm` is on.

use std::{
    env,
    path::{Path, PathBuf},
    process::{exit, Command},
};

const TARGET: &str = "wasm32v1-none";
const CRATE: &str = "povmeter_dev_wasm_runtime";

/// The flags for what the executor expects of a runtime: an imported memory, an exported table and
/// heap, and no instructions beyond the first version of wasm.
const FLAGS: [&str; 5] = [
    "--cfg=substrate_runtime",
    "-Ctarget-cpu=mvp",
    "-Clink-arg=--import-memory",
    "-Clink-arg=--export-table",
    "-Clink-arg=--export=__heap_base",
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var_os("CARGO_FEATURE_WASM").is_none() {
        return;
    }
    for source in [
        "wasm-runtime/Cargo.toml",
        "wasm-runtime/Cargo.lock",
        "wasm-runtime/src",
    ] {
        println!("cargo::rerun-if-changed={source}");
    }
    println!("cargo::rerun-if-changed=src/runtime.rs");
    // The crates that the runtime depends on by path.
    for source in [
        "../../src",
        "../../crates/overlay",
        "../../crates/delta-root",
        "../../crates/pov-estimate",
        "../../crates/proof-size",
    ] {
        println!("cargo::rerun-if-changed={source}");
    }
    let wasm = build_runtime();
    println!("cargo::rustc-env=POVMETER_WORKLOAD_WASM={}", wasm.display());
}

/// Prints why the runtime was not compiled, and ends the build.
fn give_up(reason: &str) -> ! {
    eprintln!("the feature `wasm` compiles a runtime to wasm, which failed: {reason}");
    exit(1)
}

fn variable(name: &str) -> PathBuf {
    let value = env::var_os(name).map(PathBuf::from);
    value.unwrap_or_else(|| give_up(&format!("expected the variable {name}, found none")))
}

fn build_runtime() -> PathBuf {
    expect_target();
    let out = variable("OUT_DIR");
    // Build in the target folder, four levels up, so that all profiles share one build.
    let shared = out.ancestors().nth(4).unwrap_or(&out).join("wasm-runtime");
    let manifest = variable("CARGO_MANIFEST_DIR").join("wasm-runtime/Cargo.toml");
    let status = Command::new(variable("CARGO"))
        .args(["build", "--release", "--locked", "--target", TARGET])
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--target-dir")
        .arg(&shared)
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f"))
        .env_remove("RUSTFLAGS")
        // These belong to the outer build: coverage, lints.
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => give_up(&format!("cargo ended with {status}")),
        Err(error) => give_up(&format!("cargo can't be run: {error}")),
    }
    let wasm = shared.join(TARGET).join(format!("release/{CRATE}.wasm"));
    if !wasm.is_file() {
        give_up(&format!("expected {}, found no such file", wasm.display()));
    }
    wasm
}

/// Checks for the target first, because rustc's message for a missing one is about `core`.
fn expect_target() {
    let rustc = variable("RUSTC");
    let printed = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", TARGET])
        .output();
    let folder = printed.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    if !folder.is_ok_and(|folder| !folder.is_empty() && Path::new(&folder).is_dir()) {
        give_up(&format!(
            "expected the target {TARGET}, found it is not installed: rustup target add {TARGET}"
        ));
    }
}
