//! The commands that show and change nodes, from `lockkeeper ls` to `lockkeeper sync`.
//!
//! | file | what |
//! |---|---|
//! | `args` | the arguments of each command |
//! | `look` | `ls`, `get`, `stat` |
//! | `metadata` | a node's metadata as JSON |
//! | `walk` | finding a node and everything below it |
//! | `tree` | `tree` |
//! | `change` | `set`, `create`, `rm`, `sync` |
//! | `watch` | `watch` |

mod args;
mod change;
mod look;
mod metadata;
mod tree;
mod walk;
mod watch;

pub(crate) use args::NodeCommand;

use crate::exit::Failure;

pub(crate) async fn run(command: NodeCommand) -> Result<u8, Failure> {
    match &command {
        NodeCommand::Ls(it) => it.with(look::ls).await,
        NodeCommand::Tree(it) => it.with(tree::show).await,
        NodeCommand::Get(it) => it.with(look::get).await,
        NodeCommand::Stat(it) => it.with(look::stat).await,
        NodeCommand::Set(it) => it.with(change::set).await,
        NodeCommand::Create(it) => it.with(change::create).await,
        NodeCommand::Rm(it) => {
            change::may_rm(&it.args)?;
            it.with(change::rm).await
        }
        NodeCommand::Watch(it) => it.with(watch::watch).await,
        NodeCommand::Sync(it) => it.with(change::sync).await,
    }
}
