//! `--acl`: who may use what a run creates.
//!
//! Not here: closing the nodes of a lock (`acquire`).

use std::ffi::OsStr;

use clap::{
    Arg, Command, Error,
    builder::{PossibleValue, StringValueParser, TypedValueParser},
};
use lockkeeper::{
    client::{Builder, digest},
    error::ErrorKind,
    node::{Acl, Perms},
};

use super::{Run, RunArgs};
use crate::exit::Failure;

/// Who may use the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everyone who reaches the servers.
    World,
    /// All identities of the client that creates it.
    Creator,
    /// One identity, `SCHEME:NAME`, as `doctor` shows them.
    Only(String),
}

impl Access {
    /// Whom an entry of an ACL names, if it is nobody for whom the lock is.
    pub(super) fn other(&self, entry: &Acl) -> Option<String> {
        let (scheme, id) = (&*entry.id.scheme, &*entry.id.id);
        match self {
            _ if scheme == "world" => Some("everyone".to_owned()),
            Self::Only(who) => {
                // Behind the user of a digest is the hash of the password.
                let user = id.split(':').next().filter(|_| scheme == "digest");
                let other = format!("{scheme}:{}", user.unwrap_or(id));
                (other != *who).then_some(other)
            }
            _ => None,
        }
    }
}

/// The values of the option. Only those without a name are completed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values;

impl TypedValueParser for Values {
    type Value = Access;

    fn parse_ref(&self, all: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Access, Error> {
        let parser = StringValueParser::new().try_map(|text| match &*text {
            "world" => Ok(Access::World),
            "creator" => Ok(Access::Creator),
            it if it.split(':').take(2).filter(|it| !it.is_empty()).count() == 2 => {
                Ok(Access::Only(text))
            }
            _ => Err("it is world, creator, or an identity: digest:USER, x509:SUBJECT, sasl:NAME"),
        });
        parser.parse_ref(all, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(["world", "creator"].into_iter().map(Into::into)))
    }
}

impl RunArgs {
    /// Settings for the client. What it creates is for the one identity of `--acl`, if there is one.
    pub(super) fn settings(&self) -> Result<Builder, Failure> {
        let (servers, identities) = (&self.servers, self.servers.identities()?);
        let settings = servers.settings_for(servers.servers()?, servers.tls()?, &identities, None);
        let Access::Only(who) = &self.acl else {
            return Ok(settings);
        };
        let (scheme, name) = who.split_once(':').unwrap_or_default();
        let acl = if scheme == "digest" {
            let mut users = identities.iter().filter(|(it, _)| it == scheme);
            let password = users.find_map(|(_, it)| it.strip_prefix(name)?.strip_prefix(':'));
            // What was given is not told: it may contain the password.
            let missing =
                "--acl digest:USER: no line digest:USER:PASSWORD of that user is in --auth-file";
            let password = password.ok_or_else(|| Failure::usage(missing))?;
            digest::acl(Perms::ALL, name, password)
        } else {
            Acl::new(Perms::ALL, scheme.to_owned(), name.to_owned())
        };
        Ok(settings.default_acl(vec![acl]))
    }
}

impl Run {
    /// Looks whether the servers know this run by the one identity of `--acl`. If not, it would lock itself out. Servers before 3.7
    /// do not say whom they know.
    pub(super) async fn check_identity(&self) -> Result<(), Failure> {
        let Access::Only(who) = &self.args.acl else {
            return Ok(());
        };
        let known = match self.client.who_am_i().await {
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported(_)) => return Ok(()),
            known => known?,
        };
        let known = known.iter().map(|it| format!("{}:{}", it.scheme, it.user));
        let known: Vec<_> = known.collect();
        if known.contains(who) {
            return Ok(());
        }
        let known = known.join(", ");
        let why = "this run could not use the lock: the servers know it as";
        Err(failure!(USAGE, "--acl {who}: {why} {known}"))
    }
}
