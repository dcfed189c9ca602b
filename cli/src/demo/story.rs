//! The story of the demo: a column for each client, and a line for each hold and each step, printed as it comes; then the audit.
//!
//! The audit never asks the lock. It compares what the clients told, with times from their one clock, and the counter.

use std::{
    io::Write as _,
    ops::Range,
    sync::mpsc::Sender,
    time::{Duration, Instant},
};

use anstyle::{
    AnsiColor::{self, BrightBlue, Cyan, Green, Magenta, Red, White, Yellow},
    Style,
};

use crate::{
    args::DemoArgs,
    duration::Human,
    exit::{self, Failure},
};

const FAINT: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();
const STEP: Style = Yellow.on_default();
const GOOD: Style = Green.on_default().bold();
const BAD: Style = Red.on_default().bold();
/// The colours of the clients, in turn.
const COLOURS: [AnsiColor; 5] = [Cyan, Magenta, Green, BrightBlue, White];

/// How long the demo goes on after the hand-over, and after the late write, so that viewers can follow it.
pub(super) const LINGER: Duration = Duration::from_millis(350);
/// How long the servers may take for the expiry, the hand-over and the late write. Some grant no session below 4 s.
const PATIENCE: Duration = Duration::from_secs(40);

const OK: &str = "no two clients held the lock at once, and the late write was refused";
/// What is told of a broken promise.
const PROMISES: [&str; 4] = [
    "two clients held the lock at once",
    "a token was not higher than the one before",
    "the counter does not match the number of writes",
    "no late write was refused, or the guard was valid until then",
];

/// What a client does now: its sign.
type Sign = (Style, &'static str);
const WAITS: Sign = (FAINT, "░░");
const RESTS: Sign = (FAINT, "··");
const PAUSED: Sign = (STEP.bold(), "zz");

/// What a client tells.
#[derive(Debug)]
pub(super) enum Step {
    Wait,
    /// It was granted the lock.
    Hold,
    /// It relies on the lock for this time, which is the lease, with this token. It is paused until this sender is dropped.
    Pause(Range<Instant>, u64, Sender<()>),
    /// It is still paused.
    LeaseEnd,
    /// It has waited so long, held the lock for this time, with this token, has written, and is about to release the lock.
    Release(Duration, Range<Instant>, u64),
    /// It was woken, and wrote this value. Whether its guard was valid then, and whether the server refused the write.
    WriteLate(u64, bool, bool),
    /// It has ended.
    Fail(Failure),
}

/// When which client took a step.
pub(super) type Told = (Instant, usize, Step);

pub(super) struct Story {
    pub(super) start: Instant,
    /// For how long the clients contend, at least.
    pub(super) time: Duration,
    /// When the story ends: first the latest time, and the time that is meant as soon as the late write is answered.
    pub(super) until: Instant,
    /// What each client does now.
    now: Vec<Sign>,
    /// When a client relied on the lock, which client, and with which token.
    holds: Vec<(Range<Instant>, usize, u64)>,
    /// Until the next client gets the lock: the end of the paused client's lease, and what wakes that client when it is dropped.
    pub(super) paused: Option<(Instant, Sender<()>)>,
    /// Whether the paused client's guard was valid when the client wrote late, and whether the server refused the write.
    late: Option<(bool, bool)>,
    /// The writes to the counter that the servers have applied.
    writes: u64,
}

impl Story {
    fn new(clients: u8, time: Duration) -> Self {
        let start = Instant::now();
        Self {
            start,
            time,
            until: start + time + PATIENCE,
            now: vec![RESTS; clients.into()],
            holds: Vec::new(),
            paused: None,
            late: None,
            writes: 0,
        }
    }

    /// Begins with a heading: what the demo does, and what the signs mean.
    pub(super) fn begin(args: &DemoArgs, place: &str) -> Result<Self, Failure> {
        let (clients, seconds) = (args.clients, args.seconds);
        let name = |client| format!("{0}{1:<3}{0:#}", holds(client).0.bold(), client + 1);
        let names: String = (0..clients.into()).map(name).collect();
        let [holds, waits, rests, paused] = [holds(0), WAITS, RESTS, PAUSED].map(lane);
        print(&format!(
            "{BOLD}{clients} clients contend for one lock for {seconds} s{BOLD:#}\non {place}\n\
             each holder adds 1 to a counter on the server; one holder will be paused\n\n\
             {holds} holds the lock   {waits} waits for it   {rests} does something else   {paused} is paused\n\n\
             {BOLD}    time{BOLD:#}  {names} {BOLD}   waited     held  token{BOLD:#}"
        ))?;
        Ok(Self::new(clients, Duration::from_secs(seconds.into())))
    }

    /// Prints a step.
    pub(super) fn take(&mut self, (at, client, step): Told) -> Result<(), Failure> {
        let number = client + 1;
        match step {
            Step::Wait => self.now[client] = WAITS,
            Step::Hold => {
                self.now[client] = holds(client);
                // This wakes the paused client.
                if let Some((lease, _)) = self.paused.take() {
                    let after = Human(at.saturating_duration_since(lease));
                    let text = format!("next: client {number}, {after} after that lease");
                    self.note(at, STEP, &text)?;
                }
            }
            Step::Pause(held, token, wake) => {
                self.now[client] = PAUSED;
                let text = format!("client {number}, token {token}, is paused");
                self.note(at, STEP, &text)?;
                self.paused = Some((held.end, wake));
                self.holds.push((held, client, token));
            }
            Step::LeaseEnd => {
                self.note(at, STEP, &format!("lease of client {number} has ended"))?;
            }
            Step::Release(waited, held, token) => {
                let took = Human(held.end.saturating_duration_since(held.start));
                let text = format!("{:>9}{took:>9}  {token}", Human(waited));
                self.note(at, Style::new(), &text)?;
                self.now[client] = RESTS;
                self.holds.push((held, client, token));
                self.writes += 1;
            }
            Step::WriteLate(value, is_valid, is_refused) => {
                let text = format!("client {number} wakes: is_valid() = {is_valid}; it writes");
                self.note(at, STEP, &text)?;
                self.now[client] = RESTS;
                let (style, text) = if is_refused {
                    (GOOD, format!("refuses counter = {value}: lock node gone"))
                } else {
                    (BAD, format!("accepts counter = {value}"))
                };
                self.note(at, style, &format!("server {text}"))?;
                self.writes += u64::from(!is_refused);
                self.late = Some((is_valid, is_refused));
                self.until = (at + LINGER).max(self.start + self.time);
            }
            Step::Fail(failure) => return Err(failure),
        }
        Ok(())
    }

    /// Prints the numbers and the verdict, and returns the exit status. `count` is the value of the counter.
    pub(super) fn end(mut self, count: u64) -> Result<u8, Failure> {
        let (took, kept) = (Human(self.start.elapsed()), self.kept(count));
        let of = |client| self.holds.iter().filter(|it| it.1 == client).count();
        let shares = (0..self.now.len()).map(of);
        let [fewest, most] = [shares.clone().min(), shares.max()].map(Option::unwrap_or_default);
        let (all, overlaps, writes) = (self.holds.len(), self.overlaps(), self.writes);
        print(&format!(
            "\n{BOLD}holds     {BOLD:#}{all} in {took}, {fewest} to {most} by each client\n\
             {BOLD}overlaps  {BOLD:#}{overlaps}\n\
             {BOLD}counter   {BOLD:#}{count} after {writes} writes\n"
        ))?;
        if kept == [true; 4] {
            print(&format!("{GOOD}OK{GOOD:#}: {OK}"))?;
            return Ok(exit::OK);
        }
        for (promise, _) in PROMISES.iter().zip(kept).filter(|(_, kept)| !kept) {
            print(&format!("{BAD}BROKEN{BAD:#}: {promise}"))?;
        }
        Ok(exit::BROKEN)
    }

    /// Which of the promises were kept. Sorts the holds in the order of the grants.
    fn kept(&mut self, count: u64) -> [bool; 4] {
        self.holds.sort_by_key(|(held, ..)| held.start);
        let tokens = self.holds.iter().map(|(_, _, token)| token);
        [
            self.overlaps() == 0,
            tokens.is_sorted_by(|one, next| one < next),
            count == self.writes,
            self.late == Some((false, true)),
        ]
    }

    /// How many times a client was granted the lock while another client still held it.
    fn overlaps(&self) -> usize {
        let (mut overlaps, mut held_until) = (0, self.start);
        for (held, ..) in &self.holds {
            overlaps += usize::from(held.start < held_until);
            held_until = held_until.max(held.end);
        }
        overlaps
    }

    /// Prints the time, what each client does, and a text.
    fn note(&self, at: Instant, style: Style, text: &str) -> Result<(), Failure> {
        let time = at.saturating_duration_since(self.start).as_secs_f64();
        let lanes: String = self.now.iter().map(|sign| lane(*sign) + " ").collect();
        let time = format!("{FAINT}{time:>8.3}{FAINT:#}");
        print(&format!("{time}  {lanes} {style}{text}{style:#}"))
    }
}

fn lane((style, sign): Sign) -> String {
    format!("{style}{sign}{style:#}")
}

fn holds(client: usize) -> Sign {
    (COLOURS[client % COLOURS.len()].on_default(), "██")
}

/// Prints a line, or fails if nobody reads. `anstream` removes the colours in files and pipes, and when `NO_COLOR` is set.
fn print(line: &str) -> Result<(), Failure> {
    let printed = writeln!(anstream::stdout().lock(), "{line}");
    printed.map_err(|error| Failure::output(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_audit_knows_each_broken_promise() {
        let mut story = Story::new(3, Duration::ZERO);
        let start = story.start;
        let at = |ms| start + Duration::from_millis(ms);
        let hold = |client, token, from, to| (at(from)..at(to), client, token);
        story.holds = vec![
            hold(2, 7, 20, 50),
            hold(0, 5, 1, 9),
            hold(1, 6, 9, 20),
            hold(0, 9, 60, 70),
        ];
        assert_eq!(story.kept(0), [true, true, true, false]);
        assert_eq!(story.kept(1), [true, true, false, false]);
        for late in [(true, true), (false, false), (false, true)] {
            story.late = Some(late);
            assert_eq!(story.kept(0), [true, true, true, late == (false, true)]);
        }
        // The last hold overlaps with the first, not with the second.
        story.holds = vec![hold(1, 6, 10, 12), hold(0, 5, 1, 30), hold(2, 6, 20, 25)];
        assert_eq!(story.kept(0), [false, false, true, true]);
        assert_eq!(story.overlaps(), 2);
    }
}
