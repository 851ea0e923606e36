//! The two plain detectors, running.
//!
//! * [`PassiveDetector`] listens: anyone pings, and whoever falls silent is named once. For fleets whose members can do no
//!   more than call in.
//! * [`watch`] asks: it probes one target and says when it dies and when it is back.
//!
//! What they decide is decided by the machines in `lease`; here are the table of pings, the thread and the task.

mod detector;
mod monitor;
mod stop;
mod table;

pub use detector::{Checked, PassiveDetector};
pub use lease::monitor::MonitorConfig;
pub use lease::passive::PassiveConfig;
pub use monitor::{Change, Watch, watch};
pub use table::Pinged;
