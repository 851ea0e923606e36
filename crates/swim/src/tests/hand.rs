//! One machine, driven by hand.

use std::sync::Arc;
use std::time::Duration;

use model::Instant;

use super::world::{addr, at, info, node};
use crate::{
    Config, Event, Identity, Incarnation, Input, Machine, Mark, Message, Mutation, NodeId, Output, Packet,
    Request, Response, State, Status, Ticket, Update,
};

/// Node 0 in a cluster of `0..count`, with nobody else there unless the test plays them.
pub(super) struct Hand {
    pub(super) now: Instant,
    pub(super) machine: Machine,
    pub(super) events: Vec<Event>,
    pub(super) sent: Vec<Packet>,
    pub(super) requests: Vec<(Ticket, Request)>,
    pub(super) responses: Vec<Response>,
}

pub(super) fn update(id: u32, epoch: u32, incarnation: u32, status: Status) -> Update {
    Update {
        node: node(id, epoch),
        incarnation: Incarnation(incarnation),
        status,
        // Alive is what a node says of itself.
        by: NodeId(if status == Status::Alive { id } else { 9 }),
        info: Some(Arc::new(info(id))),
    }
}

impl Hand {
    pub(super) fn new(config: Config, count: u32) -> Self {
        Self::broken(config, count, None)
    }

    pub(super) fn broken(config: Config, count: u32, mutation: Option<Mutation>) -> Self {
        let members: Vec<_> = (0..count).map(|id| (node(id, 1), Arc::new(info(id)))).collect();
        let now = at(1_000);
        let mut machine =
            Machine::with_members(now, Arc::new(config), node(0, 1), info(0), vec![addr(1)], 5, &members);
        if let Some(mutation) = mutation {
            machine = machine.mutated(mutation);
        }
        let mut hand = Hand {
            now,
            machine,
            events: Vec::new(),
            sent: Vec::new(),
            requests: Vec::new(),
            responses: Vec::new(),
        };
        hand.drain();
        hand
    }

    pub(super) fn give(&mut self, input: Input) {
        self.machine.handle(self.now, input);
        self.drain();
    }

    /// Another node says this to us.
    pub(super) fn hear(&mut self, from: Identity, message: Message, updates: Vec<Update>) {
        let packet = Packet {
            from,
            to: self.machine.me(),
            digest: self.machine.digest(),
            mark: Mark::default(),
            message,
            updates,
        };
        self.give(Input::Datagram(addr(from.id.0), packet));
    }

    /// A rumour, brought by node 1.
    pub(super) fn rumour(&mut self, id: u32, epoch: u32, incarnation: u32, status: Status) {
        self.hear(node(1, 1), Message::Gossip, vec![update(id, epoch, incarnation, status)]);
    }

    /// Time passes; deadlines are kept to the moment.
    pub(super) fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        while let Some(due) = self.machine.next_deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.machine.handle_deadline(self.now);
            self.drain();
        }
        self.now = end;
    }

    /// Time passes, node 1 is heard all the while, and answers pings.
    pub(super) fn pass_hearing(&mut self, span: Duration) {
        self.pass_answered(span, &[1]);
    }

    /// Time passes, node 1 is heard all the while, and these answer pings.
    pub(super) fn pass_answered(&mut self, span: Duration, who: &[u32]) {
        let end = self.now + span;
        while self.now < end {
            self.pass(Duration::from_millis(100));
            for packet in std::mem::take(&mut self.sent) {
                if let Message::Ping { number } = packet.message
                    && who.contains(&packet.to.id.0)
                {
                    self.hear(packet.to, Message::Ack { number }, Vec::new());
                }
            }
            self.hear(node(1, 1), Message::Gossip, Vec::new());
        }
    }

    fn drain(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Send(_, packet) => self.sent.push(packet),
                Output::Request(ticket, _, request) => self.requests.push((ticket, request)),
                Output::Respond(_, response) => self.responses.push(response),
                Output::Event(event) => self.events.push(event),
            }
        }
    }

    pub(super) fn state(&self, id: u32) -> Option<State> {
        self.machine.member(NodeId(id)).map(|member| member.state)
    }

    pub(super) fn incarnation_of(&self, id: u32) -> Option<u32> {
        self.machine.member(NodeId(id)).map(|member| member.incarnation.0)
    }
}
