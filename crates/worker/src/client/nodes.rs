//! Calls about the nodes of a cluster. Each server has a view of its own: the answer is that of the first one that is reached.

use rpc::wire;
use rpc::wire::nodes_client::NodesClient;
use tonic::transport::Channel;

use super::{Client, Events, MESSAGE_BYTES_MAX, Repeat};
use crate::error::ClientError;

impl Client {
    /// The nodes of the cluster as one server sees them.
    pub async fn nodes(&self) -> Result<wire::ListNodesResponse, ClientError> {
        self.call(Repeat::Safe, |channel| async move { nodes(channel).list(wire::ListNodesRequest {}).await })
            .await
    }

    /// One node.
    pub async fn node(&self, request: wire::GetNodeRequest) -> Result<wire::Node, ClientError> {
        self.call(Repeat::Safe, |channel| async move { nodes(channel).get(request).await }).await
    }

    /// Declares a node gone for good in its present epoch. Not repeated by itself: it may have come back in between.
    pub async fn forget_node(&self, request: wire::ForgetNodeRequest) -> Result<wire::Node, ClientError> {
        self.call(Repeat::Unsafe, |channel| async move { nodes(channel).forget(request).await }).await
    }

    /// Makes the server that answers leave its cluster. Not repeated by itself: another one might answer the second time.
    pub async fn leave_nodes(&self) -> Result<wire::Node, ClientError> {
        self.call(
            Repeat::Unsafe,
            |channel| async move { nodes(channel).leave(wire::LeaveNodesRequest {}).await },
        )
        .await
    }

    /// Everyone as of now, and what changes from now on. The stream does not fail over, as with [`watch`](Self::watch).
    pub async fn watch_nodes(&self) -> Result<Events<wire::NodeEvent>, ClientError> {
        let events =
            self.call(Repeat::Safe, |channel| async move {
                nodes(channel).watch(wire::WatchNodesRequest {}).await
            })
            .await?;
        Ok(Events::new(self.preferred_url(), events))
    }
}

fn nodes(channel: Channel) -> NodesClient<Channel> {
    NodesClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX)
}
