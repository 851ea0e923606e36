//! The port: connections, who may speak on them, and what they may cost. What is said is for the two doors behind it, `grpc`
//! and `http`, which ask nothing of that again.

mod answer_body;
mod blame;
mod budget;
mod connection;
mod entrance;
mod frames;
mod guard;
mod hosts;
mod messages;
mod metrics;
mod places;
mod refusal;
mod request_body;
mod serve;
mod socket;
mod streams;

pub(crate) use budget::no_room;
pub(crate) use hosts::check_name;
pub(crate) use metrics::DoorMetrics;
pub(crate) use serve::serve;
