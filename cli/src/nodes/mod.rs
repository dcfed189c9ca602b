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
        NodeCommand::Ls(args) => look::ls(args, client).await,
        NodeCommand::Tree(args) => tree::show(args, client).await,
        NodeCommand::Get(args) => look::get(args, client).await,
        NodeCommand::Stat(args) => look::stat(args, client).await,
        NodeCommand::Set(args) => change::set(args, data(), client).await,
        NodeCommand::Create(args) => change::create(args, data(), client).await,
        NodeCommand::Rm(args) => change::rm(args, client).await,
        NodeCommand::Watch(args) => watch::watch(args, client).await,
        NodeCommand::Getacl(args) => acl::get(args, client).await,
        NodeCommand::Setacl(args) => acl::set(args, client).await,
        NodeCommand::Sync(args) => client
            .sync(args.path.as_str())
            .await
            .map_err(Failure::Refused),
        NodeCommand::Whoami(_) => acl::who_am_i(client).await,
        NodeCommand::Config(_) => look::config(client).await,
        NodeCommand::Export(args) => copy::export(args, client).await,
        NodeCommand::Import(args) => copy::import(args, &data(), client).await,
    };
    command.client().with_client(work).await
}
