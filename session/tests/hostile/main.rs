//! Servers that break the rules, over real TCP: which error the caller gets, and that the next
//! connection works again.
//!
//! | file | what the server does |
//! |---|---|
//! | `handshakes` | does not listen, is no ZooKeeper, or answers the handshake with nonsense |
//! | `replies` | answers requests with nonsense |
//! | `events` | sends unknown or unreadable events |
//! | `probation` | closes the connection |
//! | `silence` | sends nothing, or sends very slowly |
//! | `size` | sends very much |
//! | `many` | is one of very many servers, and most of them are down |
//! | `read_only` | accepts no writes |
//! | `memory` | makes the client allocate memory, which the tests measure |
//! | `slowly` | the same bad bytes again: all at once, and one byte at a time |
//!
//! Each kind of bad server is tested twice. First only its first connection is bad: the client must
//! then work again with the same session. Then every connection is bad: the client must neither
//! reconnect in a loop nor hang.
//!
//! `server` is the scripted server.

mod events;
mod handshakes;
mod many;
mod memory;
mod probation;
mod read_only;
mod replies;
mod server;
mod silence;
mod size;
mod slowly;

use lockkeeper_test_support::waiting;
