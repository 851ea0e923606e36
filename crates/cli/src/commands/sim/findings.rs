//! What an experiment found, as a table or as JSON.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};
use sim::swim::experiments::{Cell, Findings};

use crate::output::{self, Output};

pub(super) fn print(
    output: &Output,
    experiment: &impl Serialize,
    findings: &Findings,
    took: Duration,
) -> anyhow::Result<()> {
    if output.is_json() {
        output.json(&as_json(experiment, findings, took))?;
        return Ok(());
    }
    output.line(&findings.title)?;
    let header: Vec<String> = findings.columns.iter().map(|column| column.replace('_', " ")).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let rows =
        findings.rows.iter().map(|row| row.iter().map(|cell| output::Cell::from(shown(cell))).collect());
    output.table(&header, rows.collect())?;
    for note in &findings.notes {
        output.note(note);
    }
    let speed = findings.events as f64 / took.as_secs_f64();
    output.note(format_args!(
        "{} events in {:.1} s, {speed:.0} a second",
        findings.events,
        took.as_secs_f64()
    ));
    Ok(())
}

fn shown(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Count(count) => count.to_string(),
        Cell::Number(number, digits) => format!("{number:.digits$}"),
        Cell::Missing => "-".to_owned(),
    }
}

fn as_json(experiment: &impl Serialize, findings: &Findings, took: Duration) -> Value {
    let value = |cell: &Cell| match cell {
        Cell::Text(text) => json!(text),
        Cell::Count(count) => json!(count),
        Cell::Number(number, digits) => {
            let scale = 10_f64.powi(*digits as i32);
            json!((number * scale).round() / scale)
        }
        Cell::Missing => Value::Null,
    };
    let row = |row: &Vec<Cell>| -> Map<String, Value> {
        findings.columns.iter().zip(row).map(|(name, cell)| ((*name).to_owned(), value(cell))).collect()
    };
    json!({
        "experiment": experiment,
        "title": findings.title,
        "rows": findings.rows.iter().map(row).collect::<Vec<_>>(),
        "notes": findings.notes,
        "events": findings.events,
        "wall_seconds": seconds(took),
    })
}

pub(super) fn seconds(span: Duration) -> f64 {
    (span.as_secs_f64() * 10.0).round() / 10.0
}
