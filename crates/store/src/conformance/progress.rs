//! Progress notes and checkpoints.

use bytes::Bytes;
use model::{Fence, Hold, Outcome};

use super::bench::{Bench, completed, id, new_job, text};
use crate::port::Progress;

fn note(hold: Hold, note: Option<&'static str>, checkpoint: Option<&'static str>) -> Progress {
    Progress { hold, note: note.map(text), checkpoint: checkpoint.map(text) }
}

async fn kept(bench: &Bench) -> (Option<Bytes>, Option<Bytes>) {
    let job = bench.job(id(1)).await;
    (job.progress, job.checkpoint)
}

pub(super) async fn progress_and_checkpoint_replace_only_what_is_given(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    let send = async |note| assert_eq!(bench.progress_all("w", vec![note]).await, [true]);
    send(note(hold, Some("10 %"), None)).await;
    assert_eq!(kept(bench).await, (Some(text("10 %")), None));
    send(note(hold, None, Some("row 7"))).await;
    assert_eq!(kept(bench).await, (Some(text("10 %")), Some(text("row 7"))));
    send(note(hold, Some("20 %"), Some(""))).await;
    assert_eq!(kept(bench).await, (Some(text("20 %")), Some(text(""))), "an empty checkpoint is one");
    send(note(hold, None, None)).await;
    assert_eq!(kept(bench).await, (Some(text("20 %")), Some(text(""))));
}

pub(super) async fn checkpoint_is_given_to_the_next_attempt(bench: &Bench) {
    let hold = bench.running(new_job(1), "w1").await;
    bench.progress_all("w1", vec![note(hold, Some("half"), Some("row 7"))]).await;
    bench.lose(id(1)).await;
    let claimed = bench.claim("w2", 1).await.remove(0);
    assert_eq!(claimed.checkpoint, Some(text("row 7")));
    bench.end("w2", claimed.hold, Outcome::HandedBack).await;
    assert_eq!(kept(bench).await, (Some(text("half")), Some(text("row 7"))), "both are kept across attempts");
}

pub(super) async fn progress_needs_the_fence(bench: &Bench) {
    let old = bench.running(new_job(1), "w").await;
    bench.lose(id(1)).await;
    bench.take("w").await;
    assert!(!bench.progress("w", old, "zombie").await);
    assert_eq!(kept(bench).await, (None, None));
}

pub(super) async fn progress_needs_the_holder(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    assert!(!bench.progress("thief", hold, "stolen").await);
    assert_eq!(kept(bench).await, (None, None));
}

pub(super) async fn progress_needs_a_running_job(bench: &Bench) {
    let hold = bench.running(new_job(1), "w").await;
    bench.end("w", hold, completed()).await;
    assert!(!bench.progress("w", hold, "too late").await);
    assert_eq!(kept(bench).await, (None, None));
}

pub(super) async fn progress_ends_a_row_of_losses(bench: &Bench) {
    bench.add(new_job(1)).await;
    bench.lose_again(id(1), 2).await;
    bench.promote_in(std::time::Duration::from_secs(3_600)).await;
    let hold = bench.take("w").await;
    assert_eq!(bench.job(id(1)).await.lost, 2);
    assert!(bench.progress("w", hold, "it moves").await);
    assert_eq!(bench.job(id(1)).await.lost, 0);
}

pub(super) async fn mixed_progress_is_answered_in_input_order(bench: &Bench) {
    bench.enqueue([1, 2].map(new_job).to_vec()).await;
    let mine = bench.take("w").await;
    let other = bench.take("other").await;
    let stale = Hold { fence: Fence::new(1), ..mine };
    let unknown = Hold { job: id(9), ..mine };
    let notes = [
        note(unknown, Some("a"), None),
        note(mine, Some("b"), None),
        note(other, Some("c"), None),
        note(mine, Some("d"), Some("e")),
        note(stale, Some("f"), None),
    ];
    assert_eq!(bench.progress_all("w", notes.to_vec()).await, [false, true, false, true, false]);
    assert_eq!(kept(bench).await, (Some(text("d")), Some(text("e"))), "the last accepted one counts");
    assert_eq!(bench.job(id(2)).await.progress, None);
    assert_eq!(bench.progress_all("w", vec![]).await, Vec::<bool>::new());
}
