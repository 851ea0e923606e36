//! Where the next stream is opened, and how long to wait before: the servers we know, in turn, and the address that a server
//! named as that of our owner.
//!
//! ```text
//!              sent away, for the first time: at once
//!   known ─────────────────────────────────────────────► hint
//!     ▲ └──────────────────────────────────────────────►  │
//!     │        sent away again, or it cannot be reached   │
//!     └────── the next known one, after a pause ◄─────────┘
//! ```
//!
//! An address that was named is a hint and never the only place: servers may name one that is dead, until someone has taken
//! over its workers, or each other. So known servers and the hint are tried by turns, with pauses that grow, until a server
//! takes a heartbeat. Nothing in here waits or connects.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::backoff::Backoff;

/// Pauses that fit in a lease at least, where there is one place to go. A server that is back gives its workers one lease to
/// come back, so pauses must be much shorter.
const PAUSES_PER_LEASE_ALONE: u32 = 5;
/// The same where there are several: whoever takes over is to be found before exclusive jobs must stop.
const PAUSES_PER_LEASE: u32 = 20;
/// Pauses are not cut shorter than this, however short the lease is.
const PAUSE_CUT_MIN: Duration = Duration::from_millis(100);
/// Places that are remembered as failed; beyond that all are given another chance.
const SUSPECTS_MAX: usize = 16;

/// One try to open a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    pub(crate) url: String,
    /// To wait before.
    pub(crate) pause: Duration,
    /// It failed before, and there are other places: not worth much time.
    pub(crate) is_suspect: bool,
    /// There are other places: worth watching.
    pub(crate) has_alternatives: bool,
}

/// The way of a worker from server to server.
#[derive(Debug)]
pub(crate) struct Route {
    /// Never empty.
    known: Vec<String>,
    /// The known one that is tried now, or was before the hint.
    place: usize,
    hint: Option<String>,
    is_at_hint: bool,
    /// The next try is the first of all.
    is_first: bool,
    /// The next try needs no pause.
    hurries: bool,
    /// There was no pause before this try.
    has_hurried: bool,
    /// Failed since a server took a heartbeat.
    suspects: BTreeSet<String>,
    backoff: Backoff,
}

impl Route {
    /// Begins at the first of these, at once.
    pub(crate) fn new(known: Vec<String>) -> Self {
        assert!(!known.is_empty(), "a client has at least one server");
        Route {
            known,
            place: 0,
            hint: None,
            is_at_hint: false,
            is_first: true,
            hurries: false,
            has_hurried: false,
            suspects: BTreeSet::new(),
            backoff: Backoff::default(),
        }
    }

    /// The next try, for a worker with this lease; `random` in `0.0..1.0` is for its pause.
    pub(crate) fn next(&mut self, lease: Duration, random: f64) -> Stop {
        self.has_hurried = std::mem::take(&mut self.hurries);
        let is_at_once = std::mem::take(&mut self.is_first) || self.has_hurried;
        let pause = if is_at_once { Duration::ZERO } else { self.pause(lease, random) };
        let url = self.here().to_owned();
        let has_alternatives = self.has_alternatives();
        let is_suspect = has_alternatives && self.suspects.contains(&url);
        Stop { url, pause, is_suspect, has_alternatives }
    }

    /// The place could not be reached, or its stream broke.
    pub(crate) fn failed(&mut self) {
        if self.suspects.len() >= SUSPECTS_MAX {
            self.suspects.clear();
        }
        self.suspects.insert(self.here().to_owned());
        self.move_on();
    }

    /// The server here is not the one that looks after us; perhaps the one at this address is.
    pub(crate) fn sent_away(&mut self, address: Option<String>) {
        let Some(address) = address.filter(|address| address != self.here()) else { return self.move_on() };
        let is_news = self.hint.as_ref() != Some(&address);
        if is_news && !self.has_hurried && !self.suspects.contains(&address) {
            self.hint = Some(address);
            self.is_at_hint = true;
            self.hurries = true;
        } else if self.is_at_hint {
            self.move_on();
            self.hint = Some(address);
        } else {
            self.hint = Some(address);
            self.move_on();
        }
    }

    /// The server here answers, and can do nothing for us. Whether we leave it: not if there is nowhere else to go.
    pub(crate) fn leaves(&mut self) -> bool {
        let leaves = self.has_alternatives();
        if leaves {
            self.failed();
        }
        leaves
    }

    /// The server here took a heartbeat: this is where we belong.
    pub(crate) fn settled(&mut self) {
        let here = self.here().to_owned();
        match self.known.iter().position(|known| *known == here) {
            Some(place) => (self.place, self.hint) = (place, None),
            None => self.hint = Some(here),
        }
        self.is_at_hint = self.hint.is_some();
        self.has_hurried = false;
        self.suspects.clear();
        self.backoff.reset();
    }

    /// Whether there is another place to go.
    fn has_alternatives(&self) -> bool {
        self.known.len() > 1 || self.hint.as_ref().is_some_and(|hint| *hint != self.known[0])
    }

    pub(crate) fn here(&self) -> &str {
        match &self.hint {
            Some(hint) if self.is_at_hint => hint,
            _ => &self.known[self.place],
        }
    }

    /// Known servers and the hint by turns.
    fn move_on(&mut self) {
        let here = self.here().to_owned();
        let was_at_hint = std::mem::take(&mut self.is_at_hint);
        if !was_at_hint && self.hint.as_ref().is_some_and(|hint| *hint != here) {
            self.is_at_hint = true;
            return;
        }
        let after = |step: usize| (self.place + step) % self.known.len();
        let other = (1..=self.known.len()).map(after).find(|place| self.known[*place] != here);
        self.place = other.unwrap_or(self.place);
    }

    fn pause(&mut self, lease: Duration, random: f64) -> Duration {
        let per_lease = if self.has_alternatives() { PAUSES_PER_LEASE } else { PAUSES_PER_LEASE_ALONE };
        self.backoff.next(random).min((lease / per_lease).max(PAUSE_CUT_MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(20);

    fn route(known: &[&str]) -> Route {
        Route::new(known.iter().map(|url| (*url).to_owned()).collect())
    }

    /// Where to, and after how many milliseconds at most.
    fn next(route: &mut Route) -> (String, u128) {
        let stop = route.next(LEASE, 1.0);
        (stop.url, stop.pause.as_millis())
    }

    fn check(route: &mut Route, expected: &[(&str, u128)], then: impl Fn(&mut Route)) {
        for (url, pause) in expected {
            assert_eq!(next(route), ((*url).to_owned(), *pause));
            then(route);
        }
    }

    fn sent_to(route: &mut Route, address: &str) {
        route.sent_away(Some(address.to_owned()));
    }

    #[test]
    fn servers_that_cannot_be_reached_are_tried_in_turn_with_growing_pauses() {
        let mut route = route(&["a", "b", "c"]);
        let expected = [("a", 0), ("b", 100), ("c", 200), ("a", 400), ("b", 800), ("c", 1_000), ("a", 1_000)];
        check(&mut route, &expected, Route::failed);
        let mut alone = self::route(&["a"]);
        let expected = [0, 100, 200, 400, 800, 1_600, 3_200, 4_000, 4_000].map(|pause| ("a", pause));
        check(&mut alone, &expected, Route::failed);
        assert!(!alone.next(LEASE, 1.0).is_suspect, "there is nowhere else to go");
    }

    #[test]
    fn the_first_address_that_is_named_is_gone_to_at_once() {
        let mut route = route(&["a", "b"]);
        next(&mut route);
        sent_to(&mut route, "c");
        assert_eq!(next(&mut route), ("c".into(), 0));
        route.settled();
        route.failed();
        check(&mut route, &[("b", 100), ("c", 200), ("a", 400), ("c", 800)], Route::failed);
    }

    #[test]
    fn servers_that_send_us_to_and_fro_are_visited_with_pauses_and_others_too() {
        let mut route = route(&["a", "b", "c"]);
        let mut visits = Vec::new();
        for _ in 0..8 {
            let (url, pause) = next(&mut route);
            match url.as_str() {
                "a" => sent_to(&mut route, "b"),
                "b" => sent_to(&mut route, "a"),
                _ => route.failed(),
            }
            visits.push((url, pause));
        }
        assert!(visits.iter().any(|(url, _)| url == "c"), "{visits:?}");
        let hurried = visits[1..].windows(2).filter(|pair| pair[0].1 == 0 && pair[1].1 == 0).count();
        assert_eq!(hurried, 0, "never twice in a row without a pause: {visits:?}");
        let longest = visits.iter().map(|(_, pause)| *pause).max();
        assert!(longest >= Some(400), "the pauses grow: {visits:?}");
    }

    #[test]
    fn a_third_address_waits_its_turn() {
        let mut route = route(&["a", "b"]);
        next(&mut route);
        sent_to(&mut route, "x");
        assert_eq!(next(&mut route), ("x".into(), 0));
        sent_to(&mut route, "y");
        assert_eq!(next(&mut route), ("b".into(), 100), "a known one first");
        route.failed();
        assert_eq!(next(&mut route), ("y".into(), 200));
    }

    #[test]
    fn an_owner_that_died_is_only_every_second_place_until_someone_has_taken_over() {
        let mut route = route(&["a", "b", "c"]);
        next(&mut route);
        route.settled();
        // Its stream breaks. The others do not know that it is dead.
        route.failed();
        for (url, pause, is_suspect) in
            [("b", 100, false), ("a", 200, true), ("c", 400, false), ("a", 800, true), ("b", 1_000, false)]
        {
            let stop = route.next(LEASE, 1.0);
            let pause = Duration::from_millis(pause);
            assert_eq!(stop, Stop { url: url.into(), pause, is_suspect, has_alternatives: true });
            if is_suspect { route.failed() } else { sent_to(&mut route, "a") }
        }
        assert_eq!(next(&mut route), ("a".into(), 1_000));
        route.failed();
        assert_eq!(next(&mut route), ("c".into(), 1_000));
        sent_to(&mut route, "b");
        assert_eq!(next(&mut route), ("b".into(), 0), "it has taken over: that is news");
        route.settled();
        assert_eq!(next(&mut route).0, "b");
        route.failed();
        assert_eq!(next(&mut route), ("c".into(), 200), "the list goes on from where we were");
    }

    #[test]
    fn who_names_nobody_or_itself_is_left_for_the_next() {
        for address in [None, Some("a".to_owned())] {
            let mut route = route(&["a", "b"]);
            next(&mut route);
            route.sent_away(address);
            assert_eq!(next(&mut route), ("b".into(), 100));
        }
    }

    #[test]
    fn a_server_that_can_do_nothing_is_left_if_there_is_another() {
        let mut alone = route(&["a"]);
        next(&mut alone);
        assert!(!alone.leaves());
        let mut route = route(&["a", "b"]);
        next(&mut route);
        assert!(route.leaves());
        assert_eq!(next(&mut route), ("b".into(), 100));
        assert!(route.leaves());
        assert!(route.next(LEASE, 1.0).is_suspect, "it could do nothing before");
    }

    #[test]
    fn pauses_are_spread_and_never_cut_to_nothing() {
        let mut route = route(&["a", "b"]);
        next(&mut route);
        for _ in 0..10 {
            route.failed();
            let pause = route.next(Duration::from_millis(500), 0.0).pause;
            assert!((50..=100).contains(&pause.as_millis()), "{pause:?}");
        }
    }
}
