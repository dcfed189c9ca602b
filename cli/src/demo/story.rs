//! What the clients of the demo do, printed as it happens: a column for each client, and a line for each hold and each step.
//!
//! All clients share one story, and each takes its next step only when the last one is in it. So the end of a hold comes before the
//! grant of the next holder. Not here: whether the lock kept its promises (`audit`).

use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use anstyle::{
    AnsiColor::{self, BrightBlue, Cyan, Green, Magenta, Red, White, Yellow},
    Style,
};
use lockkeeper::Error;

use crate::duration::Human;

const FAINT: Style = Style::new().dimmed();
pub(super) const BOLD: Style = Style::new().bold();
const STEP: Style = Yellow.on_default();
pub(super) const GOOD: Style = Green.on_default().bold();
pub(super) const BAD: Style = Red.on_default().bold();
/// The colours of the clients, in turn.
const COLOURS: [AnsiColor; 5] = [Cyan, Magenta, Green, BrightBlue, White];

/// What the clients must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Contend,
    /// The next client that gets the lock sets the next phase.
    PauseNext,
    /// One client is paused; the others contend.
    Paused,
    /// That client goes on; all contend.
    Woken,
    /// All clients end.
    Finished,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    Rest,
    Wait,
    Hold,
    /// It holds the lock and is paused, like a suspended process.
    Pause,
    /// It is still paused, and its lease has ended.
    PauseOn,
}

/// What a client did for a time.
#[derive(Debug)]
pub(super) struct Span {
    /// The client's number, counted from 0.
    pub(super) client: usize,
    pub(super) does: Does,
    /// The token of the lock, if it had it.
    pub(super) token: u64,
    pub(super) from: Instant,
    pub(super) to: Instant,
}

impl Span {
    pub(super) fn length(&self) -> Duration {
        self.to.saturating_duration_since(self.from)
    }
}

pub(super) struct Story {
    pub(super) start: Instant,
    pub(super) phase: Phase,
    /// What each client does now, with which token, and since when.
    pub(super) now: Vec<(Does, u64, Instant)>,
    /// What they have done.
    pub(super) spans: Vec<Span>,
    /// The client that is paused, and until when its lease lasts.
    pub(super) pause: Option<(usize, Instant)>,
    /// When another client got the lock after that.
    pub(super) next: Option<Instant>,
    /// The `is_valid` of the paused client's guard, and what became of its late write.
    pub(super) late: Option<(bool, Result<(), Error>)>,
    /// The writes to the counter that the servers have applied.
    pub(super) writes: u64,
}

impl Story {
    pub(super) fn new(clients: usize) -> Self {
        let start = Instant::now();
        Self {
            start,
            phase: Phase::Contend,
            now: vec![(Does::Rest, 0, start); clients],
            spans: Vec::new(),
            pause: None,
            next: None,
            late: None,
            writes: 0,
        }
    }

    /// Prints a heading: what the demo does, and what the signs mean.
    pub(super) fn head(&self, seconds: u32, place: &str) {
        let signs = [Does::Hold, Does::Wait, Does::Rest, Does::Pause];
        let [holds, waits, rests, paused] = signs.map(|does| lane(does, 0));
        let clients = self.now.len();
        let name = |client| format!("{0}{1:<3}{0:#}", style_of(client).bold(), client + 1);
        let names: String = (0..clients).map(name).collect();
        print(&format!(
            "{BOLD}{clients} clients contend for one lock for {seconds} s{BOLD:#}\non {place}\n\
             each holder adds 1 to a counter on the server; one holder will be paused\n\n\
             {holds} holds the lock   {waits} waits for it   {rests} does something else   {paused} is paused\n\n\
             {BOLD}    time{BOLD:#}  {names} {BOLD}   waited     held  token{BOLD:#}"
        ));
    }

    /// A client does something else from then on.
    pub(super) fn turn(&mut self, to: Instant, client: usize, does: Does, token: u64) {
        let (did, its, from) = std::mem::replace(&mut self.now[client], (does, token, to));
        self.spans.push(Span {
            client,
            does: did,
            token: its,
            from,
            to,
        });
    }

    /// A client was granted the lock, with a lease until then. Returns whether it is the one to be paused.
    pub(super) fn granted(&mut self, client: usize, token: u64, lease_until: Instant) -> bool {
        let (at, number) = (Instant::now(), client + 1);
        if self.phase == Phase::PauseNext {
            self.phase = Phase::Paused;
            self.pause = Some((client, lease_until));
            self.turn(at, client, Does::Pause, token);
            let text = format!("client {number}, token {token}, is paused");
            self.note(at, STEP, &text);
            return true;
        }
        self.turn(at, client, Does::Hold, token);
        if let (Some((_, lease_until)), None) = (self.pause, self.next) {
            self.next = Some(at);
            let after = Human(at.saturating_duration_since(lease_until));
            let text = format!("next: client {number}, {after} after that lease");
            self.note(at, STEP, &text);
        }
        false
    }

    /// A client has written, and is about to release the lock, or had lost it at that time.
    pub(super) fn released(&mut self, at: Instant, client: usize) {
        self.writes += 1;
        let (_, token, from) = self.now[client];
        let length = Human(at.saturating_duration_since(from));
        let wait = |it: &&Span| it.client == client && it.does == Does::Wait;
        let waited = self.spans.iter().rfind(wait).map(Span::length);
        let waited = Human(waited.unwrap_or_default());
        let text = format!("{waited:>9}{length:>9}  {token}");
        self.note(at, Style::new(), &text);
        self.turn(at, client, Does::Rest, 0);
    }

    /// A paused client cannot tell when its lease ends.
    pub(super) fn lease_ended(&mut self, client: usize, at: Instant) {
        self.turn(at, client, Does::PauseOn, self.now[client].1);
        let text = format!("lease of client {} has ended", client + 1);
        self.note(at, STEP, &text);
    }

    /// The paused client went on with its guard, and wrote this value.
    pub(super) fn wrote_late(
        &mut self,
        client: usize,
        valid: bool,
        value: u64,
        wrote: Result<(), Error>,
    ) {
        let (at, number) = (Instant::now(), client + 1);
        let text = format!("client {number} wakes: is_valid() = {valid}; it writes");
        self.note(at, STEP, &text);
        self.turn(at, client, Does::Rest, 0);
        let (style, text) = match &wrote {
            Ok(()) => (BAD, format!("server accepts counter = {value}")),
            Err(error) if error.is_no_node() => {
                let text = format!("server refuses counter = {value}: lock node gone");
                (GOOD, text)
            }
            Err(error) => (BAD, error.to_string()),
        };
        self.note(at, style, &text);
        self.writes += u64::from(wrote.is_ok());
        self.late = Some((valid, wrote));
    }

    /// Prints the time, what each client does, and a text.
    fn note(&self, at: Instant, style: Style, text: &str) {
        let time = at.saturating_duration_since(self.start).as_secs_f64();
        let lanes = self.now.iter().enumerate();
        let lanes: String = lanes
            .map(|(client, (does, ..))| lane(*does, client) + " ")
            .collect();
        print(&format!(
            "{FAINT}{time:>8.3}{FAINT:#}  {lanes} {style}{text}{style:#}"
        ));
    }
}

/// What a client does.
fn lane(does: Does, client: usize) -> String {
    let (sign, style) = match does {
        Does::Hold => ("██", style_of(client)),
        Does::Wait => ("░░", FAINT),
        Does::Rest => ("··", FAINT),
        Does::Pause | Does::PauseOn => ("zz", STEP.bold()),
    };
    format!("{style}{sign}{style:#}")
}

fn style_of(client: usize) -> Style {
    COLOURS[client % COLOURS.len()].on_default()
}

/// Prints a line. `anstream` removes the colours in files and pipes, and when `NO_COLOR` is set.
pub(super) fn print(line: &str) {
    // If nobody reads, the demo ends: see `text::closed`.
    let _ = writeln!(anstream::stdout().lock(), "{line}");
}
