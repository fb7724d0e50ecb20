//! Files of blocks, which nodes exchange.
//!
//! A file is the SCALE encoding of a [`Beginning`], followed by the encoding of each block. Each block
//! follows its parent.

use crate::{
    chain::Chain,
    cli::ExportOptions,
    cli::ImportOptions,
    error::Error,
    output::{print_line, write_file},
};
use codec::{Decode, Encode, IoReader};
use povmeter_node_runtime::{opaque::Block, Hash};
use sc_client_api::{Backend as _, BlockBackend};
use sc_consensus::{BlockImport, BlockImportParams, ForkChoiceStrategy, ImportResult, StateAction};
use sp_blockchain::{Backend as _, HeaderBackend};
use sp_consensus::BlockOrigin;
use sp_runtime::traits::{Block as _, Header as _};
use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io::{self, BufReader, Read},
    path::Path,
    time::{Duration, Instant},
};
use tokio::runtime::Handle;

const MARK: [u8; 8] = *b"povmblk1";

/// What a file of blocks begins with.
#[derive(Encode, Decode)]
struct Beginning {
    /// Tells the file from others.
    mark: [u8; 8],
    /// The block 0 of the chain, which is not in the file.
    genesis: Hash,
    /// How many blocks follow.
    blocks: u32,
}

impl Beginning {
    const BYTES: u64 = 8 + 32 + 4;

    fn read(file: impl Read) -> Result<Self, BlocksFileError> {
        let mut bytes = Vec::new();
        file.take(Self::BYTES).read_to_end(&mut bytes)?;
        if !bytes.starts_with(&MARK) {
            return Err(BlocksFileError::Mark);
        }
        // All bytes of this length decode.
        Self::decode(&mut &bytes[..]).map_err(|_| BlocksFileError::Short { found: bytes.len() })
    }
}

/// Why a file of blocks is of no use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BlocksFileError {
    /// It cannot be opened or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is another file.
    #[error("expected a file of blocks, which begins with `povmblk1`, found another file")]
    Mark,
    /// It would be lost.
    #[error("expected no file, or an earlier file of blocks, to be written, found another file")]
    Other,
    /// It ends before its blocks.
    #[error(
        "expected {} bytes before the blocks, found {found}: the file was cut off",
        Beginning::BYTES
    )]
    Short { found: usize },
    /// There is something after its blocks.
    #[error("expected {expected} blocks, found more bytes after them")]
    Longer { expected: u32 },
    /// Its blocks belong to another chain.
    #[error("expected blocks of the chain of block 0 {expected:?}, found blocks of {found:?}")]
    OtherChain { expected: Hash, found: Hash },
    /// It is damaged or truncated.
    #[error("expected {expected} blocks, found that block {index} cannot be decoded: {source}")]
    Block {
        expected: u32,
        index: u32,
        source: codec::Error,
    },
}

/// Writes all blocks of a chain but block 0.
///
/// # Errors
/// Those of the chain and of the file; then an earlier file is as it was.
pub(crate) fn export(options: &ExportOptions, handle: Handle) -> Result<(), Error> {
    expect_free(&options.file).map_err(|source| in_file(&options.file, source))?;
    let chain = Chain::open(&options.chain, handle.clone())?;
    let blocks = all_blocks(&chain)?;
    let count = u32::try_from(blocks.len()).expect("a block's number is a u32");
    let of_file = |error: io::Error| in_file(&options.file, error.into());
    write_file(&handle, &options.file, of_file, |file| {
        let genesis = chain.client.info().genesis_hash;
        let beginning = Beginning {
            mark: MARK,
            genesis,
            blocks: count,
        };
        file.write_all(&beginning.encode()).map_err(of_file)?;
        for (number, hash) in &blocks {
            let block = chain.client.block(*hash)?;
            let block = block.ok_or(Error::MissingBlock { number: *number })?.block;
            file.write_all(&block.encode()).map_err(of_file)?;
        }
        Ok(())
    })?;
    print_line(format_args!("{count} blocks"))
}

/// Checks that no file but one of blocks would be replaced.
fn expect_free(path: &Path) -> Result<(), BlocksFileError> {
    let is_file = match fs::metadata(path) {
        Ok(found) => found.is_file(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(error.into()),
    };
    if is_file {
        let mut mark = Vec::new();
        // One that must not be written is not replaced, either.
        let file = OpenOptions::new().read(true).append(true).open(path)?;
        file.take(MARK.len() as u64).read_to_end(&mut mark)?;
        if !mark.is_empty() && mark != MARK {
            return Err(BlocksFileError::Other);
        }
    }
    Ok(())
}

/// The numbers and hashes of all blocks but block 0, each after its parent. Of several blocks with one
/// number, that of the best chain comes first, because the first one that an importer gets becomes its best
/// block.
fn all_blocks(chain: &Chain) -> Result<Vec<(u32, Hash)>, Error> {
    let blockchain = chain.backend.blockchain();
    let best = chain.client.info().best_hash;
    let mut leaves = blockchain.leaves()?;
    leaves.retain(|leaf| *leaf != best);
    leaves.insert(0, best);
    let mut by_number: BTreeMap<u32, Vec<Hash>> = BTreeMap::new();
    for leaf in leaves {
        let mut header = chain.client.expect_header(leaf)?;
        while *header.number() > 0 {
            let hashes = by_number.entry(*header.number()).or_default();
            let hash = header.hash();
            if hashes.contains(&hash) {
                break;
            }
            hashes.push(hash);
            header = chain.client.expect_header(*header.parent_hash())?;
        }
    }
    let all = by_number.into_iter();
    Ok(all
        .flat_map(|(number, hashes)| hashes.into_iter().map(move |hash| (number, hash)))
        .collect())
}

/// Executes the blocks of a file, and adds them to a chain.
///
/// # Errors
/// Those of the chain and of the file; [`Error::Import`] for a block that is refused, or whose execution has
/// another result than its author's.
pub(crate) fn import(options: &ImportOptions, handle: Handle) -> Result<(), Error> {
    // Its beginning is read first, so that no chain is begun for another file.
    let of_file = |source| in_file(&options.file, source);
    let file = File::open(&options.file).map_err(|error| of_file(error.into()))?;
    let mut file = IoReader(BufReader::new(file));
    let beginning = Beginning::read(&mut file.0).map_err(of_file)?;
    let found = beginning.genesis;
    let expect = |expected| match found == expected {
        true => Ok(()),
        false => Err(of_file(BlocksFileError::OtherChain { expected, found })),
    };
    options
        .chain
        .genesis_of_new_chain()?
        .map_or(Ok(()), expect)?;
    let chain = Chain::open_or_begin(&options.chain, handle.clone())?;
    expect(chain.client.info().genesis_hash)?;
    let (mut new, mut known) = (0u32, 0u32);
    let mut time = Duration::ZERO;
    for index in 0..beginning.blocks {
        let expected = beginning.blocks;
        let block = Block::decode(&mut file).map_err(|source| {
            of_file(BlocksFileError::Block {
                expected,
                index,
                source,
            })
        })?;
        let started = Instant::now();
        let is_new = handle.block_on(import_block(&chain, block))?;
        time += started.elapsed();
        if is_new {
            new += 1;
        } else {
            known += 1;
        }
        if let Some(lag) = options.finality_lag {
            Chain::finalize_below(&chain.client, chain.client.info().best_hash, lag)?;
        }
    }
    let expected = beginning.blocks;
    if file
        .0
        .read(&mut [0])
        .map_err(|error| of_file(error.into()))?
        > 0
    {
        return Err(of_file(BlocksFileError::Longer { expected }));
    }
    let milliseconds = time.as_secs_f64() * 1e3;
    print_line(format_args!(
        "{new} blocks imported, {known} known before, in {milliseconds:.1} ms"
    ))?;
    crate::verify::print_info(&chain)
}

/// Executes and adds a block. Returns whether it is new.
///
/// # Errors
/// If the block is refused, or its result is not what its header says.
pub(crate) async fn import_block(chain: &Chain, block: Block) -> Result<bool, Error> {
    let (header, body) = block.deconstruct();
    let (number, hash) = (*header.number(), header.hash());
    let mut parameters = BlockImportParams::new(BlockOrigin::File, header);
    parameters.body = Some(body);
    parameters.fork_choice = Some(ForkChoiceStrategy::LongestChain);
    parameters.state_action = StateAction::Execute;
    let refused = |reason: String| Error::Import {
        number,
        hash,
        reason,
    };
    match chain.client.import_block(parameters).await {
        Ok(ImportResult::Imported(_)) => Ok(true),
        Ok(ImportResult::AlreadyInChain) => Ok(false),
        Ok(other) => Err(refused(format!("{other:?}"))),
        Err(error) => Err(refused(error.to_string())),
    }
}

fn in_file(path: &Path, source: BlocksFileError) -> Error {
    Error::BlocksFile {
        path: path.to_owned(),
        source,
    }
}
