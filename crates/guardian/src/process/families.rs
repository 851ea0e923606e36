//! Who belongs to whom, and who is left.
//!
//! A family is everyone who descends from its leader. While the leader lives that is its process group and, wherever they
//! went, those who carry the job's name in their environment or are in its cgroup. When it is dead, whoever of its family
//! is left is, or is below, a child of ours that leads no family: a *stray*. Strays who tie to nobody may be anyone's, so
//! they are killed when an exclusive family ends, and when everything must end.

use std::collections::{BTreeMap, HashMap};
use std::io;

use clock::SystemClock;
use lease::guardian::FamilyId;
use model::{Clock, Instant};
use rustix::process::{
    Pid, Signal, WaitOptions, getpgid, kill_process, kill_process_group, test_kill_process_group, waitpid,
};

use super::children::Children;
use super::spawn::Leader;
use crate::cgroup::Cgroup;
use crate::procfs::{self, Mark};

/// Families at one time; a launch beyond them is refused by "try again".
pub(super) const FAMILIES_MAX: usize = 10_000;

pub(super) struct Families {
    all: BTreeMap<FamilyId, Kin>,
    /// The leaders that have not been reaped.
    leaders: HashMap<Pid, FamilyId>,
    children: Children,
    /// Ended for the machine, kept until the worker is told.
    ends: HashMap<FamilyId, End>,
    /// How many must end and have not.
    killed: usize,
    /// How many strays lived at the last look.
    strays: usize,
    /// Nobody may be spared any more, tied or not.
    is_last_hour: bool,
}

/// How a leader ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Exit {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
}

/// The end of a family.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct End {
    /// How its leader ended.
    pub(super) exit: Exit,
    /// When nobody of it was left, as far as we saw: never too early.
    pub(super) gone_at: Instant,
}

struct Kin {
    leader: Leader,
    mark: Mark,
    is_exclusive: bool,
    /// How the leader ended, once it was reaped. Its number may then be given to others as soon as its group is empty.
    exit: Option<Exit>,
    /// Everyone of it must end.
    is_killed: bool,
}

impl Families {
    pub(super) fn new(children: Children) -> Families {
        Families {
            all: BTreeMap::new(),
            leaders: HashMap::new(),
            children,
            ends: HashMap::new(),
            killed: 0,
            strays: 0,
            is_last_hour: false,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= FAMILIES_MAX
    }

    /// Whether some must end and have not.
    pub(super) fn is_ending(&self) -> bool {
        self.killed > 0
    }

    /// Whether there is anyone who could die or leave orphans.
    pub(super) fn has_children(&self) -> bool {
        !self.all.is_empty() || self.strays > 0
    }

    /// It runs.
    pub(super) fn admit(&mut self, id: FamilyId, leader: Leader, mark: Mark, is_exclusive: bool) {
        self.leaders.insert(leader.pid, id);
        self.all.insert(id, Kin { leader, mark, is_exclusive, exit: None, is_killed: false });
    }

    /// The worker is dead: from now on every stray goes with those who end.
    pub(super) fn begin_last_hour(&mut self) {
        self.is_last_hour = true;
    }

    /// The leader's exit was seen: ends its group while the leader's number still means it, then lets the number go.
    /// False if it is no family's.
    pub(super) fn leader_exited(&mut self, id: FamilyId) -> bool {
        let Some(kin) = self.all.get_mut(&id).filter(|kin| kin.exit.is_none()) else { return false };
        kin.signal_group(Signal::KILL);
        let exit = match waitpid(Some(kin.leader.pid), WaitOptions::NOHANG) {
            Ok(None) => return false,
            Ok(Some((_, status))) => Exit { code: status.exit_status(), signal: status.terminating_signal() },
            // Nobody else reaps our children; if someone did, it is gone all the same.
            Err(_) => Exit { code: None, signal: Some(Signal::KILL.as_raw()) },
        };
        kin.exit = Some(exit);
        self.leaders.remove(&kin.leader.pid);
        true
    }

    /// Whether its leader was not reaped yet.
    pub(super) fn has_leader(&self, id: FamilyId) -> bool {
        self.all.get(&id).is_some_and(|kin| kin.exit.is_none())
    }

    /// How a family that was emptied ended.
    pub(super) fn take_end(&mut self, id: FamilyId) -> End {
        self.ends.remove(&id).unwrap_or_default()
    }

    /// Asks everyone of it to end.
    pub(super) fn terminate(&mut self, id: FamilyId) -> io::Result<()> {
        let strays = self.strays()?;
        let Some(kin) = self.all.get(&id) else { return Ok(()) };
        kin.signal_group(Signal::TERM);
        for stray in strays.iter().filter(|stray| kin.includes(stray)) {
            stray.signal(Signal::TERM);
        }
        Ok(())
    }

    /// Everyone of it must end. Those who can be reached at one blow are killed now, the others by [`Families::sweep`].
    pub(super) fn kill(&mut self, id: FamilyId) {
        let Some(kin) = self.all.get_mut(&id) else { return };
        self.killed += usize::from(!kin.is_killed);
        kin.is_killed = true;
        kin.signal_group(Signal::KILL);
        if let Some(cgroup) = &kin.leader.cgroup {
            cgroup.kill_all();
        }
    }

    /// Reaps dead strays, kills those of families that must end, and returns the families of which nobody is left.
    pub(super) fn sweep(&mut self) -> io::Result<Vec<FamilyId>> {
        let strays = self.strays()?;
        if self.killed == 0 {
            return Ok(Vec::new());
        }
        let mut blockers = Vec::new();
        for stray in strays {
            let tie = self.all.iter().find(|(_, kin)| kin.includes(&stray)).map(|(id, _)| *id);
            if tie.is_none_or(|id| self.all[&id].is_killed) {
                blockers.push((stray, tie));
            }
        }
        let spares_strangers = !self.is_last_hour && !self.all.values().any(Kin::is_strict);
        for (stray, tie) in &blockers {
            if tie.is_some() || !spares_strangers {
                stray.signal(Signal::KILL);
            }
        }
        let is_empty = |id: &FamilyId, kin: &Kin| {
            let counts_strangers = kin.is_exclusive || self.is_last_hour;
            let blocks = |tie: &Option<FamilyId>| tie.map_or(counts_strangers, |tied| tied == *id);
            kin.is_alone(&self.leaders) && !blockers.iter().any(|(_, tie)| blocks(tie))
        };
        let ending = self.all.iter().filter(|(_, kin)| kin.is_killed && kin.exit.is_some());
        let emptied: Vec<FamilyId> =
            ending.filter(|(id, kin)| is_empty(id, kin)).map(|(id, _)| *id).collect();
        // After the last look, not before it: this time is held against the end of a lease.
        let gone_at = SystemClock.monotonic();
        for id in &emptied {
            self.bury(*id, gone_at);
        }
        Ok(emptied)
    }

    fn bury(&mut self, id: FamilyId, gone_at: Instant) {
        let Some(kin) = self.all.remove(&id) else { return };
        self.killed -= 1;
        self.ends.insert(id, End { exit: kin.exit.unwrap_or_default(), gone_at });
        if let Some(cgroup) = kin.leader.cgroup {
            cgroup.remove_all();
        }
    }

    fn strays(&mut self) -> io::Result<Vec<Stray>> {
        let strays = self.children.strays(|child| self.leaders.contains_key(&child))?;
        let strays: Vec<Stray> = strays.into_iter().map(Stray::look).collect();
        self.strays = strays.len();
        Ok(strays)
    }
}

impl Kin {
    /// Whether this stray is of this family.
    fn includes(&self, stray: &Stray) -> bool {
        let is_in = |cgroup: &Cgroup| cgroup.has(&stray.cgroups);
        stray.group == Some(self.leader.pid)
            || self.mark.is_on(&stray.environ)
            || self.leader.cgroup.as_ref().is_some_and(is_in)
    }

    /// Strays who tie to nobody may be its, and have nobody else to wait for them.
    fn is_strict(&self) -> bool {
        self.is_exclusive && self.is_killed && self.exit.is_some()
    }

    /// Nobody is in its group or cgroup.
    fn is_alone(&self, leaders: &HashMap<Pid, FamilyId>) -> bool {
        // A new leader got the number: the kernel gives it out only when the group is empty.
        let has_group =
            !leaders.contains_key(&self.leader.pid) && test_kill_process_group(self.leader.pid).is_ok();
        !has_group && self.leader.cgroup.as_ref().is_none_or(Cgroup::is_empty)
    }

    /// Signals the group, as long as the leader's number is certainly its own.
    fn signal_group(&self, signal: Signal) {
        if self.exit.is_none() {
            // The only possible error is that nobody is left.
            let _ = kill_process_group(self.leader.pid, signal);
        }
    }
}

/// A child of ours that leads no family, and what it may be known by.
struct Stray {
    pid: Pid,
    group: Option<Pid>,
    environ: Vec<u8>,
    cgroups: String,
}

impl Stray {
    fn look(pid: Pid) -> Stray {
        let (environ, cgroups) = (procfs::environ(pid), procfs::cgroups(pid));
        Stray { pid, group: getpgid(Some(pid)).ok(), environ, cgroups }
    }

    /// Its number is its own until we reap it.
    fn signal(&self, signal: Signal) {
        let _ = kill_process(self.pid, signal);
    }
}
