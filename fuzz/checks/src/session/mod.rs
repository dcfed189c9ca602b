//! The targets `hosts` and `machine`: any bytes as a list of servers, and as the story of a
//! session.

mod script;
mod story;

use lockkeeper_session::ConnectString;

use crate::script::Script;

/// Server lists: a list that was parsed prints as a list that parses to the same value.
pub fn hosts(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    match text.parse::<ConnectString>() {
        Ok(servers) => assert_eq!(servers.to_string().parse(), Ok(servers)),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// The session machine, with a network, a server, a clock and a user that do anything.
///
/// It checks that
/// - every request is settled once, and its error says correctly whether it was sent;
/// - every watch ends at most once;
/// - the machine does not spin;
/// - no request, watch or lease is left at the end.
pub fn machine(input: &[u8]) {
    let mut script = Script(input);
    let mut story = story::Story::begin(&mut script);
    story.tell(&mut script);
    story.end();
}
