//! The processes of jobs: families of a leader and perhaps children that outlive it, as the kernel sees them.
//!
//! A family lives in the namespace of a guardian, which starts it, signals it and is told of its end. It may ignore
//! SIGTERM, and it takes a while to die of SIGKILL, though never longer than its worker allows for.
//!
//! ```text
//!   launch ──► leader and children ──► children alone ──► gone
//!                       └──────────── killed ──────────────┘
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use lease::guardian::FamilyId;
use model::{Hold, WorkerKey};

use super::event::Event;
use super::guardian::{GuardianId, GuardianInput};
use super::nature::Nature;
use super::outside::Outside;
use super::setup::Setup;
use super::worker::End;
use crate::rng::Rng;
use crate::time::Time;

/// The longest that a family takes to end after SIGTERM, if it heeds it.
const WINDS_DOWN_MAX: Duration = Duration::from_secs(1);
/// The longest that children go on without their leader.
const LINGERS_MAX: Duration = Duration::from_secs(30);
/// The longest that dying takes, in percent of the safety that a worker leaves for it: less than half.
const DYING_PERCENT: u32 = 45;

/// What happens to a family by itself.
#[derive(Clone, Copy, Debug)]
pub(super) enum FamilyNews {
    /// Its leader exits; whether its children do as well is another matter.
    LeaderExits(End),
    /// The last of it is gone.
    Gone,
}

/// What a family is to run.
#[derive(Clone, Debug)]
pub(super) struct Errand {
    pub(super) hold: Hold,
    /// The worker's key at that time.
    pub(super) key: WorkerKey,
    pub(super) exclusive: bool,
    /// How it ends if nothing happens; never, if it is wedged.
    pub(super) end: Option<End>,
    /// It does not heed SIGTERM.
    pub(super) is_deaf: bool,
}

/// All families that run.
#[derive(Debug)]
pub(super) struct Families {
    alive: BTreeMap<FamilyId, Family>,
    named: u64,
    rng: Rng,
}

#[derive(Debug)]
struct Family {
    guardian: GuardianId,
    errand: Errand,
    has_leader: bool,
    /// How long its children go on without their leader, if there are any.
    lingers: Option<Duration>,
    dies_in: Duration,
    /// The number of its latest plan.
    plan: u32,
    gone_at: Option<Time>,
}

impl Families {
    pub(super) fn new(setup: &Setup) -> Self {
        Families { alive: BTreeMap::new(), named: 0, rng: Rng::stream(setup.seed, 0, "families") }
    }

    /// A name that no family ever had.
    pub(super) fn name(&mut self) -> FamilyId {
        self.named += 1;
        FamilyId(self.named)
    }

    /// The claims that somebody in the care of this guardian still works on.
    pub(super) fn of(&self, guardian: GuardianId) -> impl Iterator<Item = Hold> {
        self.alive.values().filter(move |it| it.guardian == guardian).map(|it| it.errand.hold)
    }
}

impl Outside<'_> {
    /// A guardian starts a family; false if that fails.
    pub(super) fn launch_family(&mut self, guardian: GuardianId, id: FamilyId, errand: Errand) -> bool {
        let rng = &mut self.families.rng;
        if rng.chance(0.01) {
            return false;
        }
        let safety = self.setup.workers[guardian.worker].stopping.safety;
        let ms = Duration::from_millis;
        let family = Family {
            guardian,
            has_leader: true,
            lingers: rng.chance(0.5).then(|| rng.span_of_any_size(ms(1), LINGERS_MAX)),
            dies_in: rng.span_of_any_size(Duration::from_micros(50), safety * DYING_PERCENT / 100),
            plan: 0,
            gone_at: None,
            errand,
        };
        let Errand { hold, exclusive, end, .. } = family.errand;
        if exclusive {
            self.begin_run(hold, family.errand.key.clone());
        }
        if let Some(end) = end {
            let runs = Nature::of(hold.job, &self.setup).runs;
            self.queue.push(self.now + runs, Event::Family(id, 0, FamilyNews::LeaderExits(end)));
        }
        self.families.alive.insert(id, family);
        true
    }

    /// SIGTERM to everyone of a family.
    pub(super) fn terminate_family(&mut self, id: FamilyId) {
        let Families { alive, rng, .. } = &mut self.families;
        let Some(family) = alive.get_mut(&id).filter(|it| it.has_leader && !it.errand.is_deaf) else {
            return;
        };
        family.plan += 1;
        let at = self.now + rng.span_of_any_size(Duration::from_millis(1), WINDS_DOWN_MAX);
        self.queue.push(at, Event::Family(id, family.plan, FamilyNews::LeaderExits(End::Fails)));
    }

    /// SIGKILL to everyone of a family.
    pub(super) fn kill_family(&mut self, id: FamilyId) {
        let Some(family) = self.families.alive.get_mut(&id) else { return };
        let at = self.now + family.dies_in;
        let at = family.gone_at.map_or(at, |known| known.min(at));
        let (id, plan) = (id, family.go_at(at));
        self.queue.push(at, Event::Family(id, plan, FamilyNews::Gone));
    }

    /// The first process of a namespace is gone: the kernel kills everyone in it.
    pub(super) fn kill_families_of(&mut self, guardian: GuardianId) {
        let alive = self.families.alive.iter();
        let ids: Vec<FamilyId> = alive.filter(|(_, it)| it.guardian == guardian).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.kill_family(id));
    }

    /// Something happens to a family by itself: whose guardian hears what of it.
    pub(super) fn family_happens(
        &mut self,
        id: FamilyId,
        plan: u32,
        news: FamilyNews,
    ) -> Option<(GuardianId, Vec<GuardianInput>)> {
        let family = self.families.alive.get_mut(&id).filter(|family| family.plan == plan)?;
        let guardian = family.guardian;
        let mut heard = Vec::new();
        if std::mem::take(&mut family.has_leader) {
            let end = if let FamilyNews::LeaderExits(end) = news { end } else { End::Aborted };
            heard.push(GuardianInput::LeaderExited(id, end));
            if let (FamilyNews::LeaderExits(_), Some(lingers)) = (news, family.lingers) {
                let at = self.now + lingers;
                let plan = family.go_at(at);
                self.queue.push(at, Event::Family(id, plan, FamilyNews::Gone));
                return Some((guardian, heard));
            }
        }
        let Errand { hold, exclusive, .. } = family.errand;
        self.families.alive.remove(&id);
        if exclusive {
            self.end_run(hold);
        }
        heard.push(GuardianInput::Emptied(id));
        Some((guardian, heard))
    }
}

impl Family {
    /// The last of it goes then: the number of that plan.
    fn go_at(&mut self, at: Time) -> u32 {
        self.gone_at = Some(at);
        self.plan += 1;
        self.plan
    }
}
