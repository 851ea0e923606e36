//! The user's own fence: SQL with which the user's own database refuses what a stale holder writes.
//!
//! Every claim has a [fence](crate::JobContext::fence), and Tenure refuses what an older one reports. It cannot do that for
//! other databases; these statements can. They keep a guard table with the highest fence that has written to each resource,
//! and advance it in the transaction of the write itself:
//!
//! 1. Begin a transaction (SQLite: `BEGIN IMMEDIATE`) and advance the guard *before* anything is read or written in it.
//! 2. No row came back, or an error: a newer claim has written already. Roll back; this holder is stale.
//! 3. Otherwise write, and commit. Whoever comes with another fence meanwhile waits for that commit.
//!
//! The parameters are always the resource, a text, and the fence, as `ctx.fence().get()`. Compare only fences of one job, or of
//! jobs of which one at a time writes to the resource. `docs/fencing.md` has the same statements, a pattern for rows with a
//! fence column of their own, and the reasons. Nothing here opens a connection: the statements fit any driver.

/// The statements for PostgreSQL.
pub mod postgres {
    /// Creates the guard table.
    pub const CREATE_TABLE: &str = "\
CREATE TABLE IF NOT EXISTS tenure_fences (
    resource text PRIMARY KEY,
    fence bigint NOT NULL
)";

    /// Advances the guard of resource `$1` to fence `$2`. A row comes back, or none: then the fence is stale, so roll back.
    pub const ADVANCE: &str = "\
INSERT INTO tenure_fences (resource, fence) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence
WHERE tenure_fences.fence <= excluded.fence
RETURNING fence";

    /// Creates the function that [`ADVANCE_OR_RAISE`] calls.
    pub const CREATE_FUNCTION: &str = "\
CREATE OR REPLACE FUNCTION tenure_fence(of_resource text, new_fence bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO tenure_fences (resource, fence) VALUES (of_resource, new_fence)
    ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence
    WHERE tenure_fences.fence <= excluded.fence;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'stale fence % for %', new_fence, of_resource USING ERRCODE = 'TN001';
    END IF;
END
$$";

    /// As [`ADVANCE`], but a stale fence is an error with [`STALE_SQLSTATE`], which spoils the transaction: a check that was
    /// forgotten cannot pass.
    pub const ADVANCE_OR_RAISE: &str = "SELECT tenure_fence($1, $2)";

    /// The SQLSTATE of the error that [`ADVANCE_OR_RAISE`] raises.
    pub const STALE_SQLSTATE: &str = "TN001";
}

/// The statements for SQLite, 3.37 or later.
pub mod sqlite {
    /// Creates the guard table.
    pub const CREATE_TABLE: &str = "\
CREATE TABLE IF NOT EXISTS tenure_fences (
    resource TEXT NOT NULL PRIMARY KEY,
    fence INTEGER NOT NULL
) STRICT, WITHOUT ROWID";

    /// Advances the guard of resource `?1` to fence `?2`. A row comes back, or none: then the fence is stale, so roll back.
    pub const ADVANCE: &str = "\
INSERT INTO tenure_fences (resource, fence) VALUES (?1, ?2)
ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence
WHERE tenure_fences.fence <= excluded.fence
RETURNING fence";

    /// Creates a trigger by which [`ADVANCE`] fails with [`STALE_MESSAGE`] where it would otherwise answer no row: a check
    /// that was forgotten cannot pass.
    pub const CREATE_TRIGGER: &str = "\
CREATE TRIGGER IF NOT EXISTS tenure_fences_refuse_stale
BEFORE INSERT ON tenure_fences
WHEN EXISTS (SELECT 1 FROM tenure_fences WHERE resource = NEW.resource AND fence > NEW.fence)
BEGIN
    SELECT RAISE(ABORT, 'stale fence');
END";

    /// The message of the error that the trigger raises. Its code is `SQLITE_CONSTRAINT_TRIGGER`.
    pub const STALE_MESSAGE: &str = "stale fence";
}

#[cfg(test)]
mod tests {
    use super::{postgres, sqlite};

    const PAGE: &str = include_str!("../../../docs/fencing.md");

    /// The page's blocks of SQL in this dialect, each with its name.
    fn blocks(dialect: &str) -> Vec<(&'static str, &'static str)> {
        let opening = format!("```sql {dialect} ");
        PAGE.split(opening.as_str())
            .skip(1)
            .map(|rest| {
                let block = rest.split("\n```").next().expect("a split has a first part");
                let (name, text) = block.split_once('\n').expect("a block has a name and a text");
                (name, text.trim_end_matches(';'))
            })
            .collect()
    }

    fn check(dialect: &str, constants: &[(&'static str, &'static str)]) {
        let on_page: Vec<_> =
            blocks(dialect).into_iter().filter(|(name, _)| !name.starts_with("row-")).collect();
        assert_eq!(on_page, constants, "docs/fencing.md and the constants for {dialect} say the same");
    }

    #[test]
    fn the_page_and_the_constants_say_the_same() {
        check(
            "postgres",
            &[
                ("create-table", postgres::CREATE_TABLE),
                ("advance", postgres::ADVANCE),
                ("create-function", postgres::CREATE_FUNCTION),
                ("advance-or-raise", postgres::ADVANCE_OR_RAISE),
            ],
        );
        check(
            "sqlite",
            &[
                ("create-table", sqlite::CREATE_TABLE),
                ("advance", sqlite::ADVANCE),
                ("create-trigger", sqlite::CREATE_TRIGGER),
            ],
        );
    }

    #[test]
    fn the_names_of_the_errors_are_those_that_are_raised() {
        assert!(postgres::CREATE_FUNCTION.contains(&format!("ERRCODE = '{}'", postgres::STALE_SQLSTATE)));
        assert!(sqlite::CREATE_TRIGGER.contains(&format!("RAISE(ABORT, '{}')", sqlite::STALE_MESSAGE)));
        for named in [postgres::STALE_SQLSTATE, sqlite::STALE_MESSAGE] {
            assert!(PAGE.contains(&format!("`{named}`")), "docs/fencing.md names {named}");
        }
    }

    #[test]
    fn the_page_shows_the_heart_of_the_example() {
        let example = include_str!("../examples/fenced.rs");
        let (_, rest) = PAGE.split_once("```rust\n").expect("the page has a block of Rust");
        let (shown, _) = rest.split_once("\n```").expect("the block ends");
        for line in shown.lines() {
            assert!(example.lines().any(|own| own.trim() == line), "examples/fenced.rs has {line:?}");
        }
    }

    #[test]
    fn no_block_of_the_page_escapes_the_tests() {
        let all = PAGE.matches("```sql").count();
        assert_eq!(all, blocks("postgres").len() + blocks("sqlite").len());
    }
}
