//! `demo --svg FILE`: the demo as a picture. A lane for each client, and time from left to right.
//!
//! Pure: it takes what the clients did, and returns the text of the file.

use std::{fmt::Display, time::Instant};

use super::{
    audit::is_refused,
    story::{Does, Story},
};

/// The width of the picture, and where the lanes begin and end, in pixels.
const WIDTH: f64 = 1000.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 980.0;
/// The height of what is above the lanes, and of a lane.
const TOP: f64 = 64.0;
const LANE: f64 = 34.0;

fn text(class: &str, x: f64, y: f64, words: impl Display) -> String {
    format!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y}\">{words}</text>\n")
}

fn bar(class: &str, x: f64, y: f64, width: f64, title: &str) -> String {
    format!(
        "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"18\"><title>{title}</title></rect>\n"
    )
}

/// The text of the picture.
pub(super) fn picture(story: &Story) -> String {
    let since = |at: Instant| at.saturating_duration_since(story.start).as_secs_f64();
    let ends = story.spans.iter().map(|it| since(it.to));
    let end = ends.fold(0.001, f64::max);
    let x = |at: Instant| LEFT + since(at) / end * (RIGHT - LEFT);
    // There are at most 8 lanes: the number is exact.
    let top = |lane: usize| TOP + LANE * f64::from(u8::try_from(lane).unwrap_or(u8::MAX));
    let clients = story.now.len();
    let height = top(clients) + LANE;
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\">\n{STYLE}\n\
         <rect fill=\"#fff\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    );
    picture += &text(
        "title",
        LEFT,
        24.0,
        format!("{clients} clients and one lock"),
    );
    for (x, class, words) in [
        (LEFT, "holds", "holds, with its token"),
        (LEFT + 190.0, "waits", "waits"),
        (LEFT + 380.0, "paused", "is paused"),
    ] {
        picture += &bar(class, x, 32.0, 16.0, words);
        picture += &text("", x + 22.0, 46.0, words);
    }
    for client in 0..clients {
        picture += &text(
            "",
            16.0,
            top(client) + 13.0,
            format!("client {}", client + 1),
        );
    }
    let mut marks = String::new();
    for span in &story.spans {
        let (class, does) = match span.does {
            Does::Rest => continue,
            Does::Wait => ("waits", "waits for the lock"),
            Does::Hold => ("holds", "holds the lock"),
            Does::Pause | Does::PauseOn => ("paused", "is paused with the lock"),
        };
        let (from, to, y) = (x(span.from), x(span.to), top(span.client));
        let (number, seconds) = (span.client + 1, span.length().as_secs_f64());
        let title = format!("client {number} {does} for {seconds:.3} s");
        picture += &bar(class, from, y, (to - from).max(0.5), &title);
        let token = span.token.to_string();
        // A digit needs so much room.
        if class != "waits" && token.chars().map(|_| 7.0).sum::<f64>() < to - from {
            picture += &text("token", from + 3.0, y + 13.0, token);
        }
        let (class, words) = match (span.does, &story.late) {
            (Does::Pause, _) => ("lease", "the lease ends"),
            (Does::PauseOn, Some((_, wrote))) if is_refused(wrote) => {
                ("good", "late write refused")
            }
            (Does::PauseOn, _) => ("bad", "late write not refused"),
            _ => continue,
        };
        // There is room on the left, since no client is paused at the beginning.
        marks += &bar(class, to - 1.0, y, 2.0, words);
        marks += &text(&format!("{class} end"), to - 4.0, y + 29.0, words);
    }
    picture += &marks;
    for quarter in 0..=4 {
        let part = f64::from(quarter) / 4.0;
        let class = if quarter < 4 { "time" } else { "time end" };
        let words = format!("{:.2} s", end * part);
        picture += &text(class, LEFT + (RIGHT - LEFT) * part, height - 12.0, words);
    }
    picture + "</svg>\n"
}

const STYLE: &str = "<style>
text { font: 12px sans-serif }
.title { font-weight: bold; font-size: 15px }
.holds { fill: #2a7ab0 }
.waits { fill: #d5dde3 }
.paused { fill: #f0b429 }
.token { fill: #fff }
.time { fill: #777 }
.end { text-anchor: end }
.lease { fill: #b4690e }
.good { fill: #1b7f3b }
.bad { fill: #c0231c }
</style>";
