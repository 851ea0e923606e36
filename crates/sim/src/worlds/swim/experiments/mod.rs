//! What is measured: each experiment is one file, takes any protocol, and finds a table and curves.

mod blocked;
mod bootstrap;
mod calibration;
mod cuts;
mod detection;
mod findings;
mod flapping;
mod idle;
mod links;
mod loss;
mod mass;
mod partition;
mod pauses;
mod splits;
mod subject;
mod verdicts;
mod views;

pub use blocked::blocked;
pub use bootstrap::bootstrap;
pub use calibration::calibration;
pub use cuts::cuts;
pub use detection::detection;
pub use findings::{Axes, Cell, Curve, Findings, Samples};
pub use flapping::flapping;
pub use idle::idle;
pub use links::links;
pub use loss::loss;
pub use mass::{Crashes, mass};
pub use partition::partition;
pub use pauses::{Point, pauses};
pub use splits::splits;
pub use subject::{Amount, PROFILES, Progress, Subject};
pub use verdicts::{Death, Verdicts};
