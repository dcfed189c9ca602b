//! Encryption and authentication: from options, a file, or the environment to the settings of a client.
//!
//! Secrets come from files and the environment only: what is on a command line everybody reads in the list of processes.
//! Nothing here prints them: a line that cannot be read is named by its number.

use std::{
    env, fmt, fs, io,
    path::{Path, PathBuf},
};

use clap::Args;
use lockkeeper::{
    Builder, Connector, DigestMd5,
    tls::{TlsConfig, TlsConfigError},
};

/// The variable that holds identities where `--auth-file` does not.
pub(crate) const VARIABLE: &str = "LOCKKEEPER_AUTH";
/// The scheme that stands for SASL DIGEST-MD5. Servers give such identities in ACLs the same name.
const SASL: &str = "sasl";

const AUTH_HELP: &str =
    "Who we are: lines such as digest:USER:PASSWORD [default: the lines of $LOCKKEEPER_AUTH]";

const AUTH_DETAILS: &str = "\
Who we are: one identity a line, in a file that nobody else may read [default: the lines of $LOCKKEEPER_AUTH, which a \
command that is run inherits]

digest:USER:PASSWORD is an identity for ACLs of the digest scheme, sasl:USER:PASSWORD is for SASL DIGEST-MD5, which some \
servers demand, SCHEME:CREDENTIALS any other that the servers know";

const HEADING: &str = "Encryption and identities";

#[derive(Args, Debug)]
pub(crate) struct SecurityArgs {
    /// Encrypt (--connect names secure ports then), and trust the servers whose certificates are signed by one of these (PEM)
    #[arg(long, help_heading = HEADING, value_name = "FILE")]
    tls_ca: Option<PathBuf>,

    /// The certificate to show to servers (PEM)
    #[arg(long, help_heading = HEADING, value_name = "FILE", requires_all = ["tls_ca", "tls_key"])]
    tls_cert: Option<PathBuf>,

    /// Its private key (PEM, not encrypted)
    #[arg(long, help_heading = HEADING, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// The name in the servers' certificates [default: the host of each server]
    #[arg(long, help_heading = HEADING, value_name = "NAME", requires = "tls_ca")]
    tls_server_name: Option<String>,

    #[arg(long, help_heading = HEADING, value_name = "FILE", help = AUTH_HELP, long_help = AUTH_DETAILS)]
    auth_file: Option<PathBuf>,
}

impl SecurityArgs {
    /// The same settings with encryption and identities.
    pub(crate) fn apply(&self, builder: Builder) -> Result<Builder, BadSecurity> {
        let builder = match self.tls().map_err(BadSecurity::Tls)? {
            Some(tls) => builder.connector(Connector::tls(tls)),
            None => builder,
        };
        self.authenticate(builder)
    }

    /// Whether anything of this was on the command line.
    pub(crate) fn is_given(&self) -> bool {
        self.tls_ca.is_some() || self.auth_file.is_some()
    }

    fn tls(&self) -> Result<Option<TlsConfig>, TlsConfigError> {
        let Some(ca) = &self.tls_ca else {
            return Ok(None);
        };
        let mut tls = TlsConfig::from_ca_file(ca)?;
        if let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) {
            tls = tls.identity_files(certificate, key)?;
        }
        if let Some(name) = &self.tls_server_name {
            tls = tls.server_name(name)?;
        }
        Ok(Some(tls))
    }

    fn authenticate(&self, builder: Builder) -> Result<Builder, BadSecurity> {
        if let Some(path) = &self.auth_file {
            return match fs::read_to_string(path) {
                Ok(text) => with_identities(builder, &text, &Origin::File(path.clone())),
                Err(error) => Err(BadSecurity::Unreadable(path.clone(), error)),
            };
        }
        match env::var(VARIABLE) {
            Ok(text) => with_identities(builder, &text, &Origin::Variable),
            Err(env::VarError::NotPresent) => Ok(builder),
            Err(env::VarError::NotUnicode(_)) => Err(BadSecurity::NotText),
        }
    }
}

/// One identity a line.
fn with_identities(
    mut builder: Builder,
    text: &str,
    origin: &Origin,
) -> Result<Builder, BadSecurity> {
    let mut has_sasl = false;
    for (number, line) in lines(text) {
        let bad = |problem| origin.bad(number, problem);
        builder = match identity(line).map_err(bad)? {
            Identity::Sasl { .. } if has_sasl => return Err(bad(Problem::SecondSasl)),
            Identity::Sasl { user, password } => {
                has_sasl = true;
                builder.sasl(DigestMd5::new(user, password))
            }
            Identity::Other(scheme, credentials) => builder.auth(scheme, credentials.to_owned()),
        };
    }
    Ok(builder)
}

/// The users that a file names, for a server, which has more than one.
pub(crate) fn users(path: &Path) -> Result<Vec<(String, String)>, BadSecurity> {
    let text = fs::read_to_string(path);
    let text = text.map_err(|error| BadSecurity::Unreadable(path.to_owned(), error))?;
    let origin = Origin::File(path.to_owned());
    let user = |(number, line)| match identity(line) {
        Ok(Identity::Sasl { user, password }) => Ok((user.to_owned(), password.to_owned())),
        _ => Err(origin.bad(number, Problem::NoPassword)),
    };
    let users: Vec<_> = lines(&text).map(user).collect::<Result<_, _>>()?;
    if users.is_empty() {
        return Err(BadSecurity::Nobody(path.to_owned()));
    }
    Ok(users)
}

/// Lines with their numbers; blank ones and those that begin with # are nothing.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines());
    lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
}

/// What a line says.
enum Identity<'a> {
    Sasl { user: &'a str, password: &'a str },
    Other(&'a str, &'a str),
}

fn identity(line: &str) -> Result<Identity<'_>, Problem> {
    match line.split_once(':') {
        Some((SASL, credentials)) => {
            let (user, password) = credentials.split_once(':').ok_or(Problem::NoPassword)?;
            Ok(Identity::Sasl { user, password })
        }
        Some((scheme, credentials)) if !scheme.is_empty() => {
            Ok(Identity::Other(scheme, credentials))
        }
        _ => Err(Problem::NoScheme),
    }
}

/// Where identities came from.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    Variable,
    File(PathBuf),
}

impl Origin {
    fn bad(&self, number: usize, problem: Problem) -> BadSecurity {
        BadSecurity::Line {
            origin: self.clone(),
            number,
            problem,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable => f.write_str(VARIABLE),
            Self::File(path) => Path::display(path).fmt(f),
        }
    }
}

/// Why certificates, keys or identities are of no use. Holds nothing of them.
#[derive(Debug)]
pub(crate) enum BadSecurity {
    Tls(TlsConfigError),
    Unreadable(PathBuf, io::Error),
    /// There are no users in it.
    Nobody(PathBuf),
    NotText,
    Line {
        origin: Origin,
        number: usize,
        problem: Problem,
    },
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Problem {
    NoScheme,
    NoPassword,
    SecondSasl,
}

impl fmt::Display for BadSecurity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tls(error) => error.fmt(f),
            Self::Unreadable(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Nobody(path) => write!(
                f,
                "{}: there is no user in it, and so nobody would be answered",
                path.display()
            ),
            Self::NotText => write!(f, "{VARIABLE}: it is not UTF-8"),
            Self::Line {
                origin,
                number,
                problem,
            } => {
                write!(f, "{origin}, line {number}: ")?;
                f.write_str(match problem {
                    Problem::NoScheme => {
                        "an identity looks like digest:USER:PASSWORD or sasl:USER:PASSWORD"
                    }
                    Problem::NoPassword => "a SASL identity looks like sasl:USER:PASSWORD",
                    Problem::SecondSasl => "there can be one SASL identity only",
                })
            }
        }
    }
}
