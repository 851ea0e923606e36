//! Between model values and what SQLite keeps.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use model::{
    Fence, Invalid, Job, JobId, LeaseTime, NewJob, QueueSettings, RetryPolicy, State, UniqueKey, UniqueScope,
    WallTime,
};
use rusqlite::Row;

use crate::blob;
use crate::db::Db;
use crate::error::Trouble;

/// The columns [`job`] reads, in its order.
const JOB_COLUMNS: &str = "
    jobs.id, jobs.state, q.name, jobs.priority, jobs.run_at, jobs.attempt, jobs.max_attempts, jobs.lost, jobs.max_lost,
    jobs.fence, jobs.reported_fence, h.key, jobs.lease_until, jobs.cancel_requested, jobs.enqueued_at, jobs.started_at,
    jobs.finished_at, jobs.heartbeat_us, jobs.timeout_us, jobs.retry, jobs.unique_key, jobs.unique_retained, jobs.kind,
    jobs.content_type, jobs.traceparent, jobs.last_error, jobs.progress, jobs.checkpoint, jobs.result, jobs.payload";

/// Where those columns come from. The order of a list must not be lost to a clever plan, hence the cross join.
const JOB_TABLES: &str = "
    jobs CROSS JOIN queues q ON q.no = jobs.queue LEFT JOIN holders h ON h.no = jobs.holder";

/// The statement with `{columns}` and `{tables}` filled in for [`job`].
pub(crate) fn with_columns(sql: &str) -> String {
    sql.replace("{columns}", JOB_COLUMNS).replace("{tables}", JOB_TABLES)
}

/// A whole job, from [`JOB_COLUMNS`].
pub(crate) fn job(db: &Db, row: &Row<'_>) -> Result<Job, Trouble> {
    let opt_bytes = |column| -> Result<Option<Bytes>, Trouble> {
        Ok(row.get_ref(column)?.as_blob_or_null().map_err(rusqlite::Error::from)?.map(Bytes::copy_from_slice))
    };
    let key: Option<String> = row.get(20)?;
    let holder: Option<String> = row.get(11)?;
    Ok(Job {
        id: job_id(row, 0)?,
        state: state(row, 1)?,
        queue: valid(row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?.parse())?,
        priority: row.get(3)?,
        run_at: wall_time(row.get(4)?),
        attempt: row.get(5)?,
        max_attempts: row.get(6)?,
        lost: row.get(7)?,
        max_lost: row.get(8)?,
        fence: Fence::new(row.get(9)?),
        reported_fence: Fence::new(row.get(10)?),
        holder: holder.map(|key| valid(key.parse())).transpose()?,
        lease_until: row.get::<_, Option<i64>>(12)?.map(LeaseTime::from_micros),
        cancel_requested: row.get(13)?,
        enqueued_at: wall_time(row.get(14)?),
        started_at: row.get::<_, Option<i64>>(15)?.map(wall_time),
        finished_at: row.get::<_, Option<i64>>(16)?.map(wall_time),
        heartbeat_timeout: row.get::<_, Option<i64>>(17)?.map(duration),
        timeout: row.get::<_, Option<i64>>(18)?.map(duration),
        retry: retry(row, 19)?,
        unique_key: key.map(|key| valid(UniqueKey::new(&key))).transpose()?,
        unique_scope: if row.get(21)? { UniqueScope::Retained } else { UniqueScope::Live },
        kind: valid(row.get_ref(22)?.as_str().map_err(rusqlite::Error::from)?.parse())?,
        content_type: content_type(row, 23)?,
        traceparent: row.get(24)?,
        last_error: row.get(25)?,
        progress: opt_bytes(26)?,
        checkpoint: blob::get(db, row, 27)?,
        result: opt_bytes(28)?,
        payload: blob::get(db, row, 29)?.unwrap_or_default(),
    })
}

/// A queue's settings, from six columns starting at `first`.
pub(crate) fn settings(row: &Row<'_>, first: usize) -> Result<QueueSettings, Trouble> {
    Ok(QueueSettings {
        paused: row.get(first)?,
        exclusive: row.get(first + 1)?,
        heartbeat_timeout: row.get::<_, Option<i64>>(first + 2)?.map(duration),
        max_attempts: row.get(first + 3)?,
        retry: retry(row, first + 4)?,
        volatile: row.get(first + 5)?,
    })
}

pub(crate) fn job_id(row: &Row<'_>, column: usize) -> Result<JobId, Trouble> {
    Ok(JobId::from_bytes(row.get(column)?))
}

pub(crate) fn state(row: &Row<'_>, column: usize) -> Result<State, Trouble> {
    let number: u8 = row.get(column)?;
    State::from_number(number).ok_or_else(|| Trouble::Damaged(format!("there is no state {number}")))
}

pub(crate) fn retry(row: &Row<'_>, column: usize) -> Result<Option<RetryPolicy>, Trouble> {
    let text = row.get_ref(column)?.as_str_or_null().map_err(rusqlite::Error::from)?;
    text.map(|text| valid(text.parse())).transpose()
}

pub(crate) fn content_type(row: &Row<'_>, column: usize) -> Result<Cow<'static, str>, Trouble> {
    let text = row.get_ref(column)?.as_str_or_null().map_err(rusqlite::Error::from)?;
    Ok(text.map_or(Cow::Borrowed(NewJob::CONTENT_TYPE_DEFAULT), |named| Cow::Owned(named.to_owned())))
}

/// What was checked when it was written is checked again when it is read.
pub(crate) fn valid<T>(value: Result<T, Invalid>) -> Result<T, Trouble> {
    value.map_err(|invalid| Trouble::Damaged(format!("the database holds a wrong value: {invalid}")))
}

pub(crate) fn wall_time(millis: i64) -> WallTime {
    WallTime::from_millis(millis)
}

pub(crate) fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

pub(crate) fn duration(micros: i64) -> Duration {
    Duration::from_micros(micros.max(0) as u64)
}

/// A limit as SQL knows it.
pub(crate) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
