//! `--acl`: who may use the lock.
//!
//! To delete a node, a client needs a permission on the node above it. So the ACL of the lock's directory decides who can enter the
//! queue, and who can throw others out; that of the record of `--once-per` decides who can say that the command has run. The default
//! ACL of the client closes what this run creates. This file makes the directories persistent, and refuses those that were made
//! before and are open.

use lockkeeper::{
    Client,
    node::{Acl, Perms},
    proto::path,
};

use super::{RunArgs, args::Access, once::Once};
use crate::{client::create_all, exit::Failure};

/// What a client needs to harm the users of a lock.
const HARMFUL: Perms = Perms(Perms::ALL.0 & !Perms::READ.0);

/// Makes the lock's directories and the nodes of `--once-per`, if `--acl` asks for closed ones. Those that exist must not be open to
/// everyone.
pub(super) async fn prepare(client: &Client, args: &RunArgs) -> Result<(), Failure> {
    if args.acl == Access::World {
        return Ok(());
    }
    let mut nodes = vec![args.path.clone()];
    if args.holders.is_some() {
        nodes.extend(["locks", "leases"].map(|name| path::join(&args.path, name)));
    }
    if args.once_per.is_some() {
        nodes.extend(Once::nodes(&args.path));
    }
    for node in nodes {
        create_all(client, &node).await?;
        let acl = client.get_acl(&node).await?.acl;
        let is_open =
            |entry: &Acl| entry.id.scheme == "world" && entry.perms.allows_any_of(HARMFUL);
        if acl.iter().any(is_open) {
            return Err(failure!(
                USAGE,
                "{node} exists, and everyone may change it; restrict it, for example with setAcl of zkCli.sh, or leave out --acl"
            ));
        }
    }
    Ok(())
}
