//! What a process needs to go on with the session of another one.
//!
//! Not here: how the other one leaves its session (`client::hand_over`).

use std::{fmt, time::Duration};

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    SessionId, Zxid,
    jute::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer},
};

use super::config::SHORTEST_TIMEOUT;

/// The format of the bytes of a ticket.
const FORMAT: i32 = 1;

/// A session that a client has left to the client that gets this:
/// [`Client::hand_over`](crate::Client::hand_over).
///
/// It is a secret: whoever has it can act as the session, and end it. `Debug` shows the id only.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionTicket {
    pub(super) id: SessionId,
    pub(super) password: Bytes,
    /// The shortest timeout that a server has granted to the session.
    pub(super) timeout: Duration,
    /// A server that is behind this transaction refuses the session.
    pub(super) last_zxid: Zxid,
    /// The node below which the paths of the handle lie that was handed over; empty for none.
    pub(crate) chroot: String,
}

impl SessionTicket {
    /// The session.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.id
    }

    /// The ticket in bytes, for the other process. They are a secret.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        bytes_of(self)
    }

    /// Reads the bytes of [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// [`DecodeError`] says what is not as a ticket has it: the bytes are cut off, are none of a
    /// ticket, or are those of a later release.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        ticket_of(bytes)
    }
}

/// The bytes of a ticket that begins with a [`SessionTicket`]. For `recipes`.
#[doc(hidden)]
pub fn bytes_of(ticket: &impl Encode) -> Vec<u8> {
    let mut out = BytesMut::new();
    ticket.encode(&mut Writer::new(&mut out));
    out.into()
}

/// The ticket of all these bytes. For `recipes`.
#[doc(hidden)]
pub fn ticket_of<T: Decode>(bytes: &[u8]) -> Result<T, DecodeError> {
    let mut reader = Reader::new(Bytes::copy_from_slice(bytes));
    let ticket = T::decode(&mut reader)?;
    if reader.left() > 0 {
        return Err(reader.error(DecodeErrorKind::Unasked));
    }
    Ok(ticket)
}

impl Encode for SessionTicket {
    fn encode(&self, writer: &mut Writer<'_>) {
        let millis = i32::try_from(self.timeout.as_millis()).unwrap_or(i32::MAX);
        FORMAT.encode(writer);
        self.id.encode(writer);
        self.password.encode(writer);
        millis.encode(writer);
        self.last_zxid.encode(writer);
        self.chroot.encode(writer);
    }
}

impl Decode for SessionTicket {
    const SMALLEST: usize = 4 + 8 + 4 + 4 + 8 + 4;

    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        reader.enter("SessionTicket.format");
        let format = i32::decode(reader)?;
        if format != FORMAT {
            return Err(reader.error(DecodeErrorKind::Unknown(format)));
        }
        reader.enter("SessionTicket.session");
        let (id, password) = (SessionId::decode(reader)?, Bytes::decode(reader)?);
        reader.enter("SessionTicket.timeout");
        let millis = i32::decode(reader)?;
        let timeout = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
        // No server grants so short a session: the timers of the client would spin.
        if timeout < SHORTEST_TIMEOUT {
            return Err(reader.error(DecodeErrorKind::Unknown(millis)));
        }
        reader.enter("SessionTicket.last");
        Ok(Self {
            id,
            password,
            timeout,
            last_zxid: Zxid::decode(reader)?,
            chroot: String::decode(reader)?,
        })
    }
}

impl fmt::Debug for SessionTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionTicket")
            .field("session_id", &self.id)
            .finish_non_exhaustive()
    }
}
