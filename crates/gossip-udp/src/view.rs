//! What others see of the machine: a snapshot after changes, and then the events that led to it.

use std::sync::Arc;
use std::time::Duration;

use model::Instant;
use swim::{Counts, Event, Identity, Incarnation, Machine, Member, NodeId};
use tokio::sync::{broadcast, watch};

/// Most events that a slow reader may be behind; then it misses the oldest, and is told how many.
const EVENTS_MAX: usize = 4_096;
/// Least time between two snapshots, so that a storm of changes among thousands of members is not copied one by one.
const VIEW_PAUSE: Duration = Duration::from_millis(20);

/// How often the whole view is compared with the published one, for changes that the outline does not show: a probation that
/// ended, two members that changed places.
const VIEW_REFRESH: Duration = Duration::from_secs(1);

/// The cluster as this node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Who we are.
    pub me: Identity,
    /// Our incarnation.
    pub incarnation: Incarnation,
    /// Everybody we know, in order of id, ourselves included.
    pub members: Vec<Member>,
    /// How many are in which state.
    pub counts: Counts,
    /// How much we doubt ourselves; 0 is well.
    pub health: u32,
    /// Most others seem gone, or nobody is heard: more likely it is us.
    pub is_lonely: bool,
    /// Who should lead, if it can; a preference, no authority.
    pub leader_preference: NodeId,
}

impl View {
    fn of(machine: &Machine) -> Self {
        View {
            me: machine.me(),
            incarnation: machine.incarnation(),
            members: machine.members().collect(),
            counts: machine.counts(),
            health: machine.health(),
            is_lonely: machine.is_lonely(),
            leader_preference: machine.leader_preference(),
        }
    }

    /// The member with this id.
    pub fn member(&self, id: NodeId) -> Option<&Member> {
        let place = self.members.binary_search_by_key(&id, |member| member.identity.id).ok()?;
        Some(&self.members[place])
    }
}

/// Publishes views and events; an event only after a view that knows of it.
#[derive(Debug)]
pub(crate) struct Publisher {
    views: watch::Sender<Arc<View>>,
    events: broadcast::Sender<Event>,
    /// Told by the machine, and not yet published.
    pending: Vec<Event>,
    published: Instant,
    outline: Outline,
}

/// Changes with almost everything that a view shows, without looking at every member.
type Outline = (u64, Counts, u32, bool);

fn outline(machine: &Machine) -> Outline {
    (machine.digest(), machine.counts(), machine.health(), machine.is_lonely())
}

impl Publisher {
    pub(crate) fn new(now: Instant, machine: &Machine) -> Self {
        let (views, _) = watch::channel(Arc::new(View::of(machine)));
        let (events, _) = broadcast::channel(EVENTS_MAX);
        Publisher { views, events, pending: Vec::new(), published: now, outline: outline(machine) }
    }

    pub(crate) fn views(&self) -> watch::Receiver<Arc<View>> {
        self.views.subscribe()
    }

    pub(crate) fn events(&self) -> broadcast::WeakSender<Event> {
        self.events.downgrade()
    }

    pub(crate) fn tell(&mut self, event: Event) {
        self.pending.push(event);
    }

    /// Publishes if there is something new and the last time is long enough ago; otherwise says when it will be.
    pub(crate) fn publish(&mut self, now: Instant, machine: &Machine) -> Option<Instant> {
        if self.pending.is_empty() && self.outline == outline(machine) {
            if now.since(self.published) >= VIEW_REFRESH {
                self.published = now;
                self.refresh(machine);
            }
            return None;
        }
        let due = self.published + VIEW_PAUSE;
        if now < due && self.pending.len() < EVENTS_MAX {
            return Some(due);
        }
        self.published = now;
        self.publish_now(machine);
        None
    }

    fn refresh(&mut self, machine: &Machine) {
        let view = View::of(machine);
        self.views.send_if_modified(|published| {
            let is_new = **published != view;
            if is_new {
                *published = Arc::new(view);
            }
            is_new
        });
    }

    /// Publishes in any case.
    pub(crate) fn publish_now(&mut self, machine: &Machine) {
        self.outline = outline(machine);
        self.views.send_replace(Arc::new(View::of(machine)));
        for event in self.pending.drain(..) {
            // Nobody listens: then nobody misses it.
            let _ = self.events.send(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use swim::{Config, Epoch, Info, Input};
    use tokio::sync::broadcast::error::TryRecvError;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn machine() -> Machine {
        let me = Identity { id: NodeId(1), epoch: Epoch(1) };
        let info = Info { addr: "127.0.0.1:1".parse().expect("an address"), meta: Bytes::new() };
        Machine::new(at(0), Arc::new(Config::lan()), me, info, Vec::new(), 1)
    }

    fn meta(publisher: &Publisher) -> Bytes {
        publisher.views().borrow().members[0].info.meta.clone()
    }

    #[test]
    fn an_event_waits_for_the_view_that_shows_it() {
        let mut machine = machine();
        let mut publisher = Publisher::new(at(0), &machine);
        let mut events = publisher.events().upgrade().expect("published here").subscribe();
        let news = Bytes::from_static(b"news");
        machine.handle(at(1), Input::SetMeta(news.clone()));
        let event = Event::Changed(machine.me());
        publisher.tell(event.clone());
        assert_eq!(publisher.publish(at(1), &machine), Some(at(20)), "the last view is not old enough");
        assert_eq!(events.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(meta(&publisher), Bytes::new());
        assert_eq!(publisher.publish(at(20), &machine), None);
        assert_eq!(meta(&publisher), news);
        assert_eq!(events.try_recv(), Ok(event));
    }

    #[test]
    fn a_storm_of_events_is_not_kept_back() {
        let machine = machine();
        let mut publisher = Publisher::new(at(0), &machine);
        let mut events = publisher.events().upgrade().expect("published here").subscribe();
        for _ in 0..EVENTS_MAX {
            publisher.tell(Event::Lonely);
        }
        assert_eq!(publisher.publish(at(1), &machine), None);
        assert_eq!(events.try_recv(), Ok(Event::Lonely));
    }

    #[test]
    fn quiet_changes_are_seen_within_a_second() {
        let machine = machine();
        let mut publisher = Publisher::new(at(0), &machine);
        let mut views = publisher.views();
        assert_eq!(publisher.publish(at(1_000), &machine), None);
        assert!(!views.has_changed().expect("published here"), "it is as before");
        // The published view differs from the machine's, although the outline does not.
        publisher.views.send_modify(|view| Arc::make_mut(view).members.clear());
        views.mark_unchanged();
        assert_eq!(publisher.publish(at(1_999), &machine), None);
        assert!(!views.has_changed().expect("published here"));
        assert_eq!(publisher.publish(at(2_000), &machine), None);
        assert!(views.has_changed().expect("published here"));
    }
}
