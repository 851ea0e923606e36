//! Does what the machine wants.

use std::net::SocketAddr;

use model::Clock;
use swim::{Event, Input, Output, Packet};

use super::{Driver, Ending};
use crate::codec::packet;

impl Driver {
    pub(super) fn feed(&mut self, input: Input) {
        self.machine.handle(self.clock.monotonic(), input);
        self.act();
    }

    /// Does what the machine wants, until it wants nothing more.
    pub(super) fn act(&mut self) {
        loop {
            while let Some(output) = self.machine.poll_output() {
                match output {
                    Output::Send(addr, packet) => self.send(addr, &packet),
                    Output::Request(ticket, addr, request) => {
                        let is_cut = self.filter.cuts_streams(addr);
                        let begun = if is_cut {
                            self.errands.ask_nobody(ticket)
                        } else {
                            self.errands.ask(ticket, addr, request)
                        };
                        if begun {
                            self.stats.streams_out += 1;
                        } else {
                            self.stats.streams_refused += 1;
                            self.inputs.push_back(Input::Response(ticket, None));
                        }
                    }
                    Output::Respond(ticket, response) => self.errands.respond(ticket, response),
                    Output::Event(event) => self.tell(event),
                }
            }
            let Some(input) = self.inputs.pop_front() else { return };
            self.machine.handle(self.clock.monotonic(), input);
        }
    }

    fn send(&mut self, addr: SocketAddr, packet: &Packet) {
        if self.filter.cuts_to(addr) {
            return;
        }
        let sequence = self.sequence;
        self.sequence += 1;
        self.sealer.seal_datagram(&mut self.sealed, |out| packet::encode(sequence, packet, out));
        match self.sockets.udp.try_send_to(&self.sealed, addr) {
            Ok(length) => {
                self.stats.datagrams_out += 1;
                self.stats.bytes_out += length as u64;
            }
            Err(error) => {
                tracing::debug!(%addr, %error, "sending failed");
                self.stats.send_failures += 1;
            }
        }
    }

    fn tell(&mut self, event: Event) {
        match event {
            Event::HaveLeft => self.ending = Some(Ending::Left),
            Event::Expelled => self.ending = Some(Ending::Expelled(self.machine.superseded_by())),
            Event::Joined(node) | Event::Changed(node) => {
                if let Some(member) = self.machine.member(node.id) {
                    self.gate.announce(member.info.addr);
                }
            }
            _ => {}
        }
        self.publisher.tell(event);
    }
}
