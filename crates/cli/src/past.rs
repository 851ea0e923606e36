//! What a server on PostgreSQL remembers in its data directory over its own death: which registry of workers it had.
//!
//! The file is locked as long as the process lives. Whoever gets the lock knows that the last owner is dead, however it
//! died, and that its workers need not wait until that is noticed.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use model::RegistryId;
use node::Past;
use tracing::{info, warn};

const FILE: &str = "registry";

/// The last life of the server with this data directory on this database, and where this one is noted. Nothing is
/// remembered where that is not possible; then others have to notice.
pub(crate) fn of(data: &Path, database_url: &str) -> Past {
    let database = mark(database_url);
    match open(data, database) {
        Ok((file, last)) => {
            let note = move |registry: RegistryId| {
                if let Err(error) = write(&file, database, registry) {
                    warn!(%error, "cannot note the registry; after a crash workers will have to wait a little");
                }
            };
            Past { last, note: Some(Arc::new(note)) }
        }
        Err(error) => {
            info!(data = %data.display(), %error, "nothing is remembered over a crash");
            Past::default()
        }
    }
}

fn open(data: &Path, database: u64) -> io::Result<(File, Option<RegistryId>)> {
    fs::create_dir_all(data)?;
    let path = data.join(FILE);
    let mut file = File::options().create(true).truncate(false).read(true).write(true).open(path)?;
    // Another server of the same directory lives: what is in the file is its.
    file.try_lock()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok((file, parse(&text, database)))
}

fn parse(text: &str, database: u64) -> Option<RegistryId> {
    let (mark, registry) = text.trim().split_once(' ')?;
    (u64::from_str_radix(mark, 16) == Ok(database)).then_some(RegistryId(registry.parse().ok()?))
}

fn write(mut file: &File, database: u64, registry: RegistryId) -> io::Result<()> {
    let text = format!("{database:016x} {}\n", registry.0);
    file.rewind()?;
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)
}

/// Tells databases apart: by hosts, ports and name, so that nothing secret is written down, not even disguised, and a new
/// password changes nothing. It is compared over releases, so the function is a fixed one (FNV-1a).
fn mark(database_url: &str) -> u64 {
    place(database_url)
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |mark, byte| (mark ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Where a database is, whichever of its two forms the address has: `scheme://user:password@hosts/name?options` or
/// `host=… dbname=…`.
fn place(database_url: &str) -> String {
    let (rest, options) = match database_url.split_once("://") {
        Some((_, rest)) => rest.split_once('?').unwrap_or((rest, "")),
        None => ("", database_url),
    };
    // In the user's part a slash or an at sign is written in another way.
    let (authority, name) = rest.split_once('/').unwrap_or((rest, ""));
    let hosts = authority.rsplit('@').next().unwrap_or_default();
    let is_place = |option: &&str| {
        ["host=", "hostaddr=", "port=", "dbname="].iter().any(|word| option.starts_with(word))
    };
    let options = options.split(|separator: char| separator == '&' || separator.is_whitespace());
    let mut parts = vec![hosts, name];
    parts.extend(options.filter(is_place));
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_registry_is_known_to_the_next_life_and_to_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let url = "postgresql://a/b";
        let first = of(dir.path(), url);
        assert_eq!(first.last, None);
        let note = first.note.expect("the directory can be written");
        note(RegistryId(11));
        note(RegistryId(7));
        let beside = of(dir.path(), url);
        assert!(beside.last.is_none() && beside.note.is_none(), "the first one lives");
        drop(note);
        assert_eq!(of(dir.path(), "postgresql://a/c").last, None, "another database");
        assert_eq!(of(dir.path(), url).last, Some(RegistryId(7)));
    }

    #[test]
    fn databases_are_told_apart_by_where_they_are_and_by_nothing_else() {
        let url = "postgresql://ann:secret@h1:5432,h2:5433/jobs?sslmode=require";
        assert_eq!(place(url), "h1:5432,h2:5433/jobs");
        assert_eq!(mark(url), 0x4b96_7467_a3a6_c07c, "it must not change from release to release");
        for same in [
            "postgresql://bob:other@h1:5432,h2:5433/jobs",
            "postgres://h1:5432,h2:5433/jobs?application_name=x&sslmode=prefer",
        ] {
            assert_eq!(mark(same), mark(url), "{same}");
        }
        for other in [
            "postgresql://h1:5432/jobs",
            "postgresql://h1:5432,h2:5434/jobs",
            "postgresql://h1:5432,h2:5433/x",
        ] {
            assert_ne!(mark(other), mark(url), "{other}");
        }
        assert_eq!(place("host=h1 password=x dbname=jobs"), "//host=h1/dbname=jobs");
        assert_ne!(mark("postgresql:///jobs?host=/run/a"), mark("postgresql:///jobs?host=/run/b"));
    }

    #[test]
    fn nonsense_is_nothing() {
        for text in ["", "x", "1", "zz 3", "0000000000000001 x"] {
            assert_eq!(parse(text, 1), None, "{text:?}");
        }
        assert_eq!(parse("0000000000000001 3\n", 1), Some(RegistryId(3)));
    }
}
