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
    collections::VecDeque,
    future, mem,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Instant,
};

use bytes::BytesMut;
use futures::stream::{FuturesUnordered, StreamExt as _};

use super::{
    net::{
        frames::Frames,
        transport::{Connecting, Connector},
    },
    shared::{ReplySender, Shared, wake},
    sync::BoxFuture,
};
use crate::{
    Cause, Endpoint,
    machine::{BURST, Input, Output},
};

/// The most frames of one turn. It limits the latency of requests under a flood of replies.
const FRAMES_PER_TURN: usize = 256;
/// A turn ends after this many bytes of frames, too. Otherwise 256 of the longest frames would be
/// in memory at the same time.
const BYTES_PER_TURN: usize = 256 * 1024;
/// The most turns of one run; then other tasks of the thread run.
const TURNS_PER_RUN: usize = 8;
/// The most bytes that wait for the socket. Above this, requests stay in the machine's queue.
const WRITE_BACKLOG: usize = BURST;

pub(crate) struct Driver {
    shared: Arc<Shared>,
    connector: Connector,
    frame_limit: usize,
    wire: Wire,
    /// A server that the client reaches for beside the wire.
    beside: Option<Box<Beside>>,
    /// Whether this turn replaced the wire: then the new one was not polled yet, or the machine
    /// was not told of the end of the old one.
    other_wire: bool,
    inputs: VecDeque<Input>,
    out: BytesMut,
    outputs: VecDeque<Output<ReplySender>>,
    /// The next deadline at the end of the last turn.
    deadline: Option<Instant>,
    /// Whether room is kept since the last tick that may not be needed.
    owes_room: bool,
    /// Futures that run in the client's task. Only those are polled that were woken: a crowd that
    /// cleans up has thousands.
    background: FuturesUnordered<BoxFuture<'static, ()>>,
}

/// What the driver needs after a run.
pub(crate) enum Run {
    /// Nothing: the machine has ended.
    Ended,
    /// Another run, as soon as others have run.
    Again,
    /// Another run when something has happened, or at this deadline.
    Wait {
        now: Instant,
        until: Option<Instant>,
    },
}

/// The result of one turn of the machine.
struct Turn {
    now: Instant,
    deadline: Option<Instant>,
    has_ended: bool,
    /// Whether the machine has more to send after the encoded bytes.
    has_unsent: bool,
}

enum Wire {
    Down,
    Connecting(Connecting),
    Up(Frames),
}

/// A connection that may take the place of the wire.
struct Beside {
    endpoint: Arc<Endpoint>,
    connecting: Connecting,
    /// Whether it is there; then `connecting` gives it at once.
    is_made: bool,
}

impl Driver {
    pub(crate) fn new(shared: Arc<Shared>, connector: Connector, frame_limit: usize) -> Self {
        Self {
            shared,
            connector,
            frame_limit,
            wire: Wire::Down,
            beside: None,
            other_wire: false,
            inputs: VecDeque::new(),
            out: BytesMut::new(),
            outputs: VecDeque::new(),
            deadline: None,
            owes_room: false,
            background: FuturesUnordered::new(),
        }
    }

    /// Reads from the wire, at most one turn's frames. True if more may be there.
    fn read(&mut self, cx: &mut Context<'_>) -> bool {
        self.other_wire = false;
        match &mut self.wire {
            Wire::Down => {}
            Wire::Connecting(connecting) => match connecting.as_mut().poll(cx) {
                Poll::Pending => {}
                Poll::Ready(Ok(stream)) => {
                    self.replace_wire(Wire::Up(Frames::new(stream, self.frame_limit)));
                    self.inputs.push_back(Input::Connected);
                }
                Poll::Ready(Err(error)) => self.down((&error).into()),
            },
            Wire::Up(frames) => {
                let mut bytes = 0;
                let end = loop {
                    if self.inputs.len() == FRAMES_PER_TURN || bytes >= BYTES_PER_TURN {
                        return true;
                    }
                    match frames.poll_next(cx) {
                        Poll::Pending => return false,
                        Poll::Ready(Ok(incoming)) => {
                            if let Input::Frame(frame) = &incoming {
                                bytes += frame.len();
                            }
                            self.inputs.push_back(incoming);
                        }
                        Poll::Ready(Err(cause)) => break cause,
                    }
                };
                self.down(end);
            }
        }
        false
    }

    /// Goes on with the connection beside the wire.
    fn reach(&mut self, cx: &mut Context<'_>) {
        if let Some(beside) = self.beside.as_mut().filter(|it| !it.is_made) {
            if let Poll::Ready(stream) = beside.connecting.as_mut().poll(cx) {
                if stream.is_err() {
                    self.beside = None;
                    return;
                }
                beside.connecting = Box::pin(future::ready(stream));
                beside.is_made = true;
                (self.inputs).push_back(Input::Reached(beside.endpoint.clone()));
            }
        }
    }

    fn down(&mut self, cause: Cause) {
        self.replace_wire(Wire::Down);
        self.out.clear();
        self.inputs.push_back(Input::Disconnected(cause));
    }

    fn replace_wire(&mut self, wire: Wire) {
        self.wire = wire;
        self.other_wire = true;
    }

    /// Passes the inputs to the machine, and takes its outputs.
    fn turn(&mut self, cx: &Context<'_>) -> Turn {
        let has_input = !self.inputs.is_empty();
        let mut core = self.shared.lock();
        let now = core.clock.now();
        // Whoever submits something after this turn has looked wakes the driver.
        match &mut core.driver {
            Some(driver) => driver.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        while let Some(input) = self.inputs.pop_front() {
            core.machine.handle(now, input);
        }
        // A deadline that is new since the last turn, and due already, is seen at the end of this
        // one.
        let is_due = self.deadline.is_some_and(|deadline| deadline <= now);
        if is_due {
            core.machine.handle(now, Input::Tick);
        }
        mem::swap(core.machine.outputs(), &mut self.outputs);
        // Nobody asked for more while so much waits for the socket.
        let has_unsent =
            self.out.len() >= WRITE_BACKLOG || core.machine.transmit(now, &mut self.out);
        // Behind the last reply to what a tick has sent: nothing needs the room until the next tick.
        let is_idle = has_input && core.machine.outstanding() == 0;
        let gives_back = self.owes_room && (is_due || is_idle);
        if gives_back {
            core.machine.shrink_to_fit();
            core.timers.shrink_to_fit();
        }
        self.owes_room = is_due || self.owes_room && !gives_back;
        let woken = core.woken(now);
        let turn = Turn {
            now,
            deadline: core.next_deadline(),
            has_ended: core.machine.link().is_ended(),
            has_unsent,
        };
        let background = mem::take(&mut core.background);
        drop(core);
        self.deadline = turn.deadline;

        if !background.is_empty() {
            self.background.extend(background);
        }
        while let Some(output) = self.outputs.pop_front() {
            self.obey(output);
        }
        wake(woken);
        if gives_back {
            self.shrink_to_fit();
        }
        turn
    }

    fn dial(&self, endpoint: &Endpoint) -> Connecting {
        self.connector.connect(endpoint.clone())
    }

    fn obey(&mut self, output: Output<ReplySender>) {
        match &output {
            Output::Disconnect => {
                self.replace_wire(Wire::Down);
                self.out.clear();
            }
            Output::Connect(endpoint) => {
                let beside = self.beside.take().filter(|it| it.endpoint == *endpoint);
                let connecting = beside.map(|it| it.connecting);
                let connecting = connecting.unwrap_or_else(|| self.dial(endpoint));
                self.replace_wire(Wire::Connecting(connecting));
            }
            Output::Reach(other) => {
                self.beside = other.as_ref().map(|endpoint| {
                    Box::new(Beside {
                        endpoint: endpoint.clone(),
                        connecting: self.dial(endpoint),
                        is_made: false,
                    })
                });
                // It is to be polled.
                self.other_wire = true;
            }
            _ => self.shared.deliver(output),
        }
    }

    /// Writes the encoded bytes to the socket.
    fn write(&mut self, cx: &mut Context<'_>) {
        if let Wire::Up(frames) = &mut self.wire {
            if let Err(cause) = frames.write(cx, &mut self.out) {
                self.down(cause);
            }
        }
    }

    /// Frees the capacity that a burst has left. The machine does the same at its timers.
    fn shrink_to_fit(&mut self) {
        if self.out.is_empty() {
            self.out = BytesMut::new();
        }
        self.inputs = VecDeque::new();
        self.outputs = VecDeque::new();
        if let Wire::Up(frames) = &mut self.wire {
            frames.shrink_to_fit();
        }
    }

    /// The runtime ends: sends what waits and the end of the session, as far as the socket takes it
    /// at once. Otherwise the servers would keep the locks of the program until its session
    /// expires.
    fn say_goodbye(&mut self) {
        if !matches!(self.wire, Wire::Up(_)) {
            return;
        }
        // Whoever is on another thread, and the latches here, hear of it before anything is sent.
        self.shared.announce_close();
        self.background.clear();
        let mut core = self.shared.lock();
        let now = core.clock.now();
        core.machine.close(now);
        let mut before = usize::MAX;
        while self.out.len() != before {
            before = self.out.len();
            core.machine.transmit(now, &mut self.out);
        }
        drop(core);
        self.write(&mut Context::from_waker(Waker::noop()));
    }

    /// Does what there is to do, for a limited number of turns.
    pub(crate) fn run(&mut self, cx: &mut Context<'_>) -> Run {
        for _ in 0..TURNS_PER_RUN {
            let full = self.read(cx);
            // The machine hears of the end of the wire first.
            if !self.other_wire {
                self.reach(cx);
            }
            let turn = self.turn(cx);
            if turn.has_ended {
                return Run::Ended;
            }
            self.write(cx);
            // One that is empty would note its waker again and again.
            while !self.background.is_empty() && self.background.poll_next_unpin(cx).is_ready() {}
            let can_send = turn.has_unsent && self.out.len() < WRITE_BACKLOG;
            if !(full || can_send || self.other_wire) {
                let (now, until) = (turn.now, turn.deadline);
                return Run::Wait { now, until };
            }
        }
        Run::Again
    }
}

/// The runtime has dropped the task, or the machine has ended: every caller that still waits gets
/// an error.
impl Drop for Driver {
    fn drop(&mut self) {
        self.say_goodbye();
        let background = self.shared.act(|core| {
            core.machine.abort();
            core.is_driven = false;
            mem::take(&mut core.background)
        });
        // Dropped after the lock was released: a background future takes the lock in its own drop.
        drop(background);
    }
}
