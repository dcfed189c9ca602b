//! How do I drive a session without any runtime, on one `std::net::TcpStream`?
//!
//! The state machine decides everything: which server is next, when to ping, which reply belongs to
//! which request. This program only moves bytes and tells it the time.

use std::io::{self, ErrorKind, Read, Write};
use std::{net::TcpStream, thread, time::Duration, time::Instant};

use lockkeeper::client::{ConnectString, State};
use lockkeeper::proto::{Request, frame, records::Empty};
use lockkeeper::raw::machine::{BytesMut, Config, Input, Machine, Output, RequestOptions};

const MOMENT: Duration = Duration::from_millis(1);

/// A stream, and what it has received of an incomplete message.
type Connection = (TcpStream, BytesMut);

fn move_bytes(machine: &mut Machine<()>, connection: &mut Connection) -> io::Result<()> {
    let ((stream, received), now) = (connection, Instant::now());
    let (mut unsent, mut buffer) = (BytesMut::new(), [0; 4096]);
    machine.transmit(now, &mut unsent);
    stream.write_all(&unsent)?;
    let wait = machine.next_deadline().map_or(MOMENT, |it| it - now);
    stream.set_read_timeout(Some(wait.max(MOMENT)))?;
    match stream.read(&mut buffer) {
        Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
        Ok(length) => received.extend_from_slice(&buffer[..length]),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
        Err(error) => return Err(error),
    }
    while let Some(frame) = frame::split(received, frame::SERVER_LIMIT).map_err(io::Error::other)? {
        machine.handle(Instant::now(), Input::Frame(frame));
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = lockkeeper_server::Server::builder().start_on_thread()?;
    let servers: ConnectString = server.connect_string().parse()?;
    // A program that runs in several copies gives each a seed of its own.
    let now = Instant::now();
    let (mut machine, mut connection) = (Machine::new(Config::new(&servers, 1), now), None);
    machine.submit(now, (), Request::WhoAmI(Empty {}), RequestOptions::at(now));
    while machine.link().state() != State::Closed {
        machine.handle(Instant::now(), Input::Tick);
        while let Some(output) = machine.poll_output() {
            match output {
                Output::Connect(to) => {
                    // In place of `?`, a program with several servers hands the error to the machine, as
                    // at the end of this loop. Then the machine goes on to the next one.
                    let stream = TcpStream::connect((&*to.host, to.port))?;
                    connection = Some((stream, BytesMut::new()));
                    machine.handle(Instant::now(), Input::Connected);
                }
                Output::Disconnect => connection = None,
                Output::Completed((), result) => {
                    println!("{:?}", result?.decode()?);
                    machine.close(Instant::now());
                }
                _ => {} // changes of the state, and watches
            }
        }
        let Some(open) = &mut connection else {
            thread::sleep(MOMENT);
            continue;
        };
        if let Err(error) = move_bytes(&mut machine, open) {
            connection = None;
            machine.handle(Instant::now(), Input::Disconnected((&error).into()));
        }
    }
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
