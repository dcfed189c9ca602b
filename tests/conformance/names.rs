//! What differs from run to run gets a name: paths, transactions, sessions, addresses, times.
//!
//! Transactions are numbered in the order in which a case first sees them: `z0` made the case's root. Their own numbers
//! cannot be compared, since other tests write to the same server, but their order can, and that each shows one time:
//! what contradicts that is a panic here.

use std::collections::BTreeMap;

use bytes::Bytes;
use lockkeeper::proto::{SessionId, Stat, Zxid, path};

#[derive(Debug, Default)]
pub(crate) struct Names {
    /// The root of the case: `$`.
    pub(crate) root: String,
    /// This machine, as the server sees it: `$ip`.
    pub(crate) ip: String,
    /// Transactions that were seen, in order.
    zxids: Vec<Zxid>,
    /// The newest transaction of which any reply told.
    newest: Zxid,
    times: BTreeMap<Zxid, i64>,
    sessions: BTreeMap<char, (SessionId, Bytes)>,
}

impl Names {
    pub(crate) fn expand(&self, text: &str) -> String {
        text.replace("$ip", &self.ip).replace('$', &self.root)
    }

    /// A text as a script shows it, where it may hold this machine's address.
    pub(crate) fn hide_address(&self, text: &str) -> String {
        if self.ip.is_empty() {
            text.to_owned()
        } else {
            text.replace(&self.ip, "$ip")
        }
    }

    /// A path as a script shows it.
    pub(crate) fn shorten(&self, path: &str) -> String {
        let inside = path::is_within(path, &self.root);
        match path.get(self.root.len()..) {
            Some(rest) if inside => super::words::bare(&format!("${rest}")),
            _ => super::words::bare(path),
        }
    }

    /// The transaction of a write: newer than all that was seen.
    pub(crate) fn written(&mut self, zxid: Zxid) -> String {
        assert!(
            zxid > self.newest,
            "a write at {zxid}, though a reply told of {} before it",
            self.newest
        );
        self.read(zxid);
        self.zxid(zxid)
    }

    /// The transaction that a reply to a read shows: at least as new as all that was seen.
    pub(crate) fn read(&mut self, zxid: Zxid) {
        assert!(
            zxid >= self.newest,
            "an answer as of {zxid}, though a reply told of {} before it",
            self.newest
        );
        self.newest = zxid;
    }

    /// The name of a transaction; one that this case has not seen comes after all that it has.
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
        assert!(zxid > last, "{zxid} was not seen, though {last} was");
        self.zxids.push(zxid);
        format!("z{}", self.zxids.len() - 1)
    }

    /// The transaction that a script names, or the number that it gives.
    pub(crate) fn zxid_called(&self, name: &str) -> Zxid {
        let parse = |digits: &str| digits.parse().expect("a number of a transaction");
        match name.strip_prefix('z') {
            Some(digits) => self.zxids[usize::try_from(parse(digits)).expect("small")],
            None => Zxid(parse(name)),
        }
    }

    /// A `Stat`: what made the node, and everything that is different from a fresh and empty one.
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

    /// What one transaction does, it does at one time.
    fn check_time(&mut self, zxid: Zxid, time: i64) {
        let known = *self.times.entry(zxid).or_insert(time);
        assert_eq!(known, time, "{zxid} happened at two times");
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
