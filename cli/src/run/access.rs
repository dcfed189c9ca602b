//! `--acl`: who may use the lock.
//!
//! To delete a node, a client needs a permission on the node above it. So the ACL of the lock's directory decides who can enter the
//! queue, and who can throw others out. The library makes directories that are open to everyone. So `--acl creator` makes the
//! directory first.

use lockkeeper::{
    Client, CreateMode,
    node::{Acl, Perms},
    proto::path,
};

use super::{RunArgs, args::Access};
use crate::{client::create_all, exit::Failure};

/// What a client needs to harm the users of a lock.
const HARMFUL: Perms = Perms(Perms::ALL.0 & !Perms::READ.0);

/// Makes the lock's directories for the identities of this client, if `--acl` asks for that.
pub(super) async fn prepare(client: &Client, args: &RunArgs) -> Result<(), Failure> {
    if args.acl == Access::World {
        return Ok(());
    }
    let top = &args.path;
    own(client, top).await?;
    if args.holders.is_some() {
        own(client, &path::join(top, "locks")).await?;
        own(client, &path::join(top, "leases")).await?;
    }
    Ok(())
}

/// Creates a node that only the identities of this client may use. One that exists must not be open to everyone.
pub(super) async fn own(client: &Client, node: &str) -> Result<(), Failure> {
    if let Some(parent) = path::parent(node) {
        create_all(client, parent).await?;
    }
    let mode = CreateMode::Persistent;
    match client
        .create_with_acl(node, "", mode, Acl::CREATOR_ALL)
        .await
    {
        Ok(_) => Ok(()),
        Err(error) if error.is_node_exists() => {
            let acl = client.get_acl(node).await?.acl;
            let open =
                |entry: &Acl| entry.id.scheme == "world" && entry.perms.allows_any_of(HARMFUL);
            if acl.iter().any(open) {
                return Err(failure!(
                    USAGE,
                    "{node} exists, and everyone may change it; restrict it, for example with setAcl of zkCli.sh, or leave out --acl"
                ));
            }
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
