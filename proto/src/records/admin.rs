//! The records of authentication and of changes to the ensemble.
//!
//! Invariant: `Debug` prints no token and no credentials.

use alloc::{string::String, vec::Vec};

use bytes::Bytes;

use crate::jute::record;

record! {
    /// Changes the servers of the ensemble.
    pub struct ReconfigRequest {
        /// Servers to add, as `server.5=host:2888:3888;2181`, separated by commas.
        pub joining_servers: Option<String>,
        /// Ids of servers to remove, separated by commas.
        pub leaving_servers: Option<String>,
        /// All servers of the new ensemble, instead of the two lists above.
        pub new_members: Option<String>,
        /// The version of the configuration to replace; -1 for any version.
        pub cur_config_id: i64,
    }

    /// One identity of a connection.
    pub struct ClientInfo {
        /// The scheme, as in an ACL.
        pub auth_scheme: String,
        /// The user, without any secret.
        pub user: String,
    }

    /// The identities of a connection.
    pub struct WhoAmIResponse {
        /// All identities of the connection, in no particular order.
        pub client_info: Vec<ClientInfo>,
    }

    /// A token of a SASL exchange, which may contain a password in clear text.
    pub struct SaslRequest hides token {
        /// The token.
        pub token: Option<Bytes>,
    }

    /// A token of a SASL exchange.
    pub struct SaslResponse hides token {
        /// The token. A server without SASL sends null.
        pub token: Option<Bytes>,
    }

    /// Adds an identity to the connection.
    pub struct AuthPacket hides auth {
        /// 0; servers ignore it.
        pub auth_type: i32,
        /// The scheme, as in an ACL.
        pub scheme: String,
        /// The credentials, in clear text.
        pub auth: Option<Bytes>,
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;
    use crate::connect::{ConnectRequest, ConnectResponse};
    use crate::{SessionId, Zxid};

    #[test]
    fn no_secret_is_printed() {
        let secret = Some(Bytes::from_static(b"hunter2"));
        let printed = format!(
            "{:?}{:?}{:?}{:?}{:?}",
            AuthPacket {
                auth_type: 0,
                scheme: String::from("digest"),
                auth: secret.clone()
            },
            SaslRequest {
                token: secret.clone()
            },
            SaslResponse {
                token: secret.clone()
            },
            ConnectRequest {
                protocol_version: 0,
                last_zxid_seen: Zxid::ZERO,
                timeout_ms: 0,
                session_id: SessionId::NONE,
                password: secret.clone(),
                read_only: None
            },
            ConnectResponse {
                protocol_version: 0,
                timeout_ms: 0,
                session_id: SessionId::NONE,
                password: secret,
                read_only: None
            },
        );
        assert!(
            !printed.contains("hunter2") && !printed.contains("104"),
            "{printed}"
        );
    }
}
