//! SASL DIGEST-MD5, the server's side, as ZooKeeper's servers speak it with JAAS's `DigestLoginModule`.
//!
//! The client's side is in the session's crate (`digest_md5`) and shares not a line with this one, on purpose: each is the
//! other's second opinion, and a mistake of both would have to be made twice. Both have the vectors of RFC 2831, 4.
//!
//! Of passwords only the hash is kept that the RFC lets a server keep. It opens this realm of other servers, too.
//!
//! Not here: layers of integrity and privacy, subsequent authentication, names with a meaning (`user@REALM`).
//!
//! Source: RFC 2831, 2.1; where that leaves a choice, `DigestMD5Server.java`, observed on a 3.8.0.

use std::{collections::BTreeMap, fmt, sync::Arc};

use bytes::Bytes;
use md5::{Digest, Md5};

use super::sasl::{Exchange, Mechanism, Step};

/// The only realm. Source: `ZooKeeperSaslServer`, `SaslServerPrincipal`.
const REALM: &str = "zk-sasl-md5";
/// The service, and the name of the server.
const DIGEST_URI: &str = "zookeeper/zk-sasl-md5";
/// Bytes of a token at most. Source: RFC 2831, 2.1.2.
const LONGEST_TOKEN: usize = 4096;
/// Directives that may come once at most; others come as often as they like, and mean nothing.
const ONCE: [&str; 10] = [
    "username",
    "realm",
    "nonce",
    "cnonce",
    "qop",
    "digest-uri",
    "response",
    "maxbuf",
    "charset",
    "authzid",
];

/// Who is let in.
#[derive(Clone, Default)]
pub(crate) struct Users(Arc<BTreeMap<String, Secret>>);

/// A hash of a user, the realm and a password.
type Secret = [u8; 16];

impl Users {
    /// One more; the password of one who is there is changed.
    pub(crate) fn add(&mut self, user: &str, password: &str) {
        let secret = secret(user, REALM, password);
        Arc::make_mut(&mut self.0).insert(user.to_owned(), secret);
    }
}

/// Without anything that opens a door.
impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Mechanism for Users {
    fn begin(&self, nonce: String) -> Box<dyn Exchange> {
        Box::new(Conversation {
            users: self.clone(),
            realm: REALM,
            digest_uri: DIGEST_URI,
            nonce,
            turn: Turn::First,
        })
    }
}

/// One exchange.
#[derive(Debug)]
struct Conversation {
    users: Users,
    realm: &'static str,
    digest_uri: &'static str,
    nonce: String,
    turn: Turn,
}

/// What the client has to say next.
#[derive(Debug)]
enum Turn {
    /// That it wants to begin, in whatever words.
    First,
    /// Its response to the challenge.
    Response,
    /// Nothing.
    Over,
}

impl Exchange for Conversation {
    fn answer(&mut self, token: &[u8]) -> Option<Step> {
        if token.len() > LONGEST_TOKEN {
            return None;
        }
        match self.turn {
            Turn::First => {
                self.turn = Turn::Response;
                let (realm, nonce) = (self.realm, &self.nonce);
                let challenge =
                    format!("realm=\"{realm}\",nonce=\"{nonce}\",charset=utf-8,algorithm=md5-sess");
                Some(Step {
                    token: challenge.into(),
                    identity: None,
                })
            }
            Turn::Response => {
                self.turn = Turn::Over;
                self.check(token)
            }
            Turn::Over => None,
        }
    }
}

impl Conversation {
    fn check(&self, response: &[u8]) -> Option<Step> {
        let said = read(response)?;
        let said = |name: &str| said.get(name).map(Vec::as_slice);
        let digest_uri = said("digest-uri")?;
        let keeps_the_rules = said("realm")? == self.realm.as_bytes()
            && said("nonce")? == self.nonce.as_bytes()
            && digest_uri.eq_ignore_ascii_case(self.digest_uri.as_bytes())
            && said("qop").is_none_or(|qop| qop == b"auth")
            && said("charset").is_none_or(|charset| charset == b"utf-8");
        if !keeps_the_rules {
            return None;
        }
        let user = str::from_utf8(said("username")?).ok()?;
        let secret = self.users.0.get(user)?;
        let cnonce = said("cnonce")?;

        let mut key = vec![&secret[..], b":", self.nonce.as_bytes(), b":", cnonce];
        // Hashed, and of no account: everybody acts as who they are.
        key.extend(said("authzid").into_iter().flat_map(|whom| [b":", whom]));
        let key = hash(&key);
        let proof = |of: &[u8]| {
            let what = hash(&[of, b":", digest_uri]);
            let nonce = self.nonce.as_bytes();
            // Whatever the client says: each nonce is used once.
            let count = b"00000001";
            hex(&hash(&[
                hex(&key).as_bytes(),
                b":",
                nonce,
                b":",
                count,
                b":",
                cnonce,
                b":auth:",
                hex(&what).as_bytes(),
            ]))
        };
        (said("response")? == proof(b"AUTHENTICATE").as_bytes()).then(|| Step {
            token: Bytes::from(format!("rspauth={}", proof(b""))),
            identity: Some(user.to_owned()),
        })
    }
}

/// The directives of a response; `None` if they are none. Source: RFC 2831, 7.1.
fn read(response: &[u8]) -> Option<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut rest = skip(response);
    // A last name without a value is nothing.
    while let Some(end) = rest.iter().position(|byte| *byte == b'=') {
        let (name, after) = rest.split_at_checked(end)?;
        let name = str::from_utf8(name).ok()?.trim_ascii_end();
        if name.is_empty() || name.bytes().any(is_separator) {
            return None;
        }
        let (value, after) = value(after.get(1..)?.trim_ascii_start())?;
        let name = name.to_ascii_lowercase();
        let is_known = ONCE.contains(&&*name);
        if found.insert(name, value).is_some() && is_known {
            return None;
        }
        rest = skip(after);
    }
    (!rest.iter().copied().any(is_separator)).then_some(found)
}

/// A value, and what comes behind it: a separator, or nothing.
fn value(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    if let Some(mut rest) = text.strip_prefix(b"\"") {
        let mut value = Vec::new();
        loop {
            let (byte, after) = rest.split_first()?;
            rest = after;
            match byte {
                b'"' if rest.first().copied().is_none_or(is_separator) => {
                    return Some((value, rest));
                }
                b'"' => return None,
                b'\\' => {
                    let (byte, after) = rest.split_first()?;
                    rest = after;
                    value.push(*byte);
                }
                other => value.push(*other),
            }
        }
    }
    let end = text.iter().copied().position(is_separator);
    let (value, rest) = text.split_at_checked(end.unwrap_or(text.len()))?;
    (!text.is_empty()).then(|| (value.to_vec(), rest))
}

fn skip(text: &[u8]) -> &[u8] {
    let begin = text.iter().position(|byte| !is_separator(*byte));
    begin
        .and_then(|begin| text.get(begin..))
        .unwrap_or_default()
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b',' | b' ' | b'\t' | b'\r' | b'\n')
}

/// What is kept of a password.
fn secret(user: &str, realm: &str, password: &str) -> Secret {
    let (user, realm) = (in_one_byte_each(user), in_one_byte_each(realm));
    hash(&[&user, b":", &realm, b":", &in_one_byte_each(password)])
}

/// Text of ISO 8859-1 is hashed in it, whatever is sent; other text in UTF-8. Source: RFC 2831, 2.1.2.1.
fn in_one_byte_each(text: &str) -> Vec<u8> {
    let bytes: Result<_, _> = text.chars().map(u8::try_from).collect();
    bytes.unwrap_or_else(|_| text.as_bytes().to_vec())
}

fn hash(parts: &[&[u8]]) -> Secret {
    let hash = parts.iter().fold(Md5::new(), Digest::chain_update);
    hash.finalize().into()
}

fn hex(hash: &Secret) -> String {
    hash.map(|byte| format!("{byte:02x}")).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in RFC 2831, section 4, where the user is `chris` and the password `secret`.
    fn of_rfc(digest_uri: &'static str, nonce: &str) -> Conversation {
        let realm = "elwood.innosoft.com";
        let users = [("chris".to_owned(), secret("chris", realm, "secret"))];
        Conversation {
            users: Users(Arc::new(users.into())),
            realm,
            digest_uri,
            nonce: nonce.to_owned(),
            turn: Turn::First,
        }
    }

    fn said(step: Option<Step>) -> (String, Option<String>) {
        let Step { token, identity } = step.unwrap();
        (String::from_utf8(token.to_vec()).unwrap(), identity)
    }

    const OF_RFC: &str = r#"charset=utf-8,username="chris",realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",nc=00000001,cnonce="OA6MHXh6VqTrRk",digest-uri="imap/elwood.innosoft.com",response=d388dad90d4bbd760a152321f2143af7,qop=auth"#;

    #[test]
    fn the_examples_of_the_rfc_come_out() {
        let mut imap = of_rfc("imap/elwood.innosoft.com", "OA6MG9tEQGm2hh");
        let challenge = r#"realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",charset=utf-8,algorithm=md5-sess"#;
        assert_eq!(said(imap.answer(b"")), (challenge.to_owned(), None));
        let proof = "rspauth=ea40f60335c427b5527b84dbabcdfffd".to_owned();
        let chris = Some("chris".to_owned());
        assert_eq!(said(imap.answer(OF_RFC.as_bytes())), (proof, chris));

        let mut acap = of_rfc("acap/elwood.innosoft.com", "OA9BSXrbuRhWay");
        acap.answer(b"").unwrap();
        let response = br#"charset=utf-8,username="chris",realm="elwood.innosoft.com",nonce="OA9BSXrbuRhWay",nc=00000001,cnonce="OA9BSuZWMSpW8m",digest-uri="acap/elwood.innosoft.com",response=6084c6db3fede7352c551284490fd0fc,qop=auth"#;
        let proof = "rspauth=2f0b3d7c3c2e486600ef710726aa2eae";
        assert_eq!(said(acap.answer(response)).0, proof);
    }

    #[test]
    fn a_token_out_of_turn_proves_nothing() {
        let mut imap = of_rfc("imap/elwood.innosoft.com", "OA6MG9tEQGm2hh");
        imap.answer(b"").unwrap();
        imap.answer(OF_RFC.as_bytes()).unwrap();
        assert!(imap.answer(OF_RFC.as_bytes()).is_none());
        assert!(imap.answer(b"").is_none());
        // Not after a failure either: every nonce is good for one try.
        let mut imap = of_rfc("imap/elwood.innosoft.com", "OA6MG9tEQGm2hh");
        imap.answer(OF_RFC.as_bytes()).unwrap();
        assert!(imap.answer(b"").is_none());
        assert!(imap.answer(OF_RFC.as_bytes()).is_none());
        assert!(imap.answer(b"").is_none());
    }

    #[test]
    fn directives_are_read_as_java_reads_them() {
        let pairs = |text: &[u8]| {
            let found = read(text)?;
            let pair = |(name, value): (&String, &Vec<u8>)| {
                format!("{name}={}", String::from_utf8_lossy(value))
            };
            Some(found.iter().map(pair).collect::<Vec<_>>().join(";"))
        };
        for (text, found) in [
            (&b""[..], ""),
            (b" , ,", ""),
            (b"A = b", "a=b"),
            (b"a=\"b\\\"\\c\" , b=x y=z", "a=b\"c;b=x;y=z"),
            (b"a=b,c", "a=b"),
            (b"a=,c=d", "a=;c=d"),
            (b"nc=1,nc=2", "nc=2"),
            (b"a=\xff", "a=\u{fffd}"),
        ] {
            assert_eq!(pairs(text).as_deref(), Some(found), "{text:?}");
        }
        for bad in [
            &b"="[..],
            b"a=",
            b"=a",
            b"a,b=c",
            b"a b=c",
            b"a=\"b",
            b"a=\"b\\",
            b"a=\"b\"c",
            b"a=b,c,",
            b"realm=a,REALM=a",
            b"\xff=a",
        ] {
            assert_eq!(pairs(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn no_secret_is_printed() {
        let mut users = Users::default();
        users.add("alice", "hunter2");
        let exchange = users.begin("n".to_owned());
        let hash = format!("{:?}", users.0["alice"]);
        let text = format!("{users:?} {users:#?} {exchange:?}");
        assert!(text.starts_with("{\"alice\"}"), "{text}");
        assert!(!text.contains("hunter2") && !text.contains(&hash), "{text}");
    }

    proptest::proptest! {
        #[test]
        fn no_response_panics(response in r#"(username=|realm=|nonce=|cnonce=|digest-uri=|response=|[", =\\a]|\PC){0,40}"#) {
            let mut imap = of_rfc("imap/elwood.innosoft.com", "OA6MG9tEQGm2hh");
            imap.answer(response.as_bytes()).unwrap();
            proptest::prop_assert!(imap.answer(response.as_bytes()).is_none());
        }

        /// Whatever byte of a good response is another one: it proves nothing, unless it was never looked at.
        #[test]
        fn a_response_that_was_changed_proves_nothing(at in 0_usize..OF_RFC.len(), byte in proptest::num::u8::ANY) {
            let mut response = OF_RFC.as_bytes().to_vec();
            response[at] = byte;
            let mut imap = of_rfc("imap/elwood.innosoft.com", "OA6MG9tEQGm2hh");
            imap.answer(b"").unwrap();
            let is_let_in = imap.answer(&response).is_some();
            let same = response.eq_ignore_ascii_case(OF_RFC.as_bytes());
            // The name of a directive that is not needed becomes one that means nothing; blanks are as good as commas.
            let needed = OF_RFC.find("username").unwrap()..OF_RFC.find(",qop").unwrap();
            let count = OF_RFC.find("nc=").unwrap()..OF_RFC.find(",cnonce").unwrap();
            if needed.contains(&at) && !count.contains(&at) && !same && OF_RFC.as_bytes()[at] != b',' {
                proptest::prop_assert!(!is_let_in, "{}", String::from_utf8_lossy(&response));
            }
        }
    }
}
