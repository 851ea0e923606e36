//! Bodies: malformed, too slow, and more of them than there is room for.
