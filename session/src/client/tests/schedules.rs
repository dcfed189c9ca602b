//! Explores orders of the steps of callers and of a client's task: `shuttle` decides who runs next
//! at each lock, atomic and wake-up. A wake-up that is lost is a dead-lock there.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p lockkeeper-session --lib schedules`. What runs is the
//! client as it is shipped, but for its socket, which is in memory, and its runtime.

use std::{
    future::poll_fn,
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Instant,
};

use bytes::BytesMut;
use lockkeeper_proto::{
    Acl, Acls, ErrorCode, SessionId, Zxid,
    connect::{ConnectResponse, PASSWORD_LEN},
    frame,
    header::{ReplyHeader, RequestHeader},
    jute::{Decode as _, Encode as _, Reader},
};
use shuttle::future::block_on;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{
    Client, Clock, Connector,
    client::raw::AsRaw,
    client::{
        driver::{Driver, Run},
        random::Random,
        shared::Shared,
        sync::{
            mailbox::Mailbox,
            oneshot,
            os::{
                Condvar, Mutex,
                atomic::{AtomicBool, Ordering},
                lock, thread,
            },
        },
    },
    machine::Config,
};

/// How many orders each test explores.
const ORDERS: usize = 10_000;

/// A server in memory that has no nodes: it answers every request with NO_NODE, on a thread of its
/// own, so that an answer comes at any time.
#[derive(Default)]
struct Wire {
    requests: BytesMut,
    replies: BytesMut,
    reader: Option<Waker>,
    is_closed: bool,
}

/// The client's end of the wire.
struct Near(Arc<(Mutex<Wire>, Condvar)>);

fn serve(wire: &(Mutex<Wire>, Condvar)) {
    let mut has_session = false;
    loop {
        let mut state = lock(&wire.0);
        let request = loop {
            if state.is_closed {
                return;
            }
            match frame::split(&mut state.requests, frame::SERVER_LIMIT).unwrap() {
                Some(request) => break request,
                None => state = wire.1.wait(state).unwrap(),
            }
        };
        let appended = if has_session {
            let request = RequestHeader::decode(&mut Reader::new(request)).unwrap();
            let header = ReplyHeader {
                xid: request.xid,
                zxid: Zxid(1),
                err: ErrorCode::NO_NODE,
            };
            frame::append(&mut state.replies, |writer| header.encode(writer))
        } else {
            has_session = true;
            let response = ConnectResponse {
                protocol_version: 0,
                timeout_ms: 10_000,
                session_id: SessionId(1),
                password: Some(vec![1; PASSWORD_LEN].into()),
                read_only: Some(false),
            };
            frame::append(&mut state.replies, |writer| response.encode(writer))
        };
        appended.unwrap();
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl AsyncRead for Near {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut wire = lock(&self.0.0);
        if wire.replies.is_empty() {
            wire.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let length = wire.replies.len().min(into.remaining());
        into.put_slice(&wire.replies.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Near {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        lock(&self.0.0).requests.extend_from_slice(bytes);
        self.0.1.notify_all();
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Near {
    fn drop(&mut self) {
        lock(&self.0.0).is_closed = true;
        self.0.1.notify_all();
    }
}

/// Waits for a future on the calling thread, as `futures::executor::block_on` does.
fn wait<F: Future>(future: F) -> F::Output {
    struct Parked(thread::Thread, AtomicBool);
    impl Wake for Parked {
        fn wake(self: Arc<Self>) {
            self.1.store(true, Ordering::Release);
            self.0.unpark();
        }
    }
    let parked = Arc::new(Parked(thread::current(), AtomicBool::new(false)));
    let waker = Waker::from(parked.clone());
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        while !parked.1.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }
}

/// A client on a thread, whose end the handle waits for.
fn client() -> (Client, thread::JoinHandle<()>) {
    let start = Instant::now();
    let connector = Connector::new(|_| {
        let wire = Arc::<(Mutex<Wire>, Condvar)>::default();
        let near = Near(wire.clone());
        thread::spawn(move || serve(&wire));
        std::future::ready(Ok(near))
    });
    let config = Config::new(&"memory:1".parse().unwrap(), 1);
    let (clock, random) = (Clock::new(move || start), Random::new(Some(1)));
    let acl = Acls::Borrowed(Acl::OPEN_UNSAFE);
    let shared = Shared::new(config, clock, acl, random);
    let mut driver = Driver::new(shared.clone(), connector, frame::SERVER_LIMIT);
    let runs_until_its_end = poll_fn(move |cx| {
        loop {
            match driver.run(cx) {
                Run::Ended => return Poll::Ready(()),
                // Time stands still.
                Run::Wait { now, until } if until.is_none_or(|until| until > now) => {
                    return Poll::Pending;
                }
                Run::Wait { .. } | Run::Again => {}
            }
        }
    });
    let runs = thread::spawn(move || block_on(runs_until_its_end));
    (Client::start(shared, None), runs)
}

#[test]
fn every_reply_wakes_its_caller_and_the_thread_ends_with_the_last_handle() {
    let explored = || {
        let (client, runs) = client();
        let callers = [1, 2].map(|caller| {
            let client = client.clone();
            thread::spawn(move || {
                for number in 0..2 {
                    let path = format!("/{caller}/{number}");
                    assert!(wait(client.exists(&path)).unwrap().is_none());
                }
            })
        });
        drop(client);
        for caller in callers {
            caller.join().unwrap();
        }
        runs.join().unwrap();
    };
    shuttle::check_random(explored, ORDERS);
}

/// The work of the callers needs no answer of the server, whose arrival would also wake the task.
#[test]
fn work_that_comes_while_the_thread_looks_for_work_is_seen() {
    let explored = || {
        let (client, runs) = client();
        assert!(wait(client.exists("/connected")).unwrap().is_none());
        let callers = [(); 2].map(|()| {
            let client = client.clone();
            thread::spawn(move || {
                let (done, is_done) = oneshot::channel::<()>();
                client.raw().run_in_background(async { drop(done) });
                let _ = wait(is_done);
            })
        });
        for caller in callers {
            caller.join().unwrap();
        }
        wait(client.close());
        runs.join().unwrap();
    };
    shuttle::check_random(explored, ORDERS);
}

#[test]
fn whoever_begins_to_wait_while_it_is_told_is_woken() {
    let explored = || {
        let mailbox = Arc::new(Mailbox::new(false));
        let told = mailbox.clone();
        thread::spawn(move || told.tell(|value| *value = true));
        block_on(poll_fn(|cx| mailbox.poll(cx, |value| value.then_some(()))));
    };
    shuttle::check_random(explored, ORDERS);
}
