//! Inputs that proptest makes, as the fuzz targets get them: arbitrary ones, and damaged ones of
//! the corpora.

use std::{fs, path::Path};

use bytes::BytesMut;
use lockkeeper_fuzz_checks::{frames, machine, paths, ranks, records, server};
use lockkeeper_proto::frame;
use proptest::{collection::vec, prelude::*, sample::Index};

proptest! {
    #[test]
    fn arbitrary_bytes_break_no_promise(input in vec(any::<u8>(), 0..300)) {
        records(&input);
        frames(&input);
        paths(&input);
    }

    #[test]
    fn arbitrary_text_breaks_no_promise_of_paths(text in "[/.a-cé🔒\u{0}\u{9f}\u{e000}]{0,20}") {
        paths(text.as_bytes());
    }

    #[test]
    fn no_chunking_of_a_stream_breaks_a_promise(
        size: u8,
        messages in vec(vec(any::<u8>(), 0..40), 0..8),
        rest in vec(any::<u8>(), 0..8),
    ) {
        let mut stream = BytesMut::from(&[size][..]);
        for message in messages {
            frame::append(&mut stream, |writer| writer.put_slice(&message)).unwrap();
        }
        stream.extend_from_slice(&rest);
        frames(&stream);
    }

    #[test]
    fn listings_of_contenders_break_no_promise(
        names in vec((0..7_u8, any::<u8>(), "[a-c]?"), 0..12),
    ) {
        let mut listing = Vec::new();
        for (marker, number, who) in names {
            listing.extend([b'!', marker, number]);
            listing.extend(who.as_bytes());
            listing.push(b'\n');
        }
        ranks(&listing);
    }

    #[test]
    fn no_script_breaks_a_promise_of_the_machine(script in vec(any::<u8>(), 0..600)) {
        machine(&script);
    }

    #[test]
    fn no_script_breaks_a_promise_of_the_server(script in vec(any::<u8>(), 0..300)) {
        server(&script);
    }
}

/// Most damaged messages decode past their first fields. Arbitrary bytes seldom do.
#[test]
fn damaged_messages_break_no_promise() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/records");
    let mut messages: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|file| fs::read(file.unwrap().path()).unwrap())
        .filter(|message| !message.is_empty())
        .collect();
    messages.sort();
    let damage = vec((any::<Index>(), any::<u8>()), 1..4);
    proptest!(|(message in any::<Index>(), damage in damage)| {
        let mut bytes = message.get(&messages).clone();
        for (index, value) in damage {
            let at = index.index(bytes.len());
            bytes[at] = value;
        }
        records(&bytes);
    });
}
