//! Whose workers are this server's: what the ownership of a registry asks for, and what comes of it.

use lease::message::Answer;
use lease::ownership::{self, Sighting};
use lease::registry;
use model::{Instant, RegistryId};
use schedule::upkeep;
use store::{Enlist, KnownWorker, Peer, ServerInfo};

use super::super::call::Call;
use super::super::event::Told;
use super::super::mutation::Mutation;
use super::heart::Heart;
use super::roll::Roll;
use super::{Moment, Then};

/// Who judges a worker.
pub(super) enum Standing {
    /// Our registry: it knows of it, or nobody does.
    Known,
    /// The server with this address, if it is known.
    Elsewhere(Option<String>),
}

/// A take-over under way.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct TakeOver {
    from: RegistryId,
    beats: u64,
    by: RegistryId,
    /// The outcome of an earlier try is not known.
    is_repeat: bool,
}

impl Heart {
    /// Does what the ownership of a registry asks for.
    pub(super) fn own(&mut self, moment: &mut Moment<'_, '_>, output: ownership::Output) {
        use ownership::Output;
        let now = moment.now;
        match output {
            Output::Found => {
                let (name, address) = (format!("server {}", self.index), self.index.to_string());
                moment.call(Call::Found(ServerInfo { name, address }), Then::Founded { sent: now });
            }
            Output::Begin { registry } => {
                moment.outside.tell(|| format!("server {} has registry {}", self.index, registry.0));
                self.roll = Some(Roll::begin(now, registry, &moment.outside.setup));
                moment.registry = Some(registry);
                self.upkeep.handle(now, upkeep::Input::LookAgain);
            }
            Output::Beat { registry } => moment.call(Call::Beat(registry), Then::BeatDone { sent: now }),
            Output::OwnedUntil(until) => {
                if let Some(roll) = &mut self.roll {
                    roll.owned_until = until;
                    roll.registry.handle(now, registry::Input::OwnedUntil(until));
                }
            }
            Output::Disowned { registry } => {
                moment.outside.tell(|| format!("server {} has lost registry {}", self.index, registry.0));
                self.disown(moment);
            }
            Output::TakeOver { from, beats, by } => {
                self.take_over(moment, TakeOver { from, beats, by, is_repeat: false });
            }
        }
    }

    /// What was seen with a beat.
    pub(super) fn beaten(&mut self, now: Instant, sent: Instant, peers: Option<Vec<Peer>>) {
        let Some(peers) = peers else { return self.ownership.handle(now, ownership::Input::Gone) };
        let seen = peers.iter().map(|peer| Sighting {
            registry: peer.registry,
            beats: peer.beats,
            resigned: peer.resigned,
        });
        self.ownership.handle(now, ownership::Input::Beaten { sent, seen: seen.collect() });
        self.peers = peers.into_iter().map(|peer| (peer.registry, peer.server.address)).collect();
    }

    /// Has the store move the workers of another registry to ours. Until it has said for certain whether it did, whoever we
    /// do not know may be one of them.
    fn take_over(&mut self, moment: &mut Moment<'_, '_>, attempt: TakeOver) {
        self.tell_registry(moment.now, registry::Input::TakeOverBegun { from: attempt.from });
        let TakeOver { from, beats, by, .. } = attempt;
        moment.call(Call::TakeOver { from, beats, by }, Then::TakenOver(attempt));
    }

    /// A take-over was done or refused; or nobody knows (no reply), and it is asked for again: the second answer is for
    /// certain, because after it the first call can do nothing any more. A refusal of the second may mean that the first
    /// was done.
    pub(super) fn taken_over(
        &mut self,
        moment: &mut Moment<'_, '_>,
        attempt: TakeOver,
        reply: Option<Option<Vec<Enlist>>>,
    ) {
        let forgets = moment.outside.setup.mutation == Some(Mutation::FailedTakeOverForgotten);
        let is_ours = moment.registry == Some(attempt.by);
        match reply {
            None if is_ours && !forgets => self.take_over(moment, TakeOver { is_repeat: true, ..attempt }),
            Some(None) if is_ours && attempt.is_repeat => {
                moment.call(Call::Roster(attempt.by), Then::Restored(attempt));
            }
            reply => self.end_take_over(moment.now, attempt, reply.flatten().unwrap_or_default()),
        }
    }

    /// It is certain who was taken over.
    pub(super) fn end_take_over(&mut self, now: Instant, attempt: TakeOver, workers: Vec<Enlist>) {
        if let Some(roll) = self.roll.as_mut().filter(|roll| roll.id == attempt.by) {
            roll.restore(now, workers);
            roll.registry.handle(now, registry::Input::TakeOverEnded { from: attempt.from });
            self.upkeep.handle(now, upkeep::Input::LookAgain);
        }
        self.ownership.handle(now, ownership::Input::TakeOverDone { from: attempt.from });
    }

    /// Our registry is not ours any more, or we go: its workers are sent away, and find its next owner.
    pub(super) fn disown(&mut self, moment: &mut Moment<'_, '_>) -> Option<RegistryId> {
        let roll = self.roll.take()?;
        moment.registry = None;
        for waiting in roll.tickets.into_values().filter(|waiting| waiting.number > 0) {
            let heartbeat = Some((waiting.number, Answer::NotOwner { address: None }));
            if let Some(connection) = waiting.connection {
                self.send(moment, connection, Told { heartbeat, ..Told::default() });
            }
        }
        for connection in self.sessions.connections() {
            self.hang_up(moment, connection);
        }
        Some(roll.id)
    }

    /// SIGTERM: goes in good order. From here on nothing is extended, so that others may take over at once.
    pub(super) fn go(&mut self, moment: &mut Moment<'_, '_>) {
        if self.gone_at.is_some() {
            return;
        }
        moment.outside.tell(|| format!("server {} is asked to go", self.index));
        self.ownership.handle(moment.now, ownership::Input::Resigning);
        self.act(moment);
        self.gone_at = Some(match self.disown(moment) {
            Some(registry) => {
                moment.call(Call::Resign(registry), Then::Resigned);
                moment.now + super::RESIGN_MAX
            }
            None => moment.now,
        });
    }

    /// Who judges a worker that our registry did not know, by the word of the store. If it is ours and alive, it was taken over
    /// without our having heard of it yet; now the registry has.
    pub(super) fn standing(&mut self, now: Instant, known: Option<KnownWorker>) -> Standing {
        let Some(known) = known.filter(|known| known.ended.is_none()) else { return Standing::Known };
        let owner = known.worker.registry;
        match self.roll.as_mut().filter(|roll| roll.id == owner) {
            Some(roll) => {
                roll.restore(now, [known.worker]);
                Standing::Known
            }
            None => Standing::Elsewhere(self.peers.get(&owner).cloned()),
        }
    }
}
