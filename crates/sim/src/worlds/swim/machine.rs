//! The machine that ships, as a [`Protocol`]: addresses to numbers and back, events to beliefs.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::Instant;
use swim::{
    Config, Epoch, Event, Identity, Info, Machine, Mark, NodeId, Packet, Request, Response, SharedInfo,
    State, Ticket,
};

use super::change::Told;
use super::protocol::{Address, Belief, Input, Node, Output, Protocol, Start};
use super::wire;

const PORT: u16 = 7946;

/// What is alike on all nodes.
#[derive(Clone, Debug)]
pub struct Settings {
    config: Arc<Config>,
    members: Arc<[(Identity, SharedInfo)]>,
    mutation: Option<swim::Mutation>,
}

/// One node.
pub struct SwimNode {
    machine: Machine,
    /// What the machine told during its present turn.
    events: Vec<Event>,
}

/// What travels.
#[derive(Clone, Debug)]
pub enum Message {
    /// As a datagram.
    Packet(Packet),
    /// Over a stream, there.
    Request(Request),
    /// And back.
    Response(Response),
}

impl Settings {
    /// So many nodes with this configuration; each tells `meta_bytes` bytes of itself.
    pub fn new(config: Config, nodes: u32, meta_bytes: usize) -> Self {
        let info = |node| Info { addr: address(node), meta: Bytes::from(vec![7; meta_bytes]) };
        let members = (0..nodes).map(|node| (identity(node, 1), Arc::new(info(node)))).collect();
        Settings { config: Arc::new(config), members, mutation: None }
    }

    /// The same with a deliberate bug in every machine.
    pub fn broken(self, mutation: Option<swim::Mutation>) -> Self {
        Settings { mutation, ..self }
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }
}

impl SwimNode {
    /// The machine itself.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What it told in the turn that has just ended.
    pub fn events(&self) -> &[Event] {
        &self.events
    }
}

impl Protocol for SwimNode {
    type Settings = Settings;
    type Message = Message;

    fn start(settings: &Settings, start: Start<'_>) -> Self {
        let me = identity(start.node, start.epoch);
        let meta = settings.members[start.node as usize].1.meta.clone();
        let info = Info { addr: address(start.at), meta };
        let seeds: Vec<SocketAddr> = start
            .contacts
            .iter()
            .filter(|contact| **contact != start.at)
            .map(|contact| address(*contact))
            .collect();
        let config = settings.config.clone();
        let machine = if start.known > 0 {
            let known = &settings.members[..start.known as usize];
            Machine::with_members(start.now, config, me, info, seeds, start.random, known)
        } else {
            Machine::new(start.now, config, me, info, seeds, start.random)
        };
        let machine = match settings.mutation {
            Some(mutation) => machine.mutated(mutation),
            None => machine,
        };
        SwimNode { machine, events: Vec::new() }
    }

    fn handle(&mut self, now: Instant, input: Input<Message>) {
        let input = match input {
            Input::Datagram(from, Message::Packet(packet)) => swim::Input::Datagram(address(from), packet),
            Input::Request(ticket, from, Message::Request(request)) => {
                swim::Input::Request(Ticket(ticket), address(from), request)
            }
            Input::Response(ticket, None) => swim::Input::Response(Ticket(ticket), None),
            Input::Response(ticket, Some(Message::Response(response))) => {
                swim::Input::Response(Ticket(ticket), Some(response))
            }
            Input::Leave => swim::Input::Leave,
            Input::Told(told, about) => told_input(told, about),
            Input::Datagram(..) | Input::Request(..) | Input::Response(..) => {
                unreachable!("the world brings messages by the way they were sent")
            }
        };
        self.events.clear();
        self.machine.handle(now, input);
    }

    fn deadline(&self) -> Option<Instant> {
        self.machine.next_deadline()
    }

    fn handle_deadline(&mut self, now: Instant) {
        self.events.clear();
        self.machine.handle_deadline(now);
    }

    fn poll_output(&mut self) -> Option<Output<Message>> {
        loop {
            return Some(match self.machine.poll_output()? {
                swim::Output::Send(to, packet) => Output::Send(at(to), Message::Packet(packet)),
                swim::Output::Request(ticket, to, request) => {
                    Output::Request(ticket.0, at(to), Message::Request(request))
                }
                swim::Output::Respond(ticket, response) => {
                    Output::Respond(ticket.0, Message::Response(response))
                }
                swim::Output::Event(event) => {
                    let change = changed(&event);
                    self.events.push(event);
                    match change {
                        Some((who, belief)) => Output::Changed(who.id.0, who.epoch.0, belief),
                        None => continue,
                    }
                }
            });
        }
    }

    fn belief(&self, about: Node) -> Belief {
        self.machine.member(NodeId(about)).map_or(Belief::Unknown, |member| belief(member.state))
    }

    fn present(&self) -> usize {
        let counts = self.machine.counts();
        counts.alive + counts.probe_failed + counts.suspected
    }

    fn wire_bytes(message: &Message) -> usize {
        match message {
            Message::Packet(packet) => wire::packet_bytes(packet),
            Message::Request(request) => wire::request_bytes(request),
            Message::Response(response) => wire::response_bytes(response),
        }
    }

    fn stream_timeout(settings: &Settings) -> Duration {
        settings.config.stream_timeout
    }
}

/// The start of a node with these numbers.
pub(super) const fn identity(node: Node, epoch: u32) -> Identity {
    Identity { id: NodeId(node), epoch: Epoch(epoch) }
}

/// What a state amounts to.
pub(super) const fn belief(state: State) -> Belief {
    match state {
        State::Alive | State::ProbeFailed => Belief::Present,
        State::Suspected => Belief::Suspected,
        State::Dead | State::Left => Belief::Gone,
    }
}

fn changed(event: &Event) -> Option<(Identity, Belief)> {
    match event {
        Event::Joined(who) | Event::Refuted(who, _) => Some((*who, Belief::Present)),
        Event::Suspected(who, ..) => Some((*who, Belief::Suspected)),
        Event::Dead(who, ..) | Event::Left(who) => Some((*who, Belief::Gone)),
        Event::Forgotten(who) => Some((*who, Belief::Unknown)),
        _ => None,
    }
}

fn told_input(told: Told, about: u32) -> swim::Input {
    match told {
        Told::Lagged(lag) => swim::Input::Lagged(lag),
        Told::Meta(meta) => swim::Input::SetMeta(Bytes::copy_from_slice(&meta.to_be_bytes())),
        Told::Mark(epoch, index) => swim::Input::SetMark(Mark { epoch, index }),
        Told::Seed(_) => swim::Input::Seeds(vec![address(about)]),
        Told::Expel(node) => swim::Input::Expel(identity(node, about)),
    }
}

fn address(at: Address) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::from_bits(10 << 24 | at), PORT))
}

fn at(address: SocketAddr) -> Address {
    match address {
        SocketAddr::V4(v4) => v4.ip().to_bits() & 0x00ff_ffff,
        SocketAddr::V6(_) => Address::MAX,
    }
}
