//! The server's side of SASL DIGEST-MD5, as ZooKeeper's servers speak it with JAAS's
//! `DigestLoginModule`.
//!
//! The client's side is in the session's crate (`digest_md5`). The two sides share no code on
//! purpose: each checks the other, so a mistake would have to be made twice to stay hidden. Both
//! are tested with the examples of RFC 2831, section 4.
//!
//! The server does not keep passwords, but the hash that the RFC permits. That hash also opens
//! other servers with this realm.
//!
//! Not here: layers of integrity and privacy, subsequent authentication, names with a realm
//! (`user@REALM`).
//!
//! Source: RFC 2831, 2.1. Where the RFC leaves a choice: `DigestMD5Server.java`, observed on a
//! 3.8.0 server.

use std::{collections::BTreeMap, fmt};

use bytes::Bytes;
use md5::{Digest, Md5};

use super::sasl::{Mechanism, Step};

/// The only realm. Source: `ZooKeeperSaslServer`, `SaslServerPrincipal`.
const REALM: &str = "zk-sasl-md5";
/// The service, and the name of the server.
const DIGEST_URI: &str = "zookeeper/zk-sasl-md5";
/// The maximum length of a token in bytes. Source: RFC 2831, 2.1.2.
const LONGEST_TOKEN: usize = 4096;
/// Directives that may come at most once. Others may come several times, and are ignored.
const ONCE: &str = "username realm nonce cnonce qop digest-uri response maxbuf charset authzid";

/// The users who may log in.
#[derive(Clone, Default)]
pub(crate) struct Users(BTreeMap<String, Secret>);

/// A hash of a user, the realm and a password.
type Secret = [u8; 16];

impl Users {
    /// Adds a user, or changes the password of an existing one.
    pub(crate) fn add(&mut self, user: &str, password: &str) {
        let secret = secret(user, REALM, password);
        self.0.insert(user.to_owned(), secret);
    }
}

/// Shows names only, no hashes.
impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Mechanism for Users {
    fn answer(&self, nonce: &str, turn: u32, token: &[u8]) -> Option<Step> {
        self.answer_as([REALM, DIGEST_URI, nonce], turn, token)
    }
}

impl Users {
    /// The answer of a server with this realm and URI. Any first token begins the exchange; the
    /// second one must be the response to the challenge.
    fn answer_as(&self, names: [&str; 3], turn: u32, token: &[u8]) -> Option<Step> {
        let [realm, _, nonce] = names;
        let challenge =
            format!("realm=\"{realm}\",nonce=\"{nonce}\",charset=utf-8,algorithm=md5-sess");
        match turn {
            _ if token.len() > LONGEST_TOKEN => None,
            0 => Some(Step {
                token: challenge.into(),
                identity: None,
            }),
            1 => self.check(names, token),
            _ => None,
        }
    }

    fn check(&self, [realm, uri, nonce]: [&str; 3], response: &[u8]) -> Option<Step> {
        let said = read(response)?;
        let said = |name: &str| said.get(name).map(Vec::as_slice);
        let digest_uri = said("digest-uri")?;
        let keeps_the_rules = said("realm")? == realm.as_bytes()
            && said("nonce")? == nonce.as_bytes()
            && digest_uri.eq_ignore_ascii_case(uri.as_bytes())
            && said("qop").is_none_or(|qop| qop == b"auth")
            && said("charset").is_none_or(|charset| charset == b"utf-8");
        if !keeps_the_rules {
            return None;
        }
        let user = str::from_utf8(said("username")?).ok()?;
        let secret = self.0.get(user)?;
        let cnonce = said("cnonce")?;

        let mut key = vec![&secret[..], b":", nonce.as_bytes(), b":", cnonce];
        // The name goes into the hash, but has no other effect: every user acts under their own
        // name.
        key.extend(said("authzid").into_iter().flat_map(|whom| [b":", whom]));
        let key = hash(&key);
        let key = hex(&key);
        let proof = |of: &[u8]| {
            let what = hex(&hash(&[of, b":", digest_uri]));
            // Always 1, even if the client says otherwise, because each nonce is used once.
            let (nonce, count) = (nonce.as_bytes(), b"00000001");
            let parts = [
                key.as_bytes(),
                nonce,
                count,
                cnonce,
                b"auth",
                what.as_bytes(),
            ];
            hex(&hash(&[&parts.join(&b':')]))
        };
        (said("response")? == proof(b"AUTHENTICATE").as_bytes()).then(|| Step {
            token: Bytes::from(format!("rspauth={}", proof(b""))),
            identity: Some(user.to_owned()),
        })
    }
}

/// The directives of a response; `None` if it is malformed. Source: RFC 2831, 7.1.
fn read(response: &[u8]) -> Option<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut rest = skip(response);
    // A name at the end without a value is ignored.
    while let Some(end) = rest.iter().position(|byte| *byte == b'=') {
        let (name, after) = rest.split_at_checked(end)?;
        let name = str::from_utf8(name).ok()?.trim_ascii_end();
        if name.is_empty() || name.bytes().any(is_separator) {
            return None;
        }
        let (value, after) = value(after.get(1..)?.trim_ascii_start())?;
        let name = name.to_ascii_lowercase();
        let is_known = ONCE.split(' ').any(|known| known == name);
        if found.insert(name, value).is_some() && is_known {
            return None;
        }
        rest = skip(after);
    }
    (!rest.iter().copied().any(is_separator)).then_some(found)
}

/// A value, and the rest behind it. The rest begins with a separator or is empty.
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

/// The hash that the server keeps of a password.
fn secret(user: &str, realm: &str, password: &str) -> Secret {
    let (user, realm) = (in_one_byte_each(user), in_one_byte_each(realm));
    hash(&[&user, b":", &realm, b":", &in_one_byte_each(password)])
}

/// Text that fits ISO 8859-1 is hashed in that encoding, even if the client sends UTF-8. Other text
/// is hashed in UTF-8. Source: RFC 2831, 2.1.2.1.
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

    /// The example of RFC 2831, section 4, where the user is `chris` and the password is `secret`.
    fn of_rfc(digest_uri: &'static str, nonce: &'static str) -> Conversation {
        let realm = "elwood.innosoft.com";
        let users = [("chris".to_owned(), secret("chris", realm, "secret"))];
        let (users, names) = (Users(users.into()), [realm, digest_uri, nonce]);
        Conversation(users, names, 0)
    }

    struct Conversation(Users, [&'static str; 3], u32);

    impl Conversation {
        fn answer(&mut self, token: &[u8]) -> Option<Step> {
            self.2 += 1;
            self.0.answer_as(self.1, self.2 - 1, token)
        }
    }

    fn said(step: Option<Step>) -> (String, Option<String>) {
        let Step { token, identity } = step.unwrap();
        (String::from_utf8(token.to_vec()).unwrap(), identity)
    }

    const OF_RFC: &str = r#"charset=utf-8,username="chris",realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",nc=00000001,cnonce="OA6MHXh6VqTrRk",digest-uri="imap/elwood.innosoft.com",response=d388dad90d4bbd760a152321f2143af7,qop=auth"#;

    #[test]
    fn the_examples_of_the_rfc_are_reproduced() {
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
        // A failed exchange cannot be continued either: each nonce is good for one try.
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
        let hash = format!("{:?}", users.0["alice"]);
        let text = format!("{users:?} {users:#?}");
        assert!(text.starts_with("{\"alice\"}"), "{text}");
        assert!(!text.contains("hunter2") && !text.contains(&hash), "{text}");
    }

    proptest::proptest! {
        #[test]
        fn no_response_causes_a_panic(response in r#"(username=|realm=|nonce=|cnonce=|digest-uri=|response=|[", =\\a]|\PC){0,40}"#) {
            let mut imap = of_rfc("imap/elwood.innosoft.com", "OA6MG9tEQGm2hh");
            imap.answer(response.as_bytes()).unwrap();
            proptest::prop_assert!(imap.answer(response.as_bytes()).is_none());
        }

        /// A good response with one byte changed proves nothing, unless the server ignores that
        /// byte.
        #[test]
        fn a_changed_response_proves_nothing(at in 0_usize..OF_RFC.len(), byte in proptest::num::u8::ANY) {
            let mut response = OF_RFC.as_bytes().to_vec();
            response[at] = byte;
            let mut imap = of_rfc("imap/elwood.innosoft.com", "OA6MG9tEQGm2hh");
            imap.answer(b"").unwrap();
            let is_let_in = imap.answer(&response).is_some();
            let same = response.eq_ignore_ascii_case(OF_RFC.as_bytes());
            // Changing the name of an optional directive makes it an ignored one, and blanks are as
            // good as commas.
            let needed = OF_RFC.find("username").unwrap()..OF_RFC.find(",qop").unwrap();
            let count = OF_RFC.find("nc=").unwrap()..OF_RFC.find(",cnonce").unwrap();
            if needed.contains(&at) && !count.contains(&at) && !same && OF_RFC.as_bytes()[at] != b',' {
                proptest::prop_assert!(!is_let_in, "{}", String::from_utf8_lossy(&response));
            }
        }
    }
}
