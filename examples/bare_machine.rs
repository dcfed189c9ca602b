//! How do I drive a session without any runtime, on one `std::net::TcpStream`?
//!
//! The state machine decides everything: which server is next, when to ping, which reply belongs to
//! which request. This program only moves bytes and tells it the time.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use lockkeeper::{
    CreateMode, Error,
    client::{ConnectString, State},
    error::Cause,
    node::Acl,
    proto::{
        Request, Response, frame,
        records::{CreateRequest, GetDataRequest},
    },
    raw::machine::{BytesMut, Config, Input, Machine, Output, RequestOptions},
};

/// A session and its connection. Requests are told apart by a number.
struct Session {
    machine: Machine<u32>,
    stream: Option<TcpStream>,
    received: BytesMut,
    unsent: BytesMut,
}

impl Session {
    fn new(servers: &ConnectString) -> Self {
        // A program that runs in several copies gives each a seed of its own.
        let mut machine = Machine::new(Config::new(servers, 1), Instant::now());
        machine.handle(Instant::now(), Input::Tick);
        Self {
            machine,
            stream: None,
            received: BytesMut::new(),
            unsent: BytesMut::new(),
        }
    }

    /// Does what the machine asks for, then waits for bytes or for its next deadline. Returns the
    /// requests that are done.
    fn turn(&mut self) -> Vec<(u32, Result<Response, Error>)> {
        let mut done = Vec::new();
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Connect(endpoint) => {
                    let input = match TcpStream::connect((&*endpoint.host, endpoint.port)) {
                        Ok(stream) => {
                            self.stream = Some(stream);
                            Input::Connected
                        }
                        Err(error) => Input::Disconnected(Cause::from(&error)),
                    };
                    self.received.clear();
                    self.unsent.clear();
                    self.machine.handle(Instant::now(), input);
                }
                Output::Disconnect => self.stream = None,
                Output::Completed(number, result) => done.push((number, result)),
                Output::State(snapshot) => println!("{:?}", snapshot.state),
                _ => {} // watches: not used here
            }
        }
        self.machine.transmit(Instant::now(), &mut self.unsent);
        if let Err(error) = self.move_bytes() {
            self.stream = None;
            self.machine
                .handle(Instant::now(), Input::Disconnected(Cause::from(&error)));
        }
        self.machine.handle(Instant::now(), Input::Tick);
        done
    }

    fn move_bytes(&mut self) -> io::Result<()> {
        let next = self.machine.next_deadline();
        let wait = next.map_or(Duration::MAX, |next| {
            next.saturating_duration_since(Instant::now())
        });
        let wait = wait.clamp(Duration::from_millis(1), Duration::from_millis(100));
        let Some(stream) = &mut self.stream else {
            std::thread::sleep(wait);
            return Ok(());
        };
        stream.write_all(&self.unsent)?;
        self.unsent.clear();
        stream.set_read_timeout(Some(wait))?;
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(length) => self.received.extend_from_slice(&buffer[..length]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
        let broken = |_| io::Error::from(ErrorKind::InvalidData);
        while let Some(message) =
            frame::split(&mut self.received, frame::SERVER_LIMIT).map_err(broken)?
        {
            self.machine.handle(Instant::now(), Input::Frame(message));
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = lockkeeper_server::Server::builder().start_on_thread()?;
    let servers: ConnectString = server.connect_string().parse()?;

    let mut session = Session::new(&servers);
    let create = Request::Create2(CreateRequest {
        path: "/bare".to_owned(),
        data: Some("by hand".into()),
        acl: Some(Acl::OPEN_UNSAFE.into()),
        flags: CreateMode::Ephemeral.flags(),
    });
    let read = Request::GetData(GetDataRequest {
        path: "/bare".to_owned(),
        watch: false,
    });
    // Both go out in one write, as soon as there is a connection.
    let now = Instant::now();
    session
        .machine
        .submit(now, 1, create, RequestOptions::at(now));
    session
        .machine
        .submit(now, 2, read, RequestOptions::at(now));
    let mut done = Vec::new();
    while done.len() < 2 {
        done.extend(session.turn());
    }
    assert_eq!((done[0].0, done[0].1.is_ok(), done[1].0), (1, true, 2));
    let Ok(Response::GetData(node)) = &done[1].1 else {
        return Err(format!("the read failed: {:?}", done[1].1).into());
    };
    println!("read {:?}", node.data);
    assert_eq!(node.data.as_deref(), Some(&b"by hand"[..]));

    session.machine.close(Instant::now());
    while session.machine.link().state() != State::Closed {
        session.turn();
    }
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
