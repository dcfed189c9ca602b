//! `--acl`: who may use what a run creates.
//!
//! Not here: closing the nodes of a lock (`acquire`).

use std::ffi::OsStr;

use clap::{
    Arg, Command,
    builder::{PossibleValue, StringValueParser, TypedValueParser},
};
use lockkeeper::{
    client::{Builder, digest},
    error::ErrorKind,
    node::{Acl, Perms},
};

use super::{Run, RunArgs};
use crate::{exit::Failure, servers::settings_for};

/// Who may use the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everyone who reaches the servers.
    World,
    /// All identities of the client that creates it.
    Creator,
    /// The identity with this scheme and name, as `doctor` shows them.
    Only(String, String),
}

/// The values of the option. Those without a name of the user in them are completed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values;

impl TypedValueParser for Values {
    type Value = Access;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Access, clap::Error> {
        let parser = StringValueParser::new().try_map(|it| parse(&it));
        parser.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(["world", "creator"].into_iter().map(Into::into)))
    }
}

fn parse(text: &str) -> Result<Access, &'static str> {
    match (text, text.split_once(':')) {
        ("world", _) => Ok(Access::World),
        ("creator", _) => Ok(Access::Creator),
        (_, Some((scheme, name))) if !scheme.is_empty() && !name.is_empty() => {
            Ok(Access::Only(scheme.to_owned(), name.to_owned()))
        }
        _ => Err("it is world, creator, or an identity: digest:USER, x509:SUBJECT"),
    }
}

impl RunArgs {
    /// Settings for the client. What it creates is for the one identity of `--acl`, if there is one.
    pub(super) fn settings(&self) -> Result<Builder, Failure> {
        let (servers, identities) = (&self.servers, self.servers.identities()?);
        let settings = settings_for(servers.servers()?, servers.tls(None)?, &identities);
        let Access::Only(scheme, name) = &self.acl else {
            return Ok(settings);
        };
        let acl = if scheme == "digest" {
            let mut users = identities.iter().filter(|(it, _)| it == scheme);
            let password = users.find_map(|(_, it)| it.strip_prefix(&**name)?.strip_prefix(':'));
            // What was given is not told: it may contain the password.
            let missing =
                "--acl digest:USER: --auth-file has no line digest:USER:PASSWORD of that user";
            digest::acl(
                Perms::ALL,
                name,
                password.ok_or_else(|| Failure::usage(missing))?,
            )
        } else {
            Acl::new(Perms::ALL, scheme.clone(), name.clone())
        };
        Ok(settings.default_acl(vec![acl]))
    }
}

impl Run {
    /// Looks whether the servers know this run by the one identity of `--acl`. If not, it would lock itself out. Servers before 3.7
    /// do not say whom they know.
    pub(super) async fn check_identity(&self) -> Result<(), Failure> {
        let Access::Only(scheme, name) = &self.args.acl else {
            return Ok(());
        };
        let known = match self.client.who_am_i().await {
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported(_)) => return Ok(()),
            known => known?,
        };
        let known: Vec<_> = known
            .iter()
            .map(|it| format!("{}:{}", it.auth_scheme, it.user))
            .collect();
        let wanted = format!("{scheme}:{name}");
        if known.contains(&wanted) {
            return Ok(());
        }
        let known = known.join(", ");
        Err(failure!(
            USAGE,
            "--acl {wanted}: this run could not use the lock: the servers know it as {known}"
        ))
    }
}
