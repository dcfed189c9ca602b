//! The configuration of an ensemble: parses the text in `/zookeeper/config`.
//!
//! Not here: the requests that read and replace the configuration (`GetData`, `Reconfig`). The
//! parser skips lines about groups and weights, because no caller needs them.

use alloc::{
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

/// The servers of an ensemble, and the version of this configuration.
///
/// ```
/// use lockkeeper_proto::EnsembleConfig;
///
/// let text = b"server.1=zk1:2888:3888:participant;0.0.0.0:2181\nversion=100000003";
/// let config = EnsembleConfig::parse(text)?;
/// assert_eq!(config.version, Some(0x1_0000_0003));
/// assert_eq!(config.servers[0].id, 1);
/// assert_eq!(config.servers[0].peers, "zk1:2888:3888");
/// assert_eq!(config.servers[0].clients.as_deref(), Some("0.0.0.0:2181"));
/// # Ok::<(), lockkeeper_proto::EnsembleConfigError>(())
/// ```
///
/// Source: `QuorumMaj.toString`, `QuorumPeer.QuorumServer.toString`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnsembleConfig {
    /// The servers, in the order of the text. Empty for a standalone server.
    pub servers: Vec<EnsembleServer>,
    /// The version. `reconfig` compares it with the version that its caller has seen. `None` for a
    /// standalone server.
    pub version: Option<i64>,
}

/// One server of an ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnsembleServer {
    /// The server's number. A `reconfig` removes a server by this number.
    pub id: i64,
    /// The address for other servers: `host:port:port`. Several addresses are separated by `|`.
    pub peers: String,
    /// Whether the server is an observer, which has no vote.
    pub is_observer: bool,
    /// The address for clients: `host:port`, or a port alone. `None` if the configuration has none.
    pub clients: Option<String>,
}

impl EnsembleConfig {
    /// Parses the data of `/zookeeper/config`.
    ///
    /// # Errors
    /// [`EnsembleConfigError`] names the first malformed line. If the data is not UTF-8, it names
    /// all of the data.
    pub fn parse(data: &[u8]) -> Result<Self, EnsembleConfigError> {
        let text = core::str::from_utf8(data).map_err(|_| EnsembleConfigError {
            line: String::from_utf8_lossy(data).into_owned(),
        })?;
        let mut config = Self::default();
        for line in text.lines() {
            let malformed = || EnsembleConfigError {
                line: line.to_string(),
            };
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };
            if key == "version" {
                let version = i64::from_str_radix(value, 16);
                config.version = Some(version.map_err(|_| malformed())?);
            } else if let Some(id) = key.strip_prefix("server.") {
                let server = EnsembleServer::parse(id, value);
                config.servers.push(server.ok_or_else(malformed)?);
            }
        }
        Ok(config)
    }

    /// The server with this number.
    #[must_use]
    pub fn server(&self, id: i64) -> Option<&EnsembleServer> {
        self.servers.iter().find(|server| server.id == id)
    }
}

impl EnsembleServer {
    fn parse(id: &str, value: &str) -> Option<Self> {
        let (servers, clients) = match value.split_once(';') {
            Some((servers, clients)) => (servers, Some(clients.to_string())),
            None => (value, None),
        };
        let (peers, is_observer) = match servers.rsplit_once(':')? {
            (peers, "participant") => (peers, false),
            (peers, "observer") => (peers, true),
            _ => (servers, false),
        };
        Some(Self {
            id: id.parse().ok()?,
            peers: peers.to_string(),
            is_observer,
            clients,
        })
    }
}

/// Prints the server as a configuration and a `reconfig` write it:
/// `server.1=zk1:2888:3888:participant;0.0.0.0:2181`.
impl fmt::Display for EnsembleServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = if self.is_observer {
            "observer"
        } else {
            "participant"
        };
        write!(f, "server.{}={}:{role}", self.id, self.peers)?;
        match &self.clients {
            Some(clients) => write!(f, ";{clients}"),
            None => Ok(()),
        }
    }
}

/// The configuration of an ensemble has a malformed line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnsembleConfigError {
    line: String,
}

impl fmt::Display for EnsembleConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "malformed line in the configuration of the ensemble: {:?}",
            self.line
        )
    }
}

impl core::error::Error for EnsembleConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_line_prints_as_it_was_read() {
        let lines = [
            "server.0=127.0.0.1:2888:3888:participant;127.0.0.1:2181",
            "server.1=zk1:2888:3888|zk1b:2888:3888:participant;2181",
            "server.-7=[::1]:2888:3888:observer",
        ];
        let text = lines.join("\n") + "\nweight.1=2\nversion=fffffffff";
        let config = EnsembleConfig::parse(text.as_bytes()).unwrap();
        assert_eq!(config.version, Some(0xf_ffff_ffff));
        let printed: Vec<_> = config.servers.iter().map(ToString::to_string).collect();
        assert_eq!(printed, lines);
        assert_eq!(config.server(1).unwrap().clients.as_deref(), Some("2181"));
        assert!(config.server(-7).unwrap().is_observer);
        assert_eq!(config.server(2), None);
    }

    #[test]
    fn a_server_without_a_role_votes() {
        let config = EnsembleConfig::parse(b"server.3=zk3:2888:3888").unwrap();
        let server = config.server(3).unwrap();
        assert_eq!(
            (&*server.peers, server.is_observer),
            ("zk3:2888:3888", false)
        );
    }

    #[test]
    fn a_standalone_server_has_an_empty_configuration() {
        assert_eq!(EnsembleConfig::parse(b""), Ok(EnsembleConfig::default()));
    }

    #[test]
    fn the_error_names_the_malformed_line() {
        for line in [
            "server.x=a:1:2",
            "server.1=a",
            "version=",
            "version=xyz",
            "version=10000000000000000",
        ] {
            let error = EnsembleConfig::parse(line.as_bytes()).unwrap_err();
            assert_eq!(error.line, line);
        }
        assert!(EnsembleConfig::parse(b"\xff").is_err());
    }
}
