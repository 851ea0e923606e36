//! The calls about nodes: who is in the cluster, as this server sees it.

use std::sync::Arc;

use model::ErrorKind;
use rpc::{ApiError, wire};
use swim::{Epoch, Identity, NodeId};
use tokio::sync::broadcast;

use super::{Answer, Api};
use crate::membership::Membership;

impl Api {
    /// Everyone.
    pub(crate) fn list_nodes(&self) -> Answer<wire::ListNodesResponse> {
        Ok(self.member()?.list())
    }

    /// One node.
    pub(crate) fn get_node(&self, request: wire::GetNodeRequest) -> Answer<wire::Node> {
        find(self.member()?, request.id)
    }

    /// Everyone as of now, and what changes from now on.
    pub(crate) fn watch_nodes(&self) -> Answer<(Vec<wire::NodeEvent>, broadcast::Receiver<wire::NodeEvent>)> {
        let member = self.member()?;
        // In this order, so that nothing falls between the two.
        let changes = member.subscribe();
        Ok((member.present(), changes))
    }

    /// Declares a node gone for good.
    pub(crate) async fn forget_node(&self, request: wire::ForgetNodeRequest) -> Answer<wire::Node> {
        let member = self.member()?;
        let node = find(member, request.id)?;
        let refused = |why: String| Err(ApiError::new(ErrorKind::Refused, why));
        if node.is_self {
            return refused("a server cannot forget itself; it can leave".to_owned());
        }
        if node.state == "alive" && !request.force {
            return refused(format!(
                "node {} is alive and would come back at once; stop it first, or forget it by force",
                node.id
            ));
        }
        if !member.expel(Identity { id: NodeId(node.id), epoch: Epoch(node.epoch) }).await {
            return refused("this server takes no part in the cluster any more".to_owned());
        }
        Ok(wire::Node { state: "left".to_owned(), state_for_ms: 0, ..node })
    }

    /// This server leaves its cluster.
    pub(crate) async fn leave_nodes(&self, _: wire::LeaveNodesRequest) -> Answer<wire::Node> {
        let member = self.member()?;
        if !member.leave().await {
            let why = "the others could not be told in time; they will find out by this server's silence";
            return Err(ApiError::new(ErrorKind::Unavailable, why));
        }
        find(member, member.id.0)
    }

    fn member(&self) -> Answer<&Arc<Membership>> {
        self.membership.as_ref().ok_or_else(|| {
            let why = "this server is in no cluster; start it with --node-id";
            ApiError::new(ErrorKind::Refused, why)
        })
    }
}

fn find(member: &Membership, id: u32) -> Answer<wire::Node> {
    member.get(NodeId(id)).ok_or_else(|| ApiError::not_found(format!("there is no node {id}")))
}
