//! What a server on PostgreSQL remembers in its data directory over its own death: which registry of workers it had.
//!
//! The file is locked as long as the process lives. Whoever gets the lock knows that the last owner is dead, however it
//! died, and that its workers need not wait until that is noticed.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
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

/// Tells databases apart without writing down a password.
fn mark(database_url: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    database_url.hash(&mut hasher);
    hasher.finish()
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
    fn nonsense_is_nothing() {
        for text in ["", "x", "1", "zz 3", "0000000000000001 x"] {
            assert_eq!(parse(text, 1), None, "{text:?}");
        }
        assert_eq!(parse("0000000000000001 3\n", 1), Some(RegistryId(3)));
    }
}
