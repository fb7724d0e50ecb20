//! The samples in Rust on the pages of `docs/`: each is code that is compiled, here or as an example of a crate.
//!
//! A page shows parts of functions, so it can't be an example itself, as `README.md` is one of the crate `povmeter`.

#![allow(clippy::unwrap_used)]

use povmeter::{Root, StateVersion::V1, TrieId::Top};
use povmeter_store::{MemoryStore, NodeStore};
use std::{error::Error, fs, path::Path};

/// The file that has the code of a page's samples.
const CODE: [(&str, &str); 5] = [
    ("attribution.md", file!()),
    ("cache.md", file!()),
    ("parallel.md", file!()),
    ("redis.md", "crates/store/src/cluster.rs"),
    ("stores.md", file!()),
];

/// Its samples need a client of Substrate and a runtime with Aura, which nothing in the workspace has.
const NOT_COMPILED: &str = "integration.md";

#[test]
fn each_sample_is_compiled() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found: Vec<String> = Vec::new();
    for entry in fs::read_dir(root.join("docs")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !name.ends_with(".md") || name == NOT_COMPILED {
            continue;
        }
        let samples = samples(&fs::read_to_string(&path).unwrap());
        if samples.is_empty() {
            continue;
        }
        let code = CODE.iter().find(|(page, _)| *page == name);
        let (_, file) = code.unwrap_or_else(|| panic!("expected a file with the code of {name}"));
        let code = fs::read_to_string(root.join(file)).unwrap();
        let code = squeezed(code.lines());
        for part in samples {
            assert!(code.contains(&part), "{name}: expected in {file}:\n{part}");
        }
        found.push(name);
    }
    found.sort();
    assert!(found.iter().eq(CODE.iter().map(|(page, _)| page)));
}

/// The samples in Rust of a page, in parts: at an empty line, and where a comment begins with dots, code may be left out.
fn samples(page: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut lines = page.lines();
    while lines.by_ref().any(|line| line.starts_with("```rust")) {
        let sample: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let is_gap = |line: &&str| line.is_empty() || line.trim_start().starts_with("// ...");
        let shown = sample.split(is_gap);
        parts.extend(shown.map(|lines| squeezed(lines.iter().copied())));
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Code without comments, the commas that depend on line breaks, and space.
fn squeezed<'l>(lines: impl Iterator<Item = &'l str>) -> String {
    let code = lines.map(|line| {
        let line = line.trim_start_matches("///").trim();
        match line.strip_prefix("//") {
            Some(_) => "",
            None => line.split(" //").next().unwrap_or_default(),
        }
    });
    let mut squeezed: String = code.collect();
    squeezed.retain(|char| !char.is_whitespace());
    [")", "}", ">"]
        .into_iter()
        .fold(squeezed, |code, end| code.replace(&format!(",{end}"), end))
}

#[test]
fn attribution() -> Result<(), Box<dyn Error>> {
    use povmeter::{Attributed, Block, Consensus};
    let store = MemoryStore::new();

    let mut block = Block::with_accounting(&store, store.root(), Attributed(Consensus));
    let part = block.begin_part();
    block.set(Top, b"alice", b"paid")?;
    let sealed = block.seal(V1)?;
    for entry in sealed
        .attribution()
        .into_iter()
        .flat_map(|all| all.entries())
    {
        let owner = entry.owner(|want| want.key.first().copied());
        println!(
            "{} bytes, part {}, {:?}",
            entry.bytes(),
            owner.part,
            owner.cause
        );
    }

    let _ = part;
    Ok(())
}

#[test]
fn a_cache() -> Result<(), Box<dyn Error>> {
    use povmeter::Block;
    use povmeter_node_cache::{bytes_of_machine, CachedSource, NodeCache};
    use std::sync::Arc;
    let mut store = MemoryStore::new();

    let cache = Arc::new(NodeCache::new(bytes_of_machine(5, 1 << 30)));

    let mut block = Block::new(CachedSource::new(&store, Arc::clone(&cache)), store.root());
    block.set(Top, b"alice", b"paid")?;
    let sealed = block.seal(V1)?;
    store.commit(sealed.update())?;
    cache.apply(sealed.update());
    Ok(())
}

#[test]
fn a_warmer() -> Result<(), Box<dyn Error>> {
    use povmeter::{Block, TrieId};
    use povmeter_node_cache::{CachedSource, NodeCache, Warmer, WarmerOptions};
    use std::sync::{Arc, RwLock};
    let store = MemoryStore::new();
    let parent_root = store.root();
    let cache = Arc::new(NodeCache::new(1 << 20));
    let keys_of_the_next_transactions = [b"alice"];

    let store = Arc::new(RwLock::new(store));
    let warmer = Warmer::new(
        Arc::clone(&store),
        Arc::clone(&cache),
        WarmerOptions::default(),
    )?;

    warmer.start_block(parent_root);
    warmer.warm(TrieId::Top, &keys_of_the_next_transactions);
    let mut block = Block::new(
        CachedSource::new(Arc::clone(&store), Arc::clone(&cache)),
        parent_root,
    );
    block.set(Top, b"alice", b"paid")?;
    let sealed = block.seal(V1)?;
    store
        .write()
        .map_err(|_| "a writer panicked")?
        .commit(sealed.update())?;
    cache.apply(sealed.update());
    Ok(())
}

#[expect(dead_code, reason = "it would make a folder where tests run")]
fn a_store() -> Result<(), Box<dyn Error>> {
    use povmeter::Block;
    use povmeter_store::ParityDbStore;

    let mut store = ParityDbStore::open_or_create("state")?;
    let mut block = Block::new(&store, store.root());
    block.set(Top, b"alice", b"paid")?;
    store.commit(block.seal(V1)?.update())?;
    Ok(())
}

#[test]
fn blocks_in_parallel() -> Result<(), Box<dyn Error>> {
    use povmeter::Block;
    use povmeter_parallel::{Executor, Interrupt, Parallel, View};

    struct Nothing;

    impl Executor for Nothing {
        type Worker = ();
        type Output = ();

        fn worker(&self) {}

        fn execute(&self, (): &mut (), _: u32, _: &mut View<'_>) -> Result<(), Interrupt> {
            Ok(())
        }
    }

    let (source, executor, count) = (MemoryStore::new(), Nothing, 3);
    let parallel = Parallel::new(std::num::NonZeroUsize::MIN);
    let mut experience = None;
    for _ in 0..2 {
        let mut block = Block::new(&source, Root::EMPTY);

        let batch = parallel
            .with_experience(experience)
            .execute(&mut block, &source, &executor, count)?;
        experience = batch.experience;
    }
    Ok(())
}

/// Of a FRAME runtime: what its calls do is tested elsewhere.
mod frame {
    use codec::Encode;
    use povmeter_dev_runtime::runtime::{Executive, Extrinsic, Runtime};
    use povmeter_parallel::{Decided, Parallel, Verdict};
    use povmeter_store::{MemoryStore, NodeStore};
    use povmeter_substrate::{Calls, FrameLimits, SizeSource, StateMachine, StorageRules};
    use sp_runtime::ApplyExtrinsicResult;
    use std::{error::Error, num::NonZeroUsize};

    struct Extrinsics<'b>(&'b [Extrinsic]);

    impl Calls for Extrinsics<'_> {
        type Output = ApplyExtrinsicResult;

        fn call(&self, index: u32) -> ApplyExtrinsicResult {
            Executive::apply_extrinsic(self.0[index as usize].clone())
        }

        fn decide(&self, call: Decided<'_, ApplyExtrinsicResult>) -> Verdict {
            if call.output.is_ok() {
                Verdict::Keep
            } else {
                Verdict::LeaveOut
            }
        }
    }

    #[test]
    fn extrinsics_in_parallel() -> Result<(), Box<dyn Error>> {
        let store = MemoryStore::new();
        let mut machine: StateMachine<_> =
            StateMachine::new(&store, store.root(), SizeSource::Unrecorded);
        let workers = NonZeroUsize::MIN;
        let (extrinsics, count) = (Vec::new(), 0);
        let block_weights = <Runtime as frame_system::Config>::BlockWeights::get().encode();
        let block_length = <Runtime as frame_system::Config>::BlockLength::get().encode();

        let limits = FrameLimits::of_constants(&block_weights, &block_length)?;
        let rules = StorageRules::of_frame(&limits);
        machine.execute_in_parallel(
            Parallel::new(workers),
            &store,
            &rules,
            &Extrinsics(&extrinsics),
            count,
        )?;
        Ok(())
    }

    #[cfg(feature = "wasm")]
    #[expect(dead_code, reason = "what it does is tested elsewhere")]
    mod signed {
        use super::*;
        use povmeter_parallel::Strategy;
        use povmeter_signatures::{SignatureCache, SignatureCacheExt};
        use sp_externalities::Extensions;
        use sp_wasm_interface::ExtendedHostFunctions;
        use std::sync::Arc;

        type HostFunctions = ExtendedHostFunctions<
            sp_io::SubstrateHostFunctions,
            povmeter_signatures::HostFunctions,
        >;

        struct Signed<'b> {
            extrinsics: &'b [Extrinsic],
            cache: Arc<SignatureCache>,
        }

        impl Calls for Signed<'_> {
            type Output = ApplyExtrinsicResult;

            fn call(&self, index: u32) -> ApplyExtrinsicResult {
                Executive::apply_extrinsic(self.extrinsics[index as usize].clone())
            }

            fn extensions(&self) -> Extensions {
                let mut extensions = Extensions::new();
                extensions.register(SignatureCacheExt::new(self.cache.clone()));
                extensions
            }
        }

        fn prepared(workers: NonZeroUsize) {
            let parallel = Parallel::new(workers).with_strategy(Strategy::Prepare);
            let _ = parallel;
        }
    }
}
