//! The real binary, from the outside.

mod offline;
