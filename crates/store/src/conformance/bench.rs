//! The workbench of every case: a fresh store, its clock, and the verbs without their ceremony. The only file of the
//! suite that calls the port.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::{
    ClientId, Clock, Hold, HolderEnd, Job, JobId, NewJob, Outcome, QueueName, QueuePatch, QueueSettings,
    RegistryId, Report, RequestId, State, WallTime, WorkerKey,
};

use super::clock::TestClock;
use super::harness::Harness;
use crate::error::StoreError;
use crate::port::{
    Alarm, Cancelled, Claim, Claimed, Deadlines, Enlist, EnlistAnswer, EnqueueAnswer, EnqueueBatch, Expired,
    Finished, Inheritance, JobFilter, JobStore, KnownWorker, News, Page, Peer, Progress, Promoted,
    QueueStats, Reaped, Redriven, Renewed, Retention, Selection, ServerInfo, ToStop, Usage,
};

pub(super) use super::samples::{
    FIRST, LEASE, MANY, MILLI, QUEUE, SECOND, THIRD, TICK, completed, duplicate, enlist, enlist_in,
    enlist_pinging, failed, failed_with, id, ids, inserted, job_in, keyed, kind, new_job, queue, secs, text,
    worker,
};

/// A store on trial.
pub(super) struct Bench {
    harness: Arc<dyn Harness>,
    store: Option<Arc<dyn JobStore>>,
    clock: Arc<TestClock>,
}

impl Bench {
    /// A fresh store and a clock at its start. The registries that cases act for are there.
    pub(super) async fn open(harness: Arc<dyn Harness>) -> Self {
        let clock = Arc::new(TestClock::new());
        let store = harness.open(clock.clone()).await;
        let bench = Bench { harness, store: Some(store), clock };
        if bench.is_shared() {
            for expected in [FIRST, SECOND, THIRD] {
                let founded = bench.found(&format!("server-{}", expected.0)).await;
                assert_eq!(founded, expected, "the first registries of a fresh store must be 1, 2 and 3");
            }
        }
        bench
    }

    /// Another handle on the same data, as another server has it.
    pub(super) async fn join(&self) -> Self {
        let store = self.harness.join(self.clock.clone()).await;
        Bench { harness: self.harness.clone(), store: Some(store), clock: self.clock.clone() }
    }

    /// A bench around a store that shares another bench's clock.
    pub(super) fn beside(other: &Bench, store: Arc<dyn JobStore>) -> Self {
        Bench { harness: other.harness.clone(), store: Some(store), clock: other.clock.clone() }
    }

    /// Closes the store and opens it again.
    pub(super) async fn reopen(&mut self) {
        self.store = None;
        self.store = Some(self.harness.open(self.clock.clone()).await);
    }

    fn store(&self) -> &dyn JobStore {
        self.store.as_deref().expect("the store is open between the verbs")
    }
}

/// Time.
impl Bench {
    pub(super) fn clock(&self) -> &Arc<TestClock> {
        &self.clock
    }

    pub(super) fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    pub(super) fn wall(&self) -> WallTime {
        self.clock.wall()
    }
}

/// Jobs come in.
impl Bench {
    pub(super) async fn enqueue(&self, jobs: Vec<NewJob>) -> EnqueueAnswer {
        done(self.store().enqueue(EnqueueBatch { request_id: None, jobs }).await)
    }

    pub(super) async fn enqueue_as(&self, request: &str, jobs: Vec<NewJob>) -> EnqueueAnswer {
        let request_id = Some(RequestId::new(request).unwrap());
        done(self.store().enqueue(EnqueueBatch { request_id, jobs }).await)
    }

    /// Enqueues one job that must be new.
    pub(super) async fn add(&self, job: NewJob) -> JobId {
        let id = job.id;
        let answer = self.enqueue(vec![job]).await;
        assert_eq!(answer.jobs, [inserted(id)], "a new job must be inserted");
        id
    }

    pub(super) async fn promote(&self, limit: usize) -> Promoted {
        done(self.store().promote(limit).await)
    }
}

/// What holders do.
impl Bench {
    pub(super) async fn claim_from(&self, holder: &str, queues: &[&str], limit: usize) -> Vec<Claimed> {
        self.claim_for(holder, queues, limit, LEASE).await
    }

    pub(super) async fn claim_for(
        &self,
        holder: &str,
        queues: &[&str],
        limit: usize,
        lease: Duration,
    ) -> Vec<Claimed> {
        let queues = queues.iter().map(|name| queue(name)).collect();
        let holder = worker(holder);
        self.claim_as(Claim { holder, queues, limit, bytes_max: usize::MAX, lease, exclusive: false }).await
    }

    pub(super) async fn claim_as(&self, claim: Claim) -> Vec<Claimed> {
        let limit = claim.limit;
        let claimed = done(self.store().claim(claim).await);
        assert!(claimed.len() <= limit, "a claim of {limit} must not get {}", claimed.len());
        claimed
    }

    /// Claims as a holder that can stop a job for certain.
    pub(super) async fn claim_exclusive(&self, holder: &str, queues: &[&str], limit: usize) -> Vec<Claimed> {
        let queues = queues.iter().map(|name| queue(name)).collect();
        let (holder, bytes_max) = (worker(holder), usize::MAX);
        self.claim_as(Claim { holder, queues, limit, bytes_max, lease: LEASE, exclusive: true }).await
    }

    pub(super) async fn claim(&self, holder: &str, limit: usize) -> Vec<Claimed> {
        self.claim_from(holder, &[QUEUE], limit).await
    }

    /// Claims one job, which must be there.
    pub(super) async fn take(&self, holder: &str) -> Hold {
        let claimed = self.claim(holder, 1).await;
        claimed.first().unwrap_or_else(|| panic!("{holder} must be given the available job")).hold
    }

    /// Enqueues a job and claims it.
    pub(super) async fn running(&self, job: NewJob, holder: &str) -> Hold {
        let id = self.add(job).await;
        let hold = self.take(holder).await;
        assert_eq!(hold.job, id, "the only available job must be claimed");
        hold
    }

    pub(super) async fn renew(&self, holder: &str, holds: &[Hold]) -> Vec<Renewed> {
        self.renew_for(holder, holds, LEASE).await
    }

    pub(super) async fn renew_for(&self, holder: &str, holds: &[Hold], lease: Duration) -> Vec<Renewed> {
        done(self.store().renew(&worker(holder), holds.to_vec(), lease).await)
    }

    pub(super) async fn finish_all(&self, holder: &str, reports: Vec<(Hold, Outcome)>) -> Vec<Finished> {
        let reports = reports.into_iter().map(|(hold, outcome)| Report { hold, outcome }).collect();
        done(self.store().finish(&worker(holder), reports).await)
    }

    pub(super) async fn finish(&self, holder: &str, hold: Hold, outcome: Outcome) -> Finished {
        let answers = self.finish_all(holder, vec![(hold, outcome)]).await;
        assert_eq!(answers.len(), 1, "one report must have one answer");
        answers.into_iter().next().unwrap()
    }

    /// Reports an outcome that must be accepted, and answers the state the job went to.
    pub(super) async fn end(&self, holder: &str, hold: Hold, outcome: Outcome) -> State {
        match self.finish(holder, hold, outcome).await {
            Finished::Done { state, .. } => state,
            refused => panic!("the report of a hold that stands must be accepted, not {refused:?}"),
        }
    }

    pub(super) async fn progress_all(&self, holder: &str, notes: Vec<Progress>) -> Vec<bool> {
        done(self.store().progress(&worker(holder), notes).await)
    }

    pub(super) async fn progress(&self, holder: &str, hold: Hold, note: &'static str) -> bool {
        self.note(holder, hold, Some(text(note)), None).await
    }

    pub(super) async fn note(
        &self,
        holder: &str,
        hold: Hold,
        note: Option<Bytes>,
        checkpoint: Option<Bytes>,
    ) -> bool {
        self.progress_all(holder, vec![Progress { hold, note, checkpoint }]).await == [true]
    }
}

/// What is done about silent holders.
impl Bench {
    pub(super) async fn expired(&self, limit: usize) -> Vec<Expired> {
        self.expired_in(FIRST, limit).await
    }

    pub(super) async fn expired_in(&self, registry: RegistryId, limit: usize) -> Vec<Expired> {
        done(self.store().expired(registry, limit).await)
    }

    pub(super) async fn reap(&self, seen: Vec<Expired>) -> Vec<Reaped> {
        done(self.store().reap(seen).await)
    }

    pub(super) async fn to_stop(&self, holder: &str) -> Vec<ToStop> {
        done(self.store().to_stop(&worker(holder)).await)
    }

    /// A reaper's view of a running job by an ordinary claim, expired or not.
    pub(super) async fn seen(&self, id: JobId) -> Expired {
        let job = self.job(id).await;
        let holder = job.holder.expect("the job must be running");
        let known = done(self.store().worker(&holder).await);
        let stats = self.stats().await;
        let queue = stats.iter().find(|stats| stats.queue == job.queue).expect("a job has a queue");
        Expired {
            hold: Hold { job: id, fence: job.fence },
            holder,
            registry: known.map(|known| known.worker.registry),
            beats_itself: job.heartbeat_timeout.or(queue.settings.heartbeat_timeout).is_some(),
            exclusive: false,
            timed_out: false,
            lease_until: job.lease_until.expect("the job must be running"),
        }
    }

    /// Lets a job's lease run out and reaps the job.
    pub(super) async fn lose(&self, id: JobId) -> Reaped {
        self.advance(LEASE);
        let seen = self.seen(id).await;
        let reaped = self.reap(vec![seen]).await;
        assert_eq!(reaped.len(), 1, "a job whose lease is over must be reaped");
        reaped.into_iter().next().unwrap()
    }

    /// Claims a job and loses it, `times` times over.
    pub(super) async fn lose_again(&self, id: JobId, times: u32) {
        for _ in 0..times {
            self.promote_in(Duration::from_secs(24 * 3600)).await;
            assert_eq!(self.take("silent").await.job, id, "the lost job must be offered again");
            self.lose(id).await;
        }
    }

    /// Promotes after this long.
    pub(super) async fn promote_in(&self, delay: Duration) {
        self.advance(delay);
        self.promote(MANY).await;
    }

    pub(super) async fn push(&self, seen: Vec<Expired>, by: Duration) -> u64 {
        done(self.store().push(seen, by).await)
    }

    pub(super) async fn reap_holder(&self, holder: &str, counted: bool) -> Vec<Reaped> {
        let mut reaped = done(self.store().reap_holder(&worker(holder), counted).await);
        // The port names no order for this answer.
        reaped.sort_by_key(|reaped| reaped.hold);
        reaped
    }

    pub(super) async fn extend_leases(&self, by: Duration) -> u64 {
        self.extend_leases_in(FIRST, by).await
    }

    pub(super) async fn extend_leases_in(&self, registry: RegistryId, by: Duration) -> u64 {
        done(self.store().extend_leases(registry, by).await)
    }
}

/// Who the holders are.
impl Bench {
    pub(super) async fn enlist_all(&self, workers: Vec<Enlist>) -> Vec<EnlistAnswer> {
        done(self.store().enlist(workers).await)
    }

    pub(super) async fn enlist(&self, worker: Enlist) -> EnlistAnswer {
        let answers = self.enlist_all(vec![worker]).await;
        assert_eq!(answers.len(), 1, "one enlisting must have one answer");
        answers.into_iter().next().unwrap()
    }

    pub(super) async fn roster(&self, registry: RegistryId) -> Vec<Enlist> {
        done(self.store().roster(registry).await)
    }

    pub(super) async fn worker(&self, key: &str) -> Option<KnownWorker> {
        done(self.store().worker(&worker(key)).await)
    }

    /// How and when a holder ended.
    pub(super) async fn end_of(&self, key: &str) -> Option<(HolderEnd, WallTime)> {
        self.worker(key).await.and_then(|known| known.ended)
    }

    /// Retires a holder whose end does not matter.
    pub(super) async fn retire(&self, holder: &str) {
        self.retire_as(holder, HolderEnd::Expired).await;
    }

    pub(super) async fn retire_as(&self, holder: &str, end: HolderEnd) {
        assert!(self.retire_by(FIRST, holder, end).await, "{holder} must be ours to retire");
    }

    pub(super) async fn retire_by(&self, registry: RegistryId, holder: &str, end: HolderEnd) -> bool {
        done(self.store().retire(&worker(holder), end, registry).await)
    }

    pub(super) async fn readmit(&self, holder: &str) {
        self.readmit_by(FIRST, holder).await;
    }

    pub(super) async fn readmit_by(&self, registry: RegistryId, holder: &str) {
        done(self.store().readmit(&worker(holder), registry).await);
    }

    pub(super) async fn succeed(&self, former: &str, successor: &str, holds: &[Hold]) -> Vec<bool> {
        done(self.store().succeed(&worker(former), &worker(successor), holds.to_vec()).await)
    }
}

/// What servers do that share the store.
impl Bench {
    pub(super) fn is_shared(&self) -> bool {
        self.store().is_shared()
    }

    pub(super) async fn found(&self, name: &str) -> RegistryId {
        done(self.store().found(server(name)).await)
    }

    pub(super) async fn beat(&self, registry: RegistryId) -> Option<Vec<Peer>> {
        done(self.store().beat(registry).await)
    }

    pub(super) async fn called_off(&self, registry: RegistryId) -> Vec<(WorkerKey, Hold)> {
        done(self.store().called_off(registry).await)
    }

    pub(super) async fn unreaped(&self, registry: RegistryId) -> Vec<(WorkerKey, HolderEnd)> {
        done(self.store().unreaped(registry).await)
    }

    pub(super) async fn resign(&self, registry: RegistryId) {
        done(self.store().resign(registry).await);
    }

    pub(super) async fn take_over(
        &self,
        from: RegistryId,
        beats: u64,
        by: RegistryId,
    ) -> Option<Vec<Enlist>> {
        done(self.store().take_over(from, beats, by).await)
    }

    pub(super) fn tell(&self, news: News) {
        self.store().tell(news);
    }

    /// The next news, whatever it is.
    pub(super) async fn next_news(&self) -> News {
        self.store().next_news().await
    }
}

/// What volatile queues have besides.
impl Bench {
    /// Makes queue `q` volatile, and answers a client that comes back for what it submits.
    pub(super) async fn attend(&self) -> ClientId {
        let volatile = QueuePatch { volatile: Some(true), ..QueuePatch::default() };
        self.set_queue(QUEUE, volatile).await;
        ClientId::new(TestClock::START, 1)
    }

    pub(super) async fn try_set_queue(
        &self,
        name: &str,
        patch: QueuePatch,
    ) -> Result<QueueSettings, StoreError> {
        self.store().set_queue(&queue(name), patch).await
    }

    pub(super) async fn try_enqueue(&self, jobs: Vec<NewJob>) -> Result<EnqueueAnswer, StoreError> {
        self.store().enqueue(EnqueueBatch { request_id: None, jobs }).await
    }

    /// Claims one job of the volatile queue, which must be there.
    pub(super) async fn start(&self, holder: &str) -> Hold {
        let claimed = self.claim_exclusive(holder, &[QUEUE], 1).await;
        claimed.first().unwrap_or_else(|| panic!("{holder} must be given the available job")).hold
    }

    pub(super) async fn acknowledge(&self, ids: &[JobId], lowest: Option<JobId>) -> Vec<(WorkerKey, Hold)> {
        done(self.store().acknowledge(ids.to_vec(), lowest).await)
    }

    /// The ids and states of what has ended.
    pub(super) async fn ended_of(&self, client: ClientId) -> Vec<(JobId, State)> {
        let jobs = done(self.store().past_of(client).await).ended;
        jobs.iter().map(|job| (job.id, job.state)).collect()
    }

    /// Since when the store remembers what this client may wait for.
    pub(super) async fn memory_of(&self, client: ClientId) -> u64 {
        done(self.store().past_of(client).await).memory
    }

    pub(super) fn usage(&self) -> Usage {
        self.store().usage()
    }

    pub(super) fn inheritance(&self) -> Inheritance {
        self.store().inheritance()
    }

    pub(super) fn take_alarms(&self) -> Vec<Alarm> {
        self.store().take_alarms()
    }

    pub(super) fn is_volatile(&self, name: &str) -> bool {
        self.store().is_volatile(&queue(name))
    }
}

/// What people do.
impl Bench {
    pub(super) async fn cancel_all(&self, ids: Vec<JobId>) -> Vec<Cancelled> {
        done(self.store().cancel(ids).await)
    }

    pub(super) async fn cancel(&self, id: JobId) -> Cancelled {
        let answers = self.cancel_all(vec![id]).await;
        assert_eq!(answers.len(), 1, "one cancel must have one answer");
        answers.into_iter().next().unwrap()
    }

    pub(super) async fn redrive_all(&self, selection: Selection, limit: usize) -> Vec<(JobId, Redriven)> {
        done(self.store().redrive(selection, limit).await)
    }

    pub(super) async fn redrive(&self, id: JobId) -> Redriven {
        let mut answers = self.redrive_all(Selection::Ids(vec![id]), MANY).await;
        assert_eq!(answers.len(), 1, "one re-drive must have one answer");
        let (answered, redriven) = answers.remove(0);
        assert_eq!(answered, id, "the answer must be for the job asked about");
        redriven
    }

    pub(super) async fn purge(&self, retention: Retention, limit: usize) -> u64 {
        done(self.store().purge(retention, limit).await)
    }

    /// Removes everything that has ended by now.
    pub(super) async fn purge_ended(&self) -> u64 {
        self.purge(Retention { completed: Duration::ZERO, dead: Duration::ZERO }, MANY).await
    }

    pub(super) async fn set_queue(&self, name: &str, patch: QueuePatch) -> QueueSettings {
        done(self.store().set_queue(&queue(name), patch).await)
    }

    pub(super) async fn pause(&self, name: &str, paused: bool) {
        self.set_queue(name, QueuePatch { paused: Some(paused), ..QueuePatch::default() }).await;
    }

    pub(super) async fn set_exclusive(&self, name: &str, exclusive: bool) {
        self.set_queue(name, QueuePatch { exclusive: Some(exclusive), ..QueuePatch::default() }).await;
    }
}

/// What can be seen.
impl Bench {
    pub(super) async fn get(&self, id: JobId) -> Option<Job> {
        done(self.store().get(id).await).inspect(assert_sound)
    }

    /// A job that must exist.
    pub(super) async fn job(&self, id: JobId) -> Job {
        self.get(id).await.unwrap_or_else(|| panic!("job {id} must exist"))
    }

    pub(super) async fn list(&self, filter: JobFilter, before: Option<JobId>, limit: usize) -> Vec<Job> {
        self.page(filter, Page { before, limit, bytes_max: usize::MAX }).await
    }

    pub(super) async fn page(&self, filter: JobFilter, page: Page) -> Vec<Job> {
        done(self.store().list(filter, page).await)
    }

    /// Every job, newest id first.
    pub(super) async fn all(&self) -> Vec<Job> {
        self.list(JobFilter::default(), None, MANY).await
    }

    pub(super) async fn stats(&self) -> Vec<QueueStats> {
        done(self.store().stats().await)
    }

    pub(super) async fn queue_settings(&self) -> Vec<(QueueName, QueueSettings)> {
        done(self.store().queue_settings().await)
    }

    /// The counts of one queue, which must exist.
    pub(super) async fn counts(&self, name: &str) -> [u64; 6] {
        let stats = self.stats().await;
        let found = stats.iter().find(|stats| stats.queue == queue(name));
        found.unwrap_or_else(|| panic!("queue {name} must exist")).counts
    }

    pub(super) async fn deadlines(&self) -> Deadlines {
        self.deadlines_in(FIRST).await
    }

    pub(super) async fn deadlines_in(&self, registry: RegistryId) -> Deadlines {
        done(self.store().deadlines(registry).await)
    }

    pub(super) async fn check(&self) -> Result<(), StoreError> {
        self.store().check().await
    }

    /// What must hold after whatever happened: every row is sound, every count is right, no unique key is shared.
    pub(super) async fn audit(&self) {
        let jobs = self.all().await;
        jobs.iter().for_each(assert_sound);
        for stats in self.stats().await {
            let mut counts = [0; 6];
            for job in jobs.iter().filter(|job| job.queue == stats.queue) {
                counts[job.state as usize] += 1;
            }
            assert_eq!(stats.counts, counts, "the counts of queue {} must be those of its jobs", stats.queue);
        }
        let live = jobs.iter().filter(|job| !job.state.is_terminal());
        let mut keys: Vec<_> = live.filter_map(|job| Some((&job.queue, job.unique_key.as_ref()?))).collect();
        let live_with_key = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), live_with_key, "no two live jobs of a queue may share a unique key");
    }
}

/// What must hold for every row at all times.
fn assert_sound(job: &Job) {
    let is_running = job.state == State::Running;
    assert_eq!(job.holder.is_some(), is_running, "a holder exactly while running: {job:?}");
    assert_eq!(job.lease_until.is_some(), is_running, "a lease exactly while running: {job:?}");
    assert_eq!(job.finished_at.is_some(), job.state.is_terminal(), "an end exactly when terminal: {job:?}");
    assert!(job.reported_fence <= job.fence, "only fences that were minted are reported: {job:?}");
    assert!(job.fence.get() < 1 << 53, "a fence must fit 2^53: {job:?}");
}

fn done<T>(answer: Result<T, StoreError>) -> T {
    answer.unwrap_or_else(|error| panic!("no verb of the suite may fail as a whole: {error}"))
}

/// The server with this name.
pub(super) fn server(name: &str) -> ServerInfo {
    ServerInfo { name: name.to_owned(), address: format!("http://{name}:7777") }
}
