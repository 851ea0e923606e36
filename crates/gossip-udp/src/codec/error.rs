//! Why bytes are not a message of ours.

/// The plain bytes do not spell a message. Nothing was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It ends too early.
    #[error("ends too early")]
    Truncated,
    /// Something follows its end.
    #[error("{0} bytes after the end")]
    Trailing(usize),
    /// A number is too large for what it counts, or not written in its shortest form.
    #[error("a number out of range, or not in its shortest form")]
    Number,
    /// A tag that this version does not know.
    #[error("unknown tag {0}")]
    Tag(u8),
    /// More items are claimed than allowed, or than could be in the bytes that are left.
    #[error("{0} items claimed")]
    Count(u64),
    /// Metadata longer than [`META_BYTES_MAX`](swim::META_BYTES_MAX).
    #[error("{0} bytes of metadata")]
    Meta(u64),
    /// The buckets of a view: not a power of two, or not ascending.
    #[error("buckets out of order")]
    Buckets,
}
