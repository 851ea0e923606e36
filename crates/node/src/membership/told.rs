//! What the machine tells goes three ways: into the log, into the metrics, and to those who watch.

use rpc::node_convert::{self, Said};
use rpc::wire;
use swim::{Event, Identity};
use tracing::{debug, info, warn};

use super::Membership;

impl Membership {
    /// Something changed, as the start `me` of this server sees it.
    pub(super) fn tell(&self, me: Identity, event: &Event) {
        self.metrics.count(event);
        match node_convert::said(event) {
            Some(said) => self.tell_of_other(event, &said),
            None => self.tell_of_us(me, event),
        }
    }

    fn tell_of_other(&self, event: &Event, said: &Said) {
        let word = node_convert::event(event);
        let reason = said.reason.map(node_convert::reason).unwrap_or_default();
        // The view may have gone on already; what the event itself says is what is told.
        let known = self.get(said.identity.id).filter(|node| node.epoch == said.identity.epoch.0);
        let mut node = known.unwrap_or_else(|| wire::Node {
            id: said.identity.id.0,
            epoch: said.identity.epoch.0,
            ..wire::Node::default()
        });
        if let Some((state, incarnation)) = said.state {
            node_convert::state(state).clone_into(&mut node.state);
            node.incarnation = incarnation.map_or(node.incarnation, |at| at.0);
        }
        let (id, epoch, incarnation) = (node.id, node.epoch, node.incarnation);
        match event {
            Event::Changed(_) => debug!(node = id, epoch, incarnation, "node changed"),
            Event::Full(_) => warn!(node = id, epoch, "there are too many nodes; this one was not taken in"),
            Event::Suspected(..) | Event::Dead(..) => {
                warn!(node = id, epoch, incarnation, reason, event = word, "node is missed");
            }
            _ => info!(node = id, epoch, incarnation, event = word, "the cluster changed"),
        }
        self.announce(word, node, reason);
    }

    fn tell_of_us(&self, me: Identity, event: &Event) {
        let word = node_convert::event(event);
        let (node, epoch) = (me.id.0, me.epoch.0);
        match event {
            Event::Lonely => warn!(node, epoch, "most other nodes seem gone, or nobody is heard"),
            Event::Reunited => info!(node, epoch, "other nodes are heard again"),
            Event::WeRefuted(incarnation) => {
                warn!(
                    node,
                    epoch,
                    incarnation = incarnation.0,
                    "others took this node for gone; contradicted"
                );
            }
            Event::Expelled => warn!(node, epoch, "this start of the node was ended by others"),
            Event::HaveLeft => info!(node, epoch, "left the cluster"),
            // For the control log, which is not a matter of membership.
            Event::LogAhead(..) => return,
            _ => debug!(node, epoch, event = word, "the cluster changed"),
        }
        // The end is told by `life`, once it has settled.
        if !matches!(event, Event::HaveLeft) {
            self.announce(word, self.get(me.id).unwrap_or_default(), String::new());
        }
    }

    /// Tells those who watch.
    pub(super) fn announce(&self, event: &str, node: wire::Node, reason: String) {
        let at_ms = self.clock.wall().as_millis();
        // An error means that nobody watches.
        let _ = self.news.send(wire::NodeEvent { event: event.to_owned(), node: Some(node), reason, at_ms });
    }
}
