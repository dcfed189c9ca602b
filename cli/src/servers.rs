//! The servers and how to connect to them: turns options, a file or the environment into settings of a client. Also the form of an
//! address to listen on.
//!
//! Invariants:
//! - Secrets come only from files and the environment. Every user can read a command line in the list of processes.
//! - No message contains a secret. An error names a bad line by its number.

#[cfg(unix)]
use std::os::unix::fs::MetadataExt as _;
use std::{
    env, fmt,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use clap::Args;
#[cfg(feature = "kerberos")]
use lockkeeper::client::sasl::Kerberos;
use lockkeeper::client::{Builder, ConnectString, Connector, sasl::DigestMd5, tls::TlsConfig};

use crate::exit::Failure;

/// The environment variable with the servers, used when `--connect` is not given.
pub(crate) const VARIABLE: &str = "LOCKKEEPER_CONNECT";
/// The environment variable with the identities, used when `--auth-file` is not given.
pub(crate) const AUTH_VARIABLE: &str = "LOCKKEEPER_AUTH";
/// The environment variables about encryption: those of the options below that begin with `--tls`.
pub(crate) const TLS_VARIABLES: [&str; 4] = [
    "LOCKKEEPER_TLS_CA",
    "LOCKKEEPER_TLS_CERT",
    "LOCKKEEPER_TLS_KEY",
    "LOCKKEEPER_TLS_SERVER_NAME",
];

const AUTH_HELP: &str =
    "The identities: lines such as digest:USER:PASSWORD [default: the lines of $LOCKKEEPER_AUTH]";

const AUTH_DETAILS: &str = "\
The identities, one per line. A file that every user may read is refused, except on Windows [default: the lines of $LOCKKEEPER_AUTH, \
which the command of `lockkeeper run` does not get without --pass-auth]

digest:USER:PASSWORD is for ACLs of the digest scheme, and SCHEME:CREDENTIALS for any other scheme that the servers know. \
sasl:USER:PASSWORD logs in by SASL DIGEST-MD5; give --tls-ca, too. Blanks around a line do not count, and a line that begins with # is a comment";

const HEADING: &str = "Encryption and identities";

#[derive(Args, Debug)]
pub(crate) struct ServerArgs {
    /// The ZooKeeper servers: host:port,host:port/chroot
    #[arg(long, value_name = "HOSTS", env = VARIABLE, hide_env_values = true)]
    pub(crate) connect: Option<ConnectString>,

    /// Encrypt, and trust servers whose certificates one of these CAs has signed (PEM, read again for each connection); --connect must name secure ports
    #[arg(long, env = "LOCKKEEPER_TLS_CA", requires = "connect", help_heading = HEADING, value_name = "FILE")]
    tls_ca: Option<PathBuf>,

    /// The certificate that the client shows to servers (PEM)
    #[arg(long, env = "LOCKKEEPER_TLS_CERT", help_heading = HEADING, value_name = "FILE", requires_all = ["tls_ca", "tls_key"])]
    tls_cert: Option<PathBuf>,

    /// The private key of that certificate (PEM, not encrypted)
    #[arg(long, env = "LOCKKEEPER_TLS_KEY", help_heading = HEADING, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// The name in the servers' certificates [default: the host of each server]
    #[arg(long, env = "LOCKKEEPER_TLS_SERVER_NAME", help_heading = HEADING, value_name = "NAME", requires = "tls_ca")]
    tls_server_name: Option<String>,

    #[arg(long, env = "LOCKKEEPER_AUTH_FILE", requires = "connect", help_heading = HEADING, value_name = "FILE", help = AUTH_HELP, long_help = AUTH_DETAILS)]
    auth_file: Option<PathBuf>,

    /// Log in with Kerberos, as this principal or the default one, by the ticket of kinit or of a client keytab
    #[arg(long, requires = "connect", help_heading = HEADING, value_name = "PRINCIPAL", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = principal)]
    kerberos: Option<String>,

    /// The servers' principal without its realm, or its service alone [default: zookeeper on the host of each server]
    #[arg(long, requires = "kerberos", help_heading = HEADING, value_name = "SERVICE/HOST", value_parser = service)]
    kerberos_service: Option<String>,
}

impl ServerArgs {
    /// Settings for a client of the servers.
    pub(crate) fn settings(&self) -> Result<Builder, Failure> {
        let identities = self.identities()?;
        Ok(self.settings_for(self.servers()?, self.tls()?, &identities, None))
    }

    /// Settings for a client of these servers, with this encryption, and with identities. The name is that of a server by address.
    #[cfg_attr(
        not(feature = "kerberos"),
        expect(unused_variables, clippy::unused_self)
    )]
    pub(crate) fn settings_for(
        &self,
        servers: &ConnectString,
        tls: Option<TlsConfig>,
        identities: &[(String, String)],
        name: Option<&str>,
    ) -> Builder {
        let connector = tls.map_or_else(Connector::tcp, TlsConfig::connector);
        let mut builder = Builder::new(servers).connector(connector.clone());
        #[cfg(feature = "kerberos")]
        if let Some(principal) = &self.kerberos {
            let service = self.kerberos_service.as_deref().unwrap_or("zookeeper");
            let given = service.split_once('/');
            let (service, host) = given.map_or((service, name), |(it, host)| (it, Some(host)));
            let mut kerberos = Kerberos::new().service(service);
            if !principal.is_empty() {
                kerberos = kerberos.principal(principal);
            }
            if let Some(host) = host {
                kerberos = kerberos.host(host);
            }
            builder = kerberos.log_in_over(builder, connector);
        }
        for (scheme, credentials) in identities {
            builder = match credentials.split_once(':') {
                Some((user, password)) if scheme == "sasl" => {
                    builder.sasl(DigestMd5::new(user, password))
                }
                _ => builder.auth(scheme, credentials.clone()),
            };
        }
        builder
    }

    /// The schemes and credentials of the user. A file of them may be a pipe: it can be read once.
    pub(crate) fn identities(&self) -> Result<Vec<(String, String)>, Failure> {
        let has_login = self.kerberos.is_some();
        if let Some(path) = &self.auth_file {
            return parsed(&secret(path)?, &path.display(), has_login);
        }
        match env::var(AUTH_VARIABLE) {
            Ok(text) => parsed(&text, &AUTH_VARIABLE, has_login),
            Err(env::VarError::NotPresent) => Ok(Vec::new()),
            // The error of the library has the text of the variable.
            Err(env::VarError::NotUnicode(_)) => Err(failure!(USAGE, "{AUTH_VARIABLE}: not UTF-8")),
        }
    }

    /// How connections are encrypted, if they are.
    pub(crate) fn tls(&self) -> Result<Option<TlsConfig>, Failure> {
        let Some(ca) = &self.tls_ca else {
            return Ok(None);
        };
        let mut tls = TlsConfig::from_ca_file(ca).map_err(Failure::usage)?;
        if let (Some(chain), Some(key)) = (&self.tls_cert, &self.tls_key) {
            tls = tls.identity_files(chain, key).map_err(Failure::usage)?;
        }
        if let Some(name) = &self.tls_server_name {
            tls = tls.server_name(name).map_err(Failure::usage)?;
        }
        Ok(Some(tls))
    }

    /// TLS to one server, whose certificate has this name, unless the user gives one.
    pub(crate) fn tls_to(
        &self,
        tls: Option<&TlsConfig>,
        name: Option<&str>,
    ) -> Result<Option<TlsConfig>, Failure> {
        let name = name.filter(|_| self.tls_server_name.is_none());
        let named = tls.cloned().map(|tls| match name {
            Some(name) => tls.server_name(name),
            None => Ok(tls),
        });
        named.transpose().map_err(Failure::usage)
    }

    pub(crate) fn servers(&self) -> Result<&ConnectString, Failure> {
        self.connect.as_ref().ok_or_else(|| {
            failure!(
                USAGE,
                "no servers: give --connect HOST:PORT,.. or set {VARIABLE}; to try lockkeeper, run \
                 `lockkeeper serve --fresh` and use 127.0.0.1:2181"
            )
        })
    }
}

/// Reads a file with identities. A file that every user of the machine may read keeps no secret.
fn secret(path: &Path) -> Result<String, Failure> {
    let name = path.display();
    let unreadable = |error| failure!(USAGE, "{name}: {error}");
    let mut file = File::open(path).map_err(unreadable)?;
    // On other systems, the standard library does not read the access list of a file.
    #[cfg(unix)]
    {
        let about = file.metadata().map_err(unreadable)?;
        if about.is_file() && about.mode() & 0o006 != 0 {
            let open = "every user may read or change it; run chmod o=";
            return Err(failure!(USAGE, "{name}: {open} {name}"));
        }
    }
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unreadable)?;
    if lines(&text).next().is_none() {
        return Err(failure!(
            USAGE,
            "{name}: there is no identity in it; add a line such as digest:USER:PASSWORD"
        ));
    }
    Ok(text)
}

/// The identities in `text`, one per line.
fn parsed(
    text: &str,
    origin: &dyn fmt::Display,
    has_login: bool,
) -> Result<Vec<(String, String)>, Failure> {
    let mut identities: Vec<(String, String)> = Vec::new();
    for (number, line) in lines(text) {
        let (scheme, credentials) = line.split_once(':').unwrap_or_default();
        let logs_in = has_login || identities.iter().any(|(it, _)| it == "sasl");
        match (scheme, credentials.split_once(':')) {
            ("sasl", Some(_)) if logs_in => {
                return Err(bad(origin, number, "a client has one login by SASL"));
            }
            ("", _) | ("digest" | "sasl", None) => {
                let problem = "an identity looks like digest:USER:PASSWORD";
                return Err(bad(origin, number, problem));
            }
            _ => identities.push((scheme.to_owned(), credentials.to_owned())),
        }
    }
    Ok(identities)
}

/// What is wrong with a line. It may be a secret, and is not told.
pub(crate) fn bad(origin: &dyn fmt::Display, number: usize, problem: &str) -> Failure {
    failure!(USAGE, "{origin}, line {number}: {problem}")
}

/// The lines with their numbers, without blanks around them, blank lines and comments (`#`).
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    // Some editors begin a file with a byte order mark.
    let text = text.trim_start_matches('\u{feff}');
    let lines = (1..).zip(text.lines());
    let lines = lines.map(|(number, line)| (number, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Checks that this program can log in with Kerberos.
fn principal(name: &str) -> Result<String, &'static str> {
    cfg!(feature = "kerberos").then(|| name.to_owned()).ok_or(
        "this program is built without Kerberos: install libkrb5-dev and libclang-dev, then \
         `cargo install lockkeeper-cli --features kerberos`",
    )
}

/// Checks the form of `service` and `service/host`.
fn service(text: &str) -> Result<String, &'static str> {
    let is_part = |it: &str| !it.is_empty() && !it.contains(['/', '@']);
    let is_right = text.splitn(2, '/').all(is_part);
    let right = "it looks like zookeeper or zookeeper/HOST, without a realm";
    is_right.then(|| text.to_owned()).ok_or(right)
}

/// Checks the form of `host:port`; the host may be a name.
pub(crate) fn listen(text: &str) -> Result<String, &'static str> {
    let (host, port) = text.rsplit_once(':').unwrap_or_default();
    let bare_ipv6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    if host.is_empty() || bare_ipv6 || port.parse::<u16>().is_err() {
        return Err(
            "an address looks like 127.0.0.1:2181, localhost:2181 or [::1]:2181, with a port of at most 65535",
        );
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_to_listen_on_has_a_host_and_a_port() {
        for good in ["127.0.0.1:0", "localhost:2181", "[::1]:2181", "0.0.0.0:1"] {
            assert_eq!(listen(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "2181",
            ":2181",
            "localhost",
            "::1:2181",
            "a:65536",
            "a:b",
        ] {
            assert!(listen(bad).is_err(), "{bad:?}");
        }
    }
}
