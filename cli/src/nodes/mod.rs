//! The commands that show and change nodes, from `lockkeeper ls` to `lockkeeper rm`.
//!
//! | file | what |
//! |---|---|
//! | `args` | the arguments of each command |
//! | `show` | `ls`, `get`, `stat` |
//! | `walk` | finding a node and everything below it |
//! | `change` | `set`, `create`, `rm` |

mod args;
mod change;
mod show;
mod walk;

pub(crate) use args::{NodeCommand, OnServers};

use crate::exit::Failure;

pub(crate) async fn run(command: NodeCommand) -> Result<u8, Failure> {
    match &command {
        NodeCommand::Ls(it) => it.with(show::ls).await,
        NodeCommand::Get(it) => it.with(show::get).await,
        NodeCommand::Stat(it) => it.with(show::stat).await,
        NodeCommand::Set(it) => it.with(change::set).await,
        NodeCommand::Create(it) => it.with(change::create).await,
        NodeCommand::Rm(it) => {
            change::may_rm(&it.args)?;
            it.with(change::rm).await
        }
    }
}
