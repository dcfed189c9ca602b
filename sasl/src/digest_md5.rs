//! DIGEST-MD5 (RFC 2831): historic (RFC 6331), but every ZooKeeper with JAAS's `DigestLoginModule`
//! has it.
//!
//! Not here: integrity and privacy layers (`auth-int`, `auth-conf`), which ZooKeeper does not use.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use lockkeeper_session::{
    AuthFailure, Endpoint,
    sasl::{Authenticator, Exchange, Step},
};
use md5::{Digest as _, Md5};

/// The service and the host that ZooKeeper's servers call themselves.
const DIGEST_URI: &str = "zookeeper/zk-sasl-md5";
/// A challenge must be shorter (RFC 2831, 2.1.1).
const LONGEST_CHALLENGE: usize = 2048;
/// The nonce count: each exchange is the first one with its nonce.
const NONCE_COUNT: &str = "00000001";
const SEPARATORS: [char; 5] = [',', ' ', '\t', '\r', '\n'];
const ONLY_LATIN1: AuthFailure = AuthFailure::BadChallenge("it accepts only ISO 8859-1");

/// Logs in with a user and a password, by DIGEST-MD5 with `qop=auth`.
///
/// The password is not sent, and the server must prove that it knows the password too. But an
/// attacker who reads the traffic can test passwords against it, and one who changes the traffic
/// can change what comes after the login. So use it inside TLS.
///
/// ```no_run
/// # mod lockkeeper {
/// #     pub use lockkeeper_session::Client;
/// #     pub mod client { pub use lockkeeper_sasl as sasl; }
/// # }
/// use lockkeeper::{Client, client::sasl::DigestMd5};
///
/// # async fn run(password: &str) -> Result<(), Box<dyn std::error::Error>> {
/// let builder = Client::builder("zk1:2181,zk2:2181")?;
/// let client = builder.sasl(DigestMd5::new("alice", password)).connect().await?;
/// # Ok(()) }
/// ```
pub struct DigestMd5 {
    login: Arc<Login>,
    /// The system's randomness: no server can predict the nonces that are made with it.
    random: RandomState,
    exchanges: AtomicU64,
}

struct Login {
    user: String,
    password: String,
}

impl DigestMd5 {
    /// A user that the servers' JAAS configuration names, and the password.
    #[must_use]
    pub fn new(user: &str, password: &str) -> Self {
        let (user, password) = (user.to_owned(), password.to_owned());
        Self {
            login: Arc::new(Login { user, password }),
            random: RandomState::new(),
            exchanges: AtomicU64::new(0),
        }
    }

    fn conversation(&self, uri: &'static str, cnonce: String) -> Conversation {
        Conversation {
            login: self.login.clone(),
            uri,
            cnonce,
            proof: None,
        }
    }
}

/// Leaves out the password.
impl fmt::Debug for DigestMd5 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("DigestMd5");
        shown
            .field("user", &self.login.user)
            .finish_non_exhaustive()
    }
}

impl Authenticator for DigestMd5 {
    fn user(&self) -> &str {
        &self.login.user
    }

    fn begin(&self, _: &Endpoint) -> Box<dyn Exchange> {
        let number = self.exchanges.fetch_add(1, Ordering::Relaxed);
        let [first, second] = [0, 1].map(|half| self.random.hash_one((number, half)));
        Box::new(self.conversation(DIGEST_URI, format!("{first:016x}{second:016x}")))
    }
}

/// The exchange of one connection: an empty token, the challenge, the response, the server's proof.
struct Conversation {
    login: Arc<Login>,
    uri: &'static str,
    cnonce: String,
    /// What the server must send to prove itself; known once the response is made.
    proof: Option<String>,
}

impl Exchange for Conversation {
    fn first(&mut self) -> Bytes {
        Bytes::new()
    }

    fn answer(&mut self, token: &[u8]) -> Result<Step, AuthFailure> {
        let directives = directives(token)?;
        match self.proof.take() {
            None => self.respond(&directives).map(Step::Send),
            Some(proof) if directives.contains(&("rspauth", proof.clone())) => Ok(Step::Done),
            Some(_) => Err(AuthFailure::ServerNotProven),
        }
    }
}

impl Conversation {
    /// The response to a challenge (RFC 2831, 2.1.2).
    fn respond(&mut self, challenge: &[(&str, String)]) -> Result<Bytes, AuthFailure> {
        let all = |wanted: &'static str| {
            let named = challenge.iter().filter(move |(name, _)| *name == wanted);
            named.map(|(_, value)| value.as_str())
        };
        if !all("qop").all(|offer| offer.split(',').any(|qop| qop.trim() == "auth")) {
            return Err(bad("it offers no plain authentication"));
        }
        if !all("algorithm").any(|algorithm| algorithm == "md5-sess") {
            return Err(bad("its algorithm is not md5-sess"));
        }
        let [nonce] = all("nonce").collect::<Vec<_>>()[..] else {
            return Err(bad("it must have one nonce"));
        };
        let knows_utf8 = all("charset").any(|charset| charset.eq_ignore_ascii_case("utf-8"));
        // The first of several realms, like Java's client.
        let realm = all("realm").next();

        let Login { user, password } = &*self.login;
        let (uri, cnonce) = (self.uri, &*self.cnonce);
        // Text that fits ISO 8859-1 is hashed in it, whatever charset is sent.
        let hashed = |text: &str| {
            let bytes = latin1(text).or_else(|| knows_utf8.then(|| text.into()));
            bytes.ok_or(ONLY_LATIN1)
        };
        let secret = [
            hashed(user)?,
            hashed(realm.unwrap_or_default())?,
            hashed(password)?,
        ];
        let session_key = Md5::new()
            .chain_update(Md5::digest(secret.join(&b':')))
            .chain_update(format!(":{nonce}:{cnonce}"))
            .finalize();
        let proof = |who: &str| {
            let what = Md5::digest(format!("{who}:{uri}"));
            let text = format!("{session_key:x}:{nonce}:{NONCE_COUNT}:{cnonce}:auth:{what:x}");
            format!("{:x}", Md5::digest(text))
        };
        let (ours, theirs) = (proof("AUTHENTICATE"), proof(""));

        let charset = if knows_utf8 { "charset=utf-8," } else { "" };
        let realm = realm.map_or(String::new(), |realm| format!(",realm={}", quoted(realm)));
        let [user, nonce, cnonce, uri] = [user, nonce, cnonce, uri].map(quoted);
        let response = format!(
            "{charset}username={user}{realm},nonce={nonce},nc={NONCE_COUNT},cnonce={cnonce},\
             digest-uri={uri},response={ours},qop=auth"
        );
        let response = if knows_utf8 {
            response.into_bytes()
        } else {
            latin1(&response).ok_or(ONLY_LATIN1)?
        };
        self.proof = Some(theirs);
        Ok(response.into())
    }
}

/// Parses `name=value` and `name="value"`, separated by commas (RFC 2831, 7.1).
fn directives(token: &[u8]) -> Result<Vec<(&str, String)>, AuthFailure> {
    if token.len() >= LONGEST_CHALLENGE {
        return Err(bad("it is too long"));
    }
    let text = std::str::from_utf8(token).map_err(|_| bad("it is not UTF-8"))?;
    let (mut found, mut rest) = (Vec::new(), text.trim_start_matches(SEPARATORS));
    while !rest.is_empty() {
        let (name, after) = (rest.split_once('=')).ok_or(bad("a directive has no value"))?;
        let (value, after) = take_value(after.trim_start())?;
        found.push((name.trim(), value));
        let after = after.trim_start();
        if !after.is_empty() && !after.starts_with(',') {
            return Err(bad("directives are not separated"));
        }
        rest = after.trim_start_matches(SEPARATORS);
    }
    Ok(found)
}

/// The value at the beginning of the text, and the rest of the text.
fn take_value(text: &str) -> Result<(String, &str), AuthFailure> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(SEPARATORS);
        let (value, rest) = text.split_at(end.unwrap_or(text.len()));
        return Ok((value.to_owned(), rest));
    };
    let (mut value, mut chars) = (String::new(), quoted.chars());
    loop {
        match chars.next() {
            Some('"') => return Ok((value, chars.as_str())),
            Some('\\') => value.extend(chars.next()),
            Some(other) => value.push(other),
            None => return Err(bad("a quoted value does not end")),
        }
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', r#"\""#))
}

/// The text in ISO 8859-1, which has the first 256 characters; `None` if the text has others.
fn latin1(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|c| u8::try_from(c).ok()).collect()
}

fn bad(what: &'static str) -> AuthFailure {
    AuthFailure::BadChallenge(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The client of RFC 2831, section 4: user `chris`, password `secret`.
    fn chris(uri: &'static str, cnonce: &str) -> Conversation {
        DigestMd5::new("chris", "secret").conversation(uri, cnonce.to_owned())
    }

    fn server() -> Endpoint {
        let (host, port) = ("zk1".to_owned(), 2181);
        Endpoint { host, port }
    }

    fn sent(step: Result<Step, AuthFailure>) -> Vec<u8> {
        match step {
            Ok(Step::Send(token)) => token.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn responses_match_the_examples_of_the_rfc() {
        for (uri, nonce, cnonce, response, proof) in [
            (
                "imap/elwood.innosoft.com",
                "OA6MG9tEQGm2hh",
                "OA6MHXh6VqTrRk",
                "d388dad90d4bbd760a152321f2143af7",
                "rspauth=ea40f60335c427b5527b84dbabcdfffd",
            ),
            (
                "acap/elwood.innosoft.com",
                "OA9BSXrbuRhWay",
                "OA9BSuZWMSpW8m",
                "6084c6db3fede7352c551284490fd0fc",
                "rspauth=2f0b3d7c3c2e486600ef710726aa2eae",
            ),
        ] {
            let mut exchange = chris(uri, cnonce);
            assert_eq!(exchange.first(), Bytes::new());
            let challenge = format!(
                r#"realm="elwood.innosoft.com",nonce="{nonce}",qop="auth",algorithm=md5-sess,charset=utf-8"#
            );
            let wanted = format!(
                r#"charset=utf-8,username="chris",realm="elwood.innosoft.com",nonce="{nonce}",nc=00000001,cnonce="{cnonce}",digest-uri="{uri}",response={response},qop=auth"#
            );
            let response = sent(exchange.answer(challenge.as_bytes()));
            assert_eq!(String::from_utf8(response).unwrap(), wanted);
            assert_eq!(exchange.answer(proof.as_bytes()), Ok(Step::Done));
        }
    }

    #[test]
    fn a_server_that_does_not_know_the_password_is_refused() {
        for proof in [
            "rspauth=ea40f60335c427b5527b84dbabcdfffe",
            "rspauth=",
            "hello=you",
            "",
        ] {
            let mut exchange = chris("imap/elwood.innosoft.com", "OA6MHXh6VqTrRk");
            sent(exchange.answer(br#"nonce="OA6MG9tEQGm2hh",algorithm=md5-sess"#));
            let outcome = exchange.answer(proof.as_bytes());
            assert_eq!(outcome, Err(AuthFailure::ServerNotProven), "{proof}");
        }
    }

    #[test]
    fn a_challenge_that_breaks_the_rules_is_refused() {
        let long = format!("nonce=\"{}\",algorithm=md5-sess", "n".repeat(2048));
        for (challenge, why) in [
            ("", "its algorithm is not md5-sess"),
            ("algorithm=md5-sess", "it must have one nonce"),
            (
                "nonce=a,nonce=b,algorithm=md5-sess",
                "it must have one nonce",
            ),
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
            let outcome = chris("a/b", "c").answer(challenge.as_bytes());
            assert_eq!(outcome, Err(AuthFailure::BadChallenge(why)), "{challenge}");
        }
        let outcome = chris("a/b", "c").answer(b"nonce=\"\xff\"");
        assert_eq!(outcome, Err(AuthFailure::BadChallenge("it is not UTF-8")));
    }

    /// Values are quoted, and the first realm is taken.
    #[test]
    fn names_are_quoted_and_sent_in_the_charset_of_the_challenge() {
        let answer = |user: &str, challenge: &str| {
            let user = DigestMd5::new(user, "x");
            user.begin(&server()).answer(challenge.as_bytes())
        };
        let plain =
            r#" realm="one" , realm="two",nonce="n\"n",, algorithm=md5-sess ,qop="auth-int, auth""#;
        let utf8 = format!("{plain},charset=UTF-8");
        let begins = |answer, wanted: &[u8]| assert!(sent(answer).starts_with(wanted));
        begins(
            answer(r#"a"b\c"#, plain),
            br#"username="a\"b\\c",realm="one",nonce="n\"n","#,
        );
        begins(answer("\u{fc}", plain), b"username=\"\xfc\"");
        begins(
            answer("\u{43f}", &utf8),
            "charset=utf-8,username=\"\u{43f}\"".as_bytes(),
        );
        assert_eq!(answer("\u{43f}", plain), Err(ONLY_LATIN1));
    }

    #[test]
    fn the_password_is_not_printed_and_nonces_never_repeat() {
        let alice = DigestMd5::new("alice", "hunter2");
        let printed = format!("{alice:?} {alice:#?}");
        assert!(printed.contains("alice") && !printed.contains("hunter2"));
        let answer = || sent(alice.begin(&server()).answer(b"nonce=n,algorithm=md5-sess"));
        assert_ne!(answer(), answer());
    }
}
