//! Abuse of four-letter words.

use std::time::Duration;

use lockkeeper_server::{Report, Server};

use super::{
    common::{Peer, Raw},
    is_served, takes_less_than, until,
};

/// Every word of the real server.
const WORDS: [&str; 17] = [
    "ruok", "isro", "srvr", "stat", "mntr", "cons", "dump", "wchs", "conf", "envi", "crst", "dirs",
    "gtmk", "hash", "srst", "wchc", "wchp",
];

#[tokio::test]
async fn every_word_gets_one_answer_and_a_close_even_byte_by_byte() {
    let server = Server::start().await.unwrap();
    let mut other = Peer::join(&server).await;
    for word in WORDS {
        let mut raw = Raw::connect(server.local_addr()).await;
        for byte in word.bytes() {
            raw.send(&[byte]).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let answer = raw.rest().await;
        assert!(!answer.is_empty(), "{word}");
        // The server reads nothing behind a word, not even a second word.
        let mut raw = Raw::connect(server.local_addr()).await;
        raw.send(format!("{word}ruok").as_bytes()).await;
        let answer = String::from_utf8(raw.rest().await).unwrap();
        assert!(
            word == "ruok" || !answer.contains("imok"),
            "{word}: {answer}"
        );
        is_served(&mut other).await;
    }
    until(&server, |report| report.connections == 1).await;
}

/// The length of each answer is in proportion to the number of connections. No client reads its
/// answer.
#[test]
fn unread_long_answers_take_bounded_memory() {
    const CONNECTIONS: u64 = 200;
    const ASKING: u64 = 50;
    let most = ASKING * (CONNECTIONS + ASKING) * 100 + (8 << 20);
    takes_less_than(most, "the long answers", || async {
        let server = Server::start().await.unwrap();
        let mut peer = Peer::join(&server).await;
        let mut idle = Vec::new();
        for _ in 0..CONNECTIONS {
            idle.push(Peer::join(&server).await);
        }
        let mut asking = Vec::new();
        for _ in 0..ASKING {
            let mut raw = Raw::connect(server.local_addr()).await;
            raw.send(b"cons").await;
            asking.push(raw);
        }
        is_served(&mut peer).await;
        let ended = |report: &Report| report.connections as u64 == CONNECTIONS + 1;
        until(&server, ended).await;
        drop((asking, idle));
    });
}
