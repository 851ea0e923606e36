//! The texts a store writes into `last_error`, so that every store writes the same ones.

use model::{LOST_REASON, Limits};

/// The error of a job buried after its `lost`-th loss in a row.
pub fn poison_reason(lost: u32) -> String {
    format!("{LOST_REASON} {lost} times in a row without progress; buried as a poison pill")
}

/// The part of a handler's error that is kept: all of it, or its last [`Limits::ERROR_BYTES_MAX`] bytes, from a
/// whole character on.
pub fn error_tail(mut error: String) -> String {
    if error.len() > Limits::ERROR_BYTES_MAX {
        let cut = error.ceil_char_boundary(error.len() - Limits::ERROR_BYTES_MAX);
        error.drain(..cut);
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_errors_keep_their_last_whole_characters() {
        assert_eq!(error_tail("short".to_owned()), "short");
        let long = format!("{}{}", "é".repeat(Limits::ERROR_BYTES_MAX), "x");
        let kept = error_tail(long.clone());
        assert_eq!(kept.len(), Limits::ERROR_BYTES_MAX - 1, "half a character is not kept");
        assert!(long.ends_with(&kept));
    }
}
