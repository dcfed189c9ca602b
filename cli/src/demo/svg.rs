//! `demo --svg FILE`: the demo as a picture. A lane for each client, and time from left to right.
//!
//! Pure: it takes the list of events, and returns the text of the file. Not here: whether the lock kept its promises (`audit`).

use std::{fmt::Display, time::Instant};

use super::events::{Event, Link, What, Write};

/// The width of the picture, and of what is left of the lanes, in pixels.
const WIDTH: f64 = 1000.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 20.0;
/// The height of what is above the lanes, of a lane, and of its bar.
const TOP: f64 = 64.0;
const LANE: f64 = 34.0;
const BAR: f64 = 18.0;
/// The height of what is below the lanes: the times.
const BOTTOM: f64 = 34.0;
/// A token is written into a bar that has this much room for each of its digits.
const DIGIT: f64 = 7.0;

/// A picture while it is drawn.
struct Picture {
    lines: Vec<String>,
    start: Instant,
    seconds: f64,
}

impl Picture {
    fn x(&self, at: Instant) -> f64 {
        let part = at.saturating_duration_since(self.start).as_secs_f64() / self.seconds;
        LEFT + part * (WIDTH - LEFT - RIGHT)
    }

    fn text(&mut self, class: &str, anchor: &str, [x, y]: [f64; 2], words: impl Display) {
        self.lines.push(format!(
            "<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{words}</text>"
        ));
    }

    fn line(&mut self, class: &str, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) {
        self.lines.push(format!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        ));
    }

    fn bar(&mut self, class: &str, [x, y]: [f64; 2], width: f64, words: &str) {
        self.lines.push(format!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\"><title>{words}</title></rect>"
        ));
    }

    /// What a client did for a time, with the token of its lock.
    fn span(&mut self, client: usize, (did, token, from): Did, to: Instant) {
        let (x, y) = (self.x(from), lane(client));
        let width = (self.x(to.max(from)) - x).max(0.5);
        let (number, token) = (client + 1, token.to_string());
        let seconds = to.saturating_duration_since(from).as_secs_f64();
        let words = match did {
            "waits" => "waits for the lock".to_owned(),
            "holds" => format!("holds the lock with token {token}"),
            "paused" => format!("is paused with token {token}"),
            _ => format!("is cut off with token {token}"),
        };
        self.bar(
            did,
            [x, y],
            width,
            &format!("client {number} {words} for {seconds:.3} s"),
        );
        if did != "waits" && token.chars().map(|_| DIGIT).sum::<f64>() < width {
            self.text("token", "start", [x + 3.0, y + BAR / 2.0 + 4.0], token);
        }
    }

    /// A line across the lane of a client, with words on the side that has more room.
    fn mark(&mut self, client: usize, at: Instant, class: &str, words: &str) {
        let (x, y) = (self.x(at), lane(client));
        let (anchor, text) = if x > WIDTH / 2.0 {
            ("end", x - 4.0)
        } else {
            ("start", x + 4.0)
        };
        self.line(class, [x, y - 3.0], [x, y + BAR + 3.0]);
        self.text(class, anchor, [text, y + BAR + 11.0], words);
    }

    /// A lane of its own: the link is a line, which is broken as long as it is cut.
    fn link(&mut self, Link { server, leader }: Link, events: &[Event], top: f64) {
        let (mut from, mut to) = (WIDTH - RIGHT, WIDTH - RIGHT);
        for event in events {
            match event.what {
                What::Trouble { .. } => from = self.x(event.at),
                What::Healed => to = self.x(event.at),
                _ => {}
            }
        }
        let y = top + BAR / 2.0;
        self.text("", "start", [16.0, y + 4.0], "link");
        self.line("link", [LEFT, y], [from, y]);
        self.line("severed", [from, y], [to, y]);
        self.line("link", [to, y], [WIDTH - RIGHT, y]);
        let [server, leader] = [server.0 + 1, leader.0 + 1];
        let words = format!("server {server} is cut from its leader, server {leader}");
        self.text("bad", "middle", [from.midpoint(to), y - 5.0], words);
    }
}

/// What a client does, the token of its lock, and since when.
type Did = (&'static str, u64, Instant);

/// The top of a lane. There are at most 25: the number is exact.
fn lane(client: usize) -> f64 {
    TOP + LANE * f64::from(u8::try_from(client).unwrap_or(u8::MAX))
}

/// The text of the picture.
pub(super) fn picture(
    events: &[Event],
    clients: usize,
    start: Instant,
    link: Option<Link>,
) -> String {
    let end = events.iter().map(|event| event.at).max().unwrap_or(start);
    let seconds = end
        .saturating_duration_since(start)
        .as_secs_f64()
        .max(0.001);
    let height = lane(clients + usize::from(link.is_some())) + BOTTOM;
    let size = format!("width=\"{WIDTH}\" height=\"{height}\"");
    let mut picture = Picture {
        lines: vec![
            format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" {size} viewBox=\"0 0 {WIDTH} {height}\">"
            ),
            STYLE.to_owned(),
            format!("<rect class=\"paper\" {size}/>"),
        ],
        start,
        seconds,
    };
    picture.text(
        "title",
        "start",
        [LEFT, 24.0],
        format_args!("{clients} clients and one lock"),
    );
    let trouble = if link.is_some() {
        ("cut", "is cut off")
    } else {
        ("paused", "is paused")
    };
    let signs = [
        ("holds", "holds, with its token"),
        ("waits", "waits"),
        trouble,
    ];
    for ((class, words), x) in signs.into_iter().zip([LEFT, LEFT + 190.0, LEFT + 380.0]) {
        picture.bar(class, [x, 32.0], 16.0, words);
        picture.text("", "start", [x + 22.0, 46.0], words);
    }
    for client in 0..clients {
        let y = lane(client) + BAR / 2.0;
        picture.text(
            "",
            "start",
            [16.0, y + 4.0],
            format_args!("client {}", client + 1),
        );
        picture.line("lane", [LEFT, y], [WIDTH - RIGHT, y]);
    }
    draw(&mut picture, events, clients);
    if let Some(link) = link {
        picture.link(link, events, lane(clients));
    }
    for quarter in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let x = LEFT + (WIDTH - LEFT - RIGHT) * quarter;
        let anchor = if quarter < 1.0 { "start" } else { "end" };
        let words = format!("{:.2} s", seconds * quarter);
        picture.text("time", anchor, [x, height - 12.0], words);
    }
    picture.lines.join("\n") + "\n</svg>\n"
}

/// Draws the bars of the events, and over them the marks.
fn draw(picture: &mut Picture, events: &[Event], clients: usize) {
    let mut marks = Vec::new();
    let mut open: Vec<Option<Did>> = vec![None; clients];
    for &Event {
        at,
        client,
        ref what,
    } in events
    {
        let Some(did) = open.get_mut(client) else {
            continue;
        };
        let token = did.map_or(0, |(_, token, _)| token);
        let (end, next) = match what {
            What::Waiting => (at, Some(("waits", 0, at))),
            &What::Granted { token, .. } => (at, Some(("holds", token, at))),
            What::Released { ended, .. } => (*ended, None),
            What::Trouble {
                lease_until: Some(_),
            } => (at, Some(("paused", token, at))),
            What::Trouble { lease_until: None } => (at, Some(("cut", token, at))),
            What::LeaseEnded => {
                marks.push((client, at, "lease", "the lease ends"));
                continue;
            }
            What::WroteLate { write, .. } => {
                marks.push(match write {
                    Write::Refused => (client, at, "good", "late write refused"),
                    Write::Done => (client, at, "bad", "late write accepted"),
                    _ => (client, at, "bad", "late write without an answer"),
                });
                continue;
            }
            What::Healed => continue,
            What::Woken { .. } | What::Failed(_) | What::Left => (at, None),
        };
        if let Some(did) = std::mem::replace(did, next) {
            picture.span(client, did, end);
        }
    }
    for (client, at, class, words) in marks {
        picture.mark(client, at, class, words);
    }
}

const STYLE: &str = "<style>
text { font: 12px sans-serif; fill: #333 }
.title { font-weight: bold; font-size: 15px }
.paper { fill: #fff }
.lane { stroke: #ddd }
.holds { fill: #2a7ab0 }
.waits { fill: #d5dde3 }
.paused, .cut { fill: #f0b429 }
.link { stroke: #1b7f3b; stroke-width: 2 }
.severed { stroke: #c0231c; stroke-width: 2; stroke-dasharray: 4 6 }
.token { fill: #fff; font-size: 11px }
.time { fill: #777 }
line.lease, line.good, line.bad { stroke-width: 2 }
line.lease { stroke: #b4690e } text.lease { fill: #b4690e; font-size: 11px }
line.good { stroke: #1b7f3b } text.good { fill: #1b7f3b; font-size: 11px }
line.bad { stroke: #c0231c } text.bad { fill: #c0231c; font-size: 11px }
</style>";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_client_has_a_bar_for_each_time_and_a_mark_for_each_event_of_the_story() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let waited = Duration::ZERO;
        let released = What::Released {
            ended: at(98),
            write: Write::Done,
        };
        let late = What::WroteLate {
            value: 2,
            write: Write::Refused,
        };
        let events = [
            (0, 0, What::Waiting),
            (1, 0, What::Granted { token: 7, waited }),
            (2, 1, What::Waiting),
            (
                40,
                0,
                What::Trouble {
                    lease_until: Some(at(60)),
                },
            ),
            (60, 0, What::LeaseEnded),
            (90, 1, What::Granted { token: 8, waited }),
            (95, 0, What::Woken { valid: false }),
            (99, 1, released),
            (100, 0, late),
        ];
        let events = events.map(|(ms, client, what)| Event {
            at: at(ms),
            client,
            what,
        });
        let picture = picture(&events, 2, start, None);
        let count = |text: &str| picture.matches(text).count();
        assert_eq!([count("<title>client 1"), count("<title>client 2")], [3, 2]);
        assert_eq!([count(">7</text>"), count(">8</text>")], [2, 1]);
        assert!(picture.contains("client 1 is paused with token 7 for 0.055 s"));
        // The paused client's lease ends at 60 of 100 ms.
        let lease = LEFT + 0.6 * (WIDTH - LEFT - RIGHT);
        assert!(picture.contains(&format!("<line class=\"lease\" x1=\"{lease:.1}\"")));
        assert_eq!([count("late write refused"), count("accepted")], [1, 0]);
        assert_eq!(
            [count("<text"), count("<rect")],
            [
                count("</text>"),
                count("/>") + count("</rect>") - count("<line")
            ]
        );
    }
}
