//! Compiles the present and the previous release of the runtime to wasm.

use std::{
    env,
    path::{Path, PathBuf},
    process::{exit, Command},
};

const TARGET: &str = "wasm32v1-none";

/// The packages, and the variables that name their code.
const PACKAGES: [(&str, &str); 2] = [
    ("povmeter-node-wasm", "POVMETER_NODE_WASM"),
    ("povmeter-node-wasm-previous", "POVMETER_NODE_PREVIOUS_WASM"),
];

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
    for source in [
        "build.rs",
        "src",
        "wasm/Cargo.toml",
        "wasm/Cargo.lock",
        "wasm/previous",
    ] {
        println!("cargo::rerun-if-changed={source}");
    }
    expect_target();
    let out = variable("OUT_DIR");
    // Build in the target folder, four levels up, so that all profiles share one build.
    let shared = out.ancestors().nth(4).unwrap_or(&out).join("node-wasm");
    let manifest = variable("CARGO_MANIFEST_DIR").join("wasm/Cargo.toml");
    let status = Command::new(variable("CARGO"))
        .args(["build", "--release", "--locked", "--target", TARGET])
        .args(PACKAGES.iter().flat_map(|(package, _)| ["-p", package]))
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
    for (package, variable) in PACKAGES {
        let name = package.replace('-', "_");
        let wasm = shared.join(TARGET).join(format!("release/{name}.wasm"));
        if !wasm.is_file() {
            give_up(&format!("expected {}, found no such file", wasm.display()));
        }
        println!("cargo::rustc-env={variable}={}", wasm.display());
    }
}

/// Prints why the runtime was not compiled, and ends the build.
fn give_up(reason: &str) -> ! {
    eprintln!("the runtime was not compiled to wasm: {reason}");
    exit(1)
}

fn variable(name: &str) -> PathBuf {
    let value = env::var_os(name).map(PathBuf::from);
    value.unwrap_or_else(|| give_up(&format!("expected the variable {name}, found none")))
}

/// Checks for the target first, because rustc's message for a missing one is about `core`.
fn expect_target() {
    let printed = Command::new(variable("RUSTC"))
        .args(["--print", "target-libdir", "--target", TARGET])
        .output();
    let folder = printed.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    if !folder.is_ok_and(|folder| !folder.is_empty() && Path::new(&folder).is_dir()) {
        give_up(&format!(
            "expected the target {TARGET}, found it is not installed: rustup target add {TARGET}"
        ));
    }
}
