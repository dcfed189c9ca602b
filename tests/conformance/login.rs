//! `login USER PASSWORD [swap=OLD/NEW]`: a whole SASL DIGEST-MD5 exchange over a connection, with
//! the client's own code.
//!
//! `swap` replaces one text in the client's response by another. Not here: requests with a single
//! token. The script writes them like any other request (`sasl TOKEN`).

use bytes::{Bytes, BytesMut};
use lockkeeper::{
    client::{
        DigestMd5,
        sasl::{Authenticator, Step},
    },
    proto::{Request, Zxid, records::SaslRequest},
};

use super::{
    connection::{Connection, open},
    names::Names,
    request::Outgoing,
    words::Words,
};

/// Logs in and returns the outcome as a script shows it.
pub(crate) async fn login(connection: &mut Connection, line: &str, names: &Names) -> String {
    let mut words = Words::new(line, names);
    let (user, password) = (words.text(), words.text());
    let swap = words.option_bytes("swap", None);
    words.end();

    let mut exchange = DigestMd5::new(&user, &password).begin();
    let challenge = match send(connection, exchange.first()).await {
        Ok(challenge) => challenge,
        Err(refusal) => return refusal,
    };
    let Ok(Step::Send(response)) = exchange.answer(&challenge) else {
        panic!("no response to {challenge:?}");
    };
    let response = match swap {
        None => response,
        Some(swap) => {
            let swap = str::from_utf8(&swap).expect("UTF-8");
            let (old, new) = swap.split_once('/').expect("OLD/NEW");
            let text = str::from_utf8(&response).expect("UTF-8");
            assert_eq!(text.matches(old).count(), 1, "{old} in {text}");
            text.replace(old, new).into()
        }
    };
    match send(connection, response).await {
        Ok(proof) => match exchange.answer(&proof) {
            Ok(Step::Done) => "ok proved".to_owned(),
            _ => panic!("the server's last token is no proof: {proof:?}"),
        },
        Err(refusal) => refusal,
    }
}

/// Sends a token. Returns the server's token, or the name of the error.
async fn send(connection: &mut Connection, token: Bytes) -> Result<Bytes, String> {
    let request = Request::Sasl(SaslRequest { token: Some(token) });
    let (xid, mut frame) = (connection.next_xid(), BytesMut::new());
    Outgoing::of(&request).frame(xid, &mut frame);
    connection.output.unsplit(frame);
    connection.flush().await;
    let (header, body) = open(connection.next().await.expect("a reply"));
    assert_eq!((header.xid, header.zxid), (xid, Zxid::ZERO));
    let (length, token) = body.split_at(4);
    if header.err.is_ok() {
        assert_eq!(length, i32::try_from(token.len()).unwrap().to_be_bytes());
        Ok(body.slice(4..))
    } else {
        assert_eq!((length, token), (&[0xff; 4][..], &[][..]), "a null token");
        Err(header.err.name().unwrap_or("?").to_owned())
    }
}
