//! `lockkeeper getacl`, `setacl` and `whoami`.
//!
//! Not here: entries of ACLs as text (`acl_entry`).

use lockkeeper::{Client, Version};

use super::{
    acl_entry::show,
    args::{GetAclArgs, SetAclArgs, WhoAmIArgs},
};
use crate::{exit::Failure, text};

pub(super) async fn get(args: &GetAclArgs, client: &Client) -> Result<(), Failure> {
    let answer = client.get_acl(&args.path).await;
    let acl = answer?.acl;
    let lines: String = acl
        .iter()
        .map(|entry| text::name(&show(entry)) + "\n")
        .collect();
    text::print(lines)
}

pub(super) async fn set(args: &SetAclArgs, client: &Client) -> Result<(), Failure> {
    let version = args.version.map_or(Version::ANY, Version);
    let set = client.set_acl(&args.path, args.acl.clone(), version);
    set.await.map(drop).map_err(Failure::from)
}

pub(super) async fn who_am_i(_: &WhoAmIArgs, client: &Client) -> Result<(), Failure> {
    let mut ids = client.who_am_i().await?;
    ids.sort_by(|one, other| (&one.auth_scheme, &one.user).cmp(&(&other.auth_scheme, &other.user)));
    let line = |scheme: &str, user: &str| text::name(&format!("{scheme}:{user}")) + "\n";
    let lines: String = ids
        .iter()
        .map(|id| line(&id.auth_scheme, &id.user))
        .collect();
    text::print(lines)
}
