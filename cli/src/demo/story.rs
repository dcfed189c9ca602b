//! The story of the demo: a column for each client, and a line for each hold and each step; then the audit.
//!
//! The audit never asks the lock. It compares what the clients told, with times from their one clock, and the counter.

use std::{
    io::Write as _,
    time::{Duration, Instant},
};

use anstyle::{
    AnsiColor::{self, BrightBlue, Cyan, Green, Magenta, Red, White, Yellow},
    Style,
};
use lockkeeper::LockError;
use tokio::sync::mpsc::UnboundedSender;

use crate::{
    args::DemoArgs,
    duration::Human,
    exit::{self, Failure},
};

const FAINT: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();
pub(super) const STEP: Style = Yellow.on_default();
const GOOD: Style = Green.on_default().bold();
const BAD: Style = Red.on_default().bold();
/// The colours of the clients, in turn.
const COLOURS: [AnsiColor; 5] = [Cyan, Magenta, Green, BrightBlue, White];

/// What a client does now: its sign.
type Sign = (Style, &'static str);
pub(super) const WAITS: Sign = (FAINT, "░░");
const RESTS: Sign = (FAINT, "··");
const PAUSED: Sign = (STEP.bold(), "zz");
/// The sign of a holder, in the colour of the client.
const HOLDS: &str = "██";

/// How long the servers may take for the expiry, the hand-over and the late write. Some grant no session below 4 s.
const PATIENCE: Duration = Duration::from_secs(40);

/// What the clients have told so far. They are counted from 0.
pub(super) struct Story {
    /// Lines to print, or why a client has ended. No bound is needed: a client takes a few steps in each of its rounds.
    pub(super) lines: UnboundedSender<Result<String, LockError>>,
    start: Instant,
    /// The client that first gets the lock after this time is paused.
    pause_at: Option<Instant>,
    /// When the story ends. Until the late write is answered, this has [`PATIENCE`] in it.
    pub(super) until: Instant,
    /// Until the next client gets the lock: the end of the paused client's lease.
    pub(super) paused: Option<Instant>,
    /// What each client does now.
    pub(super) now: Vec<Sign>,
    /// How many times a client was granted the lock while another client still held it.
    overlaps: usize,
    /// The token of each hold.
    tokens: Vec<u64>,
    /// Whether the paused client's guard was valid when the client wrote late, and whether the server refused the write.
    late: Option<(bool, bool)>,
    /// How many holds have ended with a write to the counter.
    writes: u64,
}

impl Story {
    pub(super) fn new(args: &DemoArgs, lines: UnboundedSender<Result<String, LockError>>) -> Self {
        let (start, time) = (Instant::now(), Duration::from_secs(args.seconds.into()));
        Self {
            lines,
            start,
            pause_at: Some(start + time / 3),
            until: start + time + PATIENCE,
            paused: None,
            now: vec![RESTS; args.clients.into()],
            overlaps: 0,
            tokens: Vec::new(),
            late: None,
            writes: 0,
        }
    }

    /// The client was granted the lock now, which wakes the paused client. Returns whether this client is to be paused, for as long as
    /// no other client holds the lock. It relies on the lock until its lease ends.
    pub(super) fn hold(&mut self, client: usize, token: u64, lease: Instant) -> bool {
        let (number, now) = (client + 1, Instant::now());
        let is_held = self.now.iter().any(|sign| sign.1 == HOLDS)
            || self.paused.is_some_and(|lease| now < lease);
        self.overlaps += usize::from(is_held);
        self.tokens.push(token);
        self.now[client] = holds(client);
        if let Some(lease) = self.paused.take() {
            let after = Human(now.saturating_duration_since(lease));
            let text = format!("next: client {number}, {after} after that lease");
            self.note(STEP, &text);
        }
        let is_paused = self.pause_at.take_if(|at| *at <= now).is_some();
        if is_paused {
            self.paused = Some(lease);
            self.now[client] = PAUSED;
            self.note(STEP, &format!("client {number}, token {token}, is paused"));
        }
        is_paused
    }

    /// The client has waited so long, held the lock for so long, has written, and is about to release the lock.
    pub(super) fn release(&mut self, client: usize, waited: Duration, held: Duration, token: u64) {
        let (waited, held) = (Human(waited), Human(held));
        self.note(Style::new(), &format!("{waited:>9}{held:>9}  {token}"));
        self.now[client] = RESTS;
        self.writes += 1;
    }

    /// The client was woken, and wrote this value. Whether its guard was valid then, and whether the server refused the write.
    pub(super) fn write_late(&mut self, client: usize, value: u64, late: (bool, bool)) {
        let (number, (is_valid, is_refused)) = (client + 1, late);
        let text = format!("client {number} wakes: is_valid() = {is_valid}; it writes");
        self.note(STEP, &text);
        self.now[client] = RESTS;
        if is_refused {
            let text = format!("server refuses counter = {value}: lock node gone");
            self.note(GOOD, &text);
        }
        self.late = Some(late);
        self.until -= PATIENCE;
    }

    /// Tells the time, what each client does, and a text.
    pub(super) fn note(&self, style: Style, text: &str) {
        let time = self.start.elapsed().as_secs_f64();
        let lanes: String = self.now.iter().map(|sign| lane(*sign) + " ").collect();
        let line = format!("{FAINT}{time:>8.3}{FAINT:#}  {lanes} {style}{text}{style:#}");
        let _ = self.lines.send(Ok(line));
    }

    /// Prints the numbers and the verdict, and returns the exit status. `count` is the value of the counter.
    pub(super) fn end(&self, count: u64) -> Result<u8, Failure> {
        let (holds, took) = (self.tokens.len(), Human(self.start.elapsed()));
        let (overlaps, writes) = (self.overlaps, self.writes);
        print(&format!(
            "\n{BOLD}holds     {BOLD:#}{holds} in {took}\n\
             {BOLD}overlaps  {BOLD:#}{overlaps}\n\
             {BOLD}counter   {BOLD:#}{count} after {writes} writes\n"
        ))?;
        let broken = self.broken(count).join("; ");
        if !broken.is_empty() {
            print(&format!("{BAD}BROKEN{BAD:#}: {broken}"))?;
            return Ok(exit::BROKEN);
        }
        print(&format!(
            "{GOOD}OK{GOOD:#}: no two clients held the lock at once, and the late write was refused"
        ))?;
        Ok(exit::OK)
    }

    /// What is told of each broken promise.
    fn broken(&self, count: u64) -> Vec<&'static str> {
        let is_ordered = self.tokens.is_sorted_by(|one, next| one < next);
        let is_fenced = self.late == Some((false, true));
        let promises = [
            (self.overlaps == 0, "two clients held the lock at once"),
            (is_ordered, "a token was not higher than the one before"),
            (count == self.writes, "the counter and the writes differ"),
            (is_fenced, "no late write was refused by guard and server"),
        ];
        let broken = promises.iter().filter(|(is_kept, _)| !is_kept);
        broken.map(|(_, promise)| *promise).collect()
    }
}

/// The heading: what the demo does, and what the signs mean.
pub(super) fn heading(args: &DemoArgs, place: &str) -> Result<(), Failure> {
    let (clients, seconds) = (args.clients, args.seconds);
    let name = |client| format!("{0}{1:<3}{0:#}", holds(client).0.bold(), client + 1);
    let names: String = (0..clients.into()).map(name).collect();
    let [holds, waits, rests, paused] = [holds(0), WAITS, RESTS, PAUSED].map(lane);
    print(&format!(
        "{BOLD}{clients} clients contend for one lock for {seconds} s{BOLD:#}\non {place}\n\
         each holder adds 1 to a counter on the server; one holder will be paused\n\n\
         {holds} holds the lock   {waits} waits for it   {rests} does something else   {paused} is paused\n\n\
         {BOLD}    time{BOLD:#}  {names} {BOLD}   waited     held  token{BOLD:#}"
    ))
}

fn lane((style, sign): Sign) -> String {
    format!("{style}{sign}{style:#}")
}

fn holds(client: usize) -> Sign {
    (COLOURS[client % COLOURS.len()].on_default(), HOLDS)
}

/// Prints a line, or fails if nobody reads. `anstream` removes the colours in files and pipes, and when `NO_COLOR` is set.
pub(super) fn print(line: &str) -> Result<(), Failure> {
    let printed = writeln!(anstream::stdout().lock(), "{line}");
    printed.map_err(|error| Failure::output(&error))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::args::{Cli, Command};

    fn story() -> Story {
        let Command::Demo(args) = Cli::parse_from(["lockkeeper", "demo"]).command else {
            unreachable!()
        };
        Story::new(&args, unbounded_channel().0)
    }

    #[test]
    fn the_audit_knows_each_broken_promise() {
        let no_time = Duration::ZERO;
        let mut story = story();
        story.late = Some((false, true));
        for (client, token) in [(0, 5), (1, 6), (0, 9)] {
            story.hold(client, token, story.start);
            story.release(client, no_time, no_time, token);
        }
        assert_eq!(story.broken(3), [] as [&str; 0]);
        assert_eq!(story.broken(4), ["the counter and the writes differ"]);
        for late in [None, Some((true, true)), Some((false, false))] {
            story.late = late;
            assert!(
                story.broken(3)[0].starts_with("no late write was refused"),
                "{late:?}"
            );
        }
        story.late = Some((false, true));
        story.hold(2, 9, story.start);
        assert_eq!(
            story.broken(3),
            ["a token was not higher than the one before"]
        );
        // Another client is granted the lock before its holder has told of a release.
        story.hold(1, 10, story.start);
        assert!(
            story
                .broken(3)
                .contains(&"two clients held the lock at once")
        );
    }

    #[test]
    fn a_paused_client_holds_the_lock_until_its_lease_ends() {
        for (left, overlaps) in [(Duration::ZERO, 0), (Duration::from_secs(60), 1)] {
            let mut story = story();
            story.pause_at = Some(story.start);
            assert!(story.hold(0, 1, Instant::now() + left));
            assert!(!story.hold(1, 2, story.start));
            assert!(story.paused.is_none(), "it is woken");
            assert_eq!(story.overlaps, overlaps);
        }
    }
}
