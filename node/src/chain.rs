//! A chain in a folder: its database and the client over it.

use crate::{
    accounts, cli::ChainOptions, database::ParityDb, error::Error, signatures::Signatures,
};
use cumulus_primitives_proof_size_hostfunction::storage_proof_size;
use povmeter_node_runtime::{genesis, opaque::Block, Hash, Release, RuntimeApi};
use sc_client_api::{execution_extensions::ExecutionExtensions, Finalizer};
use sc_client_db::{BlocksPruning, DatabaseSettings, DatabaseSource};
use sc_executor::{sp_wasm_interface::ExtendedHostFunctions, WasmExecutor};
use sc_service::{
    new_client, new_db_backend, ClientConfig, GenesisBlockBuilder, TFullBackend, TFullClient,
    TaskManager,
};
use sp_blockchain::HeaderBackend;
use sp_runtime::traits::{Block as _, Header as _};
use std::{fs, sync::Arc};
use tokio::runtime::Handle;

/// The host functions that the runtime may call: Substrate's, and the proof size. Those that check signatures are
/// replaced by ones that remember results.
pub(crate) type HostFunctions = ExtendedHostFunctions<
    (
        sp_io::SubstrateHostFunctions,
        storage_proof_size::HostFunctions,
    ),
    povmeter_signatures::HostFunctions,
>;
/// What executes the runtime.
pub(crate) type Executor = WasmExecutor<HostFunctions>;
/// The backend of sc-client-db over the database.
pub(crate) type Backend = TFullBackend<Block>;
/// The client over the database.
pub(crate) type Client = TFullClient<Block, RuntimeApi, Executor>;

/// An open chain.
pub(crate) struct Chain {
    /// Executes, imports and finalizes blocks.
    pub(crate) client: Arc<Client>,
    /// The database.
    pub(crate) backend: Arc<Backend>,
    /// The background tasks.
    pub(crate) tasks: TaskManager,
    /// The checked signatures, which all calls into the runtime share.
    pub(crate) signatures: Signatures,
}

/// What opening a chain may do if its database has no block 0.
enum Block0 {
    /// Fail.
    MustExist,
    /// Write it. Nothing was ever committed to the database if `is_new`.
    MayBeWritten { is_new: bool },
}

impl Chain {
    /// Opens the chain in the folder of `options`.
    ///
    /// # Errors
    /// [`Error::NoChain`] if there is none; if the database cannot be used, or block 0 of the chain is not the one that
    /// the options describe.
    pub(crate) fn open(options: &ChainOptions, handle: Handle) -> Result<Self, Error> {
        let folder = options.base_path.join("db");
        match ParityDb::open(&folder, options.check_nodes) {
            Ok(Some(db)) => Self::on(db, Block0::MustExist, options, handle),
            Ok(None) => Err(Error::NoChain { folder }),
            Err(source) => Err(Error::OpenDatabase { folder, source }),
        }
    }

    /// Opens the chain in the folder of `options`, or begins it.
    ///
    /// # Errors
    /// If the database cannot be used, or block 0 of the chain is not the one that the options describe.
    pub(crate) fn open_or_begin(options: &ChainOptions, handle: Handle) -> Result<Self, Error> {
        let folder = options.base_path.join("db");
        fs::create_dir_all(&folder).map_err(|source| Error::Path {
            path: folder.clone(),
            source,
        })?;
        let open = |source| Error::OpenDatabase {
            folder: folder.clone(),
            source,
        };
        let db = ParityDb::open_or_create(&folder, options.check_nodes).map_err(open)?;
        let is_new = db.is_new().map_err(open)?;
        Self::on(db, Block0::MayBeWritten { is_new }, options, handle)
    }

    /// The chain in `db`.
    fn on(
        db: ParityDb,
        block_0: Block0,
        options: &ChainOptions,
        handle: Handle,
    ) -> Result<Self, Error> {
        let backend = new_db_backend::<Block>(DatabaseSettings {
            trie_cache_maximum_size: Some((options.trie_cache as usize) << 20)
                .filter(|size| *size > 0),
            state_pruning: options.state_pruning.clone().map(|pruning| pruning.0),
            source: DatabaseSource::Custom {
                db: Arc::new(db),
                require_create_flag: matches!(block_0, Block0::MayBeWritten { is_new: true }),
            },
            blocks_pruning: BlocksPruning::KeepAll,
            pruning_filters: Vec::new(),
            metrics_registry: None,
        })?;
        // A node that was stopped while it made block 0 leaves a database without it.
        if matches!(block_0, Block0::MustExist) && backend_genesis(&backend).is_none() {
            let folder = options.base_path.join("db");
            return Err(Error::NoChain { folder });
        }
        let executor = Executor::builder().build();
        let tasks = TaskManager::new(handle, None)
            .map_err(|error| sc_service::Error::Other(error.to_string()))?;
        let first = options.genesis(&backend)?;
        let signatures = Signatures::new(options.signature_cache);
        let client = new_client::<_, Block, RuntimeApi, _>(
            backend.clone(),
            executor.clone(),
            GenesisBlockBuilder::new_with_storage(first, true, backend.clone(), executor.clone())?,
            None,
            None,
            ExecutionExtensions::new(Some(Box::new(signatures.clone())), Arc::new(executor)),
            Box::new(tasks.spawn_handle()),
            None,
            None,
            // The runtime asks for the proof size, so importers record proofs as authors do.
            ClientConfig {
                enable_import_proof_recording: true,
                ..Default::default()
            },
        )?;
        Ok(Self {
            client: Arc::new(client),
            backend,
            tasks,
            signatures,
        })
    }

    /// Finalizes the block that is `lag` blocks below block `hash`, if it is not final yet.
    ///
    /// # Errors
    /// Those of the client.
    pub(crate) fn finalize_below(client: &Client, hash: Hash, lag: u32) -> Result<(), Error> {
        let mut header = client.expect_header(hash)?;
        for _ in 0..lag {
            if *header.number() == 0 {
                return Ok(());
            }
            header = client.expect_header(*header.parent_hash())?;
        }
        if *header.number() > client.info().finalized_number {
            client.finalize_block(header.hash(), None, false)?;
        }
        Ok(())
    }
}

impl ChainOptions {
    /// The hash of the block 0 that the options describe, for a chain that is not there yet; `None` if there may be a
    /// chain.
    ///
    /// # Errors
    /// If the runtime can't make the storage of block 0.
    pub(crate) fn genesis_of_new_chain(&self) -> Result<Option<Hash>, Error> {
        if self.base_path.join("db").exists() {
            return Ok(None);
        }
        let (storage, release) = self.storage_of_genesis()?;
        Ok(Some(genesis_hash(&storage, release)))
    }

    /// The storage of the block 0 that the options describe, and its runtime.
    fn storage_of_genesis(&self) -> Result<(sp_core::storage::Storage, Release), Error> {
        let ids = accounts::ids(self.accounts.unwrap_or(crate::cli::ACCOUNTS));
        let release = self.runtime.unwrap_or_default().into();
        let storage = genesis(&ids, release).map_err(Error::Genesis)?;
        Ok((storage, release))
    }

    /// The storage of block 0 if there is no block yet. Otherwise checks that the options agree with block 0,
    /// and returns a storage that is not used.
    fn genesis(&self, backend: &Backend) -> Result<sp_core::storage::Storage, Error> {
        let found = backend_genesis(backend);
        if found.is_some() && self.accounts.is_none() && self.runtime.is_none() {
            return Ok(Default::default());
        }
        let (storage, release) = self.storage_of_genesis()?;
        if let Some(found) = found {
            let expected = genesis_hash(&storage, release);
            if expected != found {
                return Err(Error::OtherChain { expected, found });
            }
        }
        Ok(storage)
    }
}

/// The hash of block 0 in the database.
fn backend_genesis(backend: &Backend) -> Option<Hash> {
    let info = sc_client_api::Backend::blockchain(backend).info();
    info.finalized_state.map(|_| info.genesis_hash)
}

/// The hash of the block 0 that has `storage`, which holds no child tries.
fn genesis_hash(storage: &sp_core::storage::Storage, release: Release) -> Hash {
    use sp_trie::{LayoutV0, LayoutV1, TrieConfiguration};
    type Hasher = sp_runtime::traits::BlakeTwo256;
    let pairs = || storage.top.iter();
    let version = release.state_version();
    let root = match version {
        sp_core::storage::StateVersion::V0 => LayoutV0::<Hasher>::trie_root(pairs()),
        sp_core::storage::StateVersion::V1 => LayoutV1::<Hasher>::trie_root(pairs()),
    };
    sc_service::construct_genesis_block::<Block>(root, version).hash()
}
