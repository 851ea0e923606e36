//! What can go wrong: on opening ([`OpenError`]), and inside a verb ([`Trouble`], which callers see as [`StoreError`]).

use std::error::Error;
use std::io;
use std::time::Duration;

use model::Invalid;
use store::StoreError;
use thiserror::Error;
use tokio_postgres::error::SqlState;

/// The database cannot be used. Nothing in it was changed. The text says how to mend it, and holds no password.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The URL cannot be understood, or asks for what we do not do.
    #[error("cannot use the database URL: {0}")]
    Url(String),
    /// No host of the URL answers, takes our login, and accepts writes.
    #[error("cannot connect to the database: {0}")]
    Unreachable(String),
    /// The schema was written by a later release.
    #[error("the database has a newer schema ({found}, this program knows {known}); upgrade tenure")]
    Newer {
        /// The database's schema.
        found: u32,
        /// The latest schema this program knows.
        known: u32,
    },
    /// The schema lacks steps, and we were told not to run them.
    #[error("the database has schema {found}, this program needs {known}; run `tenure migrate`")]
    Older {
        /// The database's schema; 0 if it has none.
        found: u32,
        /// The schema this program needs.
        known: u32,
    },
    /// There is a schema of our name that we did not make.
    #[error("the database has a schema named tenure that is not ours; use another database")]
    NotOurs,
    /// The schema of our name, or something in it, belongs to somebody else, who could change or drop it at any time.
    #[error(
        "the schema tenure of this database, or something in it, belongs to the role {owner}, which could change or drop it at any \
         time; give Tenure a database of its own, drop that schema, or connect as a member of {owner}"
    )]
    OthersSchema {
        /// Whose it is.
        owner: String,
    },
    /// The database refused a step of the schema, or a question on opening.
    #[error("the database refused: {0}")]
    Refused(String),
}

/// Why a verb stopped half-way; its transaction is rolled back.
#[derive(Debug, Error)]
pub(crate) enum Trouble {
    #[error("{}", text(.0))]
    Postgres(#[from] tokio_postgres::Error),
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error("{0}")]
    Damaged(String),
    /// Someone else changed the same things meanwhile; run again, the verb sees what they did.
    #[error("someone else was quicker: {0}")]
    Again(&'static str),
    /// No answer within the limit.
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    /// There is no connection, for this reason.
    #[error("{0}")]
    Away(String),
}

impl Trouble {
    /// The database's code for it.
    pub(crate) fn code(&self) -> Option<&SqlState> {
        match self {
            Trouble::Postgres(error) => error.code(),
            _ => None,
        }
    }

    /// True if running the same again may well succeed.
    pub(crate) fn is_conflict(&self) -> bool {
        match self {
            Trouble::Again(_) => true,
            Trouble::Postgres(error) => matches!(
                error.code(),
                Some(&SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED)
            ),
            _ => false,
        }
    }

    /// True if the store as a whole cannot serve now, so that trying the group's members one by one is idle.
    pub(crate) fn is_outage(&self) -> bool {
        match self {
            Trouble::TimedOut(_) | Trouble::Away(_) => true,
            Trouble::Postgres(error) => {
                self.loses_connection()
                    || error.code().is_some_and(|state| {
                        // Out of disk, memory or connections; cancelled by its time limit; an I/O error.
                        state.code().starts_with("53")
                            || state.code().starts_with("58")
                            || *state == SqlState::QUERY_CANCELED
                            || *state == SqlState::INSUFFICIENT_PRIVILEGE
                    })
            }
            _ => false,
        }
    }

    /// True if the connection it came from must not be used again.
    pub(crate) fn loses_connection(&self) -> bool {
        match self {
            Trouble::TimedOut(_) | Trouble::Away(_) => true,
            Trouble::Postgres(error) => match error.code() {
                Some(state) => {
                    // The server is going, or has become a standby: the next connection may find a better one.
                    state.code().starts_with("57P")
                        || state.code().starts_with("08")
                        || *state == SqlState::READ_ONLY_SQL_TRANSACTION
                }
                None => error.is_closed() || error.source().is_some_and(<dyn Error>::is::<io::Error>),
            },
            _ => false,
        }
    }

    /// What the caller is told.
    pub(crate) fn to_store_error(&self) -> StoreError {
        let error = match self {
            Trouble::Invalid(invalid) => return StoreError::Invalid(invalid.clone()),
            Trouble::Damaged(what) => return StoreError::Corrupt(what.clone()),
            Trouble::Again(what) => {
                return StoreError::Unavailable(format!("others kept changing the same jobs ({what})"));
            }
            Trouble::TimedOut(limit) => {
                return StoreError::Unavailable(format!(
                    "the database did not answer within {limit:?}; see whether it hangs or is overloaded"
                ));
            }
            Trouble::Away(reason) => return StoreError::Unavailable(reason.clone()),
            Trouble::Postgres(error) => error,
        };
        if let Some(explained) = explain(error) {
            return StoreError::Unavailable(explained);
        }
        if self.loses_connection() {
            let what = text(error);
            return StoreError::Unavailable(format!(
                "the connection to the database was lost ({what}); whether the change was made is not known"
            ));
        }
        if self.is_conflict() || self.is_outage() {
            return StoreError::Unavailable(format!("the database cannot serve now ({})", text(error)));
        }
        StoreError::Corrupt(format!("the database gave an unexpected answer ({})", text(error)))
    }
}

/// What to do about errors that people can mend.
pub(crate) fn explain(error: &tokio_postgres::Error) -> Option<String> {
    let said = error.as_db_error()?.message();
    let advice = match *error.code()? {
        SqlState::TOO_MANY_CONNECTIONS => {
            "the database has no connection left; raise max_connections or close other clients"
        }
        SqlState::READ_ONLY_SQL_TRANSACTION => {
            "the database is read-only, as a standby is; name its primary in the URL, or all its hosts"
        }
        SqlState::DISK_FULL => "the disk of the database is full; free space there",
        SqlState::QUERY_CANCELED => "the database took too long; see whether it hangs or is overloaded",
        SqlState::LOCK_NOT_AVAILABLE => {
            "busy: an open transaction of somebody else has the same job, unique key or new queue; try again"
        }
        SqlState::INSUFFICIENT_PRIVILEGE => "the database role lacks rights; grant them or use another role",
        SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME | SqlState::UNDEFINED_COLUMN => {
            "the database lacks our schema or has another one; run `tenure migrate`"
        }
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "the database refuses our login; check user and password in the URL"
        }
        SqlState::INVALID_CATALOG_NAME => "there is no such database; create it or correct the URL",
        SqlState::CANNOT_CONNECT_NOW => "the database is starting up or shutting down",
        SqlState::ADMIN_SHUTDOWN | SqlState::CRASH_SHUTDOWN => {
            "the database shut down or closed our connection; whether the change was made is not known"
        }
        _ => return None,
    };
    Some(format!("{advice} ({said})"))
}

/// An error with its causes; the crate's own text leaves them out.
pub(crate) fn text(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let more = next.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = next.source();
    }
    text
}

/// The answer when the tasks behind the store are gone.
pub(crate) fn stopped() -> StoreError {
    StoreError::Unavailable("the store has stopped; restart the server".to_owned())
}
