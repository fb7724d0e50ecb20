//! Calls of a running node's interface.

use crate::{
    cli::{NodeOptions, RpcOptions},
    error::Error,
    extrinsics::SignedFor,
    output::print_line,
};
use codec::{Decode, Encode};
use jsonrpsee::core::{client::ClientT, params::ArrayParams};
use jsonrpsee_http_client::{HttpClient, HttpClientBuilder};
use povmeter_node_runtime::{AccountId, Hash, Nonce};
use serde::de::DeserializeOwned;
use serde_json::{json, Value};
use sp_core::{bytes::to_hex, Bytes};
use sp_runtime::OpaqueExtrinsic;
use std::time::Duration;

/// The largest request and answer.
const BYTES: u32 = 64 << 20;
/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(300);

/// A running node.
pub(crate) struct NodeClient(HttpClient);

impl NodeClient {
    /// The node at the port of `options`, which need not run yet.
    ///
    /// # Errors
    /// Those of the HTTP client.
    pub(crate) fn new(options: &NodeOptions) -> Result<Self, Error> {
        let url = format!("http://127.0.0.1:{}", options.rpc_port);
        HttpClientBuilder::default()
            .max_request_size(BYTES)
            .max_response_size(BYTES)
            .request_timeout(PATIENCE)
            .build(&url)
            .map(Self)
            .map_err(|error| Error::Rpc {
                method: url,
                reason: error.to_string(),
            })
    }

    /// The result of `method`.
    ///
    /// # Errors
    /// [`Error::Rpc`] with the node's reason, or if no node answers.
    pub(crate) async fn call<R: DeserializeOwned>(
        &self,
        method: &str,
        parameters: Vec<Value>,
    ) -> Result<R, Error> {
        let failed = |reason: String| Error::Rpc {
            method: method.to_owned(),
            reason,
        };
        let mut array = ArrayParams::new();
        for parameter in parameters {
            array
                .insert(parameter)
                .map_err(|error| failed(error.to_string()))?;
        }
        self.0
            .request(method, array)
            .await
            .map_err(|error| failed(error.to_string()))
    }

    /// Submits an extrinsic to the pool.
    ///
    /// # Errors
    /// The pool's reason to refuse it.
    pub(crate) async fn submit(&self, extrinsic: &OpaqueExtrinsic) -> Result<(), Error> {
        let bytes = to_hex(&extrinsic.encode(), false);
        let _: Hash = self
            .call("author_submitExtrinsic", vec![json!(bytes)])
            .await?;
        Ok(())
    }

    /// The chain and the runtime to sign for.
    ///
    /// # Errors
    /// Those of [`Self::call`].
    pub(crate) async fn signed_for(&self) -> Result<SignedFor, Error> {
        let genesis = self.call("chain_getBlockHash", vec![json!(0)]).await?;
        let method = "state_getRuntimeVersion";
        let version: Value = self.call(method, Vec::new()).await?;
        let field = |name: &str| {
            let number = version[name]
                .as_u64()
                .and_then(|number| u32::try_from(number).ok());
            number.ok_or_else(|| Error::Rpc {
                method: method.to_owned(),
                reason: format!("expected a number `{name}`, found {}", version[name]),
            })
        };
        Ok(SignedFor {
            genesis,
            spec_version: field("specVersion")?,
            transaction_version: field("transactionVersion")?,
        })
    }

    /// The number of the next extrinsic of an account, by the state of the best block.
    ///
    /// # Errors
    /// Those of [`Self::call`].
    pub(crate) async fn nonce(&self, account: &AccountId) -> Result<Nonce, Error> {
        let method = "AccountNonceApi_account_nonce";
        let account = to_hex(&account.encode(), false);
        let bytes: Bytes = self
            .call("state_call", vec![json!(method), json!(account)])
            .await?;
        Nonce::decode(&mut bytes.0.as_slice()).map_err(|error| Error::Rpc {
            method: method.to_owned(),
            reason: error.to_string(),
        })
    }

    /// Tells the node to make a block, and returns its hash.
    ///
    /// # Errors
    /// Those of [`Self::call`].
    pub(crate) async fn create_block(&self, parent: Option<Hash>) -> Result<Hash, Error> {
        let parameters = vec![json!(true), json!(false), json!(parent)];
        let method = "engine_createBlock";
        let created: Value = self.call(method, parameters).await?;
        serde_json::from_value(created["hash"].clone()).map_err(|error| Error::Rpc {
            method: method.to_owned(),
            reason: error.to_string(),
        })
    }
}

/// Calls a method, and prints its result as JSON.
///
/// # Errors
/// Those of [`NodeClient::call`], or parameters that are not a JSON array.
pub(crate) async fn print_call(options: &RpcOptions) -> Result<(), Error> {
    let parameters = serde_json::from_str(&options.parameters).map_err(|error| Error::Rpc {
        method: options.method.clone(),
        reason: format!("the parameters are not a JSON array: {error}"),
    })?;
    let result: Value = NodeClient::new(&options.node)?
        .call(&options.method, parameters)
        .await?;
    print_line(result)
}
