//! A blocking socket, and the frames that come over it.

use std::{
    io::{Error, ErrorKind, Read, Result, Write},
    net::TcpStream,
    ops::Range,
};

use crate::request;

/// The session timeout to ask for, in milliseconds, as the other programs do.
const TIMEOUT_MS: i32 = 10_000;
/// A read is given at least so much room.
const ROOM: usize = 4096;

pub struct Connection {
    socket: TcpStream,
    input: Vec<u8>,
    /// What has been read and not been taken, in `input`.
    unread: Range<usize>,
    output: Vec<u8>,
    last_xid: i32,
}

impl Connection {
    /// Connects and opens a session.
    pub fn open(server: &str, buffer: usize) -> Result<Self> {
        let socket = TcpStream::connect(server)?;
        socket.set_nodelay(true)?;
        let mut connection = Self {
            socket,
            input: vec![0; buffer],
            unread: 0..0,
            output: request::connect(TIMEOUT_MS),
            last_xid: 0,
        };
        connection.flush()?;
        let answer = connection.next()?;
        if request::int(answer, 4) <= 0 {
            return Err(Error::other("the session was refused"));
        }
        Ok(connection)
    }

    /// Puts a request into the next write.
    pub fn put(&mut self, request: &[u8]) {
        self.last_xid = self.last_xid.checked_add(1).unwrap_or(1);
        let start = self.output.len();
        self.output.extend_from_slice(request);
        request::set_xid(&mut self.output[start..], self.last_xid);
    }

    /// Writes what was put.
    pub fn flush(&mut self) -> Result<()> {
        if !self.output.is_empty() {
            self.socket.write_all(&self.output)?;
            self.output.clear();
        }
        Ok(())
    }

    /// Whether a whole frame has been read already.
    pub fn has_frame(&self) -> bool {
        let unread = &self.input[self.unread.clone()];
        unread.len() >= 4 && unread.len() - 4 >= request::count(unread, 0)
    }

    /// The next frame, without its length.
    pub fn next(&mut self) -> Result<&[u8]> {
        while !self.has_frame() {
            self.make_room();
            let read = self.socket.read(&mut self.input[self.unread.end..])?;
            if read == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.unread.end += read;
        }
        let start = self.unread.start + 4;
        let end = start + request::count(&self.input, self.unread.start);
        self.unread.start = end;
        Ok(&self.input[start..end])
    }

    fn make_room(&mut self) {
        if self.unread.is_empty() {
            self.unread = 0..0;
        } else if self.input.len() - self.unread.end < ROOM {
            self.input.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
            if self.input.len() - self.unread.end < ROOM {
                self.input.resize(self.input.len() * 2, 0);
            }
        }
    }

    /// Sends a request and waits for its reply.
    pub fn call(&mut self, request: &[u8]) -> Result<&[u8]> {
        self.put(request);
        self.flush()?;
        self.next()
    }

    /// As `call`, for a request that must succeed.
    pub fn must(&mut self, request: &[u8]) -> Result<&[u8]> {
        let reply = self.call(request)?;
        if request::succeeded(reply) {
            Ok(reply)
        } else {
            Err(Error::other("a request failed"))
        }
    }

    /// Sends a ping; its answer is a frame like any other.
    pub fn ping(&mut self) -> Result<()> {
        self.socket.write_all(&request::ping())
    }

    /// Ends the session.
    pub fn close(mut self) -> Result<()> {
        self.call(&request::close_session())?;
        Ok(())
    }
}
