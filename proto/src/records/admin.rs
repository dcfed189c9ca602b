//! The records of authentication and of changes to the ensemble.
//!
//! Invariant: `Debug` prints no token and no credentials.

use alloc::{string::String, vec::Vec};
use core::fmt;

use bytes::Bytes;

use crate::jute::{Decode, DecodeError, Encode, Reader, Sink, Writer, record};

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
}

/// A token of a SASL exchange.
#[derive(Clone, PartialEq, Eq)]
pub struct SaslRequest {
    /// The token.
    pub token: Option<Bytes>,
}

/// A token of a SASL exchange.
#[derive(Clone, PartialEq, Eq)]
pub struct SaslResponse {
    /// The token. A server without SASL sends null.
    pub token: Option<Bytes>,
}

/// Adds an identity to the connection.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthPacket {
    /// 0; servers ignore it.
    pub auth_type: i32,
    /// The scheme, as in an ACL.
    pub scheme: String,
    /// The credentials, in clear text.
    pub auth: Option<Bytes>,
}

impl Encode for AuthPacket {
    fn encode<S: Sink>(&self, writer: &mut Writer<'_, S>) {
        self.auth_type.encode(writer);
        self.scheme.encode(writer);
        self.auth.encode(writer);
    }
}

impl Decode for AuthPacket {
    const SMALLEST: usize = 12;

    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        reader.enter("AuthPacket.auth_type");
        let auth_type = i32::decode(reader)?;
        reader.enter("AuthPacket.scheme");
        let scheme = String::decode(reader)?;
        reader.enter("AuthPacket.auth");
        let auth = Decode::decode(reader)?;
        Ok(Self {
            auth_type,
            scheme,
            auth,
        })
    }
}

/// Leaves the credentials out.
impl fmt::Debug for AuthPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthPacket")
            .field("scheme", &self.scheme)
            .finish_non_exhaustive()
    }
}

/// Implements the codec and `Debug` of a token. It may contain a password in clear text, so `Debug`
/// leaves it out.
macro_rules! token {
    ($($name:ident)*) => {$(
        impl Encode for $name {
            fn encode<S: Sink>(&self, writer: &mut Writer<'_, S>) {
                self.token.encode(writer);
            }
        }

        impl Decode for $name {
            const SMALLEST: usize = 4;

            fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
                reader.enter(concat!(stringify!($name), ".token"));
                Ok(Self { token: Decode::decode(reader)? })
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )*};
}

token! { SaslRequest SaslResponse }

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
