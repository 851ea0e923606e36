//! A member that says anything at all, in any order, with any numbers: the machine goes on, and whatever it says fits a datagram.
//! The first byte chooses the profile, the rest what happens.

#![no_main]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gossip_udp::codec::{exchange, packet};
use libfuzzer_sys::fuzz_target;
use model::Instant;
use swim::{
    Config, Epoch, Identity, Incarnation, Info, Input, Machine, Mark, Message, NodeId, Output, Packet,
    Request, Response, Status, Ticket, Update, View,
};

const ME: Identity = Identity { id: NodeId(0), epoch: Epoch(2) };
/// More than these are not handled in one run, so that runs stay short.
const INPUTS_MAX: usize = 400;

/// What is left of the input; zeros when it is over.
struct Source<'a>(&'a [u8]);

impl Source<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn below(&mut self, end: u8) -> u8 {
        self.byte() % end
    }

    /// Mostly small, sometimes at the ends of its range.
    fn number(&mut self) -> u32 {
        match self.byte() {
            255 => u32::MAX,
            254 => u32::MAX - 1,
            253 => 1 << 31,
            small => u32::from(small % 8),
        }
    }

    fn identity(&mut self) -> Identity {
        Identity { id: NodeId(self.number()), epoch: Epoch(self.number()) }
    }

    fn addr(&mut self) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, self.below(8)], u16::from(self.below(3))))
    }

    fn update(&mut self) -> Update {
        let info = (self.below(4) > 0).then(|| {
            Arc::new(Info { addr: self.addr(), meta: Bytes::from(vec![7; usize::from(self.byte())]) })
        });
        let status = [Status::Alive, Status::Suspect, Status::Dead, Status::Unreliable, Status::Left];
        Update {
            node: self.identity(),
            incarnation: Incarnation(self.number()),
            status: status[usize::from(self.below(5))],
            by: NodeId(self.number()),
            info,
        }
    }

    fn updates(&mut self) -> Vec<Update> {
        (0..self.below(5)).map(|_| self.update()).collect()
    }

    fn message(&mut self, numbers: &[u32]) -> Message {
        // Numbers that the machine has given out itself are the ones that do something.
        let number = match numbers.len() {
            0 => self.number(),
            count => numbers[usize::from(self.byte()) % count],
        };
        match self.below(8) {
            0 => Message::Ping { number },
            1 => Message::Ack { number },
            2 => Message::PingFor { number, target: self.identity(), addr: self.addr() },
            3 => Message::Nack { number },
            4 => {
                let (target, addr) = (self.identity(), self.addr());
                Message::Ask { round: number, target, addr, incarnation: Incarnation(self.number()) }
            }
            5 => {
                let view = [View::Good, View::Bad, View::Unable][usize::from(self.below(3))];
                Message::Opinion { round: number, target: self.identity(), view }
            }
            6 => Message::Gossip,
            _ => Message::NotMe,
        }
    }

    fn input(&mut self, machine: &Machine, asked: &Asked) -> Input {
        match self.below(10) {
            0 => {
                let buckets = (0..1_u32 << self.below(8)).map(|bucket| u64::from(bucket % 3)).collect();
                let request = Request::Compare { from: self.update(), buckets };
                Input::Request(Ticket(self.byte().into()), self.addr(), request)
            }
            1 => {
                let request = Request::Push { from: self.identity(), entries: self.updates() };
                Input::Request(Ticket(self.byte().into()), self.addr(), request)
            }
            2 => {
                let request = Request::Ping { from: self.identity(), to: self.identity() };
                Input::Request(Ticket(self.byte().into()), self.addr(), request)
            }
            3 => {
                let mut buckets: Vec<u32> = (0..self.below(5)).map(|_| self.number()).collect();
                buckets.sort_unstable();
                buckets.dedup();
                let response = match self.below(5) {
                    0 => None,
                    1 => Some(Response::Pong(self.identity())),
                    2 => Some(Response::Done),
                    3 => Some(Response::Busy),
                    _ => Some(Response::Differences {
                        from: self.identity(),
                        buckets,
                        entries: self.updates(),
                    }),
                };
                let ticket = match asked.tickets.len() {
                    0 => Ticket(self.byte().into()),
                    count => asked.tickets[usize::from(self.byte()) % count],
                };
                Input::Response(ticket, response)
            }
            4 => match self.below(8) {
                0 => Input::Leave,
                1 => Input::Expel(self.identity()),
                2 => Input::SetMeta(Bytes::from_static(b"more")),
                3 => Input::Seeds(vec![self.addr(), self.addr()]),
                4 => Input::Lagged(Duration::from_millis(self.number().into())),
                _ => Input::SetMark(Mark { epoch: self.number(), index: self.number().into() }),
            },
            _ => {
                let packet = Packet {
                    from: self.identity(),
                    to: if self.below(8) == 0 { self.identity() } else { ME },
                    digest: if self.below(2) == 0 { machine.digest() } else { self.number().into() },
                    mark: Mark { epoch: self.number(), index: self.number().into() },
                    message: self.message(&asked.numbers),
                    updates: self.updates(),
                };
                Input::Datagram(self.addr(), packet)
            }
        }
    }
}

/// What the machine asked last.
#[derive(Default)]
struct Asked {
    numbers: Vec<u32>,
    tickets: Vec<Ticket>,
}

impl Asked {
    /// Everything that the machine wants can be said.
    fn drain(&mut self, machine: &mut Machine, bytes_max: usize) {
        let mut out = Vec::new();
        while let Some(output) = machine.poll_output() {
            out.clear();
            match output {
                Output::Send(_, sent) => {
                    if let Message::Ping { number }
                    | Message::PingFor { number, .. }
                    | Message::Ask { round: number, .. } = sent.message
                    {
                        self.numbers.push(number);
                    }
                    packet::encode(u64::MAX, &sent, &mut out);
                    assert!(
                        out.len() + gossip_udp::codec::ENVELOPE_BYTES_MAX <= bytes_max,
                        "{} bytes",
                        out.len()
                    );
                    assert_eq!(packet::decode(&out), Ok((u64::MAX, sent)));
                }
                Output::Request(ticket, _, request) => {
                    self.tickets.push(ticket);
                    exchange::encode_request(&request, &mut out);
                    assert_eq!(exchange::decode_request(&out), Ok(request));
                }
                Output::Respond(_, response) => {
                    exchange::encode_response(&response, &mut out);
                    assert_eq!(exchange::decode_response(&out), Ok(response));
                }
                Output::Event(_) => {}
            }
        }
        let old = self.numbers.len().saturating_sub(16);
        self.numbers.drain(..old);
        let old = self.tickets.len().saturating_sub(16);
        self.tickets.drain(..old);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut source = Source(bytes);
    let config = match source.below(4) {
        0 => Config::classic(),
        1 => Config::lifeguard(2.0, 6.0),
        2 => Config { members_max: 4, ..Config::lan() },
        _ => Config::lan(),
    };
    let bytes_max = config.datagram_bytes_max;
    let mut now = Instant::from_millis(1_000);
    let info = Info { addr: SocketAddr::from(([10, 0, 0, 0], 1)), meta: Bytes::from(vec![7; 256]) };
    let mut machine =
        Machine::new(now, Arc::new(config), ME, info, vec![SocketAddr::from(([10, 0, 0, 1], 1))], 5);
    let mut asked = Asked::default();
    asked.drain(&mut machine, bytes_max);
    for _ in 0..INPUTS_MAX {
        if source.0.is_empty() {
            break;
        }
        match source.below(4) {
            // In time, or long after.
            0 => {
                let due = machine.next_deadline().unwrap_or(now);
                now = now.max(due)
                    + Duration::from_millis([0, 0, 1, 700, 5_000, 3_600_000][usize::from(source.below(6))]);
                machine.handle_deadline(now);
            }
            _ => {
                let input = source.input(&machine, &asked);
                machine.handle(now, input);
            }
        }
        asked.drain(&mut machine, bytes_max);
    }
    assert_eq!(
        machine.members().count(),
        machine.members().map(|member| member.identity.id).collect::<std::collections::BTreeSet<_>>().len()
    );
});
