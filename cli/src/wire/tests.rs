//! Properties of captures: no bytes make them fail, and the order in which segments come does not matter.

use std::{fs, net::SocketAddr, path::Path};

use proptest::{collection::vec, prelude::*, sample::Index};

use super::{
    Side,
    conversation::Conversation,
    pcap::{Capture, Flags, Segment},
    streams::{Heard, Streams},
};

/// Reads a capture to its end, or to where it is damaged. Returns the number of messages.
fn read(bytes: &[u8]) -> usize {
    let Some((magic, rest)) = bytes.split_first_chunk() else {
        return 0;
    };
    let Ok(mut capture) = Capture::open(*magic, rest) else {
        return 0;
    };
    let mut streams = Streams::new(2181);
    let mut messages = 0;
    while let Ok(Some((_, segment))) = capture.next() {
        messages += segment.map_or(0, |segment| streams.take(&segment).len());
    }
    messages + streams.end().len()
}

/// The captures of the tests.
fn captures() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures");
    let files = fs::read_dir(folder).unwrap();
    let files = files.map(|file| fs::read(file.unwrap().path()).unwrap());
    files.collect()
}

/// A side of a stream in pieces: where each begins and ends. They come in any order, some of them twice, and overlap.
fn pieces(length: usize) -> impl Strategy<Value = Vec<(usize, usize)>> {
    let cuts = vec(0..=length, 0..25);
    let more = vec((0..=length, 0..=length), 0..8);
    let all = (cuts, more).prop_map(move |(mut cuts, more)| {
        cuts.extend([0, length]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|pair| (pair[0], pair[1]));
        let more = more
            .into_iter()
            .map(|(one, other)| (one.min(other), one.max(other)));
        pieces.chain(more).collect::<Vec<_>>()
    });
    all.prop_shuffle()
}

/// Both sides of a recording: a handshake, and some requests with their replies.
fn recorded() -> [Vec<u8>; 2] {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto/tests/golden/getData_watch.3.8.0.hex");
    let text = fs::read_to_string(file).unwrap();
    ["C>", "S>"].map(|mark| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(mark));
        let bytes = lines.map(|hex| crate::text::bytes(hex.trim()).unwrap());
        bytes.flatten().collect()
    })
}

/// A connection whose segments are taken one after another.
struct Wire {
    streams: Streams,
    messages: Vec<String>,
    /// How many bytes the messages have.
    shown: usize,
    first: [u32; 2],
}

impl Wire {
    fn new(first: [u32; 2]) -> Self {
        let mut wire = Self {
            streams: Streams::new(2181),
            messages: Vec::new(),
            shown: 0,
            first,
        };
        wire.send(Side::Client, Flags::SYN, None, &[]);
        wire.send(Side::Server, Flags(Flags::SYN.0 | Flags::ACK.0), None, &[]);
        wire
    }

    /// Sends data from this place of the stream on; without one, it is the place of the SYN.
    fn send(&mut self, side: Side, flags: Flags, at: Option<usize>, data: &[u8]) {
        let client = SocketAddr::from(([127, 0, 0, 1], 40_000));
        let server = SocketAddr::from(([127, 0, 0, 1], 2181));
        let (from, to) = match side {
            Side::Client => (client, server),
            Side::Server => (server, client),
        };
        let distance = at.map_or(0, |at| u32::try_from(at + 1).unwrap());
        let segment = Segment {
            from,
            to,
            sequence: self.first[side as usize].wrapping_add(distance),
            flags,
            data,
        };
        let heard = self.streams.take(&segment);
        self.note(&heard);
    }

    fn end(&mut self) -> Vec<String> {
        let heard = self.streams.end();
        self.note(&heard);
        std::mem::take(&mut self.messages)
    }

    fn note(&mut self, heard: &[Heard]) {
        for Heard { message, .. } in heard {
            self.shown += message.bytes.len();
            self.messages.push(format!("{message:?}"));
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_capture_fail(bytes in vec(any::<u8>(), 0..2000), link in 0_u32..300, swap: bool) {
        read(&bytes);
        // The same behind a header that is right.
        let header = [0xa1b2_c3d4, 0x0002_0004, 0, 0, 65_535, link];
        let header = header.map(|it| if swap { it.to_le_bytes() } else { it.to_be_bytes() });
        read(&[&header.concat(), &*bytes].concat());
    }

    #[test]
    fn no_damage_makes_a_capture_fail(
        which: Index,
        damages in vec((any::<Index>(), any::<u8>()), 1..20),
        end: Index,
    ) {
        let captures = captures();
        let mut bytes = which.get(&captures).clone();
        for (at, byte) in damages {
            let length = bytes.len();
            bytes[at.index(length)] = byte;
        }
        bytes.truncate(end.index(bytes.len()) + 1);
        read(&bytes);
    }

    /// Sequence numbers wrap around in the middle of a stream, too.
    #[test]
    fn the_order_of_segments_does_not_matter(
        (client, server) in { let [client, server] = recorded(); (pieces(client.len()), pieces(server.len())) },
        first in [prop_oneof![any::<u32>(), u32::MAX - 200..], prop_oneof![any::<u32>(), u32::MAX - 200..]],
        fin_is_early: bool,
    ) {
        let sides = recorded();
        let mut conversation = Conversation::default();
        let mut expected = conversation.hear(Side::Client, &sides[0]);
        expected.extend(conversation.hear(Side::Server, &sides[1]));
        expected.extend(conversation.end());
        let expected: Vec<_> = expected.iter().map(|message| format!("{message:?}")).collect();

        let mut wire = Wire::new(first);
        for (side, pieces) in [(Side::Client, client), (Side::Server, server)] {
            let bytes = &sides[side as usize];
            let fin = |wire: &mut Wire| wire.send(side, Flags::FIN, Some(bytes.len()), &[]);
            if fin_is_early {
                fin(&mut wire);
            }
            for (start, end) in pieces {
                wire.send(side, Flags::ACK, Some(start), &bytes[start..end]);
            }
            fin(&mut wire);
        }
        // What comes again after the end is no new connection.
        wire.send(Side::Client, Flags::ACK, Some(0), &sides[0]);
        prop_assert_eq!(wire.end(), expected);
    }

    #[test]
    fn a_hole_is_told_and_all_else_is_shown_once(start: Index, length in 1_usize..60, first: u32) {
        let [client, _] = recorded();
        let start = start.index(client.len());
        let end = (start + length).min(client.len());
        let mut wire = Wire::new([first, 0]);
        for (at, piece) in [(0, &client[..start]), (end, &client[end..])] {
            for (number, byte) in piece.iter().enumerate() {
                wire.send(Side::Client, Flags::ACK, Some(at + number), &[*byte]);
            }
        }
        let told = wire.end().concat();
        let hole = format!("{} bytes are missing here", end - start);
        prop_assert_eq!(told.matches(&hole).count(), usize::from(end < client.len()), "{}", told);
        prop_assert_eq!(wire.shown, client.len() - (end - start), "{}", told);
    }
}

#[test]
fn the_captures_of_the_tests_have_messages() {
    assert!(captures().iter().all(|bytes| read(bytes) > 10));
}

/// A capture that begins in the middle shows requests, and takes the first one for no handshake.
#[test]
fn a_connection_without_its_begin_is_decoded_from_a_message_on() {
    let [client, _] = recorded();
    let mut wire = Wire {
        streams: Streams::new(2181),
        messages: Vec::new(),
        shown: 0,
        first: [7, 7],
    };
    wire.send(Side::Client, Flags::ACK, Some(49), &client[49..]);
    let messages = wire.end();
    assert!(messages[0].contains("what: \"getData\""), "{messages:?}");
}

/// Each of many connections waits for a byte that never comes.
#[test]
fn what_is_kept_of_a_hostile_capture_has_a_bound() {
    let mut streams = Streams::new(2181);
    // The begin of a message of a MiB.
    let data = [&[0, 16, 0, 0][..], &vec![0; 60_000]].concat();
    let mut messages = 0;
    for number in 0..6000_u32 {
        let from = SocketAddr::from((number.to_be_bytes(), 40_000));
        let to = SocketAddr::from(([127, 0, 0, 1], 2181));
        for (sequence, flags) in [(0, Flags::SYN), (2, Flags::ACK)] {
            let data = if flags == Flags::SYN { &[] } else { &*data };
            let segment = Segment {
                from,
                to,
                sequence,
                flags,
                data,
            };
            messages += streams.take(&segment).len();
        }
        let (connections, held) = streams.size();
        assert!(
            connections <= 4096 && held <= (64 << 20),
            "{connections}, {held}"
        );
    }
    assert!(messages > 0);
}
