//! Puts upstream's tests into copies of the modules that they test.

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Modules with code of this project, and where upstream has their tests.
const REPLACED: [(&str, &str); 6] = [
    ("lib.rs", "lib.rs"),
    ("ext.rs", "ext.rs"),
    ("in_memory_backend.rs", "in_memory_backend.rs"),
    ("overlayed_changes.rs", "overlayed_changes/mod.rs"),
    ("testing.rs", "testing.rs"),
    ("trie_backend.rs", "trie_backend.rs"),
];

/// A change in upstream's tests of a module: what stands there, what takes its place, and why.
struct Change {
    module: &'static str,
    old: &'static str,
    new: &'static str,
    why: &'static str,
}

/// All changes in upstream's tests.
const CHANGES: &[Change] = &[
    Change {
        module: "lib.rs",
        old: "execution::CallResult, ",
        new: "",
        why: "the alias is private to the original",
    },
    Change {
        module: "lib.rs",
        old: "CallResult<Self::Error>",
        new: "Result<Vec<u8>, Self::Error>",
        why: "the alias is private to the original",
    },
    Change {
        module: "overlayed_changes/mod.rs",
        old: "overlay: &mut OverlayedChangeSet,",
        new: "overlay: &mut OverlayedChanges<Blake2Hasher>,",
        why: "extrinsics are told by the public iterator, not by a private field",
    },
    Change {
        module: "overlayed_changes/mod.rs",
        old: "overlay.get(key.as_ref()).unwrap()",
        new: "overlay.changes().find(|(at, _)| at.as_slice() == key.as_ref()).unwrap().1",
        why: "extrinsics are told by the public iterator, not by a private field",
    },
    Change {
        module: "overlayed_changes/mod.rs",
        old: "&mut overlay.top,",
        new: "&mut overlay,",
        why: "extrinsics are told by the public iterator, not by a private field",
    },
    Change {
        module: "trie_backend.rs",
        old: ".keys(IterArgs {",
        new: ".keys_of(Args {",
        why: "outside of its crate the struct can't be written with its fields",
    },
    Change {
        module: "trie_backend.rs",
        old: "IterArgs::default()",
        new: "Args::default()",
        why: "outside of its crate the struct can't be written with its fields",
    },
    Change {
        module: "trie_backend.rs",
        old: "backend.essence.recorder.as_ref().unwrap()",
        new: "backend.recorder.as_ref().unwrap().0",
        why: "the recorder is shared with the block",
    },
];

/// Tests of what is private to the original and has no counterpart. They count among the kept ones.
const LEFT_OUT: &[(&str, &str)] = &[
    // Appends lie in povmeter's overlay.
    ("ext.rs", "storage_append_works"),
    // Changes an entry of a private cache, to see that it is read.
    ("trie_backend.rs", "read_from_child_storage_returns_some"),
];

/// What upstream's modules have for their tests alone.
const HELPERS: &[(&str, &str)] = &[
    (
        "ext.rs",
        "
impl<H: Hasher, B: Backend<H>> Ext<'_, H, B> {
    pub fn storage_pairs(&mut self) -> Vec<(StorageKey, StorageValue)> {
        let pairs = self.backend.pairs(Default::default()).unwrap();
        let mut pairs: std::collections::BTreeMap<_, _> = pairs.map(Result::unwrap).collect();
        for (key, value) in self.overlay.changes_mut() {
            match value.value() {
                Some(value) => drop(pairs.insert(key.clone(), value.clone())),
                None => drop(pairs.remove(key)),
            }
        }
        pairs.into_iter().collect()
    }
}
",
    ),
    (
        "trie_backend.rs",
        "
#[derive(Default)]
struct Args<'a> {
    prefix: Option<&'a [u8]>,
    start_at: Option<&'a [u8]>,
    start_at_exclusive: bool,
}

trait KeysOf<H: Hasher>: Backend<H> + Sized {
    fn keys_of<'a>(&'a self, args: Args<'_>) -> Result<crate::KeysIter<'a, H, Self::RawIter>, Self::Error> {
        let mut of = IterArgs::default();
        of.prefix = args.prefix;
        of.start_at = args.start_at;
        of.start_at_exclusive = args.start_at_exclusive;
        self.keys(of)
    }
}

impl<H: Hasher, B: Backend<H>> KeysOf<H> for B {}
",
    ),
    (
        "overlayed_changes.rs",
        "
const NO_EXTRINSIC_INDEX: u32 = u32::MAX;

impl<H: Hasher> OverlayedChanges<H> {
    fn set_extrinsic_index(&mut self, extrinsic_index: u32) {
        let key = sp_core::storage::well_known_keys::EXTRINSIC_INDEX;
        self.set_storage(key.to_vec(), Some(extrinsic_index.encode()));
    }
}
",
    ),
];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let ours = PathBuf::from("../sp-state-machine/src");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", ours.display());
    let upstream = upstream()?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    write_replaced(&ours, &upstream, &out)?;
    write_kept(&upstream, &out)
}

/// Where cargo has the sources of the crate that is replaced.
fn upstream() -> Result<PathBuf> {
    let cargo = env::var("CARGO")?;
    let metadata = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--offline", "--locked"])
        .output()?;
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout)?;
    let packages = metadata["packages"].as_array();
    let manifest = packages.into_iter().flatten().find_map(|package| {
        let is_it = package["name"] == "sp-state-machine" && package["version"] == "0.54.0";
        package["manifest_path"].as_str().filter(|_| is_it)
    });
    let manifest =
        manifest.ok_or("expected sp-state-machine 0.54.0 among the packages, found none")?;
    let folder = Path::new(manifest).parent();
    Ok(folder
        .ok_or("expected a folder of the manifest")?
        .join("src"))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()).into())
}

/// The module of tests at the end of a file.
fn tests_of(upstream: &Path, file: &str) -> Result<String> {
    let text = read(&upstream.join(file))?;
    let at = [
        "\n#[cfg(test)]\nmod tests {",
        "\n#[cfg(test)]\npub mod tests {",
    ]
    .iter()
    .find_map(|start| text.find(start));
    let at = at.ok_or_else(|| format!("expected tests in {file}, found none"))?;
    let mut tests = text[at..].to_owned();
    for change in CHANGES.iter().filter(|change| change.module == file) {
        if !tests.contains(change.old) {
            let Change { old, why, .. } = change;
            return Err(format!(
                "expected {old:?} in the tests of {file}, to change it because {why}"
            )
            .into());
        }
        tests = tests.replace(change.old, change.new);
    }
    for (_, name) in LEFT_OUT.iter().filter(|(module, _)| *module == file) {
        tests = without(&tests, name).ok_or_else(|| format!("expected a test {name} in {file}"))?;
    }
    Ok(tests)
}

/// A module's text without one of its tests.
fn without(tests: &str, name: &str) -> Option<String> {
    let start = tests
        .find(&format!("\t#[test]\n\tfn {name}("))
        .or_else(|| tests.find(&format!("\tparameterized_test!(\n\t\t{name},")))?;
    let end = start + tests[start..].find("\n\t}\n")? + 4;
    Some(format!("{}{}", &tests[..start], &tests[end..]))
}

/// Modules of `root` that lie in files, with the paths of the copies.
fn with_paths(root: &str, folder: &Path) -> String {
    let mut text = String::new();
    for line in root.lines() {
        let declared = line
            .split_once("mod ")
            .filter(|(before, _)| ["", "pub ", "pub(crate) "].contains(before));
        if let Some(name) = declared.and_then(|(_, rest)| rest.strip_suffix(';')) {
            let file = folder.join(format!("{name}.rs"));
            let file = if file.exists() {
                file
            } else {
                folder.join(name).join("mod.rs")
            };
            text += &format!("#[path = {:?}]\n", file.display().to_string());
        }
        // Inner attributes and docs can't be included.
        if !line.starts_with("//!") && !line.starts_with("#![") {
            text += line;
            text += "\n";
        }
    }
    text
}

/// Our modules with upstream's tests.
fn write_replaced(ours: &Path, upstream: &Path, out: &Path) -> Result<()> {
    let folder = out.join("replaced");
    fs::create_dir_all(&folder)?;
    let mut root = String::new();
    for entry in fs::read_dir(ours)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or("expected a file's name")?.to_owned();
        let mut text = read(&path)?;
        if let Some((_, tested)) = REPLACED.iter().find(|(module, _)| **module == name) {
            let helpers = HELPERS.iter().filter(|(module, _)| *module == name);
            helpers.for_each(|(_, helper)| text += helper);
            text += &tests_of(upstream, tested)?;
        }
        if name == "lib.rs" {
            root = text;
        } else {
            fs::write(folder.join(name), text)?;
        }
    }
    fs::write(out.join("replaced.rs"), with_paths(&root, &folder))?;
    Ok(())
}

/// Upstream's crate.
fn write_kept(upstream: &Path, out: &Path) -> Result<()> {
    let folder = out.join("kept");
    copy(upstream, &folder)?;
    let root = read(&folder.join("lib.rs"))?;
    fs::write(out.join("kept.rs"), with_paths(&root, &folder))?;
    Ok(())
}

/// Copies a folder of sources.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let target = to.join(path.file_name().ok_or("expected a name")?);
        if path.is_dir() {
            copy(&path, &target)?;
            continue;
        }
        // Ours has a newer version of that name.
        fs::write(target, read(&path)?.replace("thiserror::", "thiserror1::"))?;
    }
    Ok(())
}
