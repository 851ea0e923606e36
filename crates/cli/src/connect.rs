//! How client commands find the server.

use clap::Args;
use worker::{Client, ClientError};

/// Where a server listens, and a client looks, when nothing else is said.
pub(crate) const SERVER_DEFAULT: &str = "http://127.0.0.1:7117";

/// The server's address, for every command that calls one.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServerArgs {
    /// Address of the server, or several separated by commas
    #[arg(long, env = "TENURE_SERVER", hide_env_values = true, value_name = "URL", default_value = SERVER_DEFAULT)]
    pub(crate) server: String,
}

impl ServerArgs {
    /// A client; it connects when it is first used. Call it inside a runtime.
    pub(crate) fn client(&self) -> Result<Client, ClientError> {
        Client::connect(&self.server)
    }
}
