//! How a worker goes on under a new key.

use model::{Hold, HolderEnd, WorkerKey};

use crate::db::Tx;
use crate::error::Trouble;
use crate::lane::Verb;
use crate::row::{self, Id};

/// Neither claims, ends or moves to another registry until we have committed. Locked in the order they are named in.
const KEEP_BOTH: &str = "
    SELECT h.key FROM unnest($1::text[]) AS named (key) JOIN tenure.holders h ON h.key = ANY (ARRAY[named.key])
    FOR UPDATE OF h";

/// $1 former, $2 successor, $3 how it ended.
const END_FORMER: &str = "
    UPDATE tenure.holders f SET retired_at = WALL_NOW, ended = $3
    FROM tenure.holders s
    WHERE f.key = $1 AND s.key = $2 AND f.key <> s.key AND f.nonce IS NOT NULL AND s.nonce IS NOT NULL
      AND f.retired_at IS NULL AND s.retired_at IS NULL AND f.registry IS NOT DISTINCT FROM s.registry";

/// $1 jobs, $2 fences, $3 former, $4 successor. Locked in the order of ids, as by everyone.
const MOVE: &str = "
    UPDATE tenure.jobs j SET holder = $4, adopted = false
    FROM (SELECT id, fence FROM unnest($1::uuid[], $2::bigint[]) AS named (id, fence) ORDER BY id) AS named
    WHERE j.id = ANY (ARRAY[named.id])
      AND (j.state, j.holder, j.fence) IS NOT DISTINCT FROM (2::smallint, $3, named.fence)";

/// Asked of the rows, so that a repeat answers as the first time. $1 jobs, $2 former, $3 successor, $4 how the former
/// ended.
const MOVED: &str = "
    SELECT j.id, j.fence FROM tenure.jobs j
    WHERE j.id = ANY ($1) AND (j.state, j.holder) IS NOT DISTINCT FROM (2::smallint, $3)
      AND EXISTS (SELECT 1 FROM tenure.holders h WHERE h.key = $2 AND h.ended = $4)";

pub(crate) const STATEMENTS: &[&str] = &[KEEP_BOTH, END_FORMER, MOVE, MOVED];

/// See [`store::JobStore::succeed`].
pub(crate) struct Succeed {
    pub(crate) former: WorkerKey,
    pub(crate) successor: WorkerKey,
    pub(crate) holds: Vec<Hold>,
}

impl Verb for Succeed {
    type Answer = Vec<bool>;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<Vec<bool>, Trouble> {
        let (former, successor) = (self.former.as_str(), self.successor.as_str());
        let end = HolderEnd::Succeeded as i16;
        let ids: Vec<_> = self.holds.iter().map(|hold| Id(hold.job)).collect();
        let mut both = vec![former, successor];
        both.sort_unstable();
        tx.query(KEEP_BOTH, &[&both]).await?;
        if tx.execute(END_FORMER, &[&former, &successor, &end]).await? == 1 {
            let fences: Vec<i64> = self.holds.iter().map(|hold| hold.fence.get()).collect();
            tx.execute(MOVE, &[&ids, &fences, &former, &successor]).await?;
        }
        let moved = row::holds(&tx.query(MOVED, &[&ids, &former, &successor, &end]).await?)?;
        Ok(self.holds.iter().map(|hold| moved.contains(hold)).collect())
    }
}
