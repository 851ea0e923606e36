//! Submitting to volatile queues: every job is seen through to its end, whatever lives its server has.

use futures_util::FutureExt;
use model::{ErrorKind, JobId};
use rpc::{ApiError, wire};
use tonic::Status;
use worker::{Client, ClientError, End, SubmitOptions, Submitter, Ticket};

use crate::desk::Desk;
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

/// Completed, as [`crate::desk::EndsStream::complete`] says it.
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
    let ends = desk.ends(1).await;
    let ticket = submit(&submitter).await;
    let call = desk.enqueue().await;
    let ids = call.ids();
    assert_eq!(ids, [ticket.id().to_string()]);
    assert!(ticket.id().is_volatile() && ticket.id().submission().unwrap().0.is_awaited());
    assert_eq!((&call.request.lowest_unacknowledged, call.request.request_id.as_str()), (&ids[0], ""));
    call.take(1);
    ends.complete(&ids).await;
    assert_completed(ticket).await;
    let ack = desk.ack().await;
    assert_eq!((&ack.request.ids, &ack.request.lowest_unacknowledged), (&ids, &after(&ids[0])));
    let closing = tokio::spawn(async move { submitter.close().await });
    ack.answer(Ok(wire::AcknowledgeResponse { generation: 1 }));
    patiently("the close", closing).await.unwrap();
}

#[tokio::test]
async fn what_has_not_ended_is_submitted_again_under_the_same_ids_to_another_life() {
    let mut desk = Desk::start().await;
    let submitter = submitter(&desk.url);
    let ends = desk.ends(1).await;
    let mut tickets = Vec::new();
    for _ in 0..4 {
        tickets.push(submit(&submitter).await);
    }
    let ids = desk.take(4, 1).await;
    assert_eq!(ids, tickets.iter().map(|ticket| ticket.id().to_string()).collect::<Vec<_>>());
    ends.complete(&ids[..1]).await;
    assert_completed(tickets.remove(0)).await;
    let ack = desk.ack().await;
    ack.answer(Ok(wire::AcknowledgeResponse { generation: 1 }));

    drop(ends);
    let ends = desk.ends(2).await;
    let again = desk.enqueue().await;
    assert_eq!(again.ids(), ids[1..], "under the same ids, without the one that has ended");
    assert_eq!(again.request.lowest_unacknowledged, ids[1]);
    again.take(2);
    // One was told of by the life before, too: it ended once.
    ends.complete(&ids).await;
    for ticket in tickets {
        assert_completed(ticket).await;
    }
    let ack = desk.ack().await;
    assert_eq!(
        (&ack.request.ids[..], ack.request.lowest_unacknowledged.as_str()),
        (&ids[1..], &*after(&ids[3]))
    );
}

#[tokio::test]
async fn the_same_life_gets_nothing_twice() {
    let mut desk = Desk::start().await;
    let submitter = submitter(&desk.url);
    let ends = desk.ends(1).await;
    let first = submit(&submitter).await;
    desk.take(1, 1).await;
    drop(ends);
    // The connection broke, the server did not.
    let ends = desk.ends(1).await;
    let second = submit(&submitter).await;
    assert_eq!(desk.enqueue().await.ids(), [second.id().to_string()]);
    ends.complete(&[first.id().to_string()]).await;
    assert_completed(first).await;
}

#[tokio::test]
async fn another_life_that_answers_an_enqueue_is_noticed_before_the_stream_of_ends_breaks() {
    let mut desk = Desk::start().await;
    let submitter = submitter(&desk.url);
    let ends = desk.ends(1).await;
    let first = submit(&submitter).await;
    desk.take(1, 1).await;
    let second = submit(&submitter).await;
    desk.take(1, 2).await;
    ends.hung_up().await;
    let ends = desk.ends(2).await;
    let ids = [first.id().to_string(), second.id().to_string()];
    assert_eq!(desk.take(2, 2).await, ids);
    ends.complete(&ids).await;
    assert_completed(first).await;
    assert_completed(second).await;
}

#[tokio::test]
async fn an_end_that_nobody_waits_for_is_acknowledged_and_a_lost_acknowledgement_sent_again() {
    let mut desk = Desk::start().await;
    let submitter = submitter(&desk.url);
    let ends = desk.ends(1).await;
    drop(submit(&submitter).await);
    let ids = desk.take(1, 1).await;
    ends.complete(&ids).await;
    let ack = desk.ack().await;
    assert_eq!(ack.request.ids, ids);
    ack.answer(Err(Status::unavailable("not now")));
    let again = desk.ack().await;
    assert_eq!(again.request.ids, ids);
    again.answer(Ok(wire::AcknowledgeResponse { generation: 1 }));
    patiently("the close", submitter.close()).await;
}

#[tokio::test]
async fn the_server_is_told_again_how_far_we_are_when_it_repeats_an_end() {
    let mut desk = Desk::start().await;
    let submitter = submitter(&desk.url);
    let ends = desk.ends(1).await;
    let ticket = submit(&submitter).await;
    let ids = desk.take(1, 1).await;
    ends.complete(&ids).await;
    assert_completed(ticket).await;
    desk.ack().await.answer(Ok(wire::AcknowledgeResponse { generation: 1 }));
    assert!(!desk.has_ack());
    ends.complete(&ids).await;
    let again = desk.ack().await;
    assert_eq!((again.request.ids.len(), again.request.lowest_unacknowledged), (0, after(&ids[0])));
}

#[tokio::test]
async fn what_can_never_succeed_ends_its_ticket_and_no_other() {
    let mut desk = Desk::start().await;
    let submitter = submitter(&desk.url);
    let ends = desk.ends(1).await;
    // Held back until all of them are due, so that they come in one call.
    let head = submit(&submitter).await;
    let held_back = desk.enqueue().await;
    let durable = wire::NewJob { queue: "durable".to_owned(), ..job() };
    let bad = submitter.submit(durable).await.unwrap();
    let good = submit(&submitter).await;
    held_back.take(1);
    let mut taken = Vec::new();
    while taken.is_empty() {
        let call = desk.enqueue().await;
        if call.request.jobs.iter().any(|job| job.queue == "durable") {
            call.answer(Err(ApiError::invalid("queue durable is not volatile").into()));
        } else {
            taken = call.ids();
            call.take(1);
        }
    }
    assert_eq!(taken, [good.id().to_string()]);
    let error = patiently("the refusal", bad).await.unwrap_err();
    let ClientError::Api(error) = error else { panic!("not an answer: {error}") };
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Invalid, "queue durable is not volatile"));
    ends.complete(&[head.id().to_string(), good.id().to_string()]).await;
    assert_completed(head).await;
    assert_completed(good).await;
}

#[tokio::test]
async fn a_server_that_cannot_do_it_now_is_asked_again() {
    let mut desk = Desk::start().await;
    let submitter = submitter(&desk.url);
    let _ends = desk.ends(1).await;
    let ticket = submit(&submitter).await;
    for error in [ErrorKind::Unavailable, ErrorKind::Throttled, ErrorKind::Internal] {
        let call = desk.enqueue().await;
        assert_eq!(call.ids(), [ticket.id().to_string()]);
        call.answer(Err(ApiError::new(error, "not now").into()));
    }
    assert_eq!(desk.take(1, 1).await, [ticket.id().to_string()]);
}

#[tokio::test]
async fn submitting_waits_while_too_many_are_in_flight() {
    let mut desk = Desk::start().await;
    let submitter = bounded(&desk.url, SubmitOptions::default().in_flight_max(1));
    let ends = desk.ends(1).await;
    let first = submit(&submitter).await;
    let mut second = Box::pin(submitter.submit(job()));
    assert!((&mut second).now_or_never().is_none(), "the first one is in flight");
    let ids = desk.take(1, 1).await;
    ends.complete(&ids).await;
    assert_completed(first).await;
    let ack = desk.ack().await;
    assert!((&mut second).now_or_never().is_none(), "its end is not acknowledged yet");
    ack.answer(Ok(wire::AcknowledgeResponse { generation: 1 }));
    let second = patiently("room", second).await.unwrap();
    assert_eq!(desk.take(1, 1).await, [second.id().to_string()]);
}

#[tokio::test]
async fn a_server_that_is_not_there_yet_is_waited_for() {
    // Nobody listens on the port of a listener that was closed.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let submitter = submitter(&format!("http://{address}"));
    let ticket = submit(&submitter).await;
    let mut desk = Desk::start_on(address).await;
    let ids = desk.take(1, 1).await;
    let ends = desk.ends(1).await;
    ends.complete(&ids).await;
    assert_completed(ticket).await;
}

#[tokio::test]
async fn a_closed_submitter_takes_no_more_and_waits_for_what_it_has() {
    let mut desk = Desk::start().await;
    let submitter = submitter(&desk.url);
    let ends = desk.ends(1).await;
    let ticket = submit(&submitter).await;
    let ids = desk.take(1, 1).await;
    let mut closing = Box::pin(submitter.close());
    assert!((&mut closing).now_or_never().is_none());
    let refusal = submitter.submit(job()).await.unwrap_err();
    assert_eq!(refusal.to_string(), "the submitter is closed");
    ends.complete(&ids).await;
    assert_completed(ticket).await;
    let ack = desk.ack().await;
    assert!((&mut closing).now_or_never().is_none(), "not acknowledged yet");
    ack.answer(Ok(wire::AcknowledgeResponse { generation: 1 }));
    patiently("the close", closing).await;
    ends.hung_up().await;
}

#[tokio::test]
async fn tickets_outlive_the_submitter_that_gave_them() {
    let mut desk = Desk::start().await;
    let submitter = submitter(&desk.url);
    let ends = desk.ends(1).await;
    let ticket = submit(&submitter).await;
    drop(submitter);
    let ids = desk.take(1, 1).await;
    ends.complete(&ids).await;
    assert_completed(ticket).await;
    desk.ack().await.answer(Ok(wire::AcknowledgeResponse { generation: 1 }));
    ends.hung_up().await;
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
