//! What the demo shows: on a terminal a live picture of who holds what, elsewhere one line for each thing that happens.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use rpc::wire;

use super::WORKERS;
use super::verdict::Verdict;
use crate::effects::{self, What};

/// How often the workers' logs are read for the picture.
const LOOK: Duration = Duration::from_millis(200);

pub(super) struct View {
    all: MultiProgress,
    total: ProgressBar,
    workers: Vec<ProgressBar>,
    conditions: [Cell<&'static str>; WORKERS.len()],
    looked: Cell<Option<Instant>>,
    live: bool,
    quiet: bool,
    began: Instant,
}

impl View {
    pub(super) fn new(jobs: u64, quiet: bool) -> View {
        let all = MultiProgress::with_draw_target(if quiet {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        });
        let style = |template| ProgressStyle::with_template(template).expect("the template is valid");
        let total = all.add(ProgressBar::new(jobs).with_style(style("  done {bar:40} {pos}/{len}  {msg}")));
        let workers = WORKERS
            .iter()
            .map(|name| {
                let line = all.add(ProgressBar::new_spinner().with_style(style("  {prefix:4} {msg}")));
                line.set_prefix(*name);
                line
            })
            .collect();
        let live = !all.is_hidden();
        let conditions = [const { Cell::new("working") }; WORKERS.len()];
        View { conditions, all, total, workers, looked: Cell::new(None), live, quiet, began: Instant::now() }
    }

    /// One thing that happened.
    pub(super) fn say(&self, text: &str) {
        let line = format!("{:5.1} s  {text}", self.began.elapsed().as_secs_f64());
        if self.live {
            let _ = self.all.println(line);
        } else if !self.quiet {
            eprintln!("{line}");
        }
    }

    /// How a worker fares, from now on.
    pub(super) fn mark(&self, worker: usize, condition: &'static str) {
        self.conditions[worker].set(condition);
    }

    /// The picture as of now.
    pub(super) fn update(&self, queue: &wire::Queue, logs: &[PathBuf]) {
        if !self.live || self.looked.get().is_some_and(|at| at.elapsed() < LOOK) {
            return;
        }
        self.looked.set(Some(Instant::now()));
        self.total.set_position(queue.completed);
        self.total.set_message(format!(
            "{} waiting, {} held",
            queue.available + queue.scheduled,
            queue.running
        ));
        for ((line, log), condition) in self.workers.iter().zip(logs).zip(&self.conditions) {
            let Ok(entries) = effects::read(log) else { continue };
            let count = |what| entries.iter().filter(|entry| entry.what == what).count();
            let ended: BTreeSet<_> = entries
                .iter()
                .filter(|e| !matches!(e.what, What::Start | What::Tick))
                .map(|e| (e.job, e.fence))
                .collect();
            let held: Vec<String> = entries
                .iter()
                .filter(|e| e.what == What::Start && !ended.contains(&(e.job, e.fence)))
                .map(|e| e.job.to_string()[28..].to_owned())
                .collect();
            line.set_message(format!(
                "{:<8}did {:>4}, refused {:>2}, holds {}",
                condition.get(),
                count(What::Effect),
                count(What::Refuse),
                held.join(" ")
            ));
        }
    }

    pub(super) fn finish(&self) {
        for line in &self.workers {
            line.finish_and_clear();
        }
        self.total.finish_and_clear();
    }
}

/// The last word, for people.
pub(super) fn verdict(verdict: &Verdict) -> String {
    let rows = [
        ("jobs", verdict.jobs.to_string()),
        ("completed", verdict.completed.to_string()),
        ("lost", verdict.lost_jobs.to_string()),
        ("effects twice under one fence", verdict.duplicate_effects_same_fence.to_string()),
        ("stale writes accepted", verdict.stale_writes_accepted.to_string()),
        ("stale writes refused", verdict.stale_writes_refused.to_string()),
        ("rescues", verdict.rescues.to_string()),
        ("rescue time p50 / p99", format!("{} / {} ms", verdict.rescue_ms_p50, verdict.rescue_ms_p99)),
        (
            "after the SIGKILL p50 / p99",
            format!("{} / {} ms", verdict.crash_rescue_ms_p50, verdict.crash_rescue_ms_p99),
        ),
        ("exclusive jobs", verdict.exclusive_jobs.to_string()),
        ("exclusive hand-overs", verdict.exclusive_hand_overs.to_string()),
        ("overlapping runs of those", verdict.overlapping_runs.to_string()),
        ("least hand-over margin", format!("{:.1} ms", verdict.hand_over_margin_ms_min)),
    ];
    let mut text = String::from("\nFrom the workers' own logs:\n");
    for (what, figure) in rows {
        text.push_str(&format!("  {what:<32}{figure:>16}\n"));
    }
    if verdict.broken().is_empty() {
        text.push_str("\nEvery promise held.");
    }
    text
}
