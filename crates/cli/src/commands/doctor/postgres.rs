//! The PostgreSQL database that servers share.

use std::time::{Duration, Instant};

use super::Finding;

/// A commit takes a few of these; slower links make every call slow.
const ROUND_TRIP_SLOW: Duration = Duration::from_millis(20);
/// Older ones lack what our statements use.
const VERSION_MIN: u32 = 13;

/// Can it be reached, is it new enough, is it near, and is the schema ours?
pub(super) async fn findings(url: &str) -> Vec<Finding> {
    let began = Instant::now();
    let version = match store_postgres::server_version(url).await {
        Ok(version) => version,
        Err(error) => {
            let mend =
                "check host, port, user, password and sslmode of the URL, and that the database exists";
            return vec![Finding::fail("database", error.to_string(), mend)];
        }
    };
    let mut findings = vec![reached(&version, began.elapsed()), schema(url).await];
    findings.extend(unverified(url));
    findings
}

/// Only what is wrong: on this machine there is nothing to verify.
fn unverified(url: &str) -> Option<Finding> {
    let hosts = store_postgres::unverified_hosts(url).ok().filter(|hosts| !hosts.is_empty())?;
    let found = format!("nothing proves that whoever answers for {} is our database", hosts.join(", "));
    Some(Finding::warn("database TLS", found, "add sslmode=verify-full&sslrootcert=FILE to the URL"))
}

/// The connection is several round trips; the whole of it is what a person would notice.
fn reached(version: &str, took: Duration) -> Finding {
    let found =
        format!("PostgreSQL {version}, accepts writes, answered in {:.0} ms", took.as_secs_f64() * 1e3);
    let major = version.split(|letter: char| !letter.is_ascii_digit()).next();
    if major.and_then(|major| major.parse().ok()).is_some_and(|major: u32| major < VERSION_MIN) {
        return Finding::fail("database", found, format!("upgrade PostgreSQL to {VERSION_MIN} or newer"));
    }
    if took > ROUND_TRIP_SLOW * 10 {
        return Finding::warn(
            "database",
            found,
            "run servers near their database: every commit waits for it",
        );
    }
    Finding::ok("database", found)
}

async fn schema(url: &str) -> Finding {
    let known = store_postgres::migrations().last().map_or(0, |step| step.number);
    let name = "schema";
    match store_postgres::schema_version(url).await {
        Ok(None) => Finding::ok(name, "none yet; `tenure serve` makes it"),
        Ok(Some(found)) if found == known => Finding::ok(name, format!("{found}, as this program")),
        Ok(Some(found)) if found < known => {
            let mend = "`tenure serve` migrates it; see what would be done with `tenure migrate --dry-run`";
            Finding::warn(name, format!("{found}, this program has {known}"), mend)
        }
        Ok(Some(found)) => {
            Finding::fail(name, format!("{found}, this program knows only {known}"), "upgrade tenure")
        }
        Err(error) => Finding::fail(name, error.to_string(), "mend what the sentence says, then look again"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn a_database_that_anybody_could_pretend_to_be_is_a_warning() {
        let finding = unverified("postgresql://me:secret@db.example/jobs").expect("it is not verified");
        assert_eq!(finding.status, Status::Warn);
        assert!(finding.found.contains("db.example") && !finding.found.contains("secret"), "{finding:?}");
        assert_eq!(unverified("postgresql://localhost/jobs"), None);
    }

    #[test]
    fn what_was_reached_is_judged_by_age_and_distance() {
        let quick = Duration::from_millis(9);
        assert_eq!(reached("15.4 (Debian)", quick).status, Status::Ok);
        assert_eq!(reached("13", quick).status, Status::Ok);
        assert_eq!(reached("12.1", quick).status, Status::Fail);
        assert_eq!(reached("15.4", Duration::from_millis(400)).status, Status::Warn);
    }
}
