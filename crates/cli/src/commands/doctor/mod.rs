//! `tenure doctor`: checks what a server on this machine needs, and says how to mend what is wrong.
//!
//! Looking changes nothing: neither data nor settings are written.

mod cluster;
mod machine;
mod postgres;
mod server;
mod store;

use std::path::PathBuf;

use serde::Serialize;

use crate::cluster::ClusterFlags;
use crate::config::DATA_DEFAULT;
use crate::connect::SERVER_DEFAULT;
use crate::database::DatabaseFlags;
use crate::exit::Exit;
use crate::output::{Cell, Output, Tone};

const EXAMPLES: &str = "\
Examples:
  tenure doctor
  tenure doctor --data /var/lib/tenure --server http://10.0.0.5:7117
  tenure doctor --database-url postgresql://tenure@db/jobs
  tenure doctor --node-id 1 --cluster-key-file cluster.key
  tenure doctor --json | jq 'select(.status != \"ok\")'

Exit codes: 0 nothing is wrong (warnings do not count), 1 something is.";

/// Check the data, the machine and the server
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the data
    #[arg(long, env = "TENURE_DATA", hide_env_values = true, value_name = "DIR", default_value = DATA_DEFAULT)]
    data: PathBuf,
    #[command(flatten)]
    database: DatabaseFlags,
    /// Address of a server that should be running [default: http://127.0.0.1:7117, if one is]
    #[arg(long, env = "TENURE_SERVER", hide_env_values = true, value_name = "URL")]
    server: Option<String>,
    #[command(flatten)]
    cluster: ClusterFlags,
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    check: &'static str,
    status: Status,
    found: String,
    /// What to do about it; empty when nothing needs doing.
    #[serde(skip_serializing_if = "String::is_empty")]
    mend: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Warn,
    Fail,
}

impl Finding {
    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Finding { check, status: Status::Ok, found: found.into(), mend: String::new() }
    }

    fn warn(check: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Self {
        Finding { check, status: Status::Warn, found: found.into(), mend: mend.into() }
    }

    fn fail(check: &'static str, found: impl Into<String>, mend: impl Into<String>) -> Self {
        Finding { check, status: Status::Fail, found: found.into(), mend: mend.into() }
    }
}

pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<Exit> {
    let address = args.server.as_deref().unwrap_or(SERVER_DEFAULT);
    let health = server::ask(address).await;
    if let Some(warning) = args.database.warning() {
        output.warning(warning);
    }
    let mut findings = match &args.database.url()? {
        Some(url) => postgres::findings(url).await,
        None => vec![
            store::directory(&args.data),
            store::space(&args.data),
            store::sqlite(),
            store::database(&args.data, &health),
        ],
    };
    findings.extend([machine::wall_clock(), machine::boot_clock(), machine::open_files()]);
    findings.extend(cluster::findings(args.cluster, &args.data, &health).await);
    findings.extend(server::findings(address, &health, args.server.is_some()));
    print(output, &findings)?;
    let is_well = findings.iter().all(|finding| finding.status != Status::Fail);
    Ok(if is_well { Exit::Done } else { Exit::Failed })
}

fn print(output: &Output, findings: &[Finding]) -> std::io::Result<()> {
    if output.is_json() {
        return output.json_lines(findings);
    }
    let rows = findings.iter().map(|finding| {
        let status = match finding.status {
            Status::Ok => Cell::toned("ok", Tone::Good),
            Status::Warn => Cell::toned("warn", Tone::Mild),
            Status::Fail => Cell::toned("FAIL", Tone::Bad),
        };
        let found = match finding.mend.as_str() {
            "" => finding.found.clone(),
            mend => format!("{}\n→ {mend}", finding.found),
        };
        vec![status, finding.check.into(), found.into()]
    });
    output.table(&["", "CHECK", "FOUND"], rows.collect())
}
