//! The arguments of the commands that show and change nodes.
//!
//! Not here: options about servers (`client`, `servers`).

use std::{ffi::OsString, time::Duration};

use clap::{Args, Subcommand};
use lockkeeper::Client;

use crate::{client::ClientArgs, duration, exit::Failure, number::number, paths};

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    Ls(OnServers<LsArgs>),
    Get(OnServers<GetArgs>),
    Stat(OnServers<StatArgs>),
    Set(OnServers<SetArgs>),
    Create(OnServers<CreateArgs>),
    Rm(OnServers<RmArgs>),
}

// The arguments of a command, and the options about servers. A doc comment here would be in the help texts.
#[derive(Args, Debug)]
pub(crate) struct OnServers<T: Args> {
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    pub(super) args: T,
}

impl<T: Args> OnServers<T> {
    /// Does the work of the command with a client.
    pub(crate) async fn with(
        &self,
        work: impl AsyncFnOnce(&T, &Client) -> Result<(), Failure>,
    ) -> Result<u8, Failure> {
        let work = async |client: &Client| work(&self.args, client).await;
        self.client.with_client(work).await
    }
}

/// List the children of a node
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  lockkeeper ls --long /locks")]
pub(crate) struct LsArgs {
    /// Also show each child's version, bytes, children, time of the last change and session
    #[arg(long, short)]
    pub(super) long: bool,

    /// List everything below the node, by its whole path
    #[arg(long, short = 'R')]
    pub(super) recursive: bool,

    /// Print JSON: an object with the metadata in one line for each node
    #[arg(long, conflicts_with = "long")]
    pub(super) json: bool,

    #[arg(default_value = "/", value_parser = paths::node)]
    pub(super) path: String,
}

/// Write a node's data to stdout
#[derive(Args, Debug)]
#[command(
    after_help = "The bytes are written unchanged. On a terminal, control characters are escaped, \
        and data that are not UTF-8 are shown in hexadecimal.\n\n\
        Example:\n  lockkeeper get /app/config > config.json"
)]
pub(crate) struct GetArgs {
    #[arg(value_parser = paths::node)]
    pub(super) path: String,
}

/// Show a node's metadata
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  lockkeeper stat /app/config")]
pub(crate) struct StatArgs {
    /// Print JSON: an object in one line
    #[arg(long)]
    pub(super) json: bool,

    #[arg(value_parser = paths::node)]
    pub(super) path: String,
}

/// Set a node's data
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  lockkeeper set --version 3 /app/config - < config.json")]
pub(crate) struct SetArgs {
    /// Only if the data have this version; stat shows it
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = number(0_i32..))]
    pub(super) version: Option<i32>,

    #[arg(value_parser = paths::node)]
    pub(super) path: String,

    /// The new data; - reads them from stdin
    #[arg(allow_hyphen_values = true)]
    pub(super) data: OsString,
}

/// Create a node, and print its path
#[derive(Args, Debug)]
#[command(
    after_help = "This command cannot create ephemeral nodes: the servers would delete them when \
        it ends. To hold a lock while another command runs, use lockkeeper run.\n\n\
        Example:\n  lockkeeper create --parents --sequential /jobs/job- ready"
)]
pub(crate) struct CreateArgs {
    /// Append the parent's next sequence number to the name
    #[arg(long, short)]
    pub(super) sequential: bool,

    /// Let the servers delete the node after its last child is deleted
    #[arg(long, conflicts_with_all = ["sequential", "ttl"])]
    pub(super) container: bool,

    /// Let the servers delete the node when it has no children and was not changed for this time
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = duration::parse_positive)]
    pub(super) ttl: Option<Duration>,

    /// Also create missing parents
    #[arg(long, short)]
    pub(super) parents: bool,

    #[arg(value_parser = paths::node)]
    pub(super) path: String,

    /// The data; - reads them from stdin [default: none]
    #[arg(allow_hyphen_values = true)]
    pub(super) data: Option<OsString>,
}

/// Delete a node
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  lockkeeper rm --recursive /app/old")]
pub(crate) struct RmArgs {
    /// Also delete everything below the node
    #[arg(long, short, conflicts_with = "version")]
    pub(super) recursive: bool,

    /// With --recursive, also delete ephemeral nodes: the locks of running programs
    #[arg(long, short, requires = "recursive")]
    pub(super) force: bool,

    /// Only if the data have this version; stat shows it
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = number(0_i32..))]
    pub(super) version: Option<i32>,

    #[arg(value_parser = paths::node)]
    pub(super) path: String,
}
