//! Names for values that differ from run to run: paths, transactions, sessions, addresses, times.
//!
//! Transactions are numbered in the order in which a case first sees them; `z0` created the root of
//! the case. A script cannot compare their zxids, because other tests write to the same server. Two
//! rules hold for them nevertheless: zxids never decrease from one reply to the next, and one
//! transaction has one time. A reply that breaks a rule is a panic here.

use std::collections::BTreeMap;

use bytes::Bytes;
use lockkeeper::proto::{SessionId, Stat, Zxid, path};

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
    sessions: BTreeMap<char, (SessionId, Bytes)>,
}

impl Names {
    pub(crate) fn expand(&self, text: &str) -> String {
        text.replace("$ip", &self.ip).replace('$', &self.root)
    }

    /// A text as a script shows it, with this machine's address replaced.
    pub(crate) fn hide_address(&self, text: &str) -> String {
        if self.ip.is_empty() {
            text.to_owned()
        } else {
            text.replace(&self.ip, "$ip")
        }
    }

    /// A path as a script shows it, with the root replaced.
    pub(crate) fn shorten(&self, path: &str) -> String {
        let inside = path::is_within(path, &self.root);
        match path.get(self.root.len()..) {
            Some(rest) if inside => super::words::bare(&format!("${rest}")),
            _ => super::words::bare(path),
        }
    }

    /// Names the transaction of a write, which must be newer than all that the case has seen.
    pub(crate) fn written(&mut self, zxid: Zxid) -> String {
        assert!(
            zxid > self.newest,
            "a write at {zxid}, after a reply that showed {}",
            self.newest
        );
        self.read(zxid);
        self.zxid(zxid)
    }

    /// Checks the transaction that the reply to a read shows: it must not be older than any that
    /// the case has seen.
    pub(crate) fn read(&mut self, zxid: Zxid) {
        assert!(
            zxid >= self.newest,
            "a read at {zxid}, after a reply that showed {}",
            self.newest
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
        let last = self.zxids.last().copied().unwrap_or(Zxid::ZERO);
        assert!(
            zxid > last,
            "{zxid} is new to the case, but older than {last}"
        );
        self.zxids.push(zxid);
        format!("z{}", self.zxids.len() - 1)
    }

    /// The transaction with the given name, or with the given number.
    pub(crate) fn zxid_called(&self, name: &str) -> Zxid {
        let parse = |digits: &str| digits.parse().expect("a number of a transaction");
        match name.strip_prefix('z') {
            Some(digits) => self.zxids[usize::try_from(parse(digits)).expect("small")],
            None => Zxid(parse(name)),
        }
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

    pub(crate) fn add_session(&mut self, letter: char, id: SessionId, password: Bytes) {
        self.sessions.insert(letter, (id, password));
    }

    pub(crate) fn session_called(&self, letter: char) -> (SessionId, Bytes) {
        let session = self.sessions.get(&letter);
        session.expect("a session that was made before").clone()
    }

    pub(crate) fn session(&self, id: SessionId) -> char {
        let mut sessions = self.sessions.iter();
        let found = sessions.find(|(_, (known, _))| *known == id);
        found.map_or('?', |(letter, _)| *letter)
    }
}
