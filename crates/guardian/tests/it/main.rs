//! Real guardians with real processes, in every mode that is allowed here.
//!
//! Nothing is waited for by sleeping: processes say that they have started by a byte in a pipe, and are known to be gone by
//! the end of another pipe, which every process they start inherits.

mod conditions;
mod families;
mod guardian_gone;
mod robust;
mod strays;
mod support;
mod worker_gone;
