//! Between model values and what PostgreSQL keeps.

use std::borrow::Cow;
use std::collections::HashSet;
use std::error::Error;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use model::{
    Fence, Hold, Invalid, Job, JobId, LeaseTime, NewJob, QueueSettings, RegistryId, RetryPolicy, State,
    UniqueKey, UniqueScope, WallTime,
};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use crate::error::Trouble;

/// The columns [`job`] reads, in its order, of a job that waits or runs.
const LIVE_COLUMNS: &str = "
    j.id, j.state, q.name, j.priority, j.run_at, j.attempt, j.max_attempts, j.lost, j.max_lost, j.fence,
    j.reported_fence, j.holder, j.lease_until, j.cancel_requested, j.enqueued_at, j.started_at, NULL::bigint,
    j.heartbeat_us, j.timeout_us, j.retry, j.unique_key, j.unique_retained, j.kind, j.content_type, j.traceparent,
    j.last_error, j.progress, j.checkpoint, NULL::bytea, j.payload";

/// The same of a job that has ended.
const ENDED_COLUMNS: &str = "
    j.id, j.state, q.name, j.priority, j.run_at, j.attempt, j.max_attempts, j.lost, j.max_lost, j.fence,
    j.reported_fence, NULL::text, NULL::bigint, j.cancel_requested, j.enqueued_at, j.started_at, j.finished_at,
    j.heartbeat_us, j.timeout_us, j.retry, j.unique_key, j.unique_retained, j.kind, j.content_type, j.traceparent,
    j.last_error, j.progress, j.checkpoint, j.result, j.payload";

/// The statement with `{live}` and `{ended}` replaced by what [`job`] reads and where it comes from: jobs are `j`, their
/// queues `q`.
pub(crate) fn with_columns(sql: &str) -> String {
    let from =
        |columns, table| format!("{columns} FROM tenure.{table} j JOIN tenure.queues q ON q.no = j.queue");
    sql.replace("{live}", &from(LIVE_COLUMNS, "jobs")).replace("{ended}", &from(ENDED_COLUMNS, "ended"))
}

/// A whole job, from [`LIVE_COLUMNS`] or [`ENDED_COLUMNS`].
pub(crate) fn job(row: &Row) -> Result<Job, Trouble> {
    let bytes = |column| -> Result<Option<Bytes>, Trouble> {
        Ok(row.try_get::<_, Option<&[u8]>>(column)?.map(Bytes::copy_from_slice))
    };
    let span = |column| -> Result<Option<Duration>, Trouble> {
        Ok(row.try_get::<_, Option<i64>>(column)?.map(duration))
    };
    let date = |column| -> Result<Option<WallTime>, Trouble> {
        Ok(row.try_get::<_, Option<i64>>(column)?.map(wall_time))
    };
    let key: Option<&str> = row.try_get(20)?;
    let holder: Option<&str> = row.try_get(11)?;
    Ok(Job {
        id: job_id(row, 0)?,
        state: state(row, 1)?,
        queue: valid(row.try_get::<_, &str>(2)?.parse())?,
        priority: row.try_get(3)?,
        run_at: wall_time(row.try_get(4)?),
        attempt: count(row, 5)?,
        max_attempts: count(row, 6)?,
        lost: count(row, 7)?,
        max_lost: count(row, 8)?,
        fence: Fence::new(row.try_get(9)?),
        reported_fence: Fence::new(row.try_get(10)?),
        holder: holder.map(|key| valid(key.parse())).transpose()?,
        lease_until: row.try_get::<_, Option<i64>>(12)?.map(LeaseTime::from_micros),
        cancel_requested: row.try_get(13)?,
        enqueued_at: wall_time(row.try_get(14)?),
        started_at: date(15)?,
        finished_at: date(16)?,
        heartbeat_timeout: span(17)?,
        timeout: span(18)?,
        retry: retry(row, 19)?,
        unique_key: key.map(|key| valid(UniqueKey::new(key))).transpose()?,
        unique_scope: if row.try_get(21)? { UniqueScope::Retained } else { UniqueScope::Live },
        kind: valid(row.try_get::<_, &str>(22)?.parse())?,
        content_type: content_type(row, 23)?,
        traceparent: row.try_get(24)?,
        last_error: row.try_get(25)?,
        progress: bytes(26)?,
        checkpoint: bytes(27)?,
        result: bytes(28)?,
        payload: bytes(29)?.unwrap_or_default(),
    })
}

/// A queue's settings, from five columns starting at `first`.
pub(crate) fn settings(row: &Row, first: usize) -> Result<QueueSettings, Trouble> {
    let max_attempts: Option<i32> = row.try_get(first + 3)?;
    Ok(QueueSettings {
        paused: row.try_get(first)?,
        exclusive: row.try_get(first + 1)?,
        // A volatile queue belongs to one server; here several may serve.
        volatile: false,
        heartbeat_timeout: row.try_get::<_, Option<i64>>(first + 2)?.map(duration),
        max_attempts: max_attempts.map(|number| number.max(0) as u32),
        retry: retry(row, first + 4)?,
    })
}

/// A job's id as PostgreSQL's `uuid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id(pub(crate) JobId);

impl ToSql for Id {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        out.put_slice(&self.0.to_bytes());
        Ok(IsNull::No)
    }

    accepts!(UUID);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Id {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Id(JobId::from_bytes(raw.try_into()?)))
    }

    accepts!(UUID);
}

pub(crate) fn job_id(row: &Row, column: usize) -> Result<JobId, Trouble> {
    Ok(row.try_get::<_, Id>(column)?.0)
}

pub(crate) fn state(row: &Row, column: usize) -> Result<State, Trouble> {
    let number: i16 = row.try_get(column)?;
    let state = u8::try_from(number).ok().and_then(State::from_number);
    state.ok_or_else(|| Trouble::Damaged(format!("there is no state {number}")))
}

/// A count that the database keeps as an `integer`.
pub(crate) fn count(row: &Row, column: usize) -> Result<u32, Trouble> {
    let number: i32 = row.try_get(column)?;
    u32::try_from(number).map_err(|_| Trouble::Damaged(format!("a count is {number}")))
}

/// The same, where NULL stands for what it mostly is.
pub(crate) fn count_or(row: &Row, column: usize, mostly: u32) -> Result<u32, Trouble> {
    if row.try_get::<_, Option<i32>>(column)?.is_none() { Ok(mostly) } else { count(row, column) }
}

pub(crate) fn retry(row: &Row, column: usize) -> Result<Option<RetryPolicy>, Trouble> {
    let text: Option<&str> = row.try_get(column)?;
    text.map(|text| valid(text.parse())).transpose()
}

pub(crate) fn content_type(row: &Row, column: usize) -> Result<Cow<'static, str>, Trouble> {
    let text: Option<&str> = row.try_get(column)?;
    Ok(text.map_or(Cow::Borrowed(NewJob::CONTENT_TYPE_DEFAULT), |named| Cow::Owned(named.to_owned())))
}

/// A text without NUL, which PostgreSQL cannot keep: a handler's output may well hold one.
pub(crate) fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(text) }
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

pub(crate) fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

pub(crate) fn duration(micros: i64) -> Duration {
    Duration::from_micros(micros.max(0) as u64)
}

/// A limit as SQL knows it.
pub(crate) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Holds, from rows of a job and its fence.
pub(crate) fn holds(rows: &[Row]) -> Result<HashSet<Hold>, Trouble> {
    rows.iter().map(|row| Ok(Hold { job: job_id(row, 0)?, fence: Fence::new(row.try_get(1)?) })).collect()
}

/// A registry's number; an id that the database cannot have given is no registry's.
pub(crate) fn registry(id: RegistryId) -> i32 {
    i32::try_from(id.0).unwrap_or(-1)
}

pub(crate) fn registry_id(number: i32) -> RegistryId {
    RegistryId(number.max(0) as u32)
}
