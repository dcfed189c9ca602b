//! The output of the demo: a column for each client, a line for each hold, and the summary.
//!
//! Invariants: lines are only added, never changed, so the output is the same on a terminal and in a file. They have at most 80
//! columns. `anstream` removes the colours in files and pipes, and
//! when `NO_COLOR` is set.

use std::{
    io::{self, Write as _},
    time::{Duration, Instant},
};

use anstyle::{
    AnsiColor::{self, BrightBlue, Cyan, Green, Magenta, Red, White, Yellow},
    Style,
};

use super::{
    audit::Audit,
    contender::HOLD_MS,
    events::{Event, What, Write},
    setup::Setup,
};
use crate::duration::Human;

const FAINT: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();
const STORY: Style = Yellow.on_default();
const GOOD: Style = Green.on_default().bold();
const BAD: Style = Red.on_default().bold();
/// The colours of the clients, in turn.
const COLOURS: [AnsiColor; 5] = [Cyan, Magenta, Green, BrightBlue, White];

/// The most columns of a line. Every character that the demo prints is one column wide.
const WIDTH: usize = 80;
/// Columns of the time, `1234.567`; of a duration, with a space before it; of the longest bar; of the name of a number.
const TIME: usize = 8;
const DURATION: usize = 9;
const BAR: usize = 24;
const NAME: usize = 10;
/// Columns of a client, and of the gap behind it.
const LANE: usize = 2;
const GAP: usize = 1;

/// Prints the events.
#[derive(Debug)]
pub(super) struct Screen {
    start: Instant,
    /// The sign of what each client does.
    lanes: Vec<char>,
    /// Columns of a token, with a space before it.
    token: usize,
    /// The number of the paused client, counted from 1, and the start of that.
    paused: Option<(usize, Instant)>,
    /// The token of the present hold, the wait before it, and its start.
    hold: (u64, Duration, Instant),
}

impl Screen {
    pub(super) fn new(clients: usize, start: Instant, first_token: u64) -> Self {
        Self {
            start,
            lanes: vec!['·'; clients],
            // Two more columns, because tokens grow.
            token: (first_token.to_string().len() + 2).max(7),
            paused: None,
            hold: (0, Duration::ZERO, start),
        }
    }

    /// Prints the heading: what the demo does, and what the signs mean.
    pub(super) fn head(&self, seconds: u32, setup: &Setup) -> io::Result<()> {
        let (clients, timeout) = (self.lanes.len(), Human(setup.session_timeout));
        print(&format!(
            "{BOLD}{clients} clients contend for one lock for {seconds} s{BOLD:#}"
        ))?;
        let place = format!("on {}, session timeout {timeout}", setup.place);
        print(&wrap(&place, WIDTH).join("\n"))?;
        print("each holder adds 1 to a counter on the server; one holder will be paused")?;
        let [holds, waits, rests, paused] = ['█', '░', '·', 'z'].map(|sign| lane(sign, 0));
        print(&format!(
            "\n{holds} holds the lock   {waits} waits for it   {rests} does something else   {paused} is paused\n"
        ))?;
        let token = self.token;
        let client = |client: usize| {
            let style = style_of(client).bold();
            format!("{style}{:<LANE$}{style:#}{:GAP$}", client + 1, "")
        };
        let columns: String = (0..clients).map(client).collect();
        let numbers = format!(
            "{:>token$}{:>DURATION$}{:>DURATION$}",
            "token", "waited", "held"
        );
        print(&format!(
            "{BOLD}{:>TIME$}{BOLD:#}  {columns} {BOLD}{numbers}{BOLD:#}",
            "time"
        ))
    }

    /// Prints an event.
    pub(super) fn show(&mut self, event: &Event) -> io::Result<()> {
        let (at, client, number) = (event.at, event.client, event.client + 1);
        let (sign, style, text) = match &event.what {
            What::Waiting => ('░', FAINT, String::new()),
            What::Left => ('·', FAINT, String::new()),
            &What::Granted(token, waited) => {
                self.hold = (token, waited, at);
                let next = |(before, since)| {
                    let after = Human(at.saturating_duration_since(since));
                    format!("client {before}: session expired after {after}; next: client {number}")
                };
                let text = self.paused.take().map(next);
                ('█', STORY, text.unwrap_or_default())
            }
            What::Released(ended, write) => {
                self.print_hold(client, *ended)?;
                let text = match write {
                    Write::Done => String::new(),
                    write => format!("client {number}: write {write}"),
                };
                ('·', STORY, text)
            }
            What::Paused(_) => {
                self.paused = Some((number, at));
                let token = self.hold.0;
                let text = format!("client {number}, token {token}, is paused");
                ('z', STORY, text)
            }
            What::LeaseEnded => (
                self.lanes[client],
                STORY,
                format!("lease of client {number} has ended"),
            ),
            What::WroteLate(valid, value, write) => {
                let text = format!("client {number} wakes: is_valid() = {valid}; it writes");
                self.note(client, at, self.lanes[client], STORY, &text)?;
                match write {
                    Write::Done => ('·', BAD, format!("server accepts counter = {value}")),
                    Write::Refused => (
                        '·',
                        GOOD,
                        format!("server refuses counter = {value}: lock node gone"),
                    ),
                    write => ('·', BAD, write.to_string()),
                }
            }
            What::Failed(text) => ('·', STORY, format!("client {number}: {text}")),
        };
        self.note(client, at, sign, style, &text)
    }

    /// Prints the numbers, and whether the lock kept its promises. `complete` says that every promise was tested.
    pub(super) fn summary(
        &self,
        audit: &Audit,
        complete: bool,
        broken: &[String],
    ) -> io::Result<()> {
        print("")?;
        for (name, text) in audit.numbers(self.start.elapsed()) {
            // The columns of the numbers stay, if the line fits.
            let fits = NAME + text.chars().count() <= WIDTH;
            let lines = if fits {
                vec![text]
            } else {
                wrap(&text, WIDTH - NAME)
            };
            let text = lines.join(&format!("\n{:NAME$}", ""));
            print(&format!("{BOLD}{name:<NAME$}{BOLD:#}{text}"))?;
        }
        print("")?;
        for promise in broken {
            print(&format!("{BAD}BROKEN{BAD:#}: {promise}"))?;
        }
        if !broken.is_empty() {
            return Ok(());
        }
        let late = if complete {
            ", and the late write was refused"
        } else {
            ""
        };
        let kept = wrap(
            &format!("OK: no two clients held the lock at once{late}"),
            WIDTH,
        );
        print(
            &kept
                .join("\n")
                .replacen("OK", &format!("{GOOD}OK{GOOD:#}"), 1),
        )
    }

    /// Prints the line of a hold that has ended.
    fn print_hold(&self, client: usize, ended: Instant) -> io::Result<()> {
        let ((token, waited, granted), width) = (self.hold, self.token);
        let length = ended.saturating_duration_since(granted);
        let room = self.room() - width - 2 * DURATION - 2;
        let (bar, style) = (bar(length, room.min(BAR)), style_of(client));
        let (row, waited, length) = (self.row(ended), Human(waited), Human(length));
        print(&format!(
            "{row}{token:>width$}{FAINT}{waited:>DURATION$}{FAINT:#}{length:>DURATION$}  {style}{bar}{style:#}"
        ))
    }

    /// Prints text on as many lines as it needs.
    fn note(
        &mut self,
        client: usize,
        at: Instant,
        sign: char,
        style: Style,
        text: &str,
    ) -> io::Result<()> {
        self.lanes[client] = sign;
        if text.is_empty() {
            return Ok(());
        }
        let between = format!("\n{}", " ".repeat(WIDTH - self.room()));
        let text = wrap(text, self.room()).join(&between);
        print(&format!("{}{style}{text}{style:#}", self.row(at)))
    }

    /// The beginning of a line: the time, and the activity of each client.
    fn row(&self, at: Instant) -> String {
        let time = at.saturating_duration_since(self.start).as_secs_f64();
        let lanes = self.lanes.iter().enumerate();
        let lanes = lanes.map(|(client, sign)| lane(*sign, client) + &" ".repeat(GAP));
        format!(
            "{FAINT}{time:>TIME$.3}{FAINT:#}  {} ",
            lanes.collect::<String>()
        )
    }

    /// How many columns the beginning of a line leaves.
    fn room(&self) -> usize {
        WIDTH - (TIME + 2 + self.lanes.len() * (LANE + GAP) + 1)
    }
}

/// What a client does.
fn lane(sign: char, client: usize) -> String {
    let style = match sign {
        '█' => style_of(client),
        '░' | '·' => FAINT,
        _ => STORY.bold(),
    };
    format!("{style}{}{style:#}", sign.to_string().repeat(LANE))
}

fn style_of(client: usize) -> Style {
    COLOURS[client % COLOURS.len()].on_default()
}

/// A bar in eighths of a column. A full bar stands for the longest regular hold ([`HOLD_MS`]).
fn bar(held: Duration, room: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let held = usize::try_from(held.as_millis()).unwrap_or(usize::MAX);
    let eighths = (held.saturating_mul(room * 8) / usize::from(HOLD_MS.1)).min(room * 8);
    "█".repeat(eighths / 8) + EIGHTHS.get(eighths % 8).unwrap_or(&"")
}

/// Breaks a text at spaces into lines of at most `width` columns. Longer words are cut.
fn wrap(text: &str, width: usize) -> Vec<String> {
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
fn print(line: &str) -> io::Result<()> {
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
        for clients in 2..=8 {
            let screen = Screen::new(clients, Instant::now(), u64::MAX);
            let row = screen.row(Instant::now());
            let row = anstream::adapter::strip_str(&row).to_string();
            assert_eq!(row.chars().count() + screen.room(), WIDTH);
            let used = screen.token + 2 * DURATION + 2;
            assert!(screen.room() >= used, "{clients}: {used}");
        }
    }

    #[test]
    fn text_is_broken_at_spaces() {
        assert_eq!(wrap("the lock is free", 8), ["the lock", "is free"]);
        assert_eq!(wrap("incomprehensible", 5), ["incom"]);
        assert_eq!(wrap("", 5), [""]);
    }
}
