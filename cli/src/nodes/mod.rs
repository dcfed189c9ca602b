//! The commands that show and change nodes, from `lockkeeper ls` to `lockkeeper import`.
//!
//! | file | what |
//! |---|---|
//! | `args` | the arguments of each command |
//! | `look` | `ls`, `get`, `stat`, `config` |
//! | `metadata` | a node's metadata as JSON |
//! | `acl` | `getacl`, `setacl`, `whoami` |
//! | `walk` | finding a node and everything below it |
//! | `tree` | `tree` |
//! | `change` | `set`, `create`, `rm` |
//! | `watch` | `watch` |
//! | `copy` | `export`, `import` |

mod acl;
mod args;
mod change;
mod copy;
mod look;
mod metadata;
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
        NodeCommand::Ls(it) => look::ls(&it.args, client).await,
        NodeCommand::Tree(it) => tree::show(&it.args, client).await,
        NodeCommand::Get(it) => look::get(&it.args, client).await,
        NodeCommand::Stat(it) => look::stat(&it.args, client).await,
        NodeCommand::Set(it) => change::set(&it.args, data(), client).await,
        NodeCommand::Create(it) => change::create(&it.args, data(), client).await,
        NodeCommand::Rm(it) => change::rm(&it.args, client).await,
        NodeCommand::Watch(it) => watch::watch(&it.args, client).await,
        NodeCommand::Getacl(it) => acl::get(&it.args, client).await,
        NodeCommand::Setacl(it) => acl::set(&it.args, client).await,
        NodeCommand::Sync(it) => client
            .sync(it.args.path.as_str())
            .await
            .map_err(Failure::Refused),
        NodeCommand::Whoami(_) => acl::who_am_i(client).await,
        NodeCommand::Config(_) => look::config(client).await,
        NodeCommand::Export(it) => copy::export(&it.args, client).await,
        NodeCommand::Import(it) => copy::import(&it.args, &data(), client).await,
    };
    command.client().with_client(work).await
}
