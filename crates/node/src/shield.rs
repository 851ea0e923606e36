//! Calls that must not stop half-way. When a client goes away the server drops its handler, wherever it is waiting: a
//! commit might be made and nobody told of it. So every call that changes something and has to wait goes on in a task of
//! its own.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::FutureExt as _;
use model::ErrorKind;
use rpc::ApiError;
use tokio_util::sync::CancellationToken;

use crate::api::Answer;

/// Runs the call to its end, whether or not the caller stays.
pub(crate) async fn to_the_end<T: Send + 'static>(
    call: impl Future<Output = Answer<T>> + Send + 'static,
) -> Answer<T> {
    let broken = |why: String| ApiError::new(ErrorKind::Internal, format!("the call broke: {why}"));
    let mut call = Box::pin(call);
    match catch_unwind(AssertUnwindSafe(|| call.as_mut().now_or_never())) {
        Ok(Some(answer)) => answer,
        Ok(None) => tokio::spawn(call).await.map_err(|error| broken(error.to_string()))?,
        Err(_) => Err(broken("it panicked".to_owned())),
    }
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

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_call_goes_on_when_its_caller_is_gone() {
        let (go_on, may_go_on) = oneshot::channel::<()>();
        let (done, is_done) = oneshot::channel();
        let mut call = Box::pin(to_the_end(async move {
            let _ = may_go_on.await;
            let _ = done.send(());
            Ok(())
        }));
        assert!(call.as_mut().now_or_never().is_none(), "it waits");
        drop(call);
        go_on.send(()).expect("somebody still waits");
        is_done.await.expect("it came to its end");
    }

    #[tokio::test]
    async fn a_call_that_panics_breaks_only_itself() {
        let at_once = to_the_end::<()>(async { panic!("at once") }).await;
        let later = to_the_end::<()>(async {
            tokio::task::yield_now().await;
            panic!("later")
        });
        for answer in [at_once, later.await] {
            assert_eq!(answer.unwrap_err().kind, ErrorKind::Internal);
        }
    }
}
