//! `tenure migrate`: brings the data to the schema of this program. `serve` does the same when it starts.

use std::path::PathBuf;

use serde::Serialize;

use crate::config::DATA_DEFAULT;
use crate::database::DatabaseFlags;
use crate::exit::Exit;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  tenure migrate --dry-run
  tenure migrate --data /var/lib/tenure
  tenure migrate --database-url postgresql://tenure@db/jobs --dry-run

On a data directory the server must be stopped. A dry run prints the SQL of the
missing steps and changes nothing.";

/// Bring the data to the schema of this program
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the data
    #[arg(long, env = "TENURE_DATA", hide_env_values = true, value_name = "DIR", default_value = DATA_DEFAULT)]
    data: PathBuf,
    #[command(flatten)]
    database: DatabaseFlags,
    /// Print what would be done and change nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    /// The directory; null for a database.
    data: Option<&'a PathBuf>,
    dry_run: bool,
    /// Schema before; null when there is no data yet.
    found: Option<u32>,
    /// Schema this program needs.
    known: usize,
    steps: Vec<Step>,
}

#[derive(Serialize)]
struct Step {
    number: u32,
    name: &'static str,
    sql: &'static str,
}

pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<Exit> {
    if let Some(warning) = args.database.warning() {
        output.warning(warning);
    }
    let database_url = args.database.url()?;
    let (found, known, steps): (_, _, Vec<Step>) = match &database_url {
        None => {
            let found = store_sqlite::schema_version(&args.data)?;
            let steps = store_sqlite::migrate(&args.data, args.dry_run)?.into_iter();
            let steps = steps.map(|step| Step { number: step.number, name: step.name, sql: step.sql });
            (found, store_sqlite::migrations().len(), steps.collect())
        }
        Some(url) => {
            let found = store_postgres::schema_version(url).await?;
            let steps = store_postgres::migrate(url, args.dry_run).await?.into_iter();
            let steps = steps.map(|step| Step { number: step.number, name: step.name, sql: step.sql });
            (found, store_postgres::migrations().len(), steps.collect())
        }
    };
    let data = database_url.is_none().then_some(&args.data);
    if output.is_json() {
        output.json(&Report { data, dry_run: args.dry_run, found, known, steps })?;
        return Ok(Exit::Done);
    }
    let data = data.map_or("the database".to_owned(), |data| data.display().to_string());
    if steps.is_empty() {
        output.line(format_args!("the data in {data} is up to date (schema {known})"))?;
        return Ok(Exit::Done);
    }
    for step in &steps {
        if args.dry_run {
            output.line(format_args!("-- {} {}\n{}", step.number, step.name, step.sql.trim_end()))?;
        } else {
            output.line(format_args!("{} {}: done", step.number, step.name))?;
        }
    }
    let from = found.map_or("nothing".to_owned(), |found| format!("schema {found}"));
    if args.dry_run {
        output.note(format_args!(
            "the data in {data} would go from {from} to schema {known}; nothing was changed"
        ));
    } else {
        output.line(format_args!("the data in {data} went from {from} to schema {known}"))?;
    }
    Ok(Exit::Done)
}
