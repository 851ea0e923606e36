//! How a muster stands, in words and as a table.

use std::io;
use std::time::Duration;

use rpc::wire;

use crate::output::{Cell, Output, Tone};
use crate::volatile::is_full;
use crate::{duration, size};

pub(super) fn print(output: &Output, status: &wire::MusterStatus) -> io::Result<()> {
    if output.is_json() {
        return output.json(status);
    }
    let tone = if status.waiting { Tone::Mild } else { Tone::Plain };
    let mut lines = vec![Cell::toned(headline(status), tone)];
    lines.extend(status.reasons.iter().map(|reason| Cell::from(format!("  {reason}"))));
    lines.extend(alarms(status).into_iter().map(|alarm| Cell::toned(alarm, Tone::Bad)));
    lines.extend(remarks(status).into_iter().map(Cell::from));
    for line in lines {
        output.table(&[], vec![vec![line]])?;
    }
    if status.workers.is_empty() {
        return Ok(());
    }
    output.line("")?;
    let header = ["WORKER", "HEALTH", "SET", "NEEDS", "SEAT", "NOTE"];
    output.table(&header, status.workers.iter().map(row).collect())
}

/// The one thing to know.
pub(super) fn headline(status: &wire::MusterStatus) -> String {
    if !status.active {
        return "there are no volatile queues here; nothing waits".to_owned();
    }
    let waited = span(status.waited_ms);
    if status.waiting {
        let end = status.at_most_ms.map_or_else(
            || "until they are".to_owned(),
            |millis| format!("for {} more at the latest", span(millis)),
        );
        return format!("volatile queues wait until all workers are known: for {waited} so far, {end}");
    }
    let safe = span(status.safe_wait_ms);
    match status.how.as_str() {
        "agreed" => format!("volatile queues are open: all workers agreed after {waited} (safe wait {safe})"),
        "unsafe_wait" => {
            format!("volatile queues are open: the wait was cut short after {waited} (safe wait {safe})")
        }
        _ => format!("volatile queues are open: the safe wait was over after {waited}"),
    }
}

/// What must not be overlooked.
fn alarms(status: &wire::MusterStatus) -> Vec<String> {
    let mut alarms = Vec::new();
    if status.unsafe_wait {
        alarms.push(
            "UNSAFE: --unsafe-initial-wait cuts the wait short; a job that is still running may be started beside itself"
                .to_owned(),
        );
    }
    if status.double_starts > 0 {
        alarms.push(format!(
            "{} of jobs that should not run a second time; the server's log names both holders",
            count(status.double_starts, "sign")
        ));
    }
    alarms
}

fn remarks(status: &wire::MusterStatus) -> Vec<String> {
    let mut remarks = Vec::new();
    if !status.active {
        return remarks;
    }
    if !status.waiting {
        let estimate = if status.estimate > 0.0 {
            format!("; about {:.0} crash-looping ones could keep the others from agreeing", status.estimate)
        } else {
            String::new()
        };
        let members = count(u64::from(status.members), "worker");
        remarks.push(format!("the present set is version {} with {members}{estimate}", status.version));
    }
    if status.queued > 0 {
        let queued = count(u64::from(status.queued), "new worker");
        remarks.push(format!("{queued} kept out until the others agree"));
    }
    if status.bytes > 0 {
        let full = if is_full(status) {
            "; clients wait until some have ended (tenure serve --volatile-memory)"
        } else {
            ""
        };
        let (bytes, bytes_max) = (size::show(status.bytes), size::show(status.bytes_max));
        remarks.push(format!("volatile jobs take {bytes} of {bytes_max}{full}"));
    }
    if status.unclaimed > 0 {
        let unclaimed = count(status.unclaimed, "job");
        remarks
            .push(format!("{unclaimed} reported by workers, and not submitted again by the clients so far"));
    }
    remarks
}

fn row(worker: &wire::MusterWorker) -> Vec<Cell> {
    let tone = match worker.health.as_str() {
        "healthy" => Tone::Good,
        "new" | "unhealthy" => Tone::Mild,
        _ => Tone::Bad,
    };
    let version = |version: Option<u64>| version.map_or_else(|| "-".into(), Cell::from);
    let mut note = worker.why.clone();
    if !worker.held_back_by.is_empty() && !note.contains(&worker.held_back_by) {
        let end = if note.is_empty() { "" } else { "; " };
        note = format!("{note}{end}held back by {}", worker.held_back_by);
    }
    vec![
        (&worker.key).into(),
        Cell::toned(&worker.health, tone),
        version(worker.echoed),
        version(worker.requires),
        (&worker.seat).into(),
        note.into(),
    ]
}

/// The same whenever nothing happened to the workers in between.
pub(super) fn without_times(mut status: wire::MusterStatus) -> wire::MusterStatus {
    if status.waiting {
        status.waited_ms = 0;
        status.at_most_ms = status.at_most_ms.map(|_| 0);
    }
    (status.estimate, status.bytes) = (0.0, 0);
    status
}

fn count(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// With a tenth of a second where that matters to someone who waits.
fn span(millis: i64) -> String {
    if (1_000..60_000).contains(&millis) {
        return format!("{:.1}s", millis as f64 / 1e3);
    }
    duration::show(Duration::from_millis(millis.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting() -> wire::MusterStatus {
        wire::MusterStatus {
            active: true,
            waiting: true,
            waited_ms: 3_210,
            at_most_ms: Some(17_790),
            safe_wait_ms: 21_000,
            ..Default::default()
        }
    }

    #[test]
    fn the_headline_says_how_long_and_why() {
        assert_eq!(
            headline(&waiting()),
            "volatile queues wait until all workers are known: for 3.2s so far, for 17.8s more at the latest"
        );
        let open = |how: &str| {
            let how = how.to_owned();
            headline(&wire::MusterStatus { waiting: false, at_most_ms: None, how, ..waiting() })
        };
        assert_eq!(
            open("agreed"),
            "volatile queues are open: all workers agreed after 3.2s (safe wait 21.0s)"
        );
        assert_eq!(open("safe_wait"), "volatile queues are open: the safe wait was over after 3.2s");
        assert!(open("unsafe_wait").contains("cut short after 3.2s (safe wait 21.0s)"));
        assert!(headline(&wire::MusterStatus::default()).contains("no volatile queues"));
    }

    #[test]
    fn what_is_unsafe_is_never_left_out() {
        assert_eq!(alarms(&waiting()), [] as [&str; 0]);
        let unsafe_one = wire::MusterStatus { unsafe_wait: true, double_starts: 2, ..waiting() };
        let alarms = alarms(&unsafe_one);
        assert!(alarms[0].starts_with("UNSAFE") && alarms[1].starts_with("2 signs"), "{alarms:?}");
    }

    #[test]
    fn memory_is_shown_and_said_when_it_is_full() {
        let remark = |bytes| remarks(&wire::MusterStatus { bytes, bytes_max: 1 << 30, ..waiting() });
        assert_eq!(remark(0), [] as [&str; 0]);
        assert_eq!(remark(512 << 20), ["volatile jobs take 512.0MiB of 1.0GiB"]);
        assert!(remark((1 << 30) - 1_000)[0].contains("clients wait"));
    }

    #[test]
    fn time_alone_is_no_change() {
        let later = wire::MusterStatus { waited_ms: 4_000, at_most_ms: Some(17_000), ..waiting() };
        assert_eq!(without_times(later.clone()), without_times(waiting()));
        let known = wire::MusterStatus { members: 1, ..later };
        assert_ne!(without_times(known), without_times(waiting()));
    }

    #[test]
    fn a_worker_that_is_held_back_names_the_other_once() {
        let worker = |why: &str| {
            let worker = wire::MusterWorker {
                key: "w1".into(),
                health: "unhealthy".into(),
                why: why.into(),
                held_back_by: "w2".into(),
                ..Default::default()
            };
            format!("{:?}", row(&worker)[5])
        };
        assert!(worker("the set is new").contains("the set is new; held back by w2"));
        assert!(!worker("w2 has not echoed the set").contains("held back by"));
    }
}
