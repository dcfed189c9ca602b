//! The commands that show and change nodes, from `lockkeeper ls` to `lockkeeper import`.
//!
//! | file | what |
//! |---|---|
//! | `args` | the arguments of each command |
//! | `look` | `ls`, `get`, `stat`, `config` |
//! | `metadata` | a node's metadata as JSON |
//! | `acl`, `acl_entry` | `getacl`, `setacl`, `whoami`; entries as text |
//! | `walk` | finding a node and everything below it |
//! | `tree` | `tree` |
//! | `change` | `set`, `create`, `rm` |
//! | `watch` | `watch` |
//! | `copy` | `export`, `import` |

mod acl;
mod acl_entry;
mod args;
mod change;
mod copy;
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
        NodeCommand::Getacl(it) => it.with(acl::get).await,
        NodeCommand::Setacl(it) => it.with(acl::set).await,
        NodeCommand::Sync(it) => it.with(change::sync).await,
        NodeCommand::Whoami(it) => it.with(acl::who_am_i).await,
        NodeCommand::Config(it) => it.with(look::config).await,
        NodeCommand::Export(it) => it.with(copy::export).await,
        NodeCommand::Import(it) => it.with(copy::import).await,
    }
}
