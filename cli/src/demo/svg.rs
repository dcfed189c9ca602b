//! `demo --svg FILE`: the demo as a picture. A lane for each client, and time from left to right.
//!
//! Pure: it takes the list of events, and returns the text of the file. Not here: whether the lock kept its promises (`audit`).

use std::{fmt::Display, time::Instant};

use super::events::{Event, What, Write};

/// The width of the picture, and where the lanes begin and end, in pixels.
const WIDTH: f64 = 1000.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 980.0;
/// The height of what is above the lanes, of a lane, of its bar, and of what is below the lanes.
const TOP: f64 = 64.0;
const LANE: f64 = 34.0;
const BAR: f64 = 18.0;
const BOTTOM: f64 = 34.0;
/// A token is written into a bar that has this much room for each of its digits.
const DIGIT: f64 = 7.0;

fn tag(name: &str, class: &str, at: &[(&str, f64)], content: impl Display) -> String {
    let at = at
        .iter()
        .map(|(name, value)| format!(" {name}=\"{value:.1}\""));
    let at: String = at.collect();
    format!("<{name} class=\"{class}\"{at}>{content}</{name}>")
}

fn text(class: &str, x: f64, y: f64, words: impl Display) -> String {
    tag("text", class, &[("x", x), ("y", y)], words)
}

fn line(class: &str, [x1, x2]: [f64; 2], [y1, y2]: [f64; 2]) -> String {
    tag(
        "line",
        class,
        &[("x1", x1), ("y1", y1), ("x2", x2), ("y2", y2)],
        "",
    )
}

fn bar(class: &str, x: f64, y: f64, width: f64, words: &str) -> String {
    let at = [("x", x), ("y", y), ("width", width), ("height", BAR)];
    tag("rect", class, &at, format_args!("<title>{words}</title>"))
}

/// The middle of a lane. There are at most 8: the number is exact.
fn middle(lane: usize) -> f64 {
    TOP + LANE * f64::from(u8::try_from(lane).unwrap_or(u8::MAX)) + BAR / 2.0
}

/// The text of the picture.
pub(super) fn picture(events: &[Event], clients: usize, start: Instant) -> String {
    let since = |at: Instant| at.saturating_duration_since(start).as_secs_f64();
    let end = events
        .iter()
        .map(|event| since(event.at))
        .fold(0.001, f64::max);
    let x = |at: Instant| LEFT + since(at) / end * (RIGHT - LEFT);
    let height = middle(clients) - BAR / 2.0 + BOTTOM;
    let mut lines = vec![
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\">"
        ),
        STYLE.to_owned(),
        tag("rect", "paper", &[("width", WIDTH), ("height", height)], ""),
        text(
            "title",
            LEFT,
            24.0,
            format_args!("{clients} clients and one lock"),
        ),
    ];
    let signs = [
        ("holds", "holds, with its token"),
        ("waits", "waits"),
        ("paused", "is paused"),
    ];
    for ((class, words), x) in signs.into_iter().zip([LEFT, LEFT + 190.0, LEFT + 380.0]) {
        lines.push(bar(class, x, 32.0, 16.0, words));
        lines.push(text("", x + 22.0, 46.0, words));
    }
    for client in 0..clients {
        let y = middle(client);
        lines.push(text(
            "",
            16.0,
            y + 4.0,
            format_args!("client {}", client + 1),
        ));
        lines.push(line("lane", [LEFT, RIGHT], [y, y]));
    }
    lines.extend(drawn(events, clients, &x));
    for part in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let class = if part < 1.0 { "time" } else { "time end" };
        let words = format!("{:.2} s", end * part);
        lines.push(text(
            class,
            LEFT + (RIGHT - LEFT) * part,
            height - 12.0,
            words,
        ));
    }
    lines.join("\n") + "\n</svg>\n"
}

/// The bars of the events, and over them lines across the lanes, with words on the side that has more room.
fn drawn(events: &[Event], clients: usize, x: &impl Fn(Instant) -> f64) -> Vec<String> {
    let (mut lines, mut marks) = (Vec::new(), Vec::new());
    let mut doing = vec![("", 0, None); clients];
    for &Event {
        at,
        client,
        ref what,
    } in events
    {
        let Some(did) = doing.get_mut(client) else {
            continue;
        };
        let (y, number) = (middle(client), client + 1);
        let mut mark = |class, words: &str| {
            let (end, gap) = if x(at) > WIDTH / 2.0 {
                (" end", -4.0)
            } else {
                ("", 4.0)
            };
            marks.push(line(class, [x(at), x(at)], [y - 12.0, y + 12.0]));
            marks.push(text(&format!("{class}{end}"), x(at) + gap, y + 20.0, words));
        };
        let (class, token, from) = *did;
        let mut end = at;
        *did = match what {
            What::Waiting => ("waits", 0, Some(at)),
            &What::Granted(token, _) => ("holds", token, Some(at)),
            What::Paused(_) => ("paused", token, Some(at)),
            What::Released(ended, _) => {
                end = *ended;
                ("", 0, None)
            }
            What::Failed(_) | What::Left => ("", 0, None),
            What::LeaseEnded => {
                mark("lease", "the lease ends");
                continue;
            }
            What::WroteLate(_, _, write) => {
                match write {
                    Write::Refused => mark("good", "late write refused"),
                    Write::Done => mark("bad", "late write accepted"),
                    _ => mark("bad", "late write without an answer"),
                }
                ("", 0, None)
            }
        };
        let Some(from) = from else {
            continue;
        };
        let (seconds, width) = ((end - from).as_secs_f64(), (x(end) - x(from)).max(0.5));
        let words = match class {
            "waits" => "waits for the lock".to_owned(),
            "holds" => format!("holds the lock with token {token}"),
            _ => format!("is paused with token {token}"),
        };
        let words = format!("client {number} {words} for {seconds:.3} s");
        lines.push(bar(class, x(from), y - BAR / 2.0, width, &words));
        let token = token.to_string();
        if class != "waits" && token.chars().map(|_| DIGIT).sum::<f64>() < width {
            lines.push(text("token", x(from) + 3.0, y + 4.0, token));
        }
    }
    lines.append(&mut marks);
    lines
}

const STYLE: &str = "<style>
text { font: 12px sans-serif; fill: #333 }
.title { font-weight: bold; font-size: 15px }
.paper { fill: #fff }
.lane { stroke: #ddd }
.holds { fill: #2a7ab0 }
.waits { fill: #d5dde3 }
.paused { fill: #f0b429 }
.token { fill: #fff; font-size: 11px }
.time { fill: #777 }
.end { text-anchor: end }
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
        let events = [
            (0, 0, What::Waiting),
            (1, 0, What::Granted(7, waited)),
            (2, 1, What::Waiting),
            (40, 0, What::Paused(at(60))),
            (60, 0, What::LeaseEnded),
            (90, 1, What::Granted(8, waited)),
            (95, 0, What::WroteLate(false, 2, Write::Refused)),
            (100, 1, What::Released(at(98), Write::Done)),
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
        let lease = LEFT + 0.6 * (RIGHT - LEFT);
        assert!(picture.contains(&format!("<line class=\"lease\" x1=\"{lease:.1}\"")));
        assert_eq!([count("late write refused"), count("accepted")], [1, 0]);
        assert_eq!(
            [count("<text"), count("<rect")],
            [count("</text>"), count("</rect>")]
        );
    }
}
