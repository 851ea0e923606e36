//! What is known of clients that come back for what became of their submissions.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{ClientId, Hold, JobId, WallTime, WorkerKey};

use super::super::room::KEPT_AT_LEAST;
use super::numbers::Numbers;
use crate::port::Retention;

/// Most results of one client that wait to be called unneeded; more are left to the time for which workers keep them.
const UNNEEDED_MAX: usize = 10_000;

/// So many clients are remembered for a day; if there are more, they are remembered for [`KEPT_AT_LEAST`].
const CLIENTS_MANY: usize = 100_000;

/// Every client that was heard of in the last day.
#[derive(Default)]
pub(in super::super) struct Clients {
    known: BTreeMap<ClientId, Client>,
    /// The last number that says since when we remember one of them.
    memory: u64,
}

pub(in super::super) struct Client {
    /// Another number than before whenever something was forgotten that it may wait for.
    memory: u64,
    /// How all of its submissions below this one ended is known to it.
    lowest: u64,
    /// So are the ends of these, above it: as many runs at most as there are submissions without an end, and one.
    known: Numbers,
    /// When it was last heard of.
    heard: WallTime,
    /// Results that came when it knew them already.
    unneeded: Vec<(WorkerKey, Hold)>,
}

impl Client {
    /// It knows how its submission with this number ended. Answers the results that it does not need, once.
    pub(in super::super) fn note(&mut self, number: u64) -> Vec<(WorkerKey, Hold)> {
        if number >= self.lowest {
            self.known.insert(number);
        }
        std::mem::take(&mut self.unneeded)
    }

    /// It knows how everything below this number ended. What it knew once it knows for good. Answers the results that it
    /// does not need, once.
    pub(in super::super) fn raise(&mut self, lowest: u64) -> Vec<(WorkerKey, Hold)> {
        if lowest > self.lowest {
            self.lowest = lowest;
            self.known.forget_below(lowest);
        }
        std::mem::take(&mut self.unneeded)
    }

    /// Another number than before whenever something was forgotten that it may wait for.
    pub(in super::super) fn memory(&self) -> u64 {
        self.memory
    }

    /// Whether it knows how its submission with this number ended.
    pub(in super::super) fn knows(&self, number: u64) -> bool {
        number < self.lowest || self.known.contains(number)
    }
}

impl Clients {
    /// This client is there.
    pub(in super::super) fn hear(&mut self, now: WallTime, id: ClientId) -> &mut Client {
        let memory = &mut self.memory;
        let client = self.known.entry(id).or_insert_with(|| Client {
            memory: next(memory),
            lowest: 0,
            known: Numbers::default(),
            heard: now,
            unneeded: Vec::new(),
        });
        client.heard = client.heard.max(now);
        client
    }

    /// The result of a job whose end the client knows came from this worker.
    pub(super) fn put_unneeded(&mut self, holder: &WorkerKey, hold: Hold) {
        let client = hold.job.submission().and_then(|(client, _)| self.known.get_mut(&client));
        if let Some(client) = client.filter(|client| client.unneeded.len() < UNNEEDED_MAX) {
            client.unneeded.push((holder.clone(), hold));
        }
    }

    /// Forgets a client.
    pub(in super::super) fn forget(&mut self, client: ClientId) {
        self.known.remove(&client);
    }

    /// How this job ended is not known any longer, though its client may not have heard of it.
    pub(in super::super) fn forget_end(&mut self, id: JobId) {
        let client =
            id.submission().and_then(|(client, number)| Some((self.known.get_mut(&client)?, number)));
        if let Some((client, _)) = client.filter(|(client, number)| !client.knows(*number)) {
            client.memory = next(&mut self.memory);
        }
    }

    /// How long one of them is remembered that says nothing and has nothing that waits or runs.
    pub(in super::super) fn silence_max(&self) -> Duration {
        if self.known.len() > CLIENTS_MANY { KEPT_AT_LEAST } else { Retention::REQUEST_IDS }
    }

    /// Whether the client of this job knows how it ended.
    pub(in super::super) fn know_end_of(&self, id: JobId) -> bool {
        let client = id.submission().and_then(|(client, number)| Some((self.known.get(&client)?, number)));
        client.is_some_and(|(client, number)| client.knows(number))
    }

    /// Those that were not heard of since.
    pub(in super::super) fn silent_since(&self, since: WallTime) -> Vec<ClientId> {
        self.known.iter().filter(|(_, client)| client.heard <= since).map(|(id, _)| *id).collect()
    }
}

/// The number after this one.
fn next(memory: &mut u64) -> u64 {
    *memory += 1;
    *memory
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: WallTime = WallTime::from_millis(1_000);

    #[test]
    fn mark_never_goes_back() {
        let mut clients = Clients::default();
        let client = ClientId::new(NOW, 1);
        clients.hear(NOW, client).note(7);
        clients.hear(NOW, client).raise(5);
        clients.hear(NOW, client).raise(3);
        let known: Vec<u64> = (0..10).filter(|number| clients.know_end_of(client.job(*number))).collect();
        assert_eq!(known, [0, 1, 2, 3, 4, 7]);
        assert!(!clients.know_end_of(ClientId::new(NOW, 2).job(0)), "another client's");
    }

    #[test]
    fn unneeded_results_are_told_once_and_are_not_without_number() {
        let mut clients = Clients::default();
        let client = ClientId::new(NOW, 1);
        let worker = WorkerKey::new("w").unwrap();
        let hold = |number| Hold { job: client.job(number), fence: model::Fence::new(1) };
        clients.put_unneeded(&worker, hold(0));
        assert_eq!(
            clients.hear(NOW, client).raise(0),
            [],
            "nothing is kept for a client that was never heard of"
        );
        (0..=UNNEEDED_MAX as u64).for_each(|number| clients.put_unneeded(&worker, hold(number)));
        assert_eq!(clients.hear(NOW, client).raise(0).len(), UNNEEDED_MAX);
        assert_eq!(clients.hear(NOW, client).note(1), []);
        clients.put_unneeded(&worker, hold(2));
        assert_eq!(clients.hear(NOW, client).note(2), [(worker, hold(2))]);
        assert_eq!(clients.hear(NOW, client).raise(3), []);
    }

    #[test]
    fn of_very_many_none_is_remembered_for_long() {
        let mut clients = Clients::default();
        for number in 0..=CLIENTS_MANY as u64 {
            assert_eq!(clients.silence_max(), Retention::REQUEST_IDS);
            clients.hear(NOW, ClientId::new(NOW, number));
        }
        assert_eq!(clients.silence_max(), KEPT_AT_LEAST);
    }

    #[test]
    fn whoever_speaks_is_not_silent() {
        let mut clients = Clients::default();
        let (one, other) = (ClientId::new(NOW, 1), ClientId::new(NOW, 2));
        clients.hear(NOW, one);
        clients.hear(NOW, other);
        let later = WallTime::from_millis(2_000);
        clients.hear(later, other);
        assert_eq!(clients.silent_since(NOW), [one]);
        assert_eq!(clients.silent_since(later), [one, other]);
    }
}
