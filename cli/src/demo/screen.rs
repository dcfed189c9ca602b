//! The output of the demo: a column for each client, and a line for each hold.
//!
//! Invariants: lines are only added, never changed, so the output is the same on a terminal and in a file. They come in the
//! order of their times. They have at most 80 columns, and on a narrow terminal at most its width, but at least 50. `anstream`
//! removes the colours in files and pipes, and when `NO_COLOR` is set.
//!
//! Not here: the summary at the end (`summary`).

use std::{
    fmt::{Display, Write as _},
    io::{self, Write as _},
    time::{Duration, Instant},
};

use anstyle::{AnsiColor, Style};

use super::{
    contender::HOLD_MS,
    events::{Event, Link, What, Write},
};
use crate::duration::Human;

const FAINT: Style = Style::new().dimmed();
pub(super) const BOLD: Style = Style::new().bold();
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

/// The most columns of a line. Every character that the demo prints is one column wide.
const WIDTH: usize = 80;
/// The fewest columns of a line, unless there are many clients.
const NARROW: usize = 50;
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
    Paused,
    CutOff,
}

/// The present hold.
#[derive(Debug)]
struct Hold {
    /// The beginning of its line.
    row: String,
    token: u64,
    waited: Duration,
    granted: Instant,
}

/// Prints the events.
#[derive(Debug)]
pub(super) struct Screen {
    start: Instant,
    lanes: Vec<Lane>,
    /// The most columns of a line.
    width: usize,
    /// Columns of a client, and the gap behind it.
    lane: (usize, &'static str),
    /// Columns of a token, with a space before it.
    token: usize,
    /// The number of the client that is paused or cut off, counted from 1, and the start of that.
    paused: Option<(usize, Instant)>,
    /// The line of a hold is printed at its end, but has the time of its start.
    hold: Option<Hold>,
    /// Lines about events during the present hold. They are printed behind the line of that hold.
    behind: Vec<String>,
}

impl Screen {
    /// A screen on a terminal of this width, or in a file.
    pub(super) fn new(
        clients: usize,
        start: Instant,
        first_token: u64,
        terminal: Option<usize>,
    ) -> Self {
        // Two more columns, because tokens grow.
        let token = (first_token.to_string().len() + 2).max(7);
        let width = terminal.unwrap_or(WIDTH).clamp(NARROW, WIDTH);
        let is_wide = width == WIDTH && clients <= WIDE;
        let lane = if is_wide { (2, " ") } else { (1, "") };
        // Neither the numbers of a hold nor words fit in less.
        let fewest = TIME + 2 + clients + 1 + token + 2 * DURATION + 2;
        Self {
            start,
            lanes: vec![Lane::Elsewhere; clients],
            width: width.max(fewest),
            lane,
            token,
            paused: None,
            hold: None,
            behind: Vec::new(),
        }
    }

    /// The most columns of a line.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Prints the heading: what the demo does, and what the signs mean.
    pub(super) fn head(
        &self,
        seconds: u32,
        servers: &str,
        timeout: Duration,
        link: Option<Link>,
    ) -> io::Result<()> {
        let (clients, timeout) = (self.lanes.len(), Human(timeout));
        let place = format!("on {servers}, session timeout {timeout}");
        let place = wrap(&place, self.width).join("\n");
        let (fate, trouble, sign) = match link {
            None => ("one holder will be paused", "is paused", Lane::Paused),
            Some(_) => (
                "the server of one holder will be cut from the leader",
                "is cut off",
                Lane::CutOff,
            ),
        };
        let rule = format!("each holder adds 1 to a counter on the server; {fate}");
        let rule = wrap(&rule, self.width).join("\n");
        let between = if self.width < WIDTH { "\n" } else { "   " };
        let signs = [Lane::Holds, Lane::Waits, Lane::Elsewhere, sign];
        let [holds, waits, elsewhere, sign] = signs.map(|lane| self.sign(lane, 0));
        print(format!(
            "{BOLD}{clients} clients contend for one lock for {seconds} s{BOLD:#}\n{place}\n\
             {rule}\n\n\
             {holds} holds the lock   {waits} waits for it{between}\
             {elsewhere} does something else   {sign} {trouble}\n"
        ))?;
        let (width, gap) = self.lane;
        let mut head = format!("{BOLD}{:>TIME$}{BOLD:#}  ", "time");
        for client in 0..clients {
            let style = style_of(client).bold();
            let last_digit = (client + 1) % 10;
            let _ = write!(head, "{style}{last_digit:<width$}{style:#}{gap}");
        }
        let (token, width) = ("token", self.token);
        print(format!(
            "{head} {BOLD}{token:>width$}{:>DURATION$}{:>DURATION$}{BOLD:#}",
            "waited", "held"
        ))
    }

    /// Prints an event, or keeps it until the line of the present hold is printed.
    pub(super) fn show(&mut self, event: &Event) -> io::Result<()> {
        let (at, client, number) = (event.at, event.client, event.client + 1);
        match &event.what {
            What::Waiting => self.set(client, Lane::Waits),
            What::Left => self.set(client, Lane::Elsewhere),
            &What::Granted { token, waited } => {
                self.finish()?;
                self.set(client, Lane::Holds);
                if let Some((paused, since)) = self.paused.take() {
                    let after = Human(at.saturating_duration_since(since));
                    let expired = format!("client {paused}: session expired after {after}");
                    self.note(at, STORY, format!("{expired}; next: client {number}"))?;
                }
                self.hold = Some(Hold {
                    row: self.row(at),
                    token,
                    waited,
                    granted: at,
                });
            }
            What::Released { ended, write } => {
                if let Some(hold) = self.hold.take() {
                    self.print_hold(client, &hold, *ended)?;
                }
                self.finish()?;
                self.set(client, Lane::Elsewhere);
                if let Some(text) = trouble_of(write) {
                    self.note(at, STORY, format!("client {number}: write {text}"))?;
                }
            }
            What::Paused { .. } => {
                let token = self.hold.take().map_or(0, |hold| hold.token);
                self.finish()?;
                self.paused = Some((number, at));
                self.set(client, Lane::Paused);
                let text = format!("client {number}, token {token}, is paused");
                self.note(at, STORY, text)?;
            }
            What::CutOff(link) => {
                let token = self.hold.take().map_or(0, |hold| hold.token);
                self.finish()?;
                self.paused = Some((number, at));
                self.set(client, Lane::CutOff);
                let text = format!("client {number}, token {token}, is cut off:");
                self.note(at, STORY, text)?;
                self.note(at, STORY, drawn(number, *link))?;
            }
            What::Healed => {
                self.note(at, STORY, "the link is whole again")?;
            }
            What::LeaseEnded => {
                self.note(at, STORY, format!("lease of client {number} has ended"))?;
            }
            What::Woken { valid } => {
                let wakes = match self.lanes.get(client) {
                    Some(Lane::Paused) => " wakes",
                    _ => "",
                };
                let text = format!("client {number}{wakes}: is_valid() = {valid}; it writes");
                self.note(at, STORY, text)?;
                self.set(client, Lane::Elsewhere);
            }
            What::WroteLate { value, write } => {
                let (style, text) = match (write, trouble_of(write)) {
                    (Write::Refused(why), _) => {
                        (GOOD, format!("server refuses counter = {value}: {why}"))
                    }
                    (_, Some(text)) => (BAD, text),
                    (_, None) => (BAD, format!("server accepts counter = {value}")),
                };
                self.note(at, style, text)?;
            }
            What::Failed(text) => {
                self.set(client, Lane::Elsewhere);
                self.note(at, STORY, format!("client {number}: {text}"))?;
            }
        }
        Ok(())
    }

    /// Ends the present hold, and prints the lines that have waited for it.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.hold = None;
        let lines = std::mem::take(&mut self.behind);
        lines.into_iter().try_for_each(print)
    }

    /// Prints the line of a hold that has ended.
    fn print_hold(&self, client: usize, hold: &Hold, ended: Instant) -> io::Result<()> {
        let length = ended.saturating_duration_since(hold.granted);
        let room = self.room() - self.token - 2 * DURATION - 2;
        let (bar, style) = (bar(length, room.min(BAR)), style_of(client));
        let (row, token, width) = (&hold.row, hold.token, self.token);
        let (waited, length) = (Human(hold.waited), Human(length));
        print(format!(
            "{row}{token:>width$}{FAINT}{waited:>DURATION$}{FAINT:#}{length:>DURATION$}  {style}{bar}{style:#}"
        ))
    }

    /// Prints text on as many lines as it needs, or keeps them until the line of the present hold is printed.
    fn note(&mut self, at: Instant, style: Style, text: impl Display) -> io::Result<()> {
        let mut row = self.row(at);
        for part in wrap(&text.to_string(), self.room()) {
            self.behind.push(format!("{row}{style}{part}{style:#}"));
            row = " ".repeat(self.width - self.room());
        }
        match self.hold {
            Some(_) => Ok(()),
            None => self.finish(),
        }
    }

    /// The beginning of a line: the time, and the activity of each client.
    fn row(&self, at: Instant) -> String {
        let time = at.saturating_duration_since(self.start).as_secs_f64();
        let mut row = format!("{FAINT}{time:>TIME$.3}{FAINT:#}  ");
        for (client, lane) in self.lanes.iter().enumerate() {
            row += &self.sign(*lane, client);
            row += self.lane.1;
        }
        row + " "
    }

    /// How many columns the beginning of a line leaves.
    fn room(&self) -> usize {
        let (width, gap) = self.lane;
        self.width - (TIME + 2 + self.lanes.len() * (width + gap.len()) + 1)
    }

    fn sign(&self, lane: Lane, client: usize) -> String {
        let (sign, style) = match lane {
            Lane::Holds => ("█", style_of(client)),
            Lane::Waits => ("░", FAINT),
            Lane::Elsewhere => ("·", FAINT),
            Lane::Paused => ("z", STORY.bold()),
            Lane::CutOff => ("╳", STORY.bold()),
        };
        format!("{style}{}{style:#}", sign.repeat(self.lane.0))
    }

    fn set(&mut self, client: usize, now: Lane) {
        if let Some(lane) = self.lanes.get_mut(client) {
            *lane = now;
        }
    }
}

/// A client, its server and the leader, with the cut.
fn drawn(client: usize, link: Link) -> String {
    let server = link.server;
    format!("client {client} ── server {server} ──╳── leader")
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

fn style_of(client: usize) -> Style {
    let colour = COLOURS.get(client % COLOURS.len());
    colour.map_or(Style::new(), |colour| colour.on_default())
}

/// A bar in eighths of a column. A full bar stands for the longest regular hold ([`HOLD_MS`]).
fn bar(held: Duration, room: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let held = usize::try_from(held.as_millis()).unwrap_or(usize::MAX);
    let eighths = (held.saturating_mul(room * 8) / usize::from(HOLD_MS.1)).min(room * 8);
    "█".repeat(eighths / 8) + EIGHTHS.get(eighths % 8).unwrap_or(&"")
}

/// Breaks a text at spaces into lines of at most `width` columns. Longer words are cut.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let word: String = word.chars().take(width).collect();
        match lines.last_mut() {
            Some(line) if line.is_empty() => *line = word,
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                *line += " ";
                *line += &word;
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// Prints a line. `anstream` removes the colours where they are not wanted.
pub(super) fn print(line: impl Display) -> io::Result<()> {
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
        for (clients, terminal) in [2, 8, 9, 24]
            .into_iter()
            .flat_map(|it| [(it, None), (it, Some(50))])
        {
            let screen = Screen::new(clients, Instant::now(), u64::MAX, terminal);
            let row = screen.row(Instant::now());
            let row = anstream::adapter::strip_str(&row).to_string();
            assert_eq!(row.chars().count() + screen.room(), screen.width);
            let used = screen.token + 2 * DURATION + 2;
            assert!(screen.room() >= used, "{clients}: {used}");
        }
        for clients in 2..=12 {
            assert_eq!(
                Screen::new(clients, Instant::now(), 1, Some(30)).width,
                NARROW
            );
        }
        assert_eq!(Screen::new(24, Instant::now(), 1, Some(300)).width, WIDTH);
    }

    #[test]
    fn text_is_broken_at_spaces() {
        assert_eq!(wrap("the lock is free", 8), ["the lock", "is free"]);
        assert_eq!(wrap("incomprehensible", 5), ["incom"]);
        assert_eq!(wrap("", 5), [""]);
    }
}
