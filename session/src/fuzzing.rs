//! What the fuzz targets call: any bytes in, a panic only when a promise is broken.

mod script;
mod story;

use crate::ConnectString;

/// Server lists: one that is read is printed as something that reads the same.
pub fn hosts(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    match text.parse::<ConnectString>() {
        Ok(servers) => assert_eq!(servers.to_string().parse(), Ok(servers)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The session machine: whatever network, server, clock and user do, every request is settled once and says truly
/// whether it was sent, every watch ends at most once, nothing spins, and nothing is left in the end.
pub fn machine(input: &[u8]) {
    let mut script = script::Script(input);
    let mut story = story::Story::begin(&mut script);
    story.tell(&mut script);
    story.end();
}
