//! The interface of a running node: JSON-RPC over HTTP and WebSocket, on the loopback address.

use crate::{
    chain::{Backend, Client},
    error::Error,
};
use futures::{channel::mpsc, StreamExt};
use jsonrpsee::RpcModule;
use povmeter_node_runtime::{opaque::Block, Hash};
use sc_chain_spec::{ChainType, Properties};
use sc_consensus_manual_seal::{
    rpc::{ManualSeal, ManualSealApiServer},
    EngineCommand,
};
use sc_rpc::{
    author::{Author, AuthorApiServer},
    chain::{new_full as new_chain, ChainApiServer},
    state::{new_full as new_state, ChildStateApiServer, StateApiServer},
    system::{
        error::Error as SystemError, Health, NodeRole, Request, SyncState, System, SystemApiServer,
        SystemInfo,
    },
};
use sc_rpc_server::{
    create_rpc_runtime, start_server, BatchRequestConfig, Config, RpcEndpoint, RpcMethods, Server,
};
use sc_transaction_pool::TransactionPoolHandle;
use sc_utils::mpsc::{tracing_unbounded, TracingUnboundedReceiver};
use sp_blockchain::HeaderBackend;
use sp_core::traits::SpawnNamed;
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

/// Connections at a time.
const CONNECTIONS: u32 = 100;
/// The largest request and the largest answer, for the code of a runtime or the values of a state.
const MEBIBYTES: u32 = 64;

/// The pool of transactions.
pub(crate) type Pool = TransactionPoolHandle<Block, Client>;

/// The parts of the interface.
pub(crate) struct Interface {
    pub(crate) client: Arc<Client>,
    pub(crate) pool: Arc<Pool>,
    /// Takes the commands of `engine_createBlock` and `engine_finalizeBlock`.
    pub(crate) engine: mpsc::Sender<EngineCommand<Hash>>,
    /// Runs subscriptions.
    pub(crate) spawner: Arc<dyn SpawnNamed>,
}

impl Interface {
    /// Starts to listen, until the result is dropped.
    ///
    /// # Errors
    /// [`Error::Listen`] if the port is taken.
    pub(crate) async fn listen(self, port: u16) -> Result<Server, Error> {
        let listen_addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let refused = |reason: String| Error::Listen {
            address: listen_addr.to_string(),
            reason,
        };
        let rpc_api = self.module().map_err(|error| refused(error.to_string()))?;
        let rpc_runtime =
            create_rpc_runtime(CONNECTIONS).map_err(|error| refused(error.to_string()))?;
        let endpoint = RpcEndpoint {
            listen_addr,
            batch_config: BatchRequestConfig::Unlimited,
            max_connections: CONNECTIONS,
            max_payload_in_mb: MEBIBYTES,
            max_payload_out_mb: MEBIBYTES,
            max_subscriptions_per_connection: 1_024,
            max_buffer_capacity_per_connection: 64,
            rate_limit: None,
            rate_limit_trust_proxy_headers: false,
            rate_limit_whitelisted_ips: Vec::new(),
            cors: None,
            rpc_methods: RpcMethods::Auto,
            is_optional: false,
            retry_random_port: false,
        };
        start_server(Config {
            endpoints: vec![endpoint],
            metrics: None,
            rpc_api,
            id_provider: None,
            request_logger_limit: 1_024,
            rpc_runtime,
        })
        .await
        .map_err(|error| refused(error.to_string()))
    }

    fn module(self) -> Result<RpcModule<()>, jsonrpsee::core::RegisterMethodError> {
        let Self {
            client,
            pool,
            engine,
            spawner,
        } = self;
        let (requests, receiver) = tracing_unbounded("system_requests", 1_000);
        spawner.spawn(
            "system-requests",
            None,
            Box::pin(answer(client.clone(), receiver)),
        );
        let info = SystemInfo {
            impl_name: env!("CARGO_PKG_NAME").to_owned(),
            impl_version: env!("CARGO_PKG_VERSION").to_owned(),
            chain_name: "povmeter-node development".to_owned(),
            properties: Properties::new(),
            chain_type: ChainType::Development,
        };
        let (state, child_state) =
            new_state::<Backend, _, _>(client.clone(), spawner.clone(), None);
        let keystore = Arc::new(sc_keystore::LocalKeystore::in_memory());
        let mut module = RpcModule::new(());
        module.merge(System::<Block>::new(info, requests).into_rpc())?;
        module.merge(new_chain::<Block, _>(client.clone(), spawner.clone()).into_rpc())?;
        module.merge(state.into_rpc())?;
        module.merge(child_state.into_rpc())?;
        module.merge(Author::new(client, pool, keystore, spawner).into_rpc())?;
        module.merge(ManualSeal::new(engine).into_rpc())?;
        Ok(module)
    }
}

/// Answers the questions of `system_*` methods about the network, which this node does not have.
async fn answer(client: Arc<Client>, mut requests: TracingUnboundedReceiver<Request<Block>>) {
    let no_network = || SystemError::Internal("this node has no network".to_owned());
    let starting_block = client.info().best_number;
    while let Some(request) = requests.next().await {
        // The caller may have gone in the meantime.
        match request {
            Request::Health(sender) => {
                let health = Health {
                    peers: 0,
                    is_syncing: false,
                    should_have_peers: false,
                };
                let _ = sender.send(health);
            }
            Request::LocalPeerId(sender) => {
                let _ = sender.send(String::new());
            }
            Request::LocalListenAddresses(sender) | Request::NetworkReservedPeers(sender) => {
                let _ = sender.send(Vec::new());
            }
            Request::Peers(sender) => {
                let _ = sender.send(Vec::new());
            }
            Request::NetworkState(sender) => {
                let _ = sender.send(serde_json::json!({}));
            }
            Request::NetworkAddReservedPeer(_, sender)
            | Request::NetworkRemoveReservedPeer(_, sender) => {
                let _ = sender.send(Err(no_network()));
            }
            Request::NodeRoles(sender) => {
                let _ = sender.send(vec![NodeRole::Authority]);
            }
            Request::SyncState(sender) => {
                let current_block = client.info().best_number;
                let highest_block = current_block;
                let _ = sender.send(SyncState {
                    starting_block,
                    current_block,
                    highest_block,
                });
            }
        }
    }
}
