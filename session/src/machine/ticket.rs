//! What a process needs to go on with the session of another one.
//!
//! Not here: how the other one leaves its session (`client::hand_over`).

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    SessionId, Zxid,
    jute::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer, record},
};

/// The shortest session timeout that a server may grant, in milliseconds. With a shorter one the
/// timers of the client would spin.
pub(super) const SHORTEST_TIMEOUT_MS: i32 = 60;

record! {
    /// A session that a client has left to the client that gets this:
    /// [`Client::hand_over`](crate::Client::hand_over).
    ///
    /// A ticket is a secret: its reader can act as the session, and end it. `Debug` hides the password.
    pub struct SessionTicket hides password {
        /// The format of the bytes.
        pub(super) format: Within<1, 1>,
        pub(super) id: SessionId,
        pub(super) password: Bytes,
        /// The shortest timeout that a server has granted to the session, in milliseconds.
        pub(super) timeout: Within<SHORTEST_TIMEOUT_MS, { i32::MAX }>,
        /// A server that is behind this transaction refuses the session.
        pub(super) last_zxid: Zxid,
        /// The node below which the paths of the handle lie that was handed over; empty for none.
        pub(crate) chroot: String,
    }
}

/// A number that is not below the first one, and not above the second one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Within<const LEAST: i32, const MOST: i32>(pub(super) i32);

impl<const LEAST: i32, const MOST: i32> Encode for Within<LEAST, MOST> {
    fn encode(&self, writer: &mut Writer<'_>) {
        self.0.encode(writer);
    }
}

impl<const LEAST: i32, const MOST: i32> Decode for Within<LEAST, MOST> {
    const SMALLEST: usize = i32::SMALLEST;

    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        match i32::decode(reader)? {
            number if (LEAST..=MOST).contains(&number) => Ok(Self(number)),
            number => Err(reader.error(DecodeErrorKind::Unknown(number))),
        }
    }
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
