//! The one task of a client: it carries bytes and time between the machine and the world.
//!
//! Each turn: read what has come, tell the machine, take out what it says, write all that is to be sent in one piece,
//! hand out answers. Work per turn is bounded, so that a flood on one client does not starve the other tasks of the
//! thread. When the task is dropped with its runtime, everybody who waits is told.

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Instant,
};

use bytes::BytesMut;
use futures::{Stream, future::BoxFuture, stream::FuturesUnordered};
use tokio::{io::AsyncWrite, time::Sleep};
use tokio_util::{codec::FramedRead, io::poll_write_buf};

use super::{
    clock::Clock,
    net::probe::probe,
    net::transport::{Connector, FrameDecoder, Transport, io_cause},
    shared::{Delivery, LinkCommand, Shared},
};
use crate::{Cause, machine::Input};

/// Bytes that one read asks for: a few hundred small replies.
const READ_BYTES: usize = 16 * 1024;
/// Frames handled before the machine's answers go out: bounds latency under a flood of replies.
const FRAMES_PER_TURN: usize = 256;
/// Turns before other tasks of the thread get theirs.
const TURNS_PER_POLL: usize = 8;
/// While so many bytes wait for the socket, requests stay in the machine's queue.
const WRITE_BACKLOG: usize = 256 * 1024;

pub(crate) struct Driver {
    shared: Arc<Shared>,
    clock: Clock,
    connector: Connector,
    frame_limit: usize,
    link: Link,
    /// Whether the link became another one and was not asked for news since, or its end not reported.
    other_link: bool,
    inputs: Vec<Input>,
    out: BytesMut,
    deliveries: Vec<Delivery>,
    timer: Pin<Box<Sleep>>,
    /// When the timer goes off. It may be early: it is set anew only for something earlier, since nearly every
    /// request moves the next deadline a little later.
    armed: Option<Instant>,
    background: FuturesUnordered<BoxFuture<'static, ()>>,
    /// What is logged by the task is logged in here: a child of whatever span the client was made in.
    span: tracing::Span,
}

/// What a turn of the machine came to.
struct Turn {
    deadline: Option<Instant>,
    has_ended: bool,
    /// Whether more is to be sent, once what is encoded has left.
    has_unsent: bool,
}

enum Link {
    Down,
    Connecting(BoxFuture<'static, std::io::Result<Box<dyn Transport>>>),
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
            timer: Box::pin(tokio::time::sleep(std::time::Duration::ZERO)),
            armed: None,
            background: FuturesUnordered::new(),
            span: tracing::info_span!("zookeeper"),
        }
    }

    /// Takes in what the world has to say, at most a turn's worth.
    fn read(&mut self, cx: &mut Context<'_>) {
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
                Poll::Ready(Err(error)) => self.down(io_cause(&error)),
            },
            Link::Up(frames) => {
                let end = loop {
                    if self.inputs.len() == FRAMES_PER_TURN {
                        return;
                    }
                    match Pin::new(&mut *frames).poll_next(cx) {
                        Poll::Pending => return,
                        Poll::Ready(Some(Ok(incoming))) => self.inputs.push(incoming.into()),
                        Poll::Ready(Some(Err(error))) => break error.into(),
                        Poll::Ready(None) => break Cause::ClosedByServer,
                    }
                };
                self.down(end);
            }
        }
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

    /// Tells the machine, and takes out what it says.
    fn turn(&mut self, now: Instant) -> Turn {
        let mut commands = Vec::new();
        let mut core = self.shared.lock();
        for input in self.inputs.drain(..) {
            core.machine.handle(now, input);
        }
        if core
            .machine
            .next_deadline()
            .is_some_and(|deadline| deadline <= now)
        {
            core.machine.handle(now, Input::Tick);
        }
        core.drain(&mut self.deliveries, &mut |command| commands.push(command));
        if self.out.len() < WRITE_BACKLOG {
            core.machine.transmit(now, &mut self.out);
            // A request that cannot be sent is answered while the rest is being encoded.
            core.drain(&mut self.deliveries, &mut |command| commands.push(command));
        }
        let woken = core.woken(now);
        let deadlines = [
            core.machine.next_deadline(),
            core.capacity_queue.next_deadline(),
        ];
        let turn = Turn {
            deadline: deadlines.into_iter().flatten().min(),
            has_ended: core.machine.is_ended(),
            has_unsent: core.machine.has_unsent(),
        };
        let background = mem::take(&mut core.background);
        drop(core);

        self.background.extend(background);
        for command in commands {
            match command {
                LinkCommand::Disconnect => {
                    self.replace_link(Link::Down);
                    self.out.clear();
                }
                LinkCommand::Probe(endpoint) => {
                    let stream = self.connector.connect((*endpoint).clone());
                    let probing = probe(self.shared.clone(), endpoint, stream);
                    self.background.push(Box::pin(probing));
                }
                LinkCommand::Connect(endpoint) => {
                    let connecting = self.connector.connect((*endpoint).clone());
                    self.replace_link(Link::Connecting(connecting));
                }
            }
        }
        self.shared.deliver(self.deliveries.drain(..));
        woken.into_iter().for_each(Waker::wake);
        turn
    }

    /// Writes what is to be sent.
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
                Poll::Ready(Err(error)) => return self.down(io_cause(&error)),
            }
        }
        // A stream that encrypts may hold on to what it was given.
        if let Poll::Ready(Err(error)) = Pin::new(stream).poll_flush(cx) {
            self.down(io_cause(&error));
        }
    }

    /// Sees to it that the task is woken at the deadline; true when the deadline has come.
    fn sleep(&mut self, cx: &mut Context<'_>, now: Instant, deadline: Option<Instant>) -> bool {
        let Some(deadline) = deadline else {
            return false;
        };
        if self.armed.is_none_or(|armed| deadline < armed) {
            let wake = tokio::time::Instant::now() + deadline.saturating_duration_since(now);
            self.timer.as_mut().reset(wake);
            self.armed = Some(deadline);
        }
        if self.timer.as_mut().poll(cx).is_ready() {
            self.armed = None;
            return true;
        }
        false
    }

    /// Runs what was asked to run beside the connection.
    fn run_background(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(())) = Pin::new(&mut self.background).poll_next(cx) {}
    }
}

/// Starts a client's task on the present runtime.
pub(crate) fn spawn(task: BoxFuture<'static, ()>) {
    tokio::spawn(task);
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let _in_span = this.span.clone().entered();
        this.shared.driver.register(cx.waker());
        for _ in 0..TURNS_PER_POLL {
            this.read(cx);
            let full = this.inputs.len() == FRAMES_PER_TURN;
            let now = this.clock.now();
            let turn = this.turn(now);
            if turn.has_ended {
                return Poll::Ready(());
            }
            this.write(cx);
            this.run_background(cx);
            let due = this.sleep(cx, now, turn.deadline);
            let room = turn.has_unsent && this.out.len() < WRITE_BACKLOG;
            if !(full || due || room || this.other_link) {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The runtime went away, or the machine has ended: whoever still waits is told.
impl Drop for Driver {
    fn drop(&mut self) {
        let background = self.shared.act(|core| {
            core.machine.abort();
            mem::take(&mut core.background)
        });
        // Not under the lock: what runs in the background takes it in its own drop.
        drop(background);
    }
}
