//! Submitting to volatile queues: every job is seen through to its end, whatever lives its server has.

use futures_util::FutureExt;
use model::{ErrorKind, JobId};
use rpc::{ApiError, wire};
use worker::{Client, ClientError, End, SubmitOptions, Submitter, Ticket};

use crate::desk::{Desk, submitted};
use crate::support::patiently;

fn submitter(url: &str) -> Submitter {
    bounded(url, SubmitOptions::default())
}

fn bounded(url: &str, options: SubmitOptions) -> Submitter {
    Client::connect(url).expect("the address can be read").submitter(options)
}

fn job() -> wire::NewJob {
    wire::NewJob { queue: "q".to_owned(), kind: "work".to_owned(), ..Default::default() }
}

async fn submit(submitter: &Submitter) -> Ticket {
    patiently("room", submitter.submit(job())).await.expect("the submitter is open")
}

async fn end_of(ticket: Ticket) -> End {
    patiently("an end", ticket).await.expect("the job ended")
}

/// Completed, as [`crate::desk::Talk::complete`] says it.
async fn assert_completed(ticket: Ticket) {
    let id = ticket.id();
    let end = end_of(ticket).await;
    assert!(end.is_completed());
    assert_eq!((end.id, end.result, end.attempt), (id, id.to_string().into(), 1));
}

/// The id that follows this one.
fn after(id: &str) -> String {
    let (client, sequence) = id.parse::<JobId>().unwrap().submission().expect("it is volatile");
    client.job(sequence + 1).to_string()
}

#[tokio::test]
async fn a_job_is_submitted_ends_and_is_acknowledged() {
    let mut desk = Desk::start().await;
    let submitter = submitter(&desk.url);
    let mut talk = desk.talk(1).await;
    let ticket = submit(&submitter).await;
    let frame = talk.frame().await;
    let ids = submitted(&frame);
    assert_eq!(ids, [ticket.id().to_string()]);
    assert!(ticket.id().is_volatile() && ticket.id().submission().unwrap().0.is_awaited());
    assert_eq!(frame.lowest_unacknowledged, ids[0]);
    talk.done().await;
    talk.complete(&ids).await;
    assert_completed(ticket).await;
    let ack = talk.frame().await;
    assert_eq!((&ack.acknowledged, &ack.lowest_unacknowledged), (&ids, &after(&ids[0])));
    let mut closing = Box::pin(submitter.close());
    assert!((&mut closing).now_or_never().is_none(), "the server may not know yet");
    talk.done().await;
    patiently("the close", closing).await;
    talk.hung_up().await;
}

#[tokio::test]
async fn what_has_not_ended_is_submitted_again_under_the_same_ids_to_another_life() {
    let mut desk = Desk::start().await;
    let submitter = submitter(&desk.url);
    let mut talk = desk.talk(1).await;
    let mut tickets = Vec::new();
    for _ in 0..4 {
        tickets.push(submit(&submitter).await);
    }
    let ids = talk.take(4).await;
    assert_eq!(ids, tickets.iter().map(|ticket| ticket.id().to_string()).collect::<Vec<_>>());
    talk.complete(&ids[..1]).await;
    assert_completed(tickets.remove(0)).await;
    assert_eq!(talk.frame().await.acknowledged, ids[..1]);
    talk.done().await;

    drop(talk);
    let mut talk = desk.talk(2).await;
    let again = talk.frame().await;
    assert_eq!(submitted(&again), ids[1..], "under the same ids, without the one that has ended");
    assert_eq!(again.lowest_unacknowledged, ids[1]);
    talk.done().await;
    // One was told of by the life before, too: it ended once.
    talk.complete(&ids).await;
    for ticket in tickets {
        assert_completed(ticket).await;
    }
    let ack = talk.frame().await;
    assert_eq!((&ack.acknowledged[..], &ack.lowest_unacknowledged), (&ids[1..], &after(&ids[3])));
}

#[tokio::test]
async fn the_same_life_gets_nothing_twice() {
    let mut desk = Desk::start().await;
    let submitter = submitter(&desk.url);
    let mut talk = desk.talk(1).await;
    let first = submit(&submitter).await;
    talk.take(1).await;
    // An answer that comes later than this one says that the client has read this one.
    let second = submit(&submitter).await;
    talk.take(1).await;
    talk.complete(&[second.id().to_string()]).await;
    assert_completed(second).await;
    talk.frame().await;
    talk.done().await;
    drop(talk);
    // The connection broke, the server did not.
    let (mut talk, greeting) = desk.talk_with(1).await;
    assert_eq!(submitted(&greeting).len(), 0);
    let third = submit(&submitter).await;
    assert_eq!(talk.take(1).await, [third.id().to_string()]);
    talk.complete(&[first.id().to_string()]).await;
    assert_completed(first).await;
}

#[tokio::test]
async fn what_was_not_answered_is_said_again() {
    let mut desk = Desk::start().await;
    let submitter = submitter(&desk.url);
    let mut talk = desk.talk(1).await;
    let ticket = submit(&submitter).await;
    let ids = vec![ticket.id().to_string()];
    assert_eq!(submitted(&talk.frame().await), ids);
    drop(talk);
    let (mut talk, again) = desk.talk_with(1).await;
    assert_eq!(submitted(&again), ids);
    talk.complete(&ids).await;
    assert_completed(ticket).await;
    assert_eq!(talk.frame().await.acknowledged, ids);
    drop(talk);
    let (_talk, again) = desk.talk_with(1).await;
    assert_eq!(again.acknowledged, ids, "nobody knows whether the server knows");
    patiently("the close", submitter.close()).await;
}

#[tokio::test]
async fn an_end_that_nobody_waits_for_is_acknowledged() {
    let mut desk = Desk::start().await;
    let submitter = submitter(&desk.url);
    let mut talk = desk.talk(1).await;
    drop(submit(&submitter).await);
    let ids = talk.take(1).await;
    talk.complete(&ids).await;
    assert_eq!(talk.frame().await.acknowledged, ids);
    talk.done().await;
    patiently("the close", submitter.close()).await;
}

#[tokio::test]
async fn the_server_is_told_again_how_far_we_are_when_it_repeats_an_end() {
    let mut desk = Desk::start().await;
    let submitter = submitter(&desk.url);
    let mut talk = desk.talk(1).await;
    let ticket = submit(&submitter).await;
    let ids = talk.take(1).await;
    talk.complete(&ids).await;
    assert_completed(ticket).await;
    talk.frame().await;
    talk.done().await;
    talk.complete(&ids).await;
    let again = talk.frame().await;
    assert_eq!((again.acknowledged.len(), again.lowest_unacknowledged), (0, after(&ids[0])));
}

#[tokio::test]
async fn what_can_never_succeed_ends_its_ticket_and_no_other() {
    let mut desk = Desk::start().await;
    let submitter = submitter(&desk.url);
    let mut talk = desk.talk(1).await;
    let good = submit(&submitter).await;
    let ids = talk.take(1).await;
    let bad = submit(&submitter).await;
    talk.frame().await;
    talk.refuse(&bad.id().to_string(), "queue durable is not volatile").await;
    let error = patiently("the refusal", bad).await.unwrap_err();
    let ClientError::Api(error) = error else { panic!("not an answer: {error}") };
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Invalid, "queue durable is not volatile"));
    talk.complete(&ids).await;
    assert_completed(good).await;
}

#[tokio::test]
async fn a_server_that_cannot_do_it_now_is_asked_again() {
    let mut desk = Desk::start().await;
    let submitter = submitter(&desk.url);
    let mut talk = desk.talk(1).await;
    let ticket = submit(&submitter).await;
    let ids = [ticket.id().to_string()];
    assert_eq!(submitted(&talk.frame().await), ids);
    for error in [ErrorKind::Unavailable, ErrorKind::Throttled, ErrorKind::Internal] {
        talk.fail(ApiError::new(error, "not now").into()).await;
        let again = desk.untold_talk().await;
        assert_eq!(submitted(&again.1), ids);
        talk = again.0;
    }
}

#[tokio::test]
async fn what_a_full_server_did_not_take_is_submitted_until_it_does() {
    let mut desk = Desk::start().await;
    let submitter = submitter(&desk.url);
    let mut talk = desk.talk(1).await;
    let first = submit(&submitter).await;
    let taken = talk.take(1).await;
    let mut tickets = Vec::new();
    for _ in 0..3 {
        tickets.push(submit(&submitter).await);
    }
    let mut waiting = Vec::new();
    while waiting.len() < 3 {
        let ids = submitted(&talk.frame().await);
        talk.postpone(&ids).await;
        waiting.extend(ids);
        // One that was tried again meanwhile, alone.
        waiting.sort();
        waiting.dedup();
    }
    // What makes room there is said though nothing else can be.
    talk.complete(&taken).await;
    assert_completed(first).await;
    let mut acknowledged = Vec::new();
    while acknowledged.is_empty() {
        let frame = talk.frame().await;
        acknowledged.extend(frame.acknowledged.clone());
        talk.postpone(&submitted(&frame)).await;
    }
    assert_eq!(acknowledged, taken);
    let mut ids = talk.take(3).await;
    ids.sort();
    assert_eq!(ids, waiting, "each is taken in the end");
    talk.complete(&ids).await;
    for ticket in tickets {
        assert_completed(ticket).await;
    }
}

#[tokio::test]
async fn a_server_that_forgot_ends_is_told_all_that_has_not_ended() {
    let mut desk = Desk::start().await;
    let submitter = submitter(&desk.url);
    let (mut talk, _) = desk.talk_remembering(1, 5).await;
    let ticket = submit(&submitter).await;
    let ids = talk.take(1).await;
    // An answer that comes later than this one says that the client has read this one.
    talk.complete(&[submit(&submitter).await.id().to_string()]).await;
    talk.frame().await;
    drop(talk);
    let (mut talk, greeting) = desk.talk_remembering(1, 6).await;
    let mut again = submitted(&greeting);
    while again.is_empty() {
        again = submitted(&talk.frame().await);
        talk.done().await;
    }
    assert_eq!(again, ids);
    talk.complete(&ids).await;
    assert_completed(ticket).await;
}

#[tokio::test]
async fn submitting_waits_while_too_many_are_in_flight() {
    let mut desk = Desk::start().await;
    let submitter = bounded(&desk.url, SubmitOptions::default().in_flight_max(1));
    let mut talk = desk.talk(1).await;
    let first = submit(&submitter).await;
    let mut second = Box::pin(submitter.submit(job()));
    assert!((&mut second).now_or_never().is_none(), "the first one is in flight");
    let ids = talk.take(1).await;
    assert!((&mut second).now_or_never().is_none(), "it has not ended");
    talk.complete(&ids).await;
    assert_completed(first).await;
    let second = patiently("room", second).await.unwrap();
    assert_eq!(talk.take(1).await, [second.id().to_string()]);
}

#[tokio::test]
async fn a_server_that_is_not_there_yet_is_waited_for() {
    // Nobody listens on the port of a listener that was closed.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let submitter = submitter(&format!("http://{address}"));
    let ticket = submit(&submitter).await;
    let mut desk = Desk::start_on(address).await;
    let (talk, greeting) = desk.talk_with(1).await;
    talk.complete(&submitted(&greeting)).await;
    assert_completed(ticket).await;
}

#[tokio::test]
async fn a_closed_submitter_takes_no_more_and_waits_for_what_it_has() {
    let mut desk = Desk::start().await;
    let submitter = submitter(&desk.url);
    let mut talk = desk.talk(1).await;
    let ticket = submit(&submitter).await;
    let ids = talk.take(1).await;
    let mut closing = Box::pin(submitter.close());
    assert!((&mut closing).now_or_never().is_none());
    let refusal = submitter.submit(job()).await.unwrap_err();
    assert_eq!(refusal.to_string(), "the submitter is closed");
    talk.complete(&ids).await;
    assert_completed(ticket).await;
    assert_eq!(talk.frame().await.acknowledged, ids);
    assert!((&mut closing).now_or_never().is_none(), "not acknowledged yet");
    talk.done().await;
    patiently("the close", closing).await;
    talk.hung_up().await;
}

#[tokio::test]
async fn tickets_outlive_the_submitter_that_gave_them() {
    let mut desk = Desk::start().await;
    let submitter = submitter(&desk.url);
    let mut talk = desk.talk(1).await;
    let ticket = submit(&submitter).await;
    drop(submitter);
    let ids = talk.take(1).await;
    talk.complete(&ids).await;
    assert_completed(ticket).await;
    assert_eq!(talk.frame().await.acknowledged, ids);
    talk.done().await;
    talk.hung_up().await;
}

#[tokio::test]
async fn ids_and_payloads_that_cannot_be_sent_are_refused_at_once() {
    let submitter = submitter("http://127.0.0.1:1");
    for (job, complaint) in [
        (wire::NewJob { id: "x".to_owned(), ..job() }, "a submitter numbers its jobs itself"),
        (wire::NewJob { payload: vec![0; 16 << 20].into(), ..job() }, "payload has 16777216 bytes"),
    ] {
        let error = submitter.submit(job).await.unwrap_err().to_string();
        assert!(error.starts_with(complaint), "{error}");
    }
}
