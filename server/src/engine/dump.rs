//! All nodes as values and as text, and nodes from text: for assertions of tests, and for the nodes that a test begins with.
//!
//! One line is one node: its path, its kind, its data, and the entries of its ACL. `key=value` has no spaces.
//!
//! | word | meaning |
//! |---|---|
//! | `ephemeral`, `container`, `ttl=MS` | the kind; a node without such a word is persistent |
//! | `data=BYTES` | the data; a node without this word has null data |
//! | `acl=PERMISSIONS:SCHEME:ID` | an entry of the ACL, with the letters `rwcda`; a node without one is open to everybody |
//!
//! Other bytes than visible ASCII characters, and the backslash and the two quotes, are escaped as in Rust: `\x20` is a space. A
//! line that begins with `#`, and an empty line, mean nothing.
//!
//! Not here: versions, times, transaction ids, and the numbers of sequential nodes. A loaded node is a new one.

use std::{error, fmt, str::FromStr, time::Duration};

use bytes::Bytes;
use lockkeeper_proto::{
    Acl, CreateMode, ErrorCode, Perms, Request, Response, SessionId, Xid,
    multi::{MultiOp, MultiRequest, MultiResult},
    records::{CreateRequest, CreateTtlRequest},
};

use super::{Engine, Now, auth, followers::Mutation, tree::Owner};

/// Nodes, sorted by path. [`Server::dump`](crate::Server::dump) makes them, [`Server::load`](crate::Server::load) takes them.
///
/// Their text has one line for each node, and can be parsed:
///
/// ```
/// use lockkeeper_server::Dump;
///
/// let text = "\
/// /app data=v1
/// /app/jobs container acl=rc:world:anyone acl=rwcda:digest:user:hash
/// /app/note ttl=60000 data=two\\x20words
/// ";
/// let nodes: Dump = text.parse().unwrap();
/// assert_eq!(nodes.nodes[2].data.as_deref(), Some(&b"two words"[..]));
/// assert_eq!(nodes.to_string(), text);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// The nodes.
    pub nodes: Vec<DumpedNode>,
}

/// A node, without its metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DumpedNode {
    /// Its path.
    pub path: String,
    /// Its kind. No kind here is sequential.
    pub mode: CreateMode,
    /// Its data.
    pub data: Option<Bytes>,
    /// Its ACL.
    pub acl: Vec<Acl>,
}

/// A line that is no node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DumpError {
    /// The number of the line, from 1 on.
    pub line: usize,
    /// The word that has no meaning.
    pub word: String,
}

/// A node could not be created.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadError {
    /// The path of the node; empty if it is not about one.
    pub path: String,
    /// The server's error.
    pub code: ErrorCode,
}

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for node in &self.nodes {
            writeln!(f, "{node}")?;
        }
        Ok(())
    }
}

impl fmt::Display for DumpedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", escape(self.path.as_bytes()))?;
        match self.mode {
            CreateMode::Container => write!(f, " container")?,
            mode if mode.is_ephemeral() => write!(f, " ephemeral")?,
            mode => {
                if let Some(ms) = mode.ttl_ms() {
                    write!(f, " ttl={ms}")?;
                }
            }
        }
        if let Some(data) = &self.data {
            write!(f, " data={}", escape(data))?;
        }
        for entry in self.acl.iter().filter(|_| self.acl != Acl::OPEN_UNSAFE) {
            let perms = LETTERS
                .iter()
                .filter(|(_, it)| entry.perms.allows_any_of(*it));
            let perms: String = perms.map(|(letter, _)| letter).collect();
            let (scheme, id) = (&entry.id.scheme, &entry.id.id);
            let text = format!("{perms}:{scheme}:{id}");
            write!(f, " acl={}", escape(text.as_bytes()))?;
        }
        Ok(())
    }
}

impl FromStr for Dump {
    type Err = DumpError;

    fn from_str(text: &str) -> Result<Self, DumpError> {
        let mut nodes = Vec::new();
        let lines = (1..).zip(text.lines().map(str::trim));
        for (line, text) in lines.filter(|(_, text)| !text.is_empty() && !text.starts_with('#')) {
            let bad = |word: &str| DumpError {
                line,
                word: word.to_owned(),
            };
            let mut words = text.split_whitespace();
            let path = words.next().unwrap_or_default();
            let mut node = DumpedNode {
                path: unescape_text(path).ok_or_else(|| bad(path))?,
                mode: CreateMode::Persistent,
                data: None,
                acl: Vec::new(),
            };
            for word in words {
                node.read(word).ok_or_else(|| bad(word))?;
            }
            if node.acl.is_empty() {
                node.acl = Acl::OPEN_UNSAFE.to_vec();
            }
            nodes.push(node);
        }
        nodes.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Ok(Self { nodes })
    }
}

impl DumpedNode {
    /// Takes over what a word says; `None` if it has no meaning.
    fn read(&mut self, word: &str) -> Option<()> {
        match word.split_once('=').unwrap_or((word, "")) {
            ("ephemeral", "") => self.mode = CreateMode::Ephemeral,
            ("container", "") => self.mode = CreateMode::Container,
            ("ttl", ms) => {
                let ttl = Duration::from_millis(ms.parse().ok()?);
                self.mode = CreateMode::PersistentWithTtl(ttl);
            }
            ("data", text) => self.data = Some(Bytes::from(unescape(text)?)),
            ("acl", text) => {
                let text = unescape_text(text)?;
                let (perms, id) = text.split_once(':')?;
                let (scheme, id) = id.split_once(':')?;
                let mut all = Perms(0);
                for letter in perms.chars() {
                    let (_, one) = LETTERS.iter().find(|(known, _)| *known == letter)?;
                    all = all | *one;
                }
                self.acl
                    .push(Acl::new(all, scheme.to_owned(), id.to_owned()));
            }
            _ => return None,
        }
        Some(())
    }

    fn create(&self) -> MultiOp {
        let (path, data) = (self.path.clone(), self.data.clone());
        let (acl, flags) = (Some(self.acl.clone().into()), self.mode.flags());
        match self.mode.ttl_ms() {
            Some(ttl_ms) => MultiOp::CreateTtl(CreateTtlRequest {
                path,
                data,
                acl,
                flags,
                ttl_ms,
            }),
            None => MultiOp::Create(CreateRequest {
                path,
                data,
                acl,
                flags,
            }),
        }
    }
}

impl fmt::Display for DumpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {} has a word without a meaning: {}",
            self.line, self.word
        )
    }
}

impl error::Error for DumpError {}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot create {}: {}", self.path, self.code)
    }
}

impl error::Error for LoadError {}

impl Engine {
    /// All nodes except the system's.
    #[must_use]
    pub fn dump_nodes(&self) -> Dump {
        let paths = self.live.tree.user_paths().into_iter();
        let nodes = paths.filter_map(|path| {
            let node = self.live.tree.get(&path)?;
            Some(DumpedNode {
                mode: match node.owner {
                    Owner::Nobody => CreateMode::Persistent,
                    Owner::Session(_) => CreateMode::Ephemeral,
                    Owner::Container => CreateMode::Container,
                    Owner::Ttl { ms } => {
                        let ms = u64::try_from(ms).unwrap_or(0);
                        CreateMode::PersistentWithTtl(Duration::from_millis(ms))
                    }
                },
                path,
                data: node.data.clone(),
                acl: node.acl.to_vec(),
            })
        });
        Dump {
            nodes: nodes.collect(),
        }
    }

    /// Creates all nodes in one transaction, except ephemeral ones, or none of them. No ACL is checked.
    ///
    /// # Errors
    /// The first node that cannot be created. [`ErrorCode::CONNECTION_LOSS`] if there is no leader.
    pub fn load_nodes(&mut self, dump: &Dump, now: Now) -> Result<(), LoadError> {
        let failed = |path: &str, code| LoadError {
            path: path.to_owned(),
            code,
        };
        if !self.has_leader() {
            return Err(failed("", ErrorCode::CONNECTION_LOSS));
        }
        let lasting = dump.nodes.iter().filter(|node| !node.mode.is_ephemeral());
        let ops: Vec<MultiOp> = lasting.map(DumpedNode::create).collect();
        let request = Request::Multi(MultiRequest { ops });
        let ids = [auth::super_id()];
        let answer = self.transaction(&ids, SessionId::NONE, &request, now);
        let loaded = match (&answer, &request) {
            (Ok(Response::Multi(done)), Request::Multi(asked)) => {
                let results = asked.ops.iter().zip(&done.results);
                let mut errors = results.filter_map(|(op, result)| match result {
                    MultiResult::Error(code) if !code.is_ok() => Some(failed(op.path(), *code)),
                    _ => None,
                });
                errors.next().map_or(Ok(()), Err)
            }
            (Ok(_), _) => Ok(()),
            (Err(code), _) => Err(failed("", *code)),
        };
        let nobody = (SessionId::NONE, Xid(0));
        self.replicate(nobody, Mutation::Request(request, ids.into()), answer, now);
        loaded
    }
}

/// The permissions, each with its letter.
const LETTERS: [(char, Perms); 5] = [
    ('r', Perms::READ),
    ('w', Perms::WRITE),
    ('c', Perms::CREATE),
    ('d', Perms::DELETE),
    ('a', Perms::ADMIN),
];

fn escape(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string().replace(' ', "\\x20")
}

fn unescape_text(text: &str) -> Option<String> {
    String::from_utf8(unescape(text)?).ok()
}

/// The bytes that [`escape`] has written; `None` if it never writes this.
fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next()? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'x' => {
                    let digits = [rest.next()?, rest.next()?];
                    u8::from_str_radix(str::from_utf8(&digits).ok()?, 16).ok()?
                }
                quoted @ (b'\\' | b'"' | b'\'') => quoted,
                _ => return None,
            },
            plain => plain,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_survives_the_text() {
        let all: Vec<u8> = (0..=255).collect();
        let text = escape(&all);
        assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
        assert_eq!(unescape(&text), Some(all));
        for bad in ["\\", "\\x", "\\x1", "\\xg0", "\\q"] {
            assert_eq!(unescape(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_word_without_a_meaning_is_named() {
        let parse = |text: &str| text.parse::<Dump>().unwrap_err();
        for word in [
            "what",
            "ttl=soon",
            "acl=x:world:anyone",
            "acl=r",
            "data=\\q",
            "container=1",
        ] {
            let error = parse(&format!("# nodes\n\n/a {word}"));
            assert_eq!((error.line, &*error.word), (3, word));
        }
        assert_eq!(
            parse("/\\xff").to_string(),
            "line 1 has a word without a meaning: /\\xff"
        );
    }
}
