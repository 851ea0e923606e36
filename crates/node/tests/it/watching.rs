//! Watchers see every change of the jobs they ask for, and a long poll ends with the job.

use rpc::wire;

use crate::support::Server;

#[tokio::test]
async fn a_watcher_sees_the_whole_life_of_a_job() {
    let server = Server::start().await;
    let job = wire::NewJob { queue: "q".to_owned(), kind: "k".to_owned(), ..Default::default() };
    let enqueued =
        server.client.enqueue(wire::EnqueueRequest { jobs: vec![job], ..Default::default() }).await;
    let id = enqueued.expect("the enqueue is accepted").jobs[0].id.clone();
    let request = wire::WatchRequest { ids: vec![id.clone()], ..Default::default() };
    let mut events = server.client.watch(request).await.expect("the job is there");
    assert_eq!(events.next().await.expect("its present state").expect("no error").state, "available");

    let request =
        wire::ClaimRequest { worker: "w".to_owned(), queues: vec!["q".to_owned()], limit: 1, wait_ms: 0 };
    let held = server.client.claim(request).await.expect("answered").jobs.remove(0);
    let running = events.next().await.expect("an event").expect("no error");
    assert_eq!(
        (running.state.as_str(), running.holder.as_str(), running.fence),
        ("running", "w", held.fence)
    );

    let report = wire::Report {
        job: id.clone(),
        fence: held.fence,
        outcome: "completed".to_owned(),
        ..Default::default()
    };
    let finish = wire::FinishRequest { worker: "w".to_owned(), reports: vec![report] };
    let path = format!("/v1/jobs/{id}/wait?timeout_ms=30000");
    let (waited, finished) = tokio::join!(server.http("GET", &path, ""), server.client.finish(finish));
    finished.expect("accepted");
    assert_eq!(waited.1["state"], "completed");
    assert_eq!(events.next().await.expect("an event").expect("no error").state, "completed");
    drop(events);
    server.stop().await;
}

#[tokio::test]
async fn a_watcher_of_ends_hears_of_nothing_else() {
    let server = Server::start().await;
    let job = wire::NewJob { queue: "q".to_owned(), kind: "k".to_owned(), ..Default::default() };
    let request = wire::EnqueueRequest { jobs: vec![job.clone(), job], ..Default::default() };
    let jobs = server.client.enqueue(request).await.expect("the enqueue is accepted").jobs;
    let [first, second] = [0, 1].map(|at: usize| jobs[at].id.clone());
    let watch = |ids: &[&String], state: &str| wire::WatchRequest {
        ids: ids.iter().map(ToString::to_string).collect(),
        states: vec![state.to_owned()],
        ..Default::default()
    };
    let mut events =
        server.client.watch(watch(&[&first, &second], "completed")).await.expect("the jobs are there");

    let request =
        wire::ClaimRequest { worker: "w".to_owned(), queues: vec!["q".to_owned()], limit: 2, wait_ms: 0 };
    let held = server.client.claim(request).await.expect("answered").jobs;
    let report = |job: &wire::Assignment, outcome: &str| wire::Report {
        job: job.job.clone(),
        fence: job.fence,
        outcome: outcome.to_owned(),
        ..Default::default()
    };
    let reports = vec![report(&held[0], "failed"), report(&held[1], "completed")];
    server.client.finish(wire::FinishRequest { worker: "w".to_owned(), reports }).await.expect("accepted");
    let ended = events.next().await.expect("an event").expect("no error");
    assert_eq!((ended.id, ended.state.as_str()), (held[1].job.clone(), "completed"));

    // The one that is tried again is a scheduled one too; the other one's present state is not asked for.
    let mut events =
        server.client.watch(watch(&[&first, &second], "scheduled")).await.expect("the jobs are there");
    let retried = events.next().await.expect("its present state").expect("no error");
    assert_eq!((retried.id, retried.state.as_str()), (held[0].job.clone(), "retryable"));
    let refused = server.client.watch(watch(&[], "lost")).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("\"lost\" is not one of")));
    server.stop().await;
}

#[tokio::test]
async fn a_watcher_sees_a_scheduled_job_become_available() {
    const DAY_MS: i64 = 24 * 3_600_000;
    let server = Server::start().await;
    let enqueue = async |queue: &str, delay_ms| {
        let (queue, kind) = (queue.to_owned(), "k".to_owned());
        let job = wire::NewJob { queue, kind, delay_ms: Some(delay_ms), ..Default::default() };
        let request = wire::EnqueueRequest { jobs: vec![job], ..Default::default() };
        server.client.enqueue(request).await.expect("the enqueue is accepted").jobs.remove(0).id
    };
    let request = wire::WatchRequest { queue: "q".to_owned(), ..Default::default() };
    let mut events = server.client.watch(request).await.expect("a queue can be watched before it has jobs");
    let id = enqueue("q", DAY_MS).await;
    let scheduled = events.next().await.expect("an event").expect("no error");
    assert_eq!((scheduled.id, scheduled.state.as_str()), (id.clone(), "scheduled"));

    server.clock.step_wall(DAY_MS + 1_000);
    // Due at once by either clock, so the server need not find out by itself that the date has changed.
    enqueue("elsewhere", 1).await;
    let available = events.next().await.expect("an event").expect("no error");
    assert_eq!((available.id, available.state.as_str()), (id, "available"));
    drop(events);
    server.stop().await;
}
