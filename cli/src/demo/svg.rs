//! `demo --svg FILE`: the demo as a picture. A lane for each client, and time from left to right.
//!
//! Pure: it takes the list of events, and returns the text of the file. Not here: whether the lock kept its promises (`audit`).

use std::time::Instant;

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

/// What a client did for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    Waited,
    Held {
        token: u64,
    },
    /// It was granted the lock with this token.
    Paused {
        token: u64,
    },
    /// The same.
    CutOff {
        token: u64,
    },
}

impl Did {
    fn class(self) -> &'static str {
        match self {
            Self::Waited => "waits",
            Self::Held { .. } => "holds",
            Self::Paused { .. } => "paused",
            Self::CutOff { .. } => "cut",
        }
    }

    fn words(self) -> String {
        match self {
            Self::Waited => "waits for the lock".to_owned(),
            Self::Held { token } => format!("holds the lock with token {token}"),
            Self::Paused { token } => format!("is paused with token {token}"),
            Self::CutOff { token } => format!("is cut off with token {token}"),
        }
    }
}

/// A bar.
#[derive(Clone, Copy, Debug)]
struct Span {
    client: usize,
    did: Did,
    from: Instant,
    to: Instant,
}

/// A line across the lane of a client, with words.
struct Mark {
    client: usize,
    at: Instant,
    class: &'static str,
    words: String,
}

/// The link between a server and its leader, and when it was cut and mended.
#[derive(Clone, Copy, Debug)]
struct Severed {
    link: Link,
    cut: Instant,
    healed: Option<Instant>,
}

impl Severed {
    fn of(events: &[Event]) -> Option<Self> {
        let (link, cut) = events.iter().find_map(|event| match event.what {
            What::CutOff(link) => Some((link, event.at)),
            _ => None,
        })?;
        let healed = events
            .iter()
            .find(|event| matches!(event.what, What::Healed));
        let healed = healed.map(|event| event.at);
        Some(Self { link, cut, healed })
    }

    /// A lane of its own: the link is a line, which is broken as long as it is cut.
    fn drawn(self, x: impl Fn(Instant) -> f64, top: f64) -> [String; 5] {
        let Link { server, leader } = self.link;
        let (from, to) = (x(self.cut), self.healed.map_or(WIDTH - RIGHT, &x));
        let (y, end) = (top + BAR / 2.0, WIDTH - RIGHT);
        let line = |class, from: f64, to: f64| {
            format!(
                "<line class=\"{class}\" x1=\"{from:.1}\" y1=\"{y:.1}\" x2=\"{to:.1}\" y2=\"{y:.1}\"/>"
            )
        };
        let (middle, words) = (from.midpoint(to), y - 5.0);
        [
            format!("<text x=\"16\" y=\"{:.1}\">link</text>", y + 4.0),
            line("link", LEFT, from),
            line("severed", from, to),
            line("link", to, end),
            format!(
                "<text class=\"bad\" text-anchor=\"middle\" x=\"{middle:.1}\" y=\"{words:.1}\">\
                 server {server} is cut from its leader, server {leader}</text>"
            ),
        ]
    }
}

/// The text of the picture.
pub(super) fn picture(events: &[Event], clients: usize, start: Instant) -> String {
    let (spans, marks) = drawn(events, clients);
    let severed = Severed::of(events);
    let ends = spans.iter().map(|span| span.to);
    let end = ends
        .chain(marks.iter().map(|mark| mark.at))
        .max()
        .unwrap_or(start);
    let whole = end
        .saturating_duration_since(start)
        .as_secs_f64()
        .max(0.001);
    let x = |at: Instant| {
        let part = at.saturating_duration_since(start).as_secs_f64() / whole;
        LEFT + part * (WIDTH - LEFT - RIGHT)
    };
    // At most 24 lanes: the number is exact.
    let lane = |client: usize| TOP + LANE * f64::from(u8::try_from(client).unwrap_or(u8::MAX));
    let height = lane(clients + usize::from(severed.is_some())) + BOTTOM;
    let mut lines = vec![
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\">"
        ),
        STYLE.to_owned(),
        format!("<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>"),
        format!(
            "<text class=\"title\" x=\"{LEFT}\" y=\"24\">{clients} clients and one lock</text>"
        ),
    ];
    lines.extend(legend(severed.is_some()));
    for client in 0..clients {
        let (y, number) = (lane(client), client + 1);
        let (middle, end) = (y + BAR / 2.0 + 4.0, WIDTH - RIGHT);
        lines.push(format!(
            "<text x=\"16\" y=\"{middle:.1}\">client {number}</text>"
        ));
        let y = y + BAR / 2.0;
        lines.push(format!(
            "<line class=\"lane\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{end}\" y2=\"{y:.1}\"/>"
        ));
    }
    for span in &spans {
        let (from, to, y) = (x(span.from), x(span.to), lane(span.client));
        let (width, class) = ((to - from).max(0.5), span.did.class());
        let (number, words) = (span.client + 1, span.did.words());
        let seconds = span.to.saturating_duration_since(span.from).as_secs_f64();
        lines.push(format!(
            "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\">\
             <title>client {number} {words} for {seconds:.3} s</title></rect>"
        ));
        if let Did::Held { token } | Did::Paused { token } | Did::CutOff { token } = span.did {
            let token = token.to_string();
            let needs = DIGIT * f64::from(u8::try_from(token.len()).unwrap_or(u8::MAX));
            let y = y + BAR / 2.0 + 4.0;
            if needs < width {
                lines.push(format!(
                    "<text class=\"token\" x=\"{:.1}\" y=\"{y:.1}\">{token}</text>",
                    from + 3.0
                ));
            }
        }
    }
    for Mark {
        client,
        at,
        class,
        words,
    } in &marks
    {
        let (x, y) = (x(*at), lane(*client));
        let (above, below) = (y - 3.0, y + BAR + 3.0);
        // The words stand on the side that has more room.
        let (anchor, text) = if x > WIDTH / 2.0 {
            ("end", x - 4.0)
        } else {
            ("start", x + 4.0)
        };
        lines.push(format!("<line class=\"{class}\" x1=\"{x:.1}\" y1=\"{above:.1}\" x2=\"{x:.1}\" y2=\"{below:.1}\"/>"));
        lines.push(format!("<text class=\"{class}\" text-anchor=\"{anchor}\" x=\"{text:.1}\" y=\"{:.1}\">{words}</text>", y + BAR + 11.0));
    }
    if let Some(severed) = severed {
        lines.extend(severed.drawn(x, lane(clients)));
    }
    let y = height - 12.0;
    for quarter in 0..=4 {
        let seconds = whole * f64::from(quarter) / 4.0;
        let x = LEFT + (WIDTH - LEFT - RIGHT) * f64::from(quarter) / 4.0;
        let anchor = if quarter == 4 { "end" } else { "start" };
        lines.push(format!("<text class=\"time\" text-anchor=\"{anchor}\" x=\"{x:.1}\" y=\"{y:.1}\">{seconds:.2} s</text>"));
    }
    lines.push("</svg>".to_owned());
    lines.join("\n") + "\n"
}

/// The bars and the marks of the events.
fn drawn(events: &[Event], clients: usize) -> (Vec<Span>, Vec<Mark>) {
    let (mut spans, mut marks) = (Vec::new(), Vec::new());
    let mut open: Vec<Option<(Did, Instant)>> = vec![None; clients];
    for event in events {
        let (at, client) = (event.at, event.client);
        let mut mark = |at, class, words: &str| {
            let words = words.to_owned();
            marks.push(Mark {
                client,
                at,
                class,
                words,
            });
        };
        let (end, next) = match &event.what {
            What::Waiting => (at, Some(Did::Waited)),
            &What::Granted { token, .. } => (at, Some(Did::Held { token })),
            What::Released { ended, .. } => (*ended, None),
            What::Paused { lease_until } => {
                mark(*lease_until, "lease", "the lease ends");
                let token = token_of(open.get(client));
                (at, Some(Did::Paused { token }))
            }
            What::CutOff(_) => {
                let token = token_of(open.get(client));
                (at, Some(Did::CutOff { token }))
            }
            What::LeaseEnded => {
                // A paused client has the mark already.
                if let Some(Some((Did::CutOff { .. }, _))) = open.get(client) {
                    mark(at, "lease", "the lease ends");
                }
                continue;
            }
            What::WroteLate {
                write: Write::Refused(_),
                ..
            } => {
                mark(at, "good", "late write refused");
                continue;
            }
            What::WroteLate { write, .. } => {
                let words = if *write == Write::Done {
                    "late write accepted"
                } else {
                    "late write without an answer"
                };
                mark(at, "bad", words);
                continue;
            }
            What::Healed => continue,
            What::Woken { .. } | What::Failed(_) | What::Left => (at, None),
        };
        let Some(present) = open.get_mut(client) else {
            continue;
        };
        if let Some((did, from)) = present.take() {
            spans.push(Span {
                client,
                did,
                from,
                to: end.max(from),
            });
        }
        *present = next.map(|did| (did, at));
    }
    (spans, marks)
}

/// The token of a client that holds the lock.
fn token_of(present: Option<&Option<(Did, Instant)>>) -> u64 {
    match present {
        Some(Some((Did::Held { token }, _))) => *token,
        _ => 0,
    }
}

fn legend(is_cut: bool) -> impl Iterator<Item = String> {
    let signs = [
        ("holds", "holds, with its token"),
        ("waits", "waits"),
        if is_cut {
            ("cut", "is cut off")
        } else {
            ("paused", "is paused")
        },
    ];
    (0_u8..).zip(signs).map(|(index, (class, words))| {
        let x = LEFT + 190.0 * f64::from(index);
        let text = x + 22.0;
        format!("<rect class=\"{class}\" x=\"{x}\" y=\"36\" width=\"16\" height=\"12\"/><text x=\"{text}\" y=\"46\">{words}</text>")
    })
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
        let refused = Write::Refused("gone".to_owned());
        let events = [
            (0, 0, What::Waiting),
            (
                1,
                0,
                What::Granted {
                    token: 7,
                    waited: Duration::ZERO,
                },
            ),
            (2, 1, What::Waiting),
            (
                40,
                0,
                What::Paused {
                    lease_until: at(60),
                },
            ),
            (
                90,
                1,
                What::Granted {
                    token: 8,
                    waited: Duration::ZERO,
                },
            ),
            (95, 0, What::Woken { valid: false }),
            (
                99,
                1,
                What::Released {
                    ended: at(98),
                    write: Write::Done,
                },
            ),
            (
                100,
                0,
                What::WroteLate {
                    value: 2,
                    write: refused,
                },
            ),
        ];
        let events = events.map(|(ms, client, what)| Event {
            at: at(ms),
            client,
            what,
        });
        let picture = picture(&events, 2, start);
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
