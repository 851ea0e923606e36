//! Claims: jobs are taken for a session, recorded with the registry, and sent with start numbers.

use lease::ledger::{Grant, Start};
use lease::message::Generation;
use lease::registry;
use model::{Hold, Outcome, QueueName, Report, WorkerKey};
use schedule::dispatch::{self, SessionId};
use schedule::upkeep;
use store::{Claim, Claimed};

use super::super::call::Call;
use super::super::event::Told;
use super::heart::Heart;
use super::roll::Roll;
use super::{Moment, Then};

impl Heart {
    /// Claims jobs for a session.
    pub(super) fn claim(
        &mut self,
        moment: &mut Moment<'_, '_>,
        session: SessionId,
        queues: Vec<QueueName>,
        limit: u32,
    ) {
        let Some(to) = self.sessions.get(session) else {
            return self
                .dispatcher
                .handle(moment.now, dispatch::Input::ClaimDone { session, asked: limit, got: 0 });
        };
        let key = to.key.clone();
        let claim = Claim {
            holder: key.clone(),
            queues,
            limit: limit as usize,
            bytes_max: usize::MAX,
            lease: moment.outside.setup.verify_after,
            exclusive: to.is_fit(),
        };
        moment.call(Call::Claim(claim), Then::Claimed { session, key, asked: limit });
    }

    /// Sends claimed jobs to their worker; if it is gone they surely never left and can go back at once.
    pub(super) fn claimed(
        &mut self,
        moment: &mut Moment<'_, '_>,
        session: SessionId,
        key: WorkerKey,
        claimed: Vec<Claimed>,
    ) {
        let now = moment.now;
        for lease in claimed.iter().map(|job| job.lease) {
            self.upkeep.handle(now, upkeep::Input::LeaseGranted { lease });
        }
        let holds: Vec<Hold> = claimed.iter().map(|job| job.hold).collect();
        let exclusive = claimed.iter().filter(|job| job.exclusive).map(|job| job.hold).collect();
        let to = self.sessions.get(session).map(|session| session.connection);
        let Some((connection, generation)) = to.zip(self.roll.as_ref().map(Roll::generation)) else {
            let reports =
                holds.iter().map(|hold| Report { hold: *hold, outcome: Outcome::HandedBack }).collect();
            return moment.call(Call::Finish { key: key.clone(), reports }, Then::HandedBack { key, holds });
        };
        let fresh: Vec<Grant> =
            claimed.into_iter().map(|job| self.assignment(generation, &key, job)).collect();
        let assignments = self.strays.mingle(connection, fresh);
        let start = self.last_start;
        self.tell_registry(now, registry::Input::Granted { key, holds, exclusive, start });
        self.send(moment, connection, Told { assignments, ..Told::default() });
    }

    fn assignment(&mut self, generation: Generation, key: &WorkerKey, job: Claimed) -> Grant {
        self.last_start += 1;
        Grant {
            hold: job.hold,
            lease: job.lease,
            timeout: job.timeout,
            heartbeat_timeout: job.heartbeat_timeout,
            exclusive: job.exclusive,
            at_once: false,
            start: Start { generation, key: key.clone(), number: self.last_start },
        }
    }
}
