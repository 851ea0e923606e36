//! The wall clock is stepped a day in either direction under a running server: leases do not care, dates do.

use rpc::wire;

use crate::support::Server;

const DAY_MS: i64 = 24 * 3600 * 1000;

async fn enqueue(server: &Server, job: wire::NewJob) -> String {
    let job = wire::NewJob { queue: "q".to_owned(), ..job };
    let response =
        server.client.enqueue(wire::EnqueueRequest { jobs: vec![job], ..Default::default() }).await;
    response.expect("the enqueue is accepted").jobs[0].id.clone()
}

async fn claim(server: &Server, worker: &str, wait_ms: i64) -> Option<wire::Assignment> {
    let request =
        wire::ClaimRequest { worker: worker.to_owned(), queues: vec!["q".to_owned()], limit: 1, wait_ms };
    server.client.claim(request).await.expect("the claim is answered").jobs.pop()
}

/// Renews once a second until the hold is lost.
async fn beat(server: &Server, held: &wire::Assignment) {
    let mut interval = tokio::time::interval(std::time::Duration::from_secs(1));
    loop {
        interval.tick().await;
        let hold = wire::Hold { job: held.job.clone(), fence: held.fence };
        let request = wire::RenewRequest { worker: "steady".to_owned(), holds: vec![hold] };
        if server.client.renew(request).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn leases_end_on_time_and_not_before_whatever_the_wall_clock_says() {
    let server = Server::start().await;
    for step in [DAY_MS, -2 * DAY_MS, DAY_MS] {
        // Not longer than the claim below waits: after a stall of the machine rescue pauses for one longest lease.
        let long =
            enqueue(&server, wire::NewJob { heartbeat_timeout_ms: Some(10_000), ..Default::default() }).await;
        let held = claim(&server, "steady", 0).await.expect("the long job");
        let short =
            enqueue(&server, wire::NewJob { heartbeat_timeout_ms: Some(500), ..Default::default() }).await;
        claim(&server, "silent", 0).await.expect("the short job");

        server.clock.step_wall(step);
        // The silent holder's job comes back when its own half second is over: had leases followed the wall clock, a
        // step back would keep it for a day, and a step forward would bring the steady one's first.
        // The steady holder beats meanwhile, as a worker does.
        let rescued = tokio::select! {
            rescued = claim(&server, "other", 30_000) => rescued,
            () = beat(&server, &held) => None,
        };
        let Some(rescued) = rescued else {
            let stalls = server.metric("tenure_own_stalls_total", "").await;
            panic!("the short job did not come back after a step of {step} ms; own stalls: {stalls}");
        };
        assert_eq!(rescued.job, short, "after a step of {step} ms");
        let hold = wire::Hold { job: held.job.clone(), fence: held.fence };
        let renewed =
            server.client.renew(wire::RenewRequest { worker: "steady".to_owned(), holds: vec![hold] }).await;
        assert_eq!(renewed.expect("the long job is still held").held.len(), 1);

        for (worker, job) in [("steady", held), ("other", rescued)] {
            let report = wire::Report {
                job: job.job,
                fence: job.fence,
                outcome: "completed".to_owned(),
                ..Default::default()
            };
            let request = wire::FinishRequest { worker: worker.to_owned(), reports: vec![report] };
            server.client.finish(request).await.expect("both can be finished");
        }
        let shown = server.client.get(wire::GetJobRequest { id: long }).await.expect("the job is there");
        assert_eq!((shown.state.as_str(), shown.lost), ("completed", 0));
    }
    server.stop().await;
}

#[tokio::test]
async fn a_scheduled_job_follows_the_wall_clock() {
    let server = Server::start().await;
    let tomorrow = enqueue(&server, wire::NewJob { delay_ms: Some(DAY_MS), ..Default::default() }).await;
    assert_eq!(claim(&server, "early", 0).await, None);
    server.clock.step_wall(DAY_MS + 1_000);
    let due = claim(&server, "late", 30_000).await.expect("its day has come");
    assert_eq!(due.job, tomorrow);
    server.stop().await;
}
