//! What `run`, its watchdog, and the process that becomes the command say to each other, over sockets of this machine.
//!
//! Not here: what follows from it (`watchdog`, `launcher`).

use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::net,
    },
};

use rustix::{
    cmsg_space,
    io::retry_on_intr,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recv, recvmsg, sendmsg,
    },
};
use tokio::net::UnixStream;

/// A message in one of the directions, which the system keeps in one piece.
pub(super) type Message = [u8; 8];

/// What the watchdog tells.
#[derive(Clone, Copy, Debug)]
pub(super) enum Word {
    /// The command has this process id.
    Began(i32),
    /// The command did not begin: the number of the system's error.
    Failed(i32),
    /// The command has ended with this status.
    Ended(u8),
}

impl Word {
    pub(super) fn failed(error: &io::Error) -> Self {
        Self::Failed(error.raw_os_error().unwrap_or(0))
    }

    pub(super) fn encode(self) -> Message {
        let (kind, number) = match self {
            Self::Began(pid) => (0, pid),
            Self::Failed(error) => (1, error),
            Self::Ended(status) => (2, status.into()),
        };
        let [a, b, c, d] = number.to_be_bytes();
        [0, 0, 0, kind, a, b, c, d]
    }

    pub(super) fn decode(message: Message) -> Self {
        let [.., kind, a, b, c, d] = message;
        let number = i32::from_be_bytes([a, b, c, d]);
        match kind {
            0 => Self::Began(number),
            1 => Self::Failed(number),
            _ => Self::Ended(d),
        }
    }
}

/// A message that has come. `None` at the end of the connection.
pub(super) fn take(stream: &UnixStream) -> io::Result<Option<Message>> {
    let mut message = [0; 8];
    let (length, _) = retry_on_intr(|| recv(stream, &mut message, RecvFlags::DONTWAIT))?;
    Ok((length == message.len()).then_some(message))
}

/// Lets the command begin, with this stdin.
pub(super) fn send_begin(
    stream: &UnixStream,
    message: Message,
    stdin: BorrowedFd<'_>,
) -> io::Result<()> {
    let rights = [stdin];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut with = SendAncillaryBuffer::new(&mut space);
    with.push(SendAncillaryMessage::ScmRights(&rights));
    let message = [IoSlice::new(&message)];
    sendmsg(stream, &message, &mut with, SendFlags::empty())?;
    Ok(())
}

/// Waits until the command may begin: the message, and its stdin. `None` if the other process is gone.
pub(super) fn receive_begin(stream: &net::UnixStream) -> io::Result<Option<(Message, OwnedFd)>> {
    let mut message = [0; 8];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut with = RecvAncillaryBuffer::new(&mut space);
    retry_on_intr(|| {
        let mut buffers = [IoSliceMut::new(&mut message)];
        recvmsg(stream, &mut buffers, &mut with, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut files = with.drain().filter_map(|it| match it {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    Ok(files.next().map(|stdin| (message, stdin)))
}
