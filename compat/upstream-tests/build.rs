//! Puts upstream's tests into copies of the modules that they test.

use povmeter_upstream_sources::{
    copy, edit, read, sources, tests_of, write, write_root, Change, LeftOut, SourcesError,
};
use std::{
    env,
    error::Error,
    path::{Path, PathBuf},
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

/// All changes in upstream's tests.
const CHANGES: &[Change] = &[
    Change {
        file: "lib.rs",
        old: "execution::CallResult, ",
        new: "",
        why: "the alias is private to the original",
    },
    Change {
        file: "lib.rs",
        old: "CallResult<Self::Error>",
        new: "Result<Vec<u8>, Self::Error>",
        why: "the alias is private to the original",
    },
    Change {
        file: "overlayed_changes/mod.rs",
        old: "overlay: &mut OverlayedChangeSet,",
        new: "overlay: &mut OverlayedChanges<Blake2Hasher>,",
        why: "extrinsics are told by the public iterator, not by a private field",
    },
    Change {
        file: "overlayed_changes/mod.rs",
        old: "overlay.get(key.as_ref()).unwrap()",
        new: "overlay.changes().find(|(at, _)| at.as_slice() == key.as_ref()).unwrap().1",
        why: "extrinsics are told by the public iterator, not by a private field",
    },
    Change {
        file: "overlayed_changes/mod.rs",
        old: "&mut overlay.top,",
        new: "&mut overlay,",
        why: "extrinsics are told by the public iterator, not by a private field",
    },
    Change {
        file: "trie_backend.rs",
        old: ".keys(IterArgs {",
        new: ".keys_of(Args {",
        why: "outside of its crate the struct can't be written with its fields",
    },
    Change {
        file: "trie_backend.rs",
        old: "IterArgs::default()",
        new: "Args::default()",
        why: "outside of its crate the struct can't be written with its fields",
    },
    Change {
        file: "trie_backend.rs",
        old: "backend.essence.recorder.as_ref().unwrap()",
        new: "backend.recorder.as_ref().unwrap().0",
        why: "the recorder is shared with the block",
    },
];

/// Tests of private items of the original that have no counterpart. They count among the kept ones.
const LEFT_OUT: &[LeftOut] = &[
    LeftOut {
        file: "ext.rs",
        name: "storage_append_works",
        why: "appends lie in povmeter's overlay",
    },
    LeftOut {
        file: "trie_backend.rs",
        name: "read_from_child_storage_returns_some",
        why: "it changes an entry of a private cache, to see that it is read",
    },
];

/// Code that upstream's modules have for their tests alone.
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

fn main() -> Result<(), Box<dyn Error>> {
    let ours = PathBuf::from("../sp-state-machine/src");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", ours.display());
    let upstream = sources("sp-state-machine", "0.54.0")?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    write_replaced(&ours, &upstream, &out)?;
    write_kept(&upstream, &out)?;
    Ok(())
}

/// Writes our modules with upstream's tests.
fn write_replaced(ours: &Path, upstream: &Path, out: &Path) -> Result<(), SourcesError> {
    let folder = out.join("replaced");
    copy(ours, &folder, &[], &[])?;
    for (module, tested) in REPLACED {
        let mut text = read(&ours.join(module))?;
        let helpers = HELPERS.iter().filter(|(of, _)| *of == module);
        helpers.for_each(|(_, helper)| text += helper);
        let tests = read(&upstream.join(tested))?;
        let tests = tests_of(&tests, tested)?.to_owned();
        text += &edit(tests, tested, CHANGES, LEFT_OUT)?;
        write(&folder.join(module), &text)?;
    }
    write_root(&folder, &out.join("replaced.rs"))
}

/// Writes upstream's crate.
fn write_kept(upstream: &Path, out: &Path) -> Result<(), SourcesError> {
    // Our crates use a newer version of `thiserror`.
    let change = Change {
        file: "error.rs",
        old: "thiserror::",
        new: "thiserror1::",
        why: "two versions of the crate are used",
    };
    let folder = out.join("kept");
    copy(upstream, &folder, &[change], &[])?;
    write_root(&folder, &out.join("kept.rs"))
}
