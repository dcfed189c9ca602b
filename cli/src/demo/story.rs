//! What the clients of the demo do, printed as it happens: a column for each client, and a line for each hold and each step.
//!
//! All clients share one story, and each takes its next step only when the last one is in it. So the end of a hold comes before the
//! grant of the next holder. Not here: whether the lock kept its promises (`audit`).

use std::{io::Write as _, time::Instant};

use anstyle::{
    AnsiColor::{self, BrightBlue, Cyan, Green, Magenta, Red, White, Yellow},
    Style,
};

use crate::{args::DemoArgs, duration::Human};

const FAINT: Style = Style::new().dimmed();
pub(super) const BOLD: Style = Style::new().bold();
const STEP: Style = Yellow.on_default();
pub(super) const GOOD: Style = Green.on_default().bold();
pub(super) const BAD: Style = Red.on_default().bold();
/// The colours of the clients, in turn.
const COLOURS: [AnsiColor; 5] = [Cyan, Magenta, Green, BrightBlue, White];

/// How far the story is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Contend,
    /// The next client that gets the lock is paused.
    PauseNext,
    /// One client is paused; the others contend.
    Paused,
    /// Another client has the lock now.
    HandedOver,
    /// The paused client goes on; all contend.
    Woken,
    /// Its late write has been answered.
    Late,
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

pub(super) struct Story {
    pub(super) start: Instant,
    pub(super) phase: Phase,
    /// What each client does now, with which token, and since when.
    pub(super) now: Vec<(Does, u64, Instant)>,
    /// What they have done.
    pub(super) spans: Vec<Span>,
    /// The client that is paused, and until when its lease lasts.
    paused: usize,
    pub(super) lease_until: Instant,
    /// The `is_valid` of the paused client's guard, and whether the server refused its late write.
    pub(super) late: Option<(bool, bool)>,
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
            paused: 0,
            lease_until: start,
            late: None,
            writes: 0,
        }
    }

    /// Begins with a heading: what the demo does, and what the signs mean.
    pub(super) fn begin(args: &DemoArgs, place: &str) -> Self {
        let signs = [Does::Hold, Does::Wait, Does::Rest, Does::Pause];
        let [holds, waits, rests, paused] = signs.map(|does| lane(does, 0));
        let (clients, seconds) = (args.clients, args.seconds);
        let name = |client| format!("{0}{1:<3}{0:#}", style_of(client).bold(), client + 1);
        let names: String = (0..clients.into()).map(name).collect();
        print(&format!(
            "{BOLD}{clients} clients contend for one lock for {seconds} s{BOLD:#}\non {place}\n\
             each holder adds 1 to a counter on the server; one holder will be paused\n\n\
             {holds} holds the lock   {waits} waits for it   {rests} does something else   {paused} is paused\n\n\
             {BOLD}    time{BOLD:#}  {names} {BOLD}   waited     held  token{BOLD:#}"
        ));
        Self::new(clients.into())
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
        let is_paused = self.phase == Phase::PauseNext;
        let does = if is_paused { Does::Pause } else { Does::Hold };
        self.turn(at, client, does, token);
        if is_paused {
            self.phase = Phase::Paused;
            (self.paused, self.lease_until) = (client, lease_until);
            let text = format!("client {number}, token {token}, is paused");
            self.note(at, STEP, &text);
        } else if self.phase == Phase::Paused {
            self.phase = Phase::HandedOver;
            let after = Human(at.saturating_duration_since(self.lease_until));
            let text = format!("next: client {number}, {after} after that lease");
            self.note(at, STEP, &text);
        }
        is_paused
    }

    /// A client has written, and is about to release the lock, or had lost it at that time.
    pub(super) fn released(&mut self, at: Instant, client: usize) {
        self.writes += 1;
        let (_, token, from) = self.now[client];
        let held = Human(at.saturating_duration_since(from));
        let waits = |it: &&Span| it.client == client && it.does == Does::Wait;
        let wait = self.spans.iter().rfind(waits).map(|it| it.to - it.from);
        let waited = Human(wait.unwrap_or_default());
        self.note(at, Style::new(), &format!("{waited:>9}{held:>9}  {token}"));
        self.turn(at, client, Does::Rest, 0);
    }

    /// A paused client cannot tell when its lease ends.
    pub(super) fn lease_ended(&mut self) {
        let (at, client) = (self.lease_until, self.paused);
        self.turn(at, client, Does::PauseOn, self.now[client].1);
        let text = format!("lease of client {} has ended", client + 1);
        self.note(at, STEP, &text);
    }

    /// The paused client went on with its guard, and wrote this value.
    pub(super) fn wrote_late(&mut self, client: usize, valid: bool, value: u64, refused: bool) {
        let (at, number) = (Instant::now(), client + 1);
        let text = format!("client {number} wakes: is_valid() = {valid}; it writes");
        self.note(at, STEP, &text);
        self.turn(at, client, Does::Rest, 0);
        let (style, does, why) = if refused {
            (GOOD, "refuses", ": lock node gone")
        } else {
            (BAD, "accepts", "")
        };
        self.note(at, style, &format!("server {does} counter = {value}{why}"));
        self.writes += u64::from(!refused);
        self.late = Some((valid, refused));
        self.phase = self.phase.max(Phase::Late);
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
