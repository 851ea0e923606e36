//! Calls that must not stop half-way. When a client goes away the server drops its handler, wherever it is waiting: a
//! commit might be made and nobody told of it. So every call that changes something runs in a task of its own.

use std::future::Future;

use model::ErrorKind;
use rpc::ApiError;
use tokio_util::sync::CancellationToken;

use crate::api::Answer;

/// Runs the call to its end, whether or not the caller stays.
pub(crate) async fn to_the_end<T: Send + 'static>(
    call: impl Future<Output = Answer<T>> + Send + 'static,
) -> Answer<T> {
    let broken = |error| ApiError::new(ErrorKind::Internal, format!("the call broke: {error}"));
    tokio::spawn(call).await.map_err(broken)?
}

/// Like [`to_the_end`], for a call that waits for something: it learns by the token that its caller is gone.
pub(crate) async fn while_wanted<T, F>(call: impl FnOnce(CancellationToken) -> F) -> Answer<T>
where
    T: Send + 'static,
    F: Future<Output = Answer<T>> + Send + 'static,
{
    let gone = CancellationToken::new();
    let _tell = gone.clone().drop_guard();
    to_the_end(call(gone)).await
}
