//! Which database a command is about: what flags, environment and settings file say of its URL, which may have a password in it.

use std::env;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use model::Invalid;

use crate::secret_file;

/// The variable that names our database. clap does not read it: empty it counts as unset, while an empty flag is a mistake.
pub(crate) const OWN_URL: &str = "TENURE_DATABASE_URL";
/// The variable that names the file with it.
const OWN_URL_FILE: &str = "TENURE_DATABASE_URL_FILE";
/// The variable that many programs share. What it says was not said to us, so everything else wins over it.
pub(crate) const SHARED_URL: &str = "DATABASE_URL";

/// The flags of every command that may be about a database.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct DatabaseFlags {
    /// PostgreSQL database, instead of the directory, as postgresql://user@host/name?sslmode=verify-full; several hosts with
    /// commas. A password in it can be seen by every user of this machine: give it by file or variable [env:
    /// TENURE_DATABASE_URL; empty is unset] [default: DATABASE_URL of the environment; `serve` takes that only if the
    /// directory holds no jobs yet]
    #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new(), conflicts_with = "database_url_file")]
    pub(crate) database_url: Option<String>,
    /// File with the database's URL, which other users must not be able to open [env: TENURE_DATABASE_URL_FILE; empty is unset]
    #[arg(long, value_name = "FILE")]
    pub(crate) database_url_file: Option<PathBuf>,
}

impl DatabaseFlags {
    /// What the flags alone say.
    pub(crate) fn flagged(&self) -> Result<Option<String>, Invalid> {
        said(self.database_url.clone(), self.database_url_file.as_deref())
    }

    /// What was said to us: by a flag, else by our variables.
    pub(crate) fn own(&self) -> Result<Option<String>, Invalid> {
        if let Some(url) = self.flagged()? {
            return Ok(Some(url));
        }
        let (url, file) = (variable(OWN_URL), variable(OWN_URL_FILE));
        if url.is_some() && file.is_some() {
            return Err(Invalid::new(format!(
                "{OWN_URL} and {OWN_URL_FILE} are both set; leave one of them out"
            )));
        }
        said(url, file.as_deref().map(Path::new))
    }

    /// The database that a command without a settings file is about, if it is about one.
    pub(crate) fn url(&self) -> Result<Option<String>, Invalid> {
        Ok(self.own()?.or_else(|| variable(SHARED_URL)))
    }

    /// Words about a password that everybody on this machine can read, if there is one.
    pub(crate) fn warning(&self) -> Option<&'static str> {
        self.database_url.as_deref().is_some_and(has_password).then_some(
            "every user of this machine can see the password in --database-url (`ps` shows it); put the URL into a file \
             and name it with --database-url-file, or set TENURE_DATABASE_URL",
        )
    }
}

/// Words about hosts that somebody in between could pretend to be, if there are any. What is no URL is refused elsewhere.
pub(crate) fn unverified(url: &str) -> Option<String> {
    let hosts = store_postgres::unverified_hosts(url).ok().filter(|hosts| !hosts.is_empty())?;
    Some(format!(
        "nothing proves that the database answering for {} is ours: somebody on the network could read and change jobs; add \
         sslmode=verify-full&sslrootcert=FILE to its URL",
        hosts.join(", ")
    ))
}

/// The URL, or what its file says.
pub(crate) fn said(url: Option<String>, file: Option<&Path>) -> Result<Option<String>, Invalid> {
    match (url, file) {
        (None, Some(file)) => of_file(file).map(Some),
        (url, _) => Ok(url),
    }
}

fn of_file(path: &Path) -> Result<String, Invalid> {
    let failed =
        |why: String| Invalid::new(format!("cannot read the database's URL in {}: {why}", path.display()));
    let text = secret_file::read(path).map_err(|error| failed(error.to_string()))?;
    let url = text.trim_end_matches(['\n', '\r']);
    if url.is_empty() {
        return Err(failed("it is empty".to_owned()));
    }
    // The URL itself stays out of the message.
    if url.contains('\n') {
        return Err(failed("it has more than one line".to_owned()));
    }
    Ok(url.to_owned())
}

/// What a variable of the environment says; empty it says nothing.
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// True if `scheme://user:password@…` or `…?password=…`.
fn has_password(url: &str) -> bool {
    let (rest, query) = url.split_once('?').unwrap_or((url, ""));
    let authority = rest.split_once("://").map_or(rest, |(_, rest)| rest);
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    user.split_once(':').is_some_and(|(_, password)| !password.is_empty())
        || query.split('&').any(|option| option.strip_prefix("password=").is_some_and(|it| !it.is_empty()))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_password_is_found_wherever_a_url_may_have_it() {
        for url in [
            "postgresql://ann:secret@h1,h2:5432/jobs",
            "postgres://ann:s%40t@h/jobs?sslmode=require",
            "postgresql://:secret@h/jobs",
            "postgresql://ann@h/jobs?sslmode=require&password=secret",
        ] {
            let flags = DatabaseFlags { database_url: Some(url.to_owned()), ..DatabaseFlags::default() };
            assert!(flags.warning().is_some_and(|text| !text.contains("secret")), "{url}");
        }
        for url in [
            "postgresql://ann@h1:5432,h2:5432/jobs",
            "postgresql://h:5432/jobs?application_name=a:b@c",
            "postgresql://ann:@h/jobs",
            "postgresql:///jobs?host=/run/postgresql&password=",
        ] {
            assert!(!has_password(url), "{url}");
        }
        assert_eq!(DatabaseFlags::default().warning(), None);
    }

    #[test]
    fn the_url_of_a_file_is_its_only_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("url");
        let flags = DatabaseFlags { database_url_file: Some(path.clone()), ..DatabaseFlags::default() };
        let own = |text: &str, mode| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            flags.own().map_err(|error| error.0)
        };
        for text in ["postgresql://a:b@c/d", "postgresql://a:b@c/d\n", "postgresql://a:b@c/d\r\n"] {
            assert_eq!(own(text, 0o600).unwrap().as_deref(), Some("postgresql://a:b@c/d"));
        }
        for (text, mode, why) in [
            ("postgresql://a:b@c/d\n", 0o644, "chmod 600"),
            ("postgresql://a:b@c/d\n", 0o640, "chmod 600"),
            ("\n", 0o600, "it is empty"),
            ("postgresql://a:b@c/d\npostgresql://a:b@c/e\n", 0o600, "more than one line"),
        ] {
            let error = own(text, mode).unwrap_err();
            assert!(error.contains(why) && !error.contains("a:b"), "{error}");
        }
        fs::remove_file(&path).unwrap();
        assert!(flags.own().unwrap_err().0.contains("No such file"));
        assert_eq!(flags.warning(), None, "nothing of it is on the command line");
    }
}
