//! The task of a client: it moves bytes and time between the machine and the network.
//!
//! In each turn the task
//! 1. reads the frames that have arrived and passes them to the machine,
//! 2. takes the machine's outputs and delivers replies and events,
//! 3. writes all bytes that are ready to be sent, in one piece.
//!
//! The work of one turn is limited, so a flood on one client does not starve the other tasks of the
//! thread. When the runtime drops the task, the session is closed without waiting, and every
//! pending request and every watcher gets an error.
//!
//! Not here: decisions about the session (`machine`), opening connections (`net`).

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use bytes::BytesMut;
use futures::{Stream, future::BoxFuture, stream::FuturesUnordered};
use tokio::{io::AsyncWrite, time::Sleep};
use tokio_util::{codec::FramedRead, io::poll_write_buf};

use super::{
    clock::Clock,
    net::{
        dial::Purpose,
        probe::probe,
        transport::{Connecting, Connector, FrameDecoder, Incoming, Transport},
    },
    own_thread::{OwnThread, is_in_runtime},
    shared::{Delivery, LinkCommand, Shared},
};
use crate::{Cause, Error, machine::Input};

/// The size of one read: a few hundred small replies.
const READ_BYTES: usize = 16 * 1024;
/// The most frames of one turn. It limits the latency of requests under a flood of replies.
const FRAMES_PER_TURN: usize = 256;
/// A turn ends after this many bytes of frames, too. Otherwise 256 of the longest frames would be
/// in memory at the same time.
const BYTES_PER_TURN: usize = 256 * 1024;
/// The most turns of one poll; then other tasks of the thread run.
const TURNS_PER_POLL: usize = 8;
/// The most bytes that wait for the socket. Above this, requests stay in the machine's queue.
const WRITE_BACKLOG: usize = 256 * 1024;

pub(crate) struct Driver {
    shared: Arc<Shared>,
    clock: Clock,
    connector: Connector,
    frame_limit: usize,
    link: Link,
    /// Whether this turn replaced the link: then the new link was not polled yet, or the machine
    /// was not told of the end of the old one.
    other_link: bool,
    inputs: Vec<Input>,
    out: BytesMut,
    deliveries: Vec<Delivery>,
    /// `None` until it is needed: the task is made outside the runtime in which it runs.
    timer: Option<Pin<Box<Sleep>>>,
    /// When the timer fires. It may fire too early: the task resets it only for an earlier
    /// deadline, because nearly every request moves the next deadline a little later.
    armed: Option<Instant>,
    /// The next deadline at the end of the last turn.
    deadline: Option<Instant>,
    background: FuturesUnordered<BoxFuture<'static, ()>>,
    /// The span of the task's log lines: a child of the span in which the client was made.
    span: tracing::Span,
}

/// The result of one turn of the machine.
struct Turn {
    deadline: Option<Instant>,
    has_ended: bool,
    /// Whether the machine has more to send after the encoded bytes.
    has_unsent: bool,
}

enum Link {
    Down,
    Connecting(Connecting),
    Up(FramedRead<Box<dyn Transport>, FrameDecoder>),
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, connector: Connector, frame_limit: usize) -> Self {
        let clock = shared.lock().clock.clone();
        Self {
            shared,
            clock,
            connector,
            frame_limit,
            link: Link::Down,
            other_link: false,
            inputs: Vec::new(),
            out: BytesMut::new(),
            deliveries: Vec::new(),
            timer: None,
            armed: None,
            deadline: None,
            background: FuturesUnordered::new(),
            span: tracing::info_span!("zookeeper"),
        }
    }

    /// Reads from the link, at most one turn's frames. True if more may be there.
    fn read(&mut self, cx: &mut Context<'_>) -> bool {
        self.other_link = false;
        match &mut self.link {
            Link::Down => {}
            Link::Connecting(connecting) => match connecting.as_mut().poll(cx) {
                Poll::Pending => {}
                Poll::Ready(Ok(stream)) => {
                    let decoder = FrameDecoder::new(self.frame_limit);
                    let frames = FramedRead::with_capacity(stream, decoder, READ_BYTES);
                    self.replace_link(Link::Up(frames));
                    self.inputs.push(Input::Connected);
                }
                Poll::Ready(Err(error)) => self.down((&error).into()),
            },
            Link::Up(frames) => {
                let mut bytes = 0;
                let end = loop {
                    if self.inputs.len() == FRAMES_PER_TURN || bytes >= BYTES_PER_TURN {
                        return true;
                    }
                    match Pin::new(&mut *frames).poll_next(cx) {
                        Poll::Pending => return false,
                        Poll::Ready(Some(Ok(incoming))) => {
                            if let Incoming::Frame(frame) = &incoming {
                                bytes += frame.len();
                            }
                            self.inputs.push(incoming.into());
                        }
                        Poll::Ready(Some(Err(error))) => break error.into(),
                        Poll::Ready(None) => break Cause::ClosedByServer,
                    }
                };
                self.down(end);
            }
        }
        false
    }

    fn down(&mut self, cause: Cause) {
        self.replace_link(Link::Down);
        self.out.clear();
        self.inputs.push(Input::Disconnected(cause));
    }

    fn replace_link(&mut self, link: Link) {
        self.link = link;
        self.other_link = true;
    }

    /// Passes the inputs to the machine, and takes its outputs.
    fn turn(&mut self, now: Instant) -> Turn {
        let mut commands = Vec::new();
        let mut core = self.shared.lock();
        for input in self.inputs.drain(..) {
            core.machine.handle(now, input);
        }
        // A deadline that is new since the last turn, and due already, is seen at the end of this
        // one.
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            core.machine.handle(now, Input::Tick);
        }
        core.drain(&mut self.deliveries, &mut |command| commands.push(command));
        if self.out.len() < WRITE_BACKLOG {
            core.machine.transmit(now, &mut self.out);
            // Encoding rejects a request that is too long; this delivers its error.
            core.drain(&mut self.deliveries, &mut |command| commands.push(command));
        }
        let woken = core.woken(now);
        let turn = Turn {
            deadline: core.next_deadline(),
            has_ended: core.machine.is_ended(),
            has_unsent: core.machine.has_unsent(),
        };
        let background = mem::take(&mut core.background);
        drop(core);
        self.deadline = turn.deadline;

        self.background.extend(background);
        for command in commands {
            match command {
                LinkCommand::Disconnect => {
                    self.replace_link(Link::Down);
                    self.out.clear();
                }
                LinkCommand::Probe(endpoint) => {
                    let stream = self.connector.connect((*endpoint).clone(), Purpose::Probe);
                    let probing = probe(self.shared.clone(), endpoint, stream);
                    self.background.push(Box::pin(probing));
                }
                LinkCommand::Connect(endpoint) => {
                    let connecting = self
                        .connector
                        .connect((*endpoint).clone(), Purpose::Session);
                    self.replace_link(Link::Connecting(connecting));
                }
            }
        }
        self.shared.deliver(self.deliveries.drain(..));
        woken.into_iter().for_each(Waker::wake);
        turn
    }

    /// Writes the encoded bytes to the socket.
    fn write(&mut self, cx: &mut Context<'_>) {
        let Link::Up(frames) = &mut self.link else {
            return;
        };
        let stream = frames.get_mut();
        while !self.out.is_empty() {
            match poll_write_buf(Pin::new(&mut *stream), cx, &mut self.out) {
                Poll::Pending => return,
                Poll::Ready(Ok(written)) if written > 0 => {}
                Poll::Ready(Ok(_)) => return self.down(Cause::ClosedByServer),
                Poll::Ready(Err(error)) => return self.down((&error).into()),
            }
        }
        // A TLS stream may buffer what was written.
        if let Poll::Ready(Err(error)) = Pin::new(stream).poll_flush(cx) {
            self.down((&error).into());
        }
    }

    /// Arms the timer for the deadline. Returns true when the timer has fired.
    fn sleep(&mut self, cx: &mut Context<'_>, now: Instant, deadline: Option<Instant>) -> bool {
        let Some(deadline) = deadline else {
            return false;
        };
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(Duration::ZERO)));
        if self.armed.is_none_or(|armed| deadline < armed) {
            let wake = tokio::time::Instant::now() + deadline.saturating_duration_since(now);
            timer.as_mut().reset(wake);
            self.armed = Some(deadline);
        } else if !timer.is_elapsed() {
            // It was polled when it was set, and wakes this task.
            return false;
        }
        if timer.as_mut().poll(cx).is_ready() {
            self.armed = None;
            self.give_back_room();
            return true;
        }
        false
    }

    /// Frees the room that a burst has left. The machine does the same at its timers.
    fn give_back_room(&mut self) {
        if self.out.is_empty() {
            self.out = BytesMut::new();
        }
        self.inputs = Vec::new();
        self.deliveries = Vec::new();
        if let Link::Up(frames) = &mut self.link
            && frames.read_buffer().is_empty()
            && frames.read_buffer().capacity() > READ_BYTES
        {
            *frames.read_buffer_mut() = BytesMut::with_capacity(READ_BYTES);
        }
    }

    /// The runtime ends: sends what waits and the end of the session, as far as the socket takes it
    /// at once. Otherwise the servers would keep the locks of the program until its session
    /// expires.
    fn say_goodbye(&mut self) {
        if !matches!(self.link, Link::Up(_)) {
            return;
        }
        // Whoever is on another thread, and the latches here, hear of it before anything is sent.
        self.shared.announce_close();
        self.background.clear();
        let now = self.clock.now();
        let mut core = self.shared.lock();
        core.machine.close(now);
        let mut before = usize::MAX;
        while self.out.len() != before {
            before = self.out.len();
            core.machine.transmit(now, &mut self.out);
        }
        drop(core);
        self.write(&mut Context::from_waker(Waker::noop()));
    }

    /// Polls the futures of [`Client::run_in_background`](super::Client::run_in_background) and the
    /// probes.
    fn run_background(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(())) = Pin::new(&mut self.background).poll_next(cx) {}
    }
}

/// Starts a client's task on the current runtime, or on a thread of its own if that is wanted or if
/// there is no runtime.
pub(crate) fn spawn(
    task: BoxFuture<'static, ()>,
    own_thread: bool,
) -> Result<Option<OwnThread>, Error> {
    if own_thread || !is_in_runtime() {
        return OwnThread::spawn(task).map(Some);
    }
    tokio::spawn(task);
    Ok(None)
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let _in_span = this.span.clone().entered();
        this.shared.driver.register(cx.waker());
        for _ in 0..TURNS_PER_POLL {
            let full = this.read(cx);
            let now = this.clock.now();
            let turn = this.turn(now);
            if turn.has_ended {
                return Poll::Ready(());
            }
            this.write(cx);
            this.run_background(cx);
            let due = this.sleep(cx, now, turn.deadline);
            let can_send = turn.has_unsent && this.out.len() < WRITE_BACKLOG;
            if !(full || due || can_send || this.other_link) {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The runtime has dropped the task, or the machine has ended: every caller that still waits gets
/// an error.
impl Drop for Driver {
    fn drop(&mut self) {
        self.say_goodbye();
        let background = self.shared.act(|core| {
            core.machine.abort();
            mem::take(&mut core.background)
        });
        // Dropped after the lock was released: a background future takes the lock in its own drop.
        drop(background);
    }
}
