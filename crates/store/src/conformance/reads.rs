//! What can be asked: one job, lists, deadlines, whether the store can write.

use model::{JobId, NewJob, State, When};

use super::bench::{Bench, LEASE, MANY, QUEUE, completed, id, job_in, kind, new_job, queue, secs};
use crate::port::{Deadlines, JobFilter, Page};

async fn listed(bench: &Bench, filter: JobFilter, before: Option<JobId>, limit: usize) -> Vec<JobId> {
    bench.list(filter, before, limit).await.into_iter().map(|job| job.id).collect()
}

pub(super) async fn unknown_job_is_none(bench: &Bench) {
    assert_eq!(bench.get(id(1)).await, None);
    bench.add(new_job(2)).await;
    assert_eq!(bench.get(id(1)).await, None);
}

pub(super) async fn list_is_newest_id_first_in_pages(bench: &Bench) {
    bench.enqueue([3, 1, 5, 2, 4].map(new_job).to_vec()).await;
    let any = JobFilter::default;
    assert_eq!(listed(bench, any(), None, MANY).await, [5, 4, 3, 2, 1].map(id));
    assert_eq!(listed(bench, any(), None, 2).await, [5, 4].map(id));
    assert_eq!(listed(bench, any(), Some(id(4)), 2).await, [3, 2].map(id));
    assert_eq!(listed(bench, any(), Some(id(2)), 2).await, [1].map(id));
    assert_eq!(listed(bench, any(), Some(id(1)), 2).await, []);
    assert_eq!(listed(bench, any(), None, 0).await, []);
    assert_eq!(listed(bench, any(), Some(id(100)), MANY).await.len(), 5, "the id need not exist");
}

/// Whatever states are asked for: stores look for them in different ways.
pub(super) async fn list_reads_no_more_than_fits_the_page(bench: &Bench) {
    let of_bytes = |number, bytes| NewJob { payload: vec![b'x'; bytes].into(), ..new_job(number) };
    bench.enqueue((1..=6).map(|number| of_bytes(number, 1_000)).collect()).await;
    bench.cancel(id(2)).await;
    bench.cancel(id(5)).await;
    bench.take("w").await;
    let (any, cancelled) = (vec![], vec![State::Cancelled]);
    let (waiting, live) = (vec![State::Available], vec![State::Available, State::Running]);
    let table = [
        (&any, None, 1, vec![6]),
        (&any, None, 1_000, vec![6]),
        (&any, None, 1_001, vec![6, 5]),
        (&any, Some(5), 2_500, vec![4, 3, 2]),
        (&any, Some(3), 2_000, vec![2, 1]),
        (&live, Some(3), 1_400, vec![1]),
        (&waiting, None, 1_500, vec![6, 4]),
        (&cancelled, None, 1_000, vec![5]),
        (&cancelled, None, 1_001, vec![5, 2]),
    ];
    for (states, before, bytes_max, expected) in table {
        let filter = JobFilter { states: states.clone(), ..JobFilter::default() };
        let page = Page { before: before.map(id), limit: 10, bytes_max };
        let jobs = bench.page(filter, page).await;
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        assert_eq!(ids, expected.iter().copied().map(id).collect::<Vec<_>>(), "{states:?} {page:?}");
        assert!(page.is_full(&jobs) || ids.last() == Some(&id(1)) || !states.is_empty());
    }
}

pub(super) async fn list_shows_whole_jobs(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.progress("w", hold, "half").await;
    bench.end("w", hold, completed()).await;
    bench.running(new_job(2), "w").await;
    assert_eq!(bench.all().await, [bench.job(id(2)).await, bench.job(id(1)).await]);
}

pub(super) async fn list_filters_by_queue_kind_and_state(bench: &Bench) {
    bench
        .enqueue(vec![new_job(1), job_in("b", 2), NewJob { kind: kind("x"), ..new_job(3) }, new_job(4)])
        .await;
    bench.add(NewJob { when: When::After(secs(9)), ..new_job(5) }).await;
    bench.cancel(id(4)).await;
    bench.take("w").await;
    let filter = |queue_name: Option<&str>, kind_name: Option<&str>, states: &[State]| JobFilter {
        queue: queue_name.map(queue),
        kind: kind_name.map(kind),
        states: states.to_vec(),
    };
    let table = [
        (filter(Some(QUEUE), None, &[]), vec![5, 4, 3, 1]),
        (filter(Some("b"), None, &[]), vec![2]),
        (filter(Some("unknown"), None, &[]), vec![]),
        (filter(None, Some("x"), &[]), vec![3]),
        (filter(None, Some("k"), &[State::Available]), vec![2]),
        (filter(None, None, &[State::Running]), vec![1]),
        (filter(None, None, &[State::Cancelled, State::Scheduled]), vec![5, 4]),
        (filter(None, None, &[State::Dead]), vec![]),
        (filter(Some(QUEUE), Some("x"), &[State::Available, State::Dead]), vec![3]),
    ];
    for (filter, expected) in table {
        let expected: Vec<JobId> = expected.into_iter().map(id).collect();
        assert_eq!(listed(bench, filter.clone(), None, MANY).await, expected, "{filter:?}");
    }
    let second = listed(bench, filter(Some(QUEUE), None, &[]), Some(id(4)), 1).await;
    assert_eq!(second, [id(3)], "a page counts what matches");
}

pub(super) async fn nothing_is_due_in_an_empty_store(bench: &Bench) {
    assert_eq!(bench.deadlines().await, Deadlines::default());
    bench.add(new_job(1)).await;
    assert_eq!(bench.deadlines().await, Deadlines::default(), "an available job waits for nothing");
}

pub(super) async fn next_run_is_the_earliest_scheduled(bench: &Bench) {
    let after = |number, delay| NewJob { when: When::After(secs(delay)), ..new_job(number) };
    bench.enqueue(vec![after(1, 60), after(2, 20)]).await;
    assert_eq!(bench.deadlines().await.next_run_in, Some(secs(20)));
    bench.advance(secs(15));
    assert_eq!(bench.deadlines().await.next_run_in, Some(secs(5)));
    bench.advance(secs(30));
    assert_eq!(bench.deadlines().await.next_run_in, Some(secs(0)), "overdue is due now");
    bench.promote(MANY).await;
    assert_eq!(bench.deadlines().await.next_run_in, Some(secs(15)));
    bench.clock().step_wall(-5_000);
    assert_eq!(bench.deadlines().await.next_run_in, Some(secs(20)), "dates follow the wall clock");
    bench.cancel(id(1)).await;
    assert_eq!(bench.deadlines().await.next_run_in, None);
}

pub(super) async fn next_lease_is_the_first_to_run_out(bench: &Bench) {
    bench.enqueue(vec![NewJob { heartbeat_timeout: Some(secs(90)), ..new_job(1) }, new_job(2)]).await;
    let claimed = bench.claim("w", MANY).await;
    let deadlines = async || {
        let deadlines = bench.deadlines().await;
        (deadlines.next_lease_in, deadlines.longest_lease)
    };
    assert_eq!(deadlines().await, (Some(LEASE), Some(secs(90))));
    bench.advance(secs(10));
    bench.clock().step_wall(3_600_000);
    assert_eq!(deadlines().await, (Some(LEASE - secs(10)), Some(secs(90))), "a length, as it was granted");
    bench.advance(LEASE);
    assert_eq!(deadlines().await, (Some(secs(0)), Some(secs(90))), "overdue is due now");
    bench.end("w", claimed[1].hold, completed()).await;
    assert_eq!(deadlines().await, (Some(secs(90) - LEASE - secs(10)), Some(secs(90))));
    bench.end("w", claimed[0].hold, completed()).await;
    assert_eq!(deadlines().await, (None, None));
}

pub(super) async fn healthy_store_can_write(bench: &Bench) {
    assert_eq!(bench.check().await, Ok(()));
    assert_eq!((bench.stats().await, bench.all().await), (vec![], vec![]), "and leaves no trace");
}
