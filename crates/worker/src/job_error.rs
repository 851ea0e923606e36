//! How a handler says that an attempt failed, and what should happen next.

use std::fmt;
use std::time::Duration;

use model::Retry;

/// A failed attempt. Any `std::error::Error` becomes one by `?` and is retried by the job's policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobError {
    message: String,
    retry: Retry,
}

impl JobError {
    /// Try again as the job's policy says, while attempts are left.
    pub fn retry(message: impl Into<String>) -> Self {
        JobError { message: message.into(), retry: Retry::ByPolicy }
    }

    /// Try again after this long, while attempts are left.
    pub fn retry_after(message: impl Into<String>, delay: Duration) -> Self {
        JobError { message: message.into(), retry: Retry::After(delay) }
    }

    /// Trying again will not help: the job is dead now, whatever attempts are left.
    pub fn dead(message: impl Into<String>) -> Self {
        JobError { message: message.into(), retry: Retry::Never }
    }

    /// What went wrong.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What should happen next.
    pub fn retry_wish(&self) -> Retry {
        self.retry
    }

    pub(crate) fn into_parts(self) -> (String, Retry) {
        (self.message, self.retry)
    }
}

// Not an `Error` itself: that would forbid the conversion below, which is what makes `?` work in handlers.
impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: std::error::Error> From<E> for JobError {
    /// The whole chain of causes becomes the message, since the first link alone rarely says why.
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(deeper) = cause {
            let text = deeper.to_string();
            if !message.contains(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            cause = deeper.source();
        }
        JobError::retry(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("failed to send the mail")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn errors_convert_with_their_causes() {
        fn handler() -> Result<(), JobError> {
            Err(Outer(std::io::Error::other("mailbox full")))?;
            Ok(())
        }
        assert_eq!(handler(), Err(JobError::retry("failed to send the mail: mailbox full")));
    }
}
