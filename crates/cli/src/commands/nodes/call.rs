//! Calls about nodes. They go to the first server of the list that can be reached; each server has a view of its own.

use std::error::Error as _;
use std::time::Duration;

use rpc::wire;
use rpc::wire::nodes_client::NodesClient;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};
use worker::ClientError;

use crate::connect::ServerArgs;

/// How long opening a connection may take before the next server is tried.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Room for a cluster of many thousands.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// One server that answers.
pub(super) struct Nodes {
    client: NodesClient<Channel>,
    url: String,
}

impl Nodes {
    /// Connects to the first that can be reached.
    pub(super) async fn connect(servers: &ServerArgs) -> Result<Nodes, ClientError> {
        let mut why = String::new();
        // The list is read, and its mistakes are named, by the client that all commands share.
        let list = servers.client()?;
        for url in list.servers() {
            let endpoint = Endpoint::from_shared(url.to_owned()).expect("the client took this address");
            match endpoint.connect_timeout(CONNECT_TIMEOUT).connect().await {
                Ok(channel) => {
                    let client = NodesClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
                    return Ok(Nodes { client, url: url.to_owned() });
                }
                Err(error) => why = root_of(&error),
            }
        }
        Err(ClientError::Unreachable { server: list.servers().collect::<Vec<_>>().join(", "), why })
    }

    pub(super) async fn list(mut self) -> Result<wire::ListNodesResponse, ClientError> {
        let answer = self.client.list(wire::ListNodesRequest {}).await;
        answer.map(tonic::Response::into_inner).map_err(|status| failed(&self.url, status))
    }

    pub(super) async fn get(mut self, id: u32) -> Result<wire::Node, ClientError> {
        let answer = self.client.get(wire::GetNodeRequest { id }).await;
        answer.map(tonic::Response::into_inner).map_err(|status| failed(&self.url, status))
    }

    pub(super) async fn forget(mut self, id: u32, force: bool) -> Result<wire::Node, ClientError> {
        let answer = self.client.forget(wire::ForgetNodeRequest { id, force }).await;
        answer.map(tonic::Response::into_inner).map_err(|status| failed(&self.url, status))
    }

    pub(super) async fn leave(mut self) -> Result<wire::Node, ClientError> {
        let answer = self.client.leave(wire::LeaveNodesRequest {}).await;
        answer.map(tonic::Response::into_inner).map_err(|status| failed(&self.url, status))
    }

    pub(super) async fn watch(mut self) -> Result<Watch, ClientError> {
        match self.client.watch(wire::WatchNodesRequest {}).await {
            Ok(answer) => Ok(Watch { events: answer.into_inner(), url: self.url }),
            Err(status) => Err(failed(&self.url, status)),
        }
    }
}

/// A stream of events.
pub(super) struct Watch {
    events: Streaming<wire::NodeEvent>,
    url: String,
}

impl Watch {
    /// The next one; none when the server ended the stream.
    pub(super) async fn next(&mut self) -> Result<Option<wire::NodeEvent>, ClientError> {
        self.events.message().await.map_err(|status| failed(&self.url, status))
    }
}

/// Errors made on this side carry their cause, answers do not.
fn failed(url: &str, status: Status) -> ClientError {
    match status.source() {
        Some(cause) => ClientError::Unreachable { server: url.to_owned(), why: root_of(cause) },
        None => ClientError::Api(status.into()),
    }
}

fn root_of(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
