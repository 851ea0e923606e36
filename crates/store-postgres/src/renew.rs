//! What a holder does while it holds: `renew` and `progress`.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bytes::Bytes;
use model::{Fence, Hold, WorkerKey};
use store::{Progress, Renewed};

use crate::db::Tx;
use crate::error::Trouble;
use crate::lane::{Merge, Verb};
use crate::row::{self, Id};

/// $1 jobs, $2 fences, $3 holders, $4 leases for where neither job nor queue has one.
const RENEW: &str = "
    UPDATE tenure.jobs j
    SET lease_until = clock.now + coalesce(j.heartbeat_us, q.heartbeat_us, held.lease_us),
        granted_us = coalesce(j.heartbeat_us, q.heartbeat_us, held.lease_us), adopted = false
    FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::bigint[]) AS held (id, fence, holder, lease_us),
        tenure.queues q, (SELECT LEASE_NOW AS now) AS clock
    WHERE j.id = ANY (ARRAY[held.id]) AND q.no = ANY (ARRAY[j.queue])
      AND (j.state, j.holder, j.fence) IS NOT DISTINCT FROM (2::smallint, held.holder, held.fence)
    RETURNING j.id, j.fence, j.holder, j.granted_us, j.cancel_requested, j.exclusive";

/// $1 jobs, $2 fences, $3 notes, $4 checkpoints, $5 holder.
const PROGRESS: &str = "
    UPDATE tenure.jobs j
    SET lost = 0, progress = coalesce(kept.note, j.progress), checkpoint = coalesce(kept.checkpoint, j.checkpoint)
    FROM unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::bytea[]) AS kept (id, fence, note, checkpoint)
    WHERE j.id = ANY (ARRAY[kept.id])
      AND (j.state, j.holder, j.fence) IS NOT DISTINCT FROM (2::smallint, $5, kept.fence)
    RETURNING j.id, j.fence";

pub(crate) const STATEMENTS: &[&str] = &[RENEW, PROGRESS];

/// See [`store::JobStore::renew`].
pub(crate) struct Renew {
    pub(crate) holder: WorkerKey,
    pub(crate) holds: Vec<Hold>,
    pub(crate) lease: Duration,
}

impl Merge for Renew {
    type Answer = Vec<Renewed>;

    fn jobs(&self) -> usize {
        self.holds.len()
    }

    fn is_one_statement(_group: &[Self]) -> bool {
        true
    }

    async fn run<'a>(group: &'a [Self], tx: &'a Tx<'a>) -> Result<Vec<Vec<Renewed>>, Trouble> {
        // In the order of ids, as everyone locks jobs; each once, by what was asked last.
        let mut wanted = BTreeMap::new();
        for request in group {
            let lease = row::micros(request.lease);
            wanted.extend(request.holds.iter().map(|hold| ((*hold, request.holder.as_str()), lease)));
        }
        let ids: Vec<_> = wanted.keys().map(|(hold, _)| Id(hold.job)).collect();
        let fences: Vec<i64> = wanted.keys().map(|(hold, _)| hold.fence.get()).collect();
        let holders: Vec<&str> = wanted.keys().map(|(_, holder)| *holder).collect();
        let leases: Vec<i64> = wanted.values().copied().collect();
        let mut renewed: HashMap<Hold, (String, Renewed)> = HashMap::new();
        for row in tx.query(RENEW, &[&ids, &fences, &holders, &leases]).await? {
            let hold = Hold { job: row::job_id(&row, 0)?, fence: Fence::new(row.try_get(1)?) };
            let (cancel, exclusive) = (row.try_get(4)?, row.try_get(5)?);
            let held = Renewed::Held { lease: row::duration(row.try_get(3)?), cancel, exclusive };
            renewed.insert(hold, (row.try_get(2)?, held));
        }
        let answer = |request: &Renew| {
            let holds = request.holds.iter();
            let answers = holds.map(|hold| match renewed.get(hold) {
                Some((holder, held)) if holder == request.holder.as_str() => *held,
                _ => Renewed::Lost,
            });
            answers.collect()
        };
        Ok(group.iter().map(answer).collect())
    }
}

/// See [`store::JobStore::progress`].
pub(crate) struct KeepProgress {
    pub(crate) holder: WorkerKey,
    pub(crate) notes: Vec<Progress>,
}

impl Verb for KeepProgress {
    type Answer = Vec<bool>;
    const ONE_STATEMENT: bool = true;

    async fn run<'a>(&'a self, tx: &'a Tx<'a>) -> Result<Vec<bool>, Trouble> {
        // A job that is named more than once keeps the last of each.
        let mut latest: BTreeMap<Hold, (Option<&Bytes>, Option<&Bytes>)> = BTreeMap::new();
        for Progress { hold, note, checkpoint } in &self.notes {
            let kept = latest.entry(*hold).or_default();
            *kept = (note.as_ref().or(kept.0), checkpoint.as_ref().or(kept.1));
        }
        let ids: Vec<_> = latest.keys().map(|hold| Id(hold.job)).collect();
        let fences: Vec<i64> = latest.keys().map(|hold| hold.fence.get()).collect();
        let notes: Vec<Option<&[u8]>> =
            latest.values().map(|(note, _)| note.map(|bytes| &bytes[..])).collect();
        let checkpoints: Vec<Option<&[u8]>> =
            latest.values().map(|(_, checkpoint)| checkpoint.map(|bytes| &bytes[..])).collect();
        let rows = tx.query(PROGRESS, &[&ids, &fences, &notes, &checkpoints, &self.holder.as_str()]).await?;
        let kept = row::holds(&rows)?;
        Ok(self.notes.iter().map(|progress| kept.contains(&progress.hold)).collect())
    }
}
