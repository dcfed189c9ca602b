//! The output of the demo: a column for each client, and a line for each hold.
//!
//! Invariant: lines are only added, never changed, so the output is the same on a terminal and in a file.
//! Not here: the summary at the end (`summary`).

use std::{
    io::{self, Write as _},
    time::{Duration, Instant},
};

use anstyle::{AnsiColor, Style};

use super::{
    audit::Hold,
    contender::HOLD_MS,
    events::{Event, What, Write},
    line::{Line, wrap},
};
use crate::duration::Human;

const FAINT: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();
const STORY: Style = AnsiColor::Yellow.on_default();
pub(super) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
/// The colours of the clients, in turn.
const COLOURS: [AnsiColor; 5] = [
    AnsiColor::Cyan,
    AnsiColor::Magenta,
    AnsiColor::Green,
    AnsiColor::BrightBlue,
    AnsiColor::White,
];

/// Columns of the time, `1234.567`.
const TIME: usize = 8;
/// Columns of a duration, with a space before it.
const DURATION: usize = 9;
/// Columns of the longest bar.
const BAR: usize = 24;
/// Up to this number of clients, each client has two columns and a gap.
const WIDE: usize = 8;

/// The present activity of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lane {
    Elsewhere,
    Waits,
    Holds,
    Stopped,
}

/// Prints the events.
#[derive(Debug)]
pub(super) struct Screen {
    start: Instant,
    lanes: Vec<Lane>,
    /// The lanes at the moment when the present holder got the lock.
    at_grant: Vec<Lane>,
    /// Columns of a token, with a space before it.
    token: usize,
    /// The paused client, and the start of its pause.
    stopped: Option<(usize, Instant)>,
    /// Whether a client holds the lock. The line of a hold is printed at its end, but has the time of its start. So notes
    /// from in between wait until that line is printed.
    held: bool,
    waiting: Vec<Note>,
}

/// A line of text about an event.
#[derive(Debug)]
struct Note {
    at: Instant,
    lanes: Vec<Lane>,
    style: Style,
    text: String,
}

impl Screen {
    pub(super) fn new(clients: usize, start: Instant, first_token: u64) -> Self {
        let lanes = vec![Lane::Elsewhere; clients];
        Self {
            start,
            at_grant: lanes.clone(),
            lanes,
            // Two more columns, because tokens grow.
            token: (first_token.to_string().len() + 2).max(7),
            stopped: None,
            held: false,
            waiting: Vec::new(),
        }
    }

    /// Prints the heading: what the demo does, and what the signs mean.
    pub(super) fn head(&self, seconds: u32, servers: &str, timeout: Duration) -> io::Result<()> {
        let mut title = Line::new();
        let clients = self.lanes.len();
        title.add(
            BOLD,
            format_args!("{clients} clients contend for one lock for {seconds} s"),
        );
        print(&title)?;
        let mut place = Line::new();
        let timeout = Human(timeout);
        place.plain(format_args!("on {servers}, session timeout {timeout}"));
        print(&place)?;
        let mut task = Line::new();
        task.plain("each holder adds 1 to a counter on the server; one holder will be paused");
        print(&task)?;
        print(&Line::new())?;
        let mut legend = Line::new();
        let width = self.lane_width();
        for (lane, text) in [
            (Lane::Holds, "holds the lock"),
            (Lane::Waits, "waits for it"),
            (Lane::Elsewhere, "does something else"),
            (Lane::Stopped, "is paused"),
        ] {
            legend.add(style_of(lane, 0), sign_of(lane, width));
            legend.plain(format_args!(" {text}   "));
        }
        print(&legend)?;
        print(&Line::new())?;
        let mut head = Line::new();
        head.add(BOLD, format_args!("{:>TIME$}  ", "time"));
        for client in 0..clients {
            let number = (client + 1) % if width == 1 { 10 } else { 100 };
            head.add(
                client_style(client).bold(),
                format_args!("{number:<width$}"),
            );
            head.plain(self.gap());
        }
        let token = self.token;
        head.add(
            BOLD,
            format_args!(
                " {:>token$}{:>DURATION$}{:>DURATION$}",
                "token", "waited", "held"
            ),
        );
        print(&head)
    }

    /// Prints an event. `hold` is the newest hold.
    pub(super) fn show(&mut self, event: &Event, hold: Option<&Hold>) -> io::Result<()> {
        let Event { at, client, what } = event;
        let (at, client, number) = (*at, *client, *client + 1);
        match what {
            What::Queued => self.set(client, Lane::Waits),
            What::Left => self.set(client, Lane::Elsewhere),
            What::Granted { .. } => {
                self.set(client, Lane::Holds);
                self.free()?;
                if let Some((stopped, since)) = self.stopped.take() {
                    let after = Human(at.saturating_duration_since(since));
                    let stopped = stopped + 1;
                    let text = format!(
                        "session of client {stopped} expired after {after}; next: client {number}"
                    );
                    self.note(at, STORY, text)?;
                }
                self.at_grant.clone_from(&self.lanes);
                self.held = true;
            }
            What::Released { ended, write } => {
                if let Some(hold) = hold {
                    self.hold(hold, *ended)?;
                }
                self.set(client, Lane::Elsewhere);
                self.free()?;
                if let Some(text) = trouble_of(write) {
                    self.note(at, STORY, format!("client {number}: write {text}"))?;
                }
            }
            What::Stopped { .. } => {
                self.stopped = Some((client, at));
                self.set(client, Lane::Stopped);
                self.free()?;
                let token = hold.map_or(0, |hold| hold.token);
                let text = format!("client {number}, token {token}, is paused");
                self.note(at, STORY, text)?;
            }
            What::Woke { trusts } => {
                let text = format!("client {number} wakes: is_valid() = {trusts}; it writes");
                self.note(at, STORY, text)?;
                self.set(client, Lane::Elsewhere);
            }
            What::Late { value, write } => {
                let (style, text) = match write {
                    Write::Refused(why) => {
                        (GOOD, format!("server refuses counter = {value}: {why}"))
                    }
                    Write::Done => (BAD, format!("server accepts counter = {value}")),
                    other => (BAD, trouble_of(other).unwrap_or_default()),
                };
                self.note(at, style, text)?;
            }
            What::Trouble(text) => {
                self.set(client, Lane::Elsewhere);
                self.note(at, STORY, format!("client {number}: {text}"))?;
            }
        }
        Ok(())
    }

    /// Prints that the lease of the paused client has ended.
    pub(super) fn lease_over(&mut self, at: Instant) -> io::Result<()> {
        let Some((client, _)) = self.stopped else {
            return Ok(());
        };
        let number = client + 1;
        let text = format!("lease of client {number} has ended");
        self.note(at, STORY, text)
    }

    /// Prints the notes that have waited for the line of a hold.
    pub(super) fn free(&mut self) -> io::Result<()> {
        self.held = false;
        for note in std::mem::take(&mut self.waiting) {
            self.print_note(&note)?;
        }
        Ok(())
    }

    /// Prints the line of a hold that has ended.
    fn hold(&self, hold: &Hold, ended: Instant) -> io::Result<()> {
        let length = ended.saturating_duration_since(hold.granted);
        let mut line = self.row(Some(hold.granted), &self.at_grant);
        let (token, waited) = (self.token, Human(hold.waited()));
        line.plain(format_args!("{:>token$}", hold.token));
        line.add(FAINT, format_args!("{waited:>DURATION$}"));
        line.plain(format_args!("{:>DURATION$}  ", Human(length)));
        let room = line.left().min(BAR);
        line.add(client_style(hold.client), bar(length, room));
        print(&line)
    }

    /// Prints a note, or keeps it until the line of the present hold is printed.
    fn note(&mut self, at: Instant, style: Style, text: String) -> io::Result<()> {
        let lanes = self.lanes.clone();
        let note = Note {
            at,
            lanes,
            style,
            text,
        };
        if self.held {
            self.waiting.push(note);
            return Ok(());
        }
        self.print_note(&note)
    }

    /// Prints a note on as many lines as it needs.
    fn print_note(&self, note: &Note) -> io::Result<()> {
        let mut row = self.row(Some(note.at), &note.lanes);
        for part in wrap(&note.text, row.left()) {
            row.add(note.style, part);
            print(&row)?;
            row = self.row(None, &[]);
        }
        Ok(())
    }

    /// The beginning of a line: the time, and the activity of each client.
    fn row(&self, at: Option<Instant>, lanes: &[Lane]) -> Line {
        let mut row = Line::new();
        match at {
            Some(at) => {
                let time = at.saturating_duration_since(self.start).as_secs_f64();
                row.add(FAINT, format_args!("{time:>TIME$.3}  "));
            }
            None => {
                row.plain(format_args!("{:TIME$}  ", ""));
            }
        }
        let width = self.lane_width();
        for client in 0..self.lanes.len() {
            match lanes.get(client) {
                Some(lane) => row.add(style_of(*lane, client), sign_of(*lane, width)),
                None => row.plain(" ".repeat(width)),
            };
            row.plain(self.gap());
        }
        row.plain(" ");
        row
    }

    fn lane_width(&self) -> usize {
        if self.lanes.len() <= WIDE { 2 } else { 1 }
    }

    fn gap(&self) -> &'static str {
        if self.lanes.len() <= WIDE { " " } else { "" }
    }

    fn set(&mut self, client: usize, now: Lane) {
        if let Some(lane) = self.lanes.get_mut(client) {
            *lane = now;
        }
    }
}

/// What went wrong with a write; `None` if it was applied.
fn trouble_of(write: &Write) -> Option<String> {
    match write {
        Write::Done => None,
        Write::Refused(why) => Some(format!("refused: {why}")),
        Write::InDoubt(why) => Some(format!("in doubt: {why}")),
        Write::Failed(why) => Some(format!("failed: {why}")),
    }
}

fn client_style(client: usize) -> Style {
    COLOURS
        .get(client % COLOURS.len())
        .map_or(Style::new(), |colour| colour.on_default())
}

fn style_of(lane: Lane, client: usize) -> Style {
    match lane {
        Lane::Holds => client_style(client),
        Lane::Waits | Lane::Elsewhere => FAINT,
        Lane::Stopped => STORY.bold(),
    }
}

fn sign_of(lane: Lane, width: usize) -> String {
    let sign = match lane {
        Lane::Holds => "█",
        Lane::Waits => "░",
        Lane::Elsewhere => "·",
        Lane::Stopped => "z",
    };
    sign.repeat(width)
}

/// A bar in eighths of a column. A full bar stands for the longest regular hold ([`HOLD_MS`]).
fn bar(held: Duration, room: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let (_, longest) = HOLD_MS;
    let room = u64::try_from(room).unwrap_or(0) * 8;
    let held = u64::try_from(held.as_millis()).unwrap_or(u64::MAX);
    let eighths = (held.saturating_mul(room) / longest).min(room);
    let (whole, rest) = (eighths / 8, eighths % 8);
    let whole = "█".repeat(usize::try_from(whole).unwrap_or(0));
    let rest = usize::try_from(rest)
        .ok()
        .and_then(|rest| EIGHTHS.get(rest));
    whole + rest.unwrap_or(&"")
}

/// Prints a line. `anstream` removes the colours where they are not wanted.
pub(super) fn print(line: &Line) -> io::Result<()> {
    writeln!(anstream::stdout().lock(), "{line}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_grow_in_eighths_and_end_at_the_edge() {
        assert_eq!(bar(Duration::ZERO, 10), "");
        assert_eq!(bar(Duration::from_millis(110), 10), "█████");
        assert_eq!(bar(Duration::from_millis(113), 10), "█████▏");
        assert_eq!(bar(Duration::from_secs(9), 10), "█".repeat(10));
        assert_eq!(bar(Duration::from_secs(9), 0), "");
    }

    #[test]
    fn rows_of_any_number_of_clients_leave_room_for_words() {
        for clients in [2, 8, 9, 24] {
            let screen = Screen::new(clients, Instant::now(), u64::MAX);
            let row = screen.row(Some(Instant::now()), &screen.lanes);
            assert!(row.left() >= 40, "{clients}: {}", row.left());
            let used = screen.token + 2 * DURATION + 2;
            assert!(row.left() >= used, "{clients}: {} of {used}", row.left());
        }
    }
}
