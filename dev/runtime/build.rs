//! Compiles the runtime to wasm if the feature `wasm` is on: as a standalone chain, and as a parachain with
//! each `validate_block`.

use std::{
    env,
    path::{Path, PathBuf},
    process::{exit, Command},
};

const TARGET: &str = "wasm32v1-none";
/// The packages, and the environment variables that hold the paths of their code.
const PACKAGES: [(&str, &str); 6] = [
    ("povmeter-dev-wasm-runtime", "POVMETER_WORKLOAD_WASM"),
    ("povmeter-dev-blob-stock", "POVMETER_STOCK_BLOB"),
    ("povmeter-dev-blob-reads", "POVMETER_READS_BLOB"),
    ("povmeter-dev-blob-estimate", "POVMETER_ESTIMATE_BLOB"),
    (
        "povmeter-dev-blob-stock-scheduling",
        "POVMETER_STOCK_SCHEDULING_BLOB",
    ),
    (
        "povmeter-dev-blob-reads-scheduling",
        "POVMETER_READS_SCHEDULING_BLOB",
    ),
];

/// The flags for a runtime in the form that the executor expects: an imported memory, an exported
/// table and heap, and no instructions beyond the first version of wasm.
const FLAGS: [&str; 5] = [
    "--cfg=substrate_runtime",
    "-Ctarget-cpu=mvp",
    "-Clink-arg=--import-memory",
    "-Clink-arg=--export-table",
    "-Clink-arg=--export=__heap_base",
];

/// If this is set, the runtimes are compiled faster, and are slower: for checks that measure nothing.
const QUICK: &str = "POVMETER_QUICK_WASM";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={QUICK}");
    if env::var_os("CARGO_FEATURE_WASM").is_none() {
        return;
    }
    for source in [
        "wasm-runtime/Cargo.toml",
        "wasm-runtime/Cargo.lock",
        "wasm-runtime/src",
        "wasm-runtime/parachain",
        "wasm-runtime/stock",
        "wasm-runtime/reads",
        "wasm-runtime/estimate",
        "wasm-runtime/scheduling",
        "wasm-runtime/stock-scheduling",
        "wasm-runtime/reads-scheduling",
    ] {
        println!("cargo::rerun-if-changed={source}");
    }
    println!("cargo::rerun-if-changed=src/runtime.rs");
    // The crates that the runtime depends on by path, without their tests.
    for name in [
        "../..",
        "../../crates/overlay",
        "../../crates/delta-root",
        "../../crates/pov-estimate",
        "../../crates/primitives",
        "../../crates/proof-size",
        "../../crates/validate-block",
    ] {
        println!("cargo::rerun-if-changed={name}/src");
        println!("cargo::rerun-if-changed={name}/Cargo.toml");
    }
    build();
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

/// Builds all packages, and tells the crate where their code lies.
fn build() {
    expect_target();
    let out = variable("OUT_DIR");
    // Build in the target folder, four levels up, so that all profiles share one build.
    let quick = env::var_os(QUICK).is_some();
    let folder = if quick {
        "wasm-runtime-quick"
    } else {
        "wasm-runtime"
    };
    let shared = out.ancestors().nth(4).unwrap_or(&out).join(folder);
    let manifest = variable("CARGO_MANIFEST_DIR").join("wasm-runtime/Cargo.toml");
    if !manifest.is_file() {
        // Cargo leaves nested workspaces out of a package.
        give_up(
            "expected the folder wasm-runtime beside this crate, found none: a package from a registry has \
             none; build the program from a checkout of the repository, or without the feature `wasm`",
        );
    }
    let mut cargo = Command::new(variable("CARGO"));
    if quick {
        cargo.env("CARGO_PROFILE_RELEASE_LTO", "off");
        cargo.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        cargo.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    }
    let status = cargo
        .args(["build", "--release", "--locked", "--target", TARGET])
        .args(PACKAGES.iter().flat_map(|(package, _)| ["-p", package]))
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--target-dir")
        .arg(&shared)
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f"))
        .env_remove("RUSTFLAGS")
        // These variables belong to the outer build: coverage, lints.
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

/// Checks for the target first, because rustc reports a missing target as a missing crate `core`.
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
