//! `tenure nodes list`.

use std::time::Duration;

use rpc::wire;

use super::state;
use crate::connect::ServerArgs;
use crate::duration;
use crate::exit::Exit;
use crate::output::{Cell, Output};

const EXAMPLES: &str = "\
Examples:
  tenure nodes list
  tenure nodes list --all
  tenure nodes list --json | jq -r 'select(.state == \"dead\") | .id'

States: alive; probe_failed (this server had no answer, others are asked); suspected (may still
contradict); dead (may still come back); left (gone for good).

Exit codes: 0 done, 2 usage, 3 cannot reach the server, 5 the server is in no cluster.";

/// List the nodes of the cluster as one server sees them
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Also those who left
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<Exit> {
    let mut seen = args.server.client()?.nodes().await?;
    seen.nodes.retain(|node| args.all || node.is_self || node.state != "left");
    if output.is_json() {
        output.json_lines(&seen.nodes)?;
    } else {
        let header = ["ID", "STATE", "FOR", "EPOCH", "INC", "GOSSIP", "API", "NAME", "VERSION", "NOTE"];
        output.table(&header, seen.nodes.iter().map(row).collect())?;
    }
    for note in notes(&seen) {
        output.note(note);
    }
    Ok(Exit::Done)
}

fn row(node: &wire::Node) -> Vec<Cell> {
    vec![
        node.id.into(),
        state(node),
        span(node.state_for_ms).into(),
        node.epoch.into(),
        node.incarnation.into(),
        (&node.address).into(),
        Cell::cut(&node.api_address),
        Cell::cut(&node.name),
        Cell::cut(&node.version),
        remarks(node).join(", ").into(),
    ]
}

/// What is special about a node.
pub(super) fn remarks(node: &wire::Node) -> Vec<&'static str> {
    let all = [
        (node.is_self, "answers you"),
        (node.leader_preference, "would lead"),
        (node.probation, "on probation"),
    ];
    all.into_iter().filter(|(is_so, _)| *is_so).map(|(_, word)| word).collect()
}

/// What people should know about the server that answers.
fn notes(seen: &wire::ListNodesResponse) -> Vec<String> {
    let mut notes = Vec::new();
    if seen.standing != "member" {
        let why = if seen.why.is_empty() { String::new() } else { format!(": {}", seen.why) };
        notes.push(format!("this server is {} (cluster {}){why}", seen.standing, seen.cluster));
    }
    if seen.lonely {
        notes.push(
            "most others seem gone to this server; more likely it is the one that is cut off".to_owned(),
        );
    }
    if seen.health > 0 {
        notes.push(format!(
            "this server doubts its own judgement (health {}, 0 is well): its timeouts are {} times as long",
            seen.health,
            seen.health + 1
        ));
    }
    notes
}

/// Milliseconds, for people.
pub(super) fn span(millis: i64) -> String {
    duration::show(Duration::from_millis(millis.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_when_the_answering_server_is_not_well() {
        let well = wire::ListNodesResponse { standing: "member".into(), ..Default::default() };
        assert_eq!(notes(&well), [] as [&str; 0]);
        let ousted = wire::ListNodesResponse {
            standing: "ousted".into(),
            why: "two of them".into(),
            cluster: "prod".into(),
            lonely: true,
            health: 2,
            ..Default::default()
        };
        let notes = notes(&ousted);
        assert_eq!(notes.len(), 3);
        assert_eq!(notes[0], "this server is ousted (cluster prod): two of them");
        assert!(notes[2].contains("3 times as long"), "{notes:?}");
    }
}
