//! The list of servers and the chroot: `host:port,host:port/chroot`.
//!
//! Only text is parsed here. The client resolves the names at each attempt to connect. A slash at
//! the end is ignored.

use std::{fmt, net::SocketAddr, str::FromStr};

use lockkeeper_proto::path;

/// The port of a server whose port is not given.
pub const DEFAULT_PORT: u16 = 2181;

/// One server: a name or address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(
    clippy::exhaustive_structs,
    reason = "users make it from its two parts"
)]
pub struct Endpoint {
    /// A host name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        let mut host = address.ip().to_string();
        if let SocketAddr::V6(address) = address {
            // Without the zone nobody is at a link-local address.
            if address.scope_id() != 0 {
                host = format!("{host}%{}", address.scope_id());
            }
        }
        let port = address.port();
        Self { host, port }
    }
}

/// A list of servers and an optional chroot, parsed from a connect string.
///
/// ```
/// # mod lockkeeper { pub mod client { pub use lockkeeper_session::ConnectString; } }
/// use lockkeeper::client::ConnectString;
///
/// let servers: ConnectString = "zk1,zk2:2182,[::1]:2183/app".parse()?;
/// assert_eq!(servers.endpoints().len(), 3);
/// assert_eq!(servers.endpoints()[0].to_string(), "zk1:2181");
/// assert_eq!(servers.chroot(), Some("/app"));
///
/// let error = "zk1:port".parse::<ConnectString>().unwrap_err();
/// assert_eq!(error.to_string(), r#"bad server list "zk1:port": port "port" is not a number from 1 to 65535"#);
/// # Ok::<(), lockkeeper_session::ConnectStringError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectString {
    endpoints: Vec<Endpoint>,
    chroot: Option<String>,
}

impl ConnectString {
    /// Returns the servers in the order of the text. There is at least one.
    #[must_use]
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Returns the chroot: the node under which all paths of the client lie. `None` without a
    /// chroot.
    #[must_use]
    pub fn chroot(&self) -> Option<&str> {
        self.chroot.as_deref()
    }
}

impl From<SocketAddr> for ConnectString {
    fn from(address: SocketAddr) -> Self {
        Self {
            endpoints: vec![address.into()],
            chroot: None,
        }
    }
}

impl fmt::Display for ConnectString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, endpoint) in self.endpoints.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{endpoint}")?;
        }
        f.write_str(self.chroot().unwrap_or(""))
    }
}

impl FromStr for ConnectString {
    type Err = ConnectStringError;

    fn from_str(text: &str) -> Result<Self, ConnectStringError> {
        parse(text).map_err(|problem| ConnectStringError {
            text: text.to_owned(),
            problem,
        })
    }
}

fn parse(text: &str) -> Result<ConnectString, String> {
    if let Some((scheme, _)) = text.split_once("://") {
        return Err(format!("leave out {scheme}://; {FORMAT}"));
    }
    let meant = text.trim_end_matches('/');
    let (hosts, chroot) = meant.split_at(meant.find('/').unwrap_or(meant.len()));
    // A name may contain a comma. But it is in a chroot only where somebody gave each server its
    // own, as other services want it, and this client would lock below another node than its peers.
    if let Some((first, _)) = chroot.split_once(',') {
        let hosts = meant
            .split(',')
            .filter_map(|server| server.split('/').next());
        let hosts: Vec<_> = hosts.filter(|host| !host.is_empty()).collect();
        return Err(format!(
            "the chroot stands once, behind all servers, as in {}{first}; it has no comma",
            hosts.join(",")
        ));
    }
    if !chroot.is_empty() {
        path::check(chroot).map_err(|error| format!("chroot {chroot:?}: {}", error.problem()))?;
    }
    let chroot = (!chroot.is_empty()).then(|| chroot.to_owned());
    let mut endpoints = Vec::new();
    for host in hosts.split(',') {
        endpoints.push(parse_endpoint(host)?);
    }
    Ok(ConnectString { endpoints, chroot })
}

/// What errors say of the text as a whole.
const FORMAT: &str = "the format is host:port,host:port/chroot";

fn parse_endpoint(text: &str) -> Result<Endpoint, String> {
    let text = text.trim();
    let parts = if let Some(rest) = text.strip_prefix('[') {
        rest.split_once(']')
            .filter(|(_, port)| port.is_empty() || port.starts_with(':'))
    } else {
        let (host, port) = text.split_at(text.find(':').unwrap_or(text.len()));
        (port.matches(':').count() <= 1).then_some((host, port))
    };
    let (host, port) = parts.ok_or_else(|| {
        format!("{text:?} is not a host and a port; {FORMAT}, with [::1]:2181 for IPv6")
    })?;
    if host.is_empty() {
        return Err(format!("a host is missing; {FORMAT}"));
    }
    let forbidden = |c: &char| c.is_whitespace() || c.is_control() || matches!(c, '[' | ']' | ';');
    if let Some(c) = host.chars().find(forbidden) {
        return Err(format!("host {host:?} contains the character {c:?}"));
    }
    let port = match port.strip_prefix(':') {
        None => DEFAULT_PORT,
        Some(port) => match port.parse() {
            Ok(number) if number != 0 => number,
            _ => return Err(format!("port {port:?} is not a number from 1 to 65535")),
        },
    };
    Ok(Endpoint {
        host: host.to_owned(),
        port,
    })
}

/// The error for a list of servers that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectStringError {
    text: String,
    problem: String,
}

impl fmt::Display for ConnectStringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bad server list {:?}: {}", self.text, self.problem)
    }
}

impl std::error::Error for ConnectStringError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ConnectString, String> {
        text.parse()
            .map_err(|error: ConnectStringError| error.to_string())
    }

    #[test]
    fn every_kind_of_host_is_read_and_printed_again() {
        for text in [
            "zk:2181",
            "a:1,b:65535",
            "127.0.0.1:2181/app",
            "[::1]:2181,zk.example.org:2182/a/b",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        assert_eq!(parse("zk").unwrap().to_string(), "zk:2181");
        assert_eq!(parse("[fe80::1]").unwrap().to_string(), "[fe80::1]:2181");
        assert_eq!(parse("zk/").unwrap().chroot(), None);
        assert_eq!(parse("zk/app/").unwrap().to_string(), "zk:2181/app");
    }

    /// The zone was left out, and nobody is at such an address without it.
    #[test]
    fn an_address_is_taken_whole() {
        for text in ["127.0.0.1:2181", "[::1]:1", "[fe80::1%2]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            let servers = ConnectString::from(address);
            assert_eq!(servers.to_string(), text);
            assert_eq!(parse(text).unwrap(), servers);
        }
    }

    #[test]
    fn the_error_names_the_list_and_the_problem() {
        for (text, part) in [
            ("", "a host is missing"),
            ("a,,b", "a host is missing"),
            (":2181", "a host is missing"),
            ("/app", "a host is missing"),
            ("zk:", r#"port "" is not"#),
            ("zk:0", r#"port "0" is not"#),
            ("zk:65536", r#"port "65536" is not"#),
            ("::1", "with [::1]:2181"),
            ("[::1", "with [::1]:2181"),
            ("[::1]2181", "with [::1]:2181"),
            ("a:1 b:1", "the format is host:port,host:port"),
            ("a:1;b:1", "the format is host:port,host:port"),
            ("a;b", "character ';'"),
            ("a b:1", "character ' '"),
            ("[[::1]:1", "character '['"),
            ("zk]:1", "character ']'"),
            ("zk//app", "chroot \"//app\": empty name"),
            (
                "zk1:1/app,zk2:1/app",
                "behind all servers, as in zk1:1,zk2:1/app",
            ),
            (
                "zk1:1/app,zk2:1",
                "behind all servers, as in zk1:1,zk2:1/app",
            ),
            ("zk://a:2181/app", "leave out zk://"),
            ("http://a:2181", "leave out http://"),
            ("dns-srv://a", "leave out dns-srv://"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(part), "{text:?}: {message}");
            assert!(message.contains(&format!("{text:?}")), "{message}");
        }
    }
}
