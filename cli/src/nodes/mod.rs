//! `lockkeeper ls`, `tree`, `get`, `stat`, `set`, `create`, `rm` and `watch`: show and change nodes.
//!
//! | file | what |
//! |---|---|
//! | `args` | the arguments of each command |
//! | `look` | `ls`, `get`, `stat` |
//! | `walk` | finding a node and everything below it |
//! | `tree` | `tree` |
//! | `change` | `set`, `create`, `rm` |
//! | `watch` | `watch` |

mod args;
mod change;
mod look;
mod tree;
mod walk;
mod watch;

use lockkeeper::Client;

pub(crate) use args::NodeCommand;

use crate::exit::Failure;

pub(crate) async fn run(command: NodeCommand) -> Result<u8, Failure> {
    let data = command.data().map(change::data).transpose()?;
    let data = || data.clone().unwrap_or_default();
    let work = async |client: &Client| match &command {
        NodeCommand::Ls(args) => look::ls(args, client).await,
        NodeCommand::Tree(args) => tree::show(args, client).await,
        NodeCommand::Get(args) => look::get(args, client).await,
        NodeCommand::Stat(args) => look::stat(args, client).await,
        NodeCommand::Set(args) => change::set(args, data(), client).await,
        NodeCommand::Create(args) => change::create(args, data(), client).await,
        NodeCommand::Rm(args) => change::rm(args, client).await,
        NodeCommand::Watch(args) => watch::watch(args, client).await,
    };
    command.client().with_client(work).await
}
