//! Places for connections: so many in all, so many for each address, a few kept for those who have few.
//!
//! When there is no place, connections that nobody uses make room, those that were idle longest first: who holds thousands of
//! them open keeps nobody out, not even others at the same address. Only when all are in use a new one is refused. From time
//! to time all are looked at, and those ended that are idle or whose clients take nothing.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use super::connection::{Connection, Look, Patience, Verdict, Wish};

/// One place in this many is for addresses that have few.
const KEPT_PART: usize = 40;
/// Connections that an address may have and still counts as one that has few.
const FEW: usize = 16;
/// Idle connections that make room at once, so that a crowd is not searched for each one that comes.
const ROOM_BATCH: usize = 64;
/// Connections that make room may take a moment for it, until there are more than the limit by this part of it.
const LEAVING_PART: usize = 10;

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) all: usize,
    /// For each address; none: [`REMOTE_DEFAULT`], and on loopback all that are not kept.
    pub(super) per_address: Option<usize>,
}

/// Connections from one address of another machine, unless told otherwise.
const REMOTE_DEFAULT: usize = 256;

impl Limits {
    fn kept(self) -> usize {
        self.all / KEPT_PART
    }

    fn of(self, group: IpAddr) -> usize {
        let default = if group.is_loopback() { self.all - self.kept() } else { REMOTE_DEFAULT };
        self.per_address.unwrap_or(default)
    }
}

/// All connections of a server.
#[derive(Debug)]
pub(super) struct Places {
    limits: Limits,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    entries: BTreeMap<u64, Entry>,
    /// Connections that have not been told to make room.
    staying: usize,
    staying_at: HashMap<IpAddr, usize>,
}

#[derive(Debug)]
struct Entry {
    group: IpAddr,
    connection: Arc<Connection>,
    look: Look,
    is_leaving: bool,
}

/// One connection's place, free again when dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    connection: Arc<Connection>,
}

/// Why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// This address has all that one may have.
    Address,
    /// The server has.
    Server,
}

/// Who counts as one: an address, or with IPv6 the network that one machine is usually given.
fn group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}

impl Places {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Places { limits, table: Mutex::default() })
    }

    /// A place for a connection from there.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr) -> Result<Place, Full> {
        let group = group(address);
        let mut table = self.table();
        self.make_room(&mut table, group)?;
        let connection = Arc::new(Connection::default());
        let number = table.next;
        table.next += 1;
        table.staying += 1;
        *table.staying_at.entry(group).or_default() += 1;
        let entry =
            Entry { group, connection: Arc::clone(&connection), look: Look::default(), is_leaving: false };
        table.entries.insert(number, entry);
        drop(table);
        Ok(Place { places: Arc::clone(self), number, connection })
    }

    fn make_room(&self, table: &mut Table, group: IpAddr) -> Result<(), Full> {
        let Limits { all, .. } = self.limits;
        if table.entries.len() >= all + all / LEAVING_PART {
            table.cut_leaving();
        }
        let here = table.staying_at.get(&group).copied().unwrap_or(0);
        if here >= self.limits.of(group) {
            return table.ask_idle(|entry| entry.group == group).ok_or(Full::Address);
        }
        let open_to_me = if here < FEW { all } else { all - self.limits.kept() };
        if table.staying >= open_to_me {
            return table.ask_idle(|_| true).ok_or(Full::Server);
        }
        Ok(())
    }

    /// Has idle connections make room for something else than connections, such as descriptors.
    pub(super) fn shed(&self) {
        let _ = self.table().ask_idle(|_| true);
    }

    /// Looks at all connections and ends those that went on like this for too long.
    /// How many of the latter.
    pub(super) fn look(&self, now: Instant, patience: Patience) -> u64 {
        let mut table = self.table();
        let (mut idle, mut stalled) = (Vec::new(), 0);
        for (number, entry) in &mut table.entries {
            match entry.look.again(&entry.connection, now, patience) {
                Verdict::Fine => {}
                Verdict::Idle => idle.push(*number),
                Verdict::Stalled if entry.connection.wish() == Wish::Cut => {}
                Verdict::Stalled => {
                    entry.connection.ask(Wish::Cut);
                    stalled += 1;
                }
            }
        }
        for number in idle {
            table.leave(number);
        }
        stalled
    }

    /// Has all end that are there now.
    pub(super) fn end_all(&self) {
        self.table().entries.values().for_each(|entry| entry.connection.ask(Wish::End));
    }

    pub(super) fn count(&self) -> usize {
        self.table().entries.len()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("nobody panics while he holds it")
    }
}

impl Table {
    /// Tells idle connections among these to end, the longest idle first. None if there are none.
    fn ask_idle(&mut self, is_meant: impl Fn(&Entry) -> bool) -> Option<()> {
        let is_idle = |entry: &Entry| !entry.is_leaving && !entry.connection.is_open() && is_meant(entry);
        let mut idle: Vec<(bool, Option<Instant>, u64)> = self
            .entries
            .iter()
            .filter(|(_, entry)| is_idle(entry))
            .map(|(number, entry)| (entry.look.idle_since().is_none(), entry.look.idle_since(), *number))
            .collect();
        // Few may go at once where few are there.
        let count = ROOM_BATCH.min(idle.len().div_ceil(4));
        idle.sort_unstable();
        for (.., number) in &idle[..count] {
            self.leave(*number);
        }
        (count > 0).then_some(())
    }

    /// Cuts those that were told to end and are idle: there is no time to wait for their clients.
    fn cut_leaving(&self) {
        let is_in_the_way = |entry: &&Entry| entry.is_leaving && !entry.connection.is_open();
        self.entries.values().filter(is_in_the_way).for_each(|entry| entry.connection.ask(Wish::Cut));
    }

    fn leave(&mut self, number: u64) {
        let Some(entry) = self.entries.get_mut(&number).filter(|entry| !entry.is_leaving) else {
            return;
        };
        entry.is_leaving = true;
        entry.connection.ask(Wish::End);
        let group = entry.group;
        self.stay_no_longer(group);
    }

    fn stay_no_longer(&mut self, group: IpAddr) {
        self.staying -= 1;
        let here = self.staying_at.get_mut(&group).expect("each that stays is counted");
        *here -= 1;
        if *here == 0 {
            self.staying_at.remove(&group);
        }
    }
}

impl Place {
    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.places.table();
        let entry = table.entries.remove(&self.number).expect("a place is given back once");
        if !entry.is_leaving {
            table.stay_no_longer(entry.group);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::connection::Call;
    use super::*;

    const LIMITS: Limits = Limits { all: 400, per_address: Some(100) };

    fn from(places: &Arc<Places>, last: u8) -> Result<Place, Full> {
        places.take(IpAddr::from([10, 0, 0, last]))
    }

    fn in_use(places: &Arc<Places>, last: u8) -> (Place, Call) {
        let place = from(places, last).unwrap();
        let call = Call::begin(place.connection());
        (place, call)
    }

    #[test]
    fn an_address_whose_connections_are_all_in_use_gets_no_more_and_others_do() {
        let places = Places::new(LIMITS);
        let mut held: Vec<_> = (0..100).map(|_| in_use(&places, 1)).collect();
        assert_eq!(from(&places, 1).unwrap_err(), Full::Address);
        assert!(from(&places, 2).is_ok());
        held.pop();
        assert!(from(&places, 1).is_ok());
    }

    #[test]
    fn idle_connections_make_room_longest_first_and_for_their_own_address() {
        let places = Places::new(LIMITS);
        let other = from(&places, 2).unwrap();
        let mine: Vec<_> = (0..100).map(|_| from(&places, 1).unwrap()).collect();
        let patience = Patience { idle: Duration::from_secs(60), stalled: Duration::from_secs(30) };
        let now = Instant::now();
        places.look(now, patience);
        let call = Call::begin(mine[0].connection());
        drop(Call::begin(mine[1].connection()));
        places.look(now + Duration::from_secs(1), patience);
        let new = from(&places, 1).unwrap();
        let is_ending = |place: &Place| place.connection().wish() == Wish::End;
        let ending: Vec<usize> = (0..100).filter(|index| is_ending(&mine[*index])).collect();
        assert_eq!(
            ending,
            (2..27).collect::<Vec<_>>(),
            "a quarter, without the one in use and the one used since"
        );
        assert!(!is_ending(&other) && !is_ending(&new));
        drop((call, mine, new, other));
        assert_eq!(places.count(), 0);
        assert!(places.table().staying_at.is_empty());
    }

    #[test]
    fn the_last_places_are_for_those_who_have_few() {
        let places = Places::new(Limits { all: 400, per_address: None });
        let mut held: Vec<_> =
            (0..2).flat_map(|last| (0..195).map(move |_| last)).map(|last| in_use(&places, last)).collect();
        assert_eq!(from(&places, 0).unwrap_err(), Full::Server);
        held.extend((0..10).map(|_| in_use(&places, 7)));
        assert_eq!(from(&places, 7).unwrap_err(), Full::Server, "none is left");
    }

    #[test]
    fn loopback_has_nearly_all_and_an_ipv6_network_counts_as_one() {
        let limits = Limits { all: 10_240, per_address: None };
        for (address, count) in
            [("127.0.0.1", 9_984), ("::1", 9_984), ("::ffff:127.0.0.1", 9_984), ("10.0.0.5", 256)]
        {
            assert_eq!(limits.of(group(address.parse().unwrap())), count, "{address}");
        }
        assert_eq!(Limits { per_address: Some(5), ..limits }.of(IpAddr::from([127, 0, 0, 1])), 5);
        let group = |text: &str| group(text.parse().unwrap());
        assert_eq!(group("2001:db8:0:1::5"), group("2001:db8:0:1:ffff::9"));
        assert_ne!(group("2001:db8:0:1::5"), group("2001:db8:0:2::5"));
    }

    #[test]
    fn idle_and_stalled_connections_are_ended_when_they_are_looked_at() {
        let places = Places::new(LIMITS);
        let (idle, stalled, fine) = (from(&places, 1).unwrap(), in_use(&places, 1), in_use(&places, 1));
        let answer = super::super::connection::Waiting::begin(stalled.0.connection());
        let patience = Patience { idle: Duration::from_secs(60), stalled: Duration::from_secs(30) };
        let now = Instant::now();
        for second in [0, 30, 60] {
            places.look(now + Duration::from_secs(second), patience);
        }
        let wishes = [&idle, &stalled.0, &fine.0].map(|place| place.connection().wish());
        assert_eq!(wishes, [Wish::End, Wish::Cut, Wish::GoOn]);
        drop(answer);
    }
}
