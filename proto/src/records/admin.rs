//! Authentication and the configuration of the ensemble.

use alloc::{string::String, vec::Vec};
use core::fmt;

use bytes::Bytes;

use crate::jute::{Decode, DecodeError, Encode, Reader, Writer, record};

record! {
    /// A token of a SASL exchange.
    pub struct SaslRequest {
        /// The token.
        pub token: Option<Bytes>,
    }

    /// A token of a SASL exchange.
    pub struct SaslResponse {
        /// The token; null from a server without SASL.
        pub token: Option<Bytes>,
    }

    /// Asks for another ensemble.
    pub struct ReconfigRequest {
        /// Servers to add, as `server.5=host:2888:3888;2181`, separated by commas.
        pub joining_servers: Option<String>,
        /// Ids of servers to remove, separated by commas.
        pub leaving_servers: Option<String>,
        /// All servers, instead of the two above.
        pub new_members: Option<String>,
        /// The version of the configuration that this one replaces; -1 for any.
        pub cur_config_id: i64,
    }

    /// One identity of a connection.
    pub struct ClientInfo {
        /// The scheme, as in an ACL.
        pub auth_scheme: String,
        /// The user, without any secret.
        pub user: String,
    }

    /// Who the connection is.
    pub struct WhoAmIResponse {
        /// All its identities, in no order.
        pub client_info: Vec<ClientInfo>,
    }
}

/// Adds an identity to the connection.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthPacket {
    /// 0; servers ignore it.
    pub auth_type: i32,
    /// The scheme, as in an ACL.
    pub scheme: String,
    /// The credentials, in clear.
    pub auth: Option<Bytes>,
}

impl Encode for AuthPacket {
    fn encode(&self, writer: &mut Writer<'_>) {
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

/// Without the credentials.
impl fmt::Debug for AuthPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthPacket")
            .field("scheme", &self.scheme)
            .finish_non_exhaustive()
    }
}
