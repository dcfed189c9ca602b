//! A session over a blocking socket: sends requests, and receives frames.
//!
//! Not here: the bytes of requests and replies (`request`).

use std::{
    io::{Error, ErrorKind, Read, Result, Write},
    net::TcpStream,
    ops::Range,
};

use crate::request;

/// The requested session timeout in milliseconds, as in the other programs.
const TIMEOUT_MS: i32 = 10_000;
/// The smallest free space for a read, in bytes.
const FREE_SPACE: usize = 4096;

pub struct Connection {
    socket: TcpStream,
    input: Vec<u8>,
    /// The part of `input` that was read from the socket, but not returned yet.
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

    /// Adds a request to the next write.
    pub fn put(&mut self, request: &[u8]) {
        self.last_xid = self.last_xid.checked_add(1).unwrap_or(1);
        let start = self.output.len();
        self.output.extend_from_slice(request);
        request::set_xid(&mut self.output[start..], self.last_xid);
    }

    /// Writes the added requests.
    pub fn flush(&mut self) -> Result<()> {
        if !self.output.is_empty() {
            self.socket.write_all(&self.output)?;
            self.output.clear();
        }
        Ok(())
    }

    /// Whether a whole frame was already read from the socket.
    pub fn has_frame(&self) -> bool {
        let unread = &self.input[self.unread.clone()];
        unread.len() >= 4 && unread.len() - 4 >= request::count(unread, 0)
    }

    /// Returns the next frame, without its length.
    pub fn next(&mut self) -> Result<&[u8]> {
        while !self.has_frame() {
            self.free_space();
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

    /// Frees space at the end of `input` for the next read.
    fn free_space(&mut self) {
        if self.unread.is_empty() {
            self.unread = 0..0;
        } else if self.input.len() - self.unread.end < FREE_SPACE {
            self.input.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
            if self.input.len() - self.unread.end < FREE_SPACE {
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

    /// Sends a ping. Its reply is an ordinary frame.
    pub fn ping(&mut self) -> Result<()> {
        self.socket.write_all(&request::ping())
    }

    /// Ends the session.
    pub fn close(mut self) -> Result<()> {
        self.call(&request::close_session())?;
        Ok(())
    }
}
