//! One process of a world: it turns when something arrives or a deadline comes, unless it is stopped, busy or dead.
//!
//! It knows nothing of what it runs. The world delivers inputs here; a process that may run *turns*: the world takes
//! everything from its inbox, looks at its timers in the order the process has, and tells how much there was to do and
//! when to wake it next. While a process is stopped or busy its inbox fills and its timers are late, as in life.
//!
//! ```text
//!   Down ──start──► Up ──pause──► Up, stopped ──► (turns at once when it goes on)
//!    ▲               │
//!    └────crash──────┘   life + 1: whatever was meant for the last one is recognised and dropped
//! ```

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::Time;

/// A process.
#[derive(Debug)]
pub struct Process<I> {
    /// How often it was started.
    life: u32,
    is_up: bool,
    stopped_until: Option<Time>,
    busy_until: Time,
    /// What handling one input costs.
    cost: Duration,
    inbox: VecDeque<(Time, I)>,
    /// When it is woken next, and the number of that wake; earlier numbers are void.
    wake_at: Option<Time>,
    wakes: u64,
}

/// What the world must do for a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// Let it turn now.
    Turn,
    /// Call [`Process::wake`] with this number at this time.
    Wake(Time, u64),
    /// Nothing.
    Wait,
}

impl<I> Process<I> {
    /// A process that was never started.
    pub fn new() -> Self {
        Process {
            life: 0,
            is_up: false,
            stopped_until: None,
            busy_until: Time::ZERO,
            cost: Duration::ZERO,
            inbox: VecDeque::new(),
            wake_at: None,
            wakes: 0,
        }
    }

    /// A new life begins, with nothing in the inbox.
    pub fn start(&mut self) {
        self.life += 1;
        self.is_up = true;
        self.stopped_until = None;
        self.busy_until = Time::ZERO;
        self.inbox.clear();
        self.wake_at = None;
        self.wakes += 1;
    }

    /// Life ends; what is in the inbox is gone.
    pub fn crash(&mut self) {
        self.is_up = false;
        self.inbox.clear();
        self.wakes += 1;
    }

    /// Stops it for this long (SIGSTOP, then SIGCONT); a stop within a stop lasts as long as the longer one.
    pub fn pause(&mut self, now: Time, lasts: Duration) -> Next {
        if !self.is_up {
            return Next::Wait;
        }
        let until = now + lasts;
        if self.stopped_until.is_some_and(|known| known >= until) {
            return Next::Wait;
        }
        self.stopped_until = Some(until);
        self.wake_at = None;
        self.wake_by(until)
    }

    /// From now on each input costs this much: a slow or starved CPU.
    pub fn set_cost(&mut self, cost: Duration) {
        self.cost = cost;
    }

    /// Something arrives. Nothing arrives at a process that is down.
    pub fn deliver(&mut self, now: Time, input: I) -> Next {
        if !self.is_up {
            return Next::Wait;
        }
        self.inbox.push_back((now, input));
        self.go_on(now)
    }

    /// It is the time of the wake with this number.
    pub fn wake(&mut self, now: Time, number: u64) -> Next {
        if !self.is_up || number != self.wakes {
            return Next::Wait;
        }
        self.wake_at = None;
        self.stopped_until.take_if(|until| *until <= now);
        self.go_on(now)
    }

    /// The next input of a turn.
    pub fn take(&mut self) -> Option<I> {
        self.inbox.pop_front().map(|(_, input)| input)
    }

    /// The end of a turn that handled so many inputs; the process wants to be woken at its deadline.
    pub fn rest(&mut self, now: Time, handled: usize, deadline: Option<Time>) -> Next {
        self.busy_until = now + self.cost * u32::try_from(handled).unwrap_or(u32::MAX);
        match deadline {
            Some(deadline) if self.is_up => self.wake_by(deadline.max(self.busy_until)),
            _ => Next::Wait,
        }
    }

    /// Which life this is. What was meant for another one must be dropped.
    pub fn life(&self) -> u32 {
        self.life
    }

    /// Whether it was started and has not crashed.
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// Whether it is stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped_until.is_some()
    }

    /// What waits in its inbox, with the time it arrived.
    pub fn waiting(&self) -> impl Iterator<Item = &(Time, I)> {
        self.inbox.iter()
    }

    fn go_on(&mut self, now: Time) -> Next {
        if self.stopped_until.is_some() {
            Next::Wait
        } else if self.busy_until > now {
            self.wake_by(self.busy_until)
        } else {
            Next::Turn
        }
    }

    /// A wake that comes earlier than needed is harmless, so only an earlier one replaces it.
    fn wake_by(&mut self, at: Time) -> Next {
        if self.wake_at.is_some_and(|known| known <= at) {
            return Next::Wait;
        }
        self.wake_at = Some(at);
        self.wakes += 1;
        Next::Wake(at, self.wakes)
    }
}

impl<I> Default for Process<I> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn number(next: Next) -> u64 {
        match next {
            Next::Wake(_, number) => number,
            other => panic!("a wake was expected, not {other:?}"),
        }
    }

    fn drain(process: &mut Process<u32>) -> Vec<u32> {
        std::iter::from_fn(|| process.take()).collect()
    }

    #[test]
    fn an_idle_process_turns_at_once_and_a_stopped_one_when_it_goes_on() {
        let mut process = Process::new();
        process.start();
        assert_eq!(process.deliver(at(1), 1), Next::Turn);
        assert_eq!(drain(&mut process), [1]);
        let timer = number(process.rest(at(1), 1, Some(at(50))));
        let resume = number(process.pause(at(10), ms(100)));
        assert_eq!(process.deliver(at(20), 2), Next::Wait);
        assert_eq!(process.wake(at(50), timer), Next::Wait, "its timer is late");
        assert_eq!(process.pause(at(60), ms(10)), Next::Wait, "the longer stop stays");
        assert!(process.is_stopped());
        assert_eq!(process.wake(at(110), resume), Next::Turn);
        assert_eq!(drain(&mut process), [2]);
    }

    #[test]
    fn a_busy_process_gathers_what_arrives() {
        let mut process = Process::new();
        process.start();
        process.set_cost(ms(10));
        assert_eq!(process.deliver(at(0), 1), Next::Turn);
        drain(&mut process);
        assert_eq!(process.rest(at(0), 1, None), Next::Wait);
        let wake = process.deliver(at(3), 2);
        assert_eq!(wake, Next::Wake(at(10), number(wake)));
        assert_eq!(process.deliver(at(4), 3), Next::Wait, "it is woken anyway");
        assert_eq!(process.waiting().map(|(at, _)| *at).collect::<Vec<_>>(), [at(3), at(4)]);
        assert_eq!(process.wake(at(10), number(wake)), Next::Turn);
        assert_eq!(drain(&mut process), [2, 3]);
        assert_eq!(process.rest(at(10), 2, Some(at(11))), Next::Wake(at(30), number(wake) + 1));
    }

    #[test]
    fn only_an_earlier_deadline_needs_another_wake() {
        let mut process: Process<u32> = Process::new();
        process.start();
        let late = number(process.rest(at(0), 0, Some(at(50))));
        assert_eq!(process.rest(at(0), 0, Some(at(60))), Next::Wait);
        let early = number(process.rest(at(0), 0, Some(at(40))));
        assert_eq!(process.wake(at(40), early), Next::Turn);
        assert_eq!(process.wake(at(50), late), Next::Wait, "it was replaced");
    }

    #[test]
    fn nothing_of_one_life_reaches_the_next() {
        let mut process = Process::new();
        process.start();
        let wake = number(process.rest(at(0), 0, Some(at(10))));
        let _ = process.pause(at(0), ms(5));
        assert_eq!(process.deliver(at(1), 1), Next::Wait);
        process.crash();
        assert_eq!(process.deliver(at(2), 2), Next::Wait);
        assert_eq!(process.rest(at(2), 0, Some(at(3))), Next::Wait, "the dead have no deadlines");
        process.start();
        assert_eq!(process.life(), 2);
        assert_eq!(process.wake(at(10), wake), Next::Wait);
        assert_eq!(process.deliver(at(10), 3), Next::Turn);
        assert_eq!(drain(&mut process), [3]);
    }
}
