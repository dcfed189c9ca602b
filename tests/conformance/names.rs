//! Names for values that differ from run to run: paths, transactions, sessions, addresses, times.
//!
//! Transactions are numbered in the order in which a case first sees them; `z0` created the root of
//! the case. A script cannot compare their zxids, because other tests write to the same server. Two
//! rules hold for them nevertheless: zxids never decrease from one reply to the next, and one
//! transaction has one time. A reply that breaks a rule is a panic here.

use std::collections::BTreeMap;

use bytes::Bytes;
use lockkeeper::proto::{SessionId, Stat, Zxid, path};

use super::words::{bare, unescape};

/// The modes of creates, and the kinds of watches.
const NUMBERS: [(&str, i64); 11] = [
    ("persistent", 0),
    ("ephemeral", 1),
    ("sequential", 2),
    ("ephemeral-sequential", 3),
    ("container", 4),
    ("ttl", 5),
    ("ttl-sequential", 6),
    ("recursive", 1),
    ("children", 1),
    ("data", 2),
    ("any", 3),
];

#[derive(Debug, Default)]
pub(crate) struct Names {
    /// The root of the case: `$`.
    pub(crate) root: String,
    /// The address of this machine, as the server sees it: `$ip`.
    pub(crate) ip: String,
    /// The transactions that the case has seen, in order.
    zxids: Vec<Zxid>,
    /// The newest transaction that any reply has shown.
    newest: Zxid,
    times: BTreeMap<Zxid, i64>,
    /// The letter, id and password of each session.
    pub(crate) sessions: BTreeMap<char, (SessionId, Bytes)>,
}

impl Names {
    pub(crate) fn new(root: String) -> Self {
        // The runner asks for it.
        let ip = "unknown".to_owned();
        let others = Self::default();
        Self { root, ip, ..others }
    }

    pub(crate) fn expand(&self, text: &str) -> String {
        text.replace("$ip", &self.ip).replace('$', &self.root)
    }

    /// The bytes that a word stands for; `null` is `None`.
    pub(crate) fn bytes(&self, word: &str) -> Option<Vec<u8>> {
        let word = (word != "null").then(|| self.expand(word))?;
        Some(match word.strip_prefix('"') {
            Some(text) => unescape(text.strip_suffix('"').expect("quotes on both sides")),
            None => word.into_bytes(),
        })
    }

    /// A path as a script shows it, with the root replaced.
    pub(crate) fn shorten(&self, path: &str) -> String {
        let inside = path::is_within(path, &self.root);
        match path.get(self.root.len()..) {
            Some(rest) if inside => bare(&format!("${rest}")),
            _ => bare(path),
        }
    }

    /// Names the transaction of a write, which must be newer than all that the case has seen.
    pub(crate) fn written(&mut self, zxid: Zxid) -> String {
        let newest = self.newest;
        assert!(
            zxid > newest,
            "a write at {zxid}, after a reply that showed {newest}"
        );
        self.newest = zxid;
        self.zxid(zxid)
    }

    /// Checks the transaction that the reply to a read shows: it must not be older than any that
    /// the case has seen.
    pub(crate) fn read(&mut self, zxid: Zxid) {
        let newest = self.newest;
        assert!(
            zxid >= newest,
            "a read at {zxid}, after a reply that showed {newest}"
        );
        self.newest = zxid;
    }

    /// The name of a transaction. A transaction that the case has not seen must be newer than all
    /// that it has seen.
    pub(crate) fn zxid(&mut self, zxid: Zxid) -> String {
        if zxid == Zxid::ZERO {
            return "0".to_owned();
        }
        if let Some(number) = self.zxids.iter().position(|known| *known == zxid) {
            return format!("z{number}");
        }
        if self.zxids.first().is_some_and(|first| zxid < *first) {
            return "old".to_owned();
        }
        let last = self.zxids.last().copied().unwrap_or_default();
        assert!(
            zxid > last,
            "{zxid} is new to the case, but older than {last}"
        );
        self.zxids.push(zxid);
        format!("z{}", self.zxids.len() - 1)
    }

    /// The number that a word of a script stands for. `zN` is a transaction.
    pub(crate) fn number<N: TryFrom<i64>>(&self, word: &str) -> N {
        let zxid = word.strip_prefix('z').map(str::parse::<usize>);
        let named = NUMBERS.iter().find(|(name, _)| *name == word);
        let number = match (named, zxid) {
            (Some((_, number)), _) => *number,
            (_, Some(Ok(zxid))) => self.zxids[zxid].0,
            _ => word.parse().unwrap_or_else(|_| panic!("no number: {word}")),
        };
        N::try_from(number).unwrap_or_else(|_| panic!("out of range: {word}"))
    }

    /// A `Stat`: the transaction that created the node, and each field that differs from that of a
    /// fresh, empty node.
    pub(crate) fn stat(&mut self, stat: &Stat) -> String {
        self.check_time(stat.czxid, stat.ctime);
        self.check_time(stat.mzxid, stat.mtime);
        let mut parts = vec![format!("stat {}", self.zxid(stat.czxid))];
        for (name, zxid) in [("m", stat.mzxid), ("p", stat.pzxid)] {
            if zxid != stat.czxid {
                parts.push(format!("{name}={}", self.zxid(zxid)));
            }
        }
        for (name, number) in [
            ("v", stat.version.0),
            ("cv", stat.cversion.0),
            ("av", stat.aversion.0),
            ("len", stat.data_length),
            ("kids", stat.num_children),
        ] {
            if number != 0 {
                parts.push(format!("{name}={number}"));
            }
        }
        if stat.ephemeral_owner != SessionId::NONE {
            parts.push(format!("owner={}", self.session(stat.ephemeral_owner)));
        }
        parts.join(" ")
    }

    /// Checks that everything that one transaction did has the same time.
    fn check_time(&mut self, zxid: Zxid, time: i64) {
        let known = *self.times.entry(zxid).or_insert(time);
        assert_eq!(known, time, "transaction {zxid} has two times");
    }

    pub(crate) fn session(&self, id: SessionId) -> char {
        let mut sessions = self.sessions.iter();
        let found = sessions.find(|(_, (known, _))| *known == id);
        found.map_or('?', |(letter, _)| *letter)
    }
}
