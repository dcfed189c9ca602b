//! The client's side of SASL DIGEST-MD5, as ZooKeeper's servers use it with JAAS's
//! `DigestLoginModule`.
//!
//! The mechanism is old (RFC 2831, made historic by RFC 6331). But it is the only password
//! mechanism that every server from 3.4 on supports. The password is not sent, and the server must
//! prove that it knows the password too. An attacker who can read the traffic can test passwords
//! against it. An attacker who can change the traffic can change everything after the exchange. So
//! use it inside TLS on networks that you do not control.
//!
//! Not here: integrity and privacy layers (`auth-int`, `auth-conf`), which ZooKeeper does not use,
//! and subsequent authentication with an old nonce.

use std::{
    fmt::{self, Write as _},
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use bytes::Bytes;
use md5::{Digest as _, Md5};

use crate::{
    AuthFailure,
    machine::sasl::{Authenticator, Exchange, Step},
};

/// The service name of ZooKeeper's servers. Source: `SaslServerPrincipal`, `zk-sasl-md5`.
const DIGEST_URI: &str = "zookeeper/zk-sasl-md5";
/// The limit for a challenge: it must be shorter. Source: RFC 2831, 2.1.1.
const LONGEST_CHALLENGE: usize = 2048;
/// The nonce count: each exchange is the first one with its nonce.
const NONCE_COUNT: &str = "00000001";

/// User and password for SASL DIGEST-MD5, see [`Builder::sasl`](crate::Builder::sasl).
///
/// The mechanism is old, but the only one with a password that all servers support. The password is
/// not sent, and the server must prove that it knows the password too. Use it inside TLS on
/// networks that you do not control. The value takes its randomness from the system when it is
/// made.
///
/// ```no_run
/// # mod lockkeeper { pub use lockkeeper_session::Client; pub mod client { pub use lockkeeper_session::DigestMd5; } }
/// use lockkeeper::{Client, client::DigestMd5};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::builder("zk1:2181")?
///     .sasl(DigestMd5::new("alice", "open sesame"))
///     .connect()
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct DigestMd5(Arc<Credentials>);

struct Credentials {
    user: Arc<str>,
    password: Box<str>,
}

impl DigestMd5 {
    /// Sets the user and the password.
    #[must_use]
    pub fn new(user: &str, password: &str) -> Self {
        Self(Arc::new(Credentials {
            user: user.into(),
            password: password.into(),
        }))
    }

    /// Returns 128 bits that no server can predict and no other exchange repeats: their key comes
    /// from the system's randomness.
    fn nonce() -> String {
        let source = RandomState::new();
        format!("{:016x}{:016x}", source.hash_one(0), source.hash_one(1))
    }

    fn conversation(&self, uri: &'static str, cnonce: String) -> Conversation {
        Conversation {
            credentials: self.0.clone(),
            uri,
            cnonce,
            rspauth: None,
        }
    }
}

/// Leaves out the password.
impl fmt::Debug for DigestMd5 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DigestMd5")
            .field("user", &self.0.user)
            .finish_non_exhaustive()
    }
}

impl Authenticator for DigestMd5 {
    fn user(&self) -> &str {
        &self.0.user
    }

    fn begin(&self) -> Box<dyn Exchange> {
        Box::new(self.conversation(DIGEST_URI, Self::nonce()))
    }
}

/// One exchange: the client's empty token, the challenge, the response, the server's proof.
struct Conversation {
    credentials: Arc<Credentials>,
    uri: &'static str,
    cnonce: String,
    /// The proof that the server must send. Set when the response is sent.
    rspauth: Option<String>,
}

impl Exchange for Conversation {
    fn first(&mut self) -> Bytes {
        Bytes::new()
    }

    fn answer(&mut self, token: &[u8]) -> Result<Step, AuthFailure> {
        match self.rspauth.take() {
            None => self.respond(token).map(Step::Send),
            Some(proof) if directives(token)?.any(|said| said == ("rspauth", proof.clone())) => {
                Ok(Step::Done)
            }
            Some(_) => Err(AuthFailure::ServerNotProven),
        }
    }
}

impl Conversation {
    /// Makes the response to a challenge. Source: RFC 2831, 2.1.2.
    fn respond(&mut self, challenge: &[u8]) -> Result<Bytes, AuthFailure> {
        let challenge = Challenge::read(challenge)?;
        let Credentials { user, password, .. } = &*self.credentials;
        if !challenge.utf8 && (latin1(user).is_none() || latin1(password).is_none()) {
            return Err(bad("it accepts only ISO 8859-1"));
        }
        let realm = challenge.realm.as_deref().unwrap_or_default();
        let secret = [user, realm, password].map(hashed).join(&b':');
        let session_key = Md5::new()
            .chain_update(Md5::digest(secret))
            .chain_update(format!(":{}:{}", challenge.nonce, self.cnonce))
            .finalize();
        let proof = |who: &str| {
            let what = Md5::digest(format!("{who}:{}", self.uri));
            let (nonce, cnonce) = (&challenge.nonce, &self.cnonce);
            let proof = format!("{session_key:x}:{nonce}:{NONCE_COUNT}:{cnonce}:auth:{what:x}");
            format!("{:x}", Md5::digest(proof))
        };
        let (ours, theirs) = (proof("AUTHENTICATE"), proof(""));

        let mut response = String::new();
        if challenge.utf8 {
            response.push_str("charset=utf-8,");
        }
        let _ = write!(response, "username={}", quoted(user));
        if let Some(realm) = &challenge.realm {
            let _ = write!(response, ",realm={}", quoted(realm));
        }
        let _ = write!(
            response,
            ",nonce={},nc={NONCE_COUNT},cnonce={},digest-uri={},response={ours},qop=auth",
            quoted(&challenge.nonce),
            quoted(&self.cnonce),
            quoted(self.uri),
        );
        self.rspauth = Some(theirs);
        let response = match latin1(&response) {
            Some(latin1) if !challenge.utf8 => latin1,
            _ => response.into_bytes(),
        };
        Ok(response.into())
    }
}

/// The parts of the server's challenge that the client uses.
struct Challenge {
    realm: Option<String>,
    nonce: String,
    utf8: bool,
}

impl Challenge {
    fn read(token: &[u8]) -> Result<Self, AuthFailure> {
        let (mut realm, mut nonce, mut utf8, mut sess) = (None, None, false, false);
        let mut auth = None;
        for (name, value) in directives(token)? {
            match name {
                // The first of several realms, like Java's client.
                "realm" if realm.is_none() => realm = Some(value),
                "nonce" if nonce.is_some() => return Err(bad("two nonces")),
                "nonce" => nonce = Some(value),
                "charset" => utf8 = value.eq_ignore_ascii_case("utf-8"),
                "algorithm" => sess = value == "md5-sess",
                "qop" => auth = Some(value.split(',').any(|qop| qop.trim() == "auth")),
                _ => {}
            }
        }
        if auth == Some(false) {
            return Err(bad("it offers no plain authentication"));
        }
        if !sess {
            return Err(bad("its algorithm is not md5-sess"));
        }
        let nonce = nonce.ok_or_else(|| bad("it has no nonce"))?;
        Ok(Self { realm, nonce, utf8 })
    }
}

fn bad(what: &'static str) -> AuthFailure {
    AuthFailure::BadChallenge(what)
}

/// Parses the directives of a token: `name=value` or `name="value"`, separated by commas. Source:
/// RFC 2831, 7.1.
fn directives(token: &[u8]) -> Result<impl Iterator<Item = (&str, String)>, AuthFailure> {
    if token.len() >= LONGEST_CHALLENGE {
        return Err(bad("it is too long"));
    }
    let text = std::str::from_utf8(token).map_err(|_| bad("it is not UTF-8"))?;
    let mut found = Vec::new();
    let mut rest = skip(text);
    while !rest.is_empty() {
        let (name, after) = rest
            .split_once('=')
            .ok_or_else(|| bad("a directive has no value"))?;
        let (value, after) = take_value(after.trim_start())?;
        found.push((name.trim(), value));
        rest = after.trim_start();
        if !rest.is_empty() && !rest.starts_with(',') {
            return Err(bad("directives are not separated"));
        }
        rest = skip(rest);
    }
    Ok(found.into_iter())
}

/// Skips blanks and commas.
fn skip(text: &str) -> &str {
    text.trim_start_matches(|c: char| c == ',' || c.is_ascii_whitespace())
}

/// Parses a value; returns it and the rest of the text.
fn take_value(text: &str) -> Result<(String, &str), AuthFailure> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text
            .find([',', ' ', '\t', '\r', '\n'])
            .unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        return Ok((value.to_owned(), rest));
    };
    let mut value = String::new();
    let mut chars = quoted.chars();
    loop {
        match chars.next() {
            Some('"') => return Ok((value, chars.as_str())),
            Some('\\') => value.extend(chars.next()),
            Some(other) => value.push(other),
            None => return Err(bad("a quoted value does not end")),
        }
    }
}

/// Puts a value in quotation marks.
fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', r"\\").replace('"', r#"\""#);
    format!("\"{escaped}\"")
}

/// Encodes text for hashing: in ISO 8859-1 if it has all of the characters, else in UTF-8. Source:
/// RFC 2831, 2.1.2.1, and `DigestMD5Base.java`, `stringToByte_8859_1`.
fn hashed(text: &str) -> Vec<u8> {
    latin1(text).unwrap_or_else(|| text.as_bytes().to_vec())
}

/// Encodes text in ISO 8859-1, which has the first 256 characters. `None` if the text has others.
fn latin1(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|c| u8::try_from(c).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exchange of RFC 2831, section 4: user `chris`, password `secret`.
    fn of_rfc(uri: &'static str, cnonce: &str) -> Conversation {
        DigestMd5::new("chris", "secret").conversation(uri, cnonce.to_owned())
    }

    fn sent(step: Result<Step, AuthFailure>) -> String {
        match step {
            Ok(Step::Send(token)) => String::from_utf8(token.to_vec()).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn responses_match_the_examples_of_the_rfc() {
        let mut imap = of_rfc("imap/elwood.innosoft.com", "OA6MHXh6VqTrRk");
        assert_eq!(imap.first(), Bytes::new());
        let response = sent(imap.answer(
            br#"realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8"#,
        ));
        assert_eq!(
            response,
            r#"charset=utf-8,username="chris",realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",nc=00000001,cnonce="OA6MHXh6VqTrRk",digest-uri="imap/elwood.innosoft.com",response=d388dad90d4bbd760a152321f2143af7,qop=auth"#
        );
        let proof = imap.answer(b"rspauth=ea40f60335c427b5527b84dbabcdfffd");
        assert_eq!(proof, Ok(Step::Done));

        let mut acap = of_rfc("acap/elwood.innosoft.com", "OA9BSuZWMSpW8m");
        let response = sent(acap.answer(
            br#"realm="elwood.innosoft.com",nonce="OA9BSXrbuRhWay",qop="auth",algorithm=md5-sess,charset=utf-8"#,
        ));
        assert!(response.contains("response=6084c6db3fede7352c551284490fd0fc"));
        let proof = acap.answer(b"rspauth=2f0b3d7c3c2e486600ef710726aa2eae");
        assert_eq!(proof, Ok(Step::Done));
    }

    #[test]
    fn a_server_that_does_not_know_the_password_is_refused() {
        for proof in [
            "rspauth=ea40f60335c427b5527b84dbabcdfffe",
            "rspauth=",
            "hello=you",
            "",
        ] {
            let mut imap = of_rfc("imap/elwood.innosoft.com", "OA6MHXh6VqTrRk");
            sent(imap.answer(br#"nonce="OA6MG9tEQGm2hh",algorithm=md5-sess"#));
            let outcome = imap.answer(proof.as_bytes());
            assert_eq!(outcome, Err(AuthFailure::ServerNotProven), "{proof}");
        }
    }

    #[test]
    fn a_challenge_that_breaks_the_rules_is_refused() {
        let long = format!("nonce=\"{}\",algorithm=md5-sess", "n".repeat(2048));
        for (challenge, why) in [
            ("", "its algorithm is not md5-sess"),
            ("algorithm=md5-sess", "it has no nonce"),
            ("nonce=a,nonce=b,algorithm=md5-sess", "two nonces"),
            ("nonce=a,algorithm=md5", "its algorithm is not md5-sess"),
            (
                "nonce=a,algorithm=md5-sess,qop=\"auth-conf\"",
                "it offers no plain authentication",
            ),
            ("nonce=\"a", "a quoted value does not end"),
            ("nonce=\"a\\", "a quoted value does not end"),
            ("nonce=\"a\"b", "directives are not separated"),
            ("nonce", "a directive has no value"),
            (&long, "it is too long"),
        ] {
            let mut exchange = of_rfc("a/b", "c");
            let outcome = exchange.answer(challenge.as_bytes());
            assert_eq!(outcome, Err(AuthFailure::BadChallenge(why)), "{challenge}");
        }
        let outcome = of_rfc("a/b", "c").answer(b"nonce=\"\xff\"");
        assert_eq!(outcome, Err(AuthFailure::BadChallenge("it is not UTF-8")));
    }

    #[test]
    fn values_are_quoted_and_the_first_realm_is_taken() {
        let user = DigestMd5::new(r#"a"b\c"#, "x");
        let response = sent(user.conversation("a/b", "c".to_owned()).answer(
            br#" realm="one" , realm="two",nonce="n\"n",, algorithm=md5-sess ,qop="auth-int, auth""#,
        ));
        assert!(
            response.starts_with(r#"username="a\"b\\c",realm="one",nonce="n\"n","#),
            "{response}"
        );
    }

    /// RFC 2831, 2.1.2.1: text that fits ISO 8859-1 is hashed in it, whatever charset is sent.
    #[test]
    fn names_beyond_ascii_are_sent_in_the_charset_of_the_challenge() {
        let answer = |user: &str, challenge: &str| {
            let exchange = DigestMd5::new(user, "x");
            let mut exchange = exchange.conversation("a/b", "c".to_owned());
            exchange.answer(challenge.as_bytes())
        };
        let utf8 = "nonce=n,algorithm=md5-sess,charset=utf-8";
        let plain = "nonce=n,algorithm=md5-sess";
        assert!(sent(answer("\u{fc}", utf8)).contains("username=\"\u{fc}\""));
        match answer("\u{fc}", plain) {
            Ok(Step::Send(token)) => assert!(token.starts_with(b"username=\"\xfc\"")),
            other => panic!("{other:?}"),
        }
        assert!(sent(answer("\u{43f}", utf8)).contains("username=\"\u{43f}\""));
        let refused = AuthFailure::BadChallenge("it accepts only ISO 8859-1");
        assert_eq!(answer("\u{43f}", plain), Err(refused));
    }

    proptest::proptest! {
        #[test]
        fn no_challenge_panics(challenge in r#"(realm=|nonce=|qop=|algorithm=|charset=|md5-sess|[", =\\]|\PC){0,30}"#) {
            let mut exchange = of_rfc("a/b", "c");
            let _ = exchange.answer(challenge.as_bytes());
            let _ = exchange.answer(challenge.as_bytes());
        }
    }

    #[test]
    fn nonces_never_repeat() {
        let mut nonces = [(); 4].map(|()| DigestMd5::nonce()).to_vec();
        assert!(nonces.iter().all(|nonce| nonce.len() == 32));
        nonces.sort();
        nonces.dedup();
        assert_eq!(nonces.len(), 4);
    }

    #[test]
    fn the_password_is_not_printed() {
        let user = DigestMd5::new("alice", "hunter2");
        let text = format!(
            "{user:?} {:?}",
            sent(user.begin().answer(b"nonce=n,algorithm=md5-sess"))
        );
        assert!(
            text.starts_with("DigestMd5 { user: \"alice\", .. }") && !text.contains("hunter2"),
            "{text}"
        );
    }
}
