//! What may be said to the commands that look at nodes and change them.

use std::{
    ffi::{OsStr, OsString},
    num::NonZero,
    time::Duration,
};

use clap::{Args, Subcommand};

use crate::{client::ClientArgs, duration, paths::NodePath};

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    Ls(LsArgs),
    Tree(TreeArgs),
    Get(GetArgs),
    Stat(StatArgs),
    Set(SetArgs),
    Create(CreateArgs),
    Rm(RmArgs),
    Watch(WatchArgs),
}

impl NodeCommand {
    /// The data that a node is to have.
    pub(super) fn data(&self) -> Option<&OsStr> {
        match self {
            Self::Set(args) => Some(&args.data),
            Self::Create(args) => args.data.as_deref(),
            _ => None,
        }
    }

    /// The options about servers, which all of them have.
    pub(super) fn client(&self) -> &ClientArgs {
        match self {
            Self::Ls(args) => &args.client,
            Self::Tree(args) => &args.client,
            Self::Get(args) => &args.client,
            Self::Stat(args) => &args.client,
            Self::Set(args) => &args.client,
            Self::Create(args) => &args.client,
            Self::Rm(args) => &args.client,
            Self::Watch(args) => &args.client,
        }
    }
}

/// List the children of a node
#[derive(Args, Debug)]
#[command(
    max_term_width = 80,
    after_help = "Example:\n  lockkeeper ls --long /locks"
)]
pub(crate) struct LsArgs {
    #[command(flatten)]
    pub(super) client: ClientArgs,

    /// With version, bytes, children, time of the last change and session of each
    #[arg(long, short)]
    pub(super) long: bool,

    #[arg(value_name = "PATH", default_value = "/")]
    pub(super) path: NodePath,
}

/// Show a node and everything below it
#[derive(Args, Debug)]
#[command(
    max_term_width = 80,
    after_help = "Example:\n  lockkeeper tree --depth 2 /locks"
)]
pub(crate) struct TreeArgs {
    #[command(flatten)]
    pub(super) client: ClientArgs,

    /// Go down so many levels
    #[arg(long, value_name = "LEVELS")]
    pub(super) depth: Option<usize>,

    #[arg(value_name = "PATH", default_value = "/")]
    pub(super) path: NodePath,
}

/// Write a node's data to stdout
#[derive(Args, Debug)]
#[command(
    max_term_width = 80,
    after_help = "The bytes as they are; on a terminal what could harm it is escaped, and a new\n\
        line begins behind them.\n\n\
        Example:\n  lockkeeper get /app/config > config.json"
)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub(super) client: ClientArgs,

    #[arg(value_name = "PATH")]
    pub(super) path: NodePath,
}

/// Show a node's metadata
#[derive(Args, Debug)]
#[command(
    max_term_width = 80,
    after_help = "Example:\n  lockkeeper stat /app/config"
)]
pub(crate) struct StatArgs {
    #[command(flatten)]
    pub(super) client: ClientArgs,

    #[arg(value_name = "PATH")]
    pub(super) path: NodePath,
}

/// Set a node's data
#[derive(Args, Debug)]
#[command(
    max_term_width = 80,
    after_help = "Example:\n  lockkeeper set --version 3 /app/config - < config.json"
)]
pub(crate) struct SetArgs {
    #[command(flatten)]
    pub(super) client: ClientArgs,

    /// Only if its data have this version, as stat says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    pub(super) version: Option<i32>,

    #[arg(value_name = "PATH")]
    pub(super) path: NodePath,

    /// The data; - reads them from stdin
    #[arg(value_name = "DATA", allow_hyphen_values = true)]
    pub(super) data: OsString,
}

/// Create a node, and say its path
#[derive(Args, Debug)]
#[command(
    max_term_width = 80,
    after_help = "Ephemeral nodes are not offered: they would go with this command. To hold\n\
        something for as long as a command runs: lockkeeper run.\n\n\
        Example:\n  lockkeeper create --parents --sequential /jobs/job- ready"
)]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    pub(super) client: ClientArgs,

    /// Append the next number of its parent to the name
    #[arg(long, short)]
    pub(super) sequential: bool,

    /// Let the servers delete it when its last child has gone
    #[arg(long, conflicts_with_all = ["sequential", "ttl"])]
    pub(super) container: bool,

    /// Let the servers delete it when it has no children and was not changed for so long
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_positive)]
    pub(super) ttl: Option<Duration>,

    /// Create what is missing above it, too
    #[arg(long, short)]
    pub(super) parents: bool,

    #[arg(value_name = "PATH")]
    pub(super) path: NodePath,

    /// The data; - reads them from stdin [default: none]
    #[arg(value_name = "DATA", allow_hyphen_values = true)]
    pub(super) data: Option<OsString>,
}

/// Delete a node
#[derive(Args, Debug)]
#[command(
    max_term_width = 80,
    after_help = "Example:\n  lockkeeper rm --recursive /app/old"
)]
pub(crate) struct RmArgs {
    #[command(flatten)]
    pub(super) client: ClientArgs,

    /// Everything below it, too
    #[arg(long, short, conflicts_with = "version")]
    pub(super) recursive: bool,

    /// Only if its data have this version, as stat says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    pub(super) version: Option<i32>,

    #[arg(value_name = "PATH")]
    pub(super) path: NodePath,
}

/// Say what happens to a node, until a signal ends it
#[derive(Args, Debug)]
#[command(
    max_term_width = 80,
    after_help = "A line is a time, what happened, and the node. What happened: created, changed,\n\
        deleted, children (one came or went); or missed, when something may have\n\
        happened that nobody was told of, while there was no connection.\n\
        Needs servers of ZooKeeper 3.6 or later.\n\n\
        Example:\n  lockkeeper watch --recursive /app"
)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(super) client: ClientArgs,

    /// Everything below it, too
    #[arg(long, short)]
    pub(super) recursive: bool,

    /// End after so many lines
    #[arg(long, value_name = "N")]
    pub(super) count: Option<NonZero<usize>>,

    /// The node, which need not be there
    #[arg(value_name = "PATH")]
    pub(super) path: NodePath,
}
