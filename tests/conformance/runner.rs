//! Runs a script against a server and records what the server sends, in the language of the
//! scripts.
//!
//! Not here: splitting and comparing scripts (`script`), the text of a reply (`reply`), the socket
//! (`connection`).

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use lockkeeper::proto::{
    ErrorCode, OpCode, SessionId, Xid, Zxid,
    connect::{ConnectRequest, PASSWORD_LEN},
    header::ReplyHeader,
    jute::{Decode, Reader},
};

use super::{
    connection::Connection, names::Names, reply, request::Request, script, support::Ensemble,
    words::Words,
};

/// Runs a script below a path of its own, and returns the transcript: the script's own lines and
/// what the server sent.
pub(crate) fn happened(
    ensemble: &Ensemble,
    script: String,
) -> impl Future<Output = Vec<String>> + use<> {
    let (servers, root) = (ensemble.servers(), ensemble.unique_path("conformance"));
    async move {
        let mut runner = Runner::new(&servers, root).await;
        for step in script::steps(&script) {
            let lines = step.iter().copied().map(str::to_owned);
            runner.lines.extend(lines);
            runner.run(step[0], &step[1..]).await;
        }
        runner.end().await;
        runner.lines
    }
}

struct Runner {
    servers: Vec<String>,
    names: Names,
    connections: BTreeMap<char, Connection>,
    /// When the connection that was last dropped or hushed last sent something.
    last_word: Instant,
    /// The transcript so far, in the language of the scripts.
    lines: Vec<String>,
}

impl Runner {
    /// Creates the root of the case, and asks the server which address it sees for this machine.
    async fn new(servers: &str, root: String) -> Self {
        let mut runner = Self {
            servers: servers.split(',').map(str::to_owned).collect(),
            names: Names::new(root),
            connections: BTreeMap::new(),
            last_word: Instant::now(),
            lines: Vec::new(),
        };
        for request in ["create $", "whoAmI"] {
            runner.send('-', request, &[]).await;
            runner.flush('-').await;
        }
        let who = runner.lines.pop().expect("an answer");
        let ip = who.split_once("ip:").expect("an address").1;
        let end = ip.find([' ', ']']).expect("the end of a list");
        ip[..end].clone_into(&mut runner.names.ip);
        assert_eq!(runner.lines, ["-< z0 ok $"]);
        runner.lines.clear();
        // This connection stays open until the end: closing its session would be a transaction in
        // the transcript.
        runner.connection('-').is_in_session = false;
        runner
    }

    /// Runs a line, with the operations of its list.
    async fn run(&mut self, line: &str, list: &[&str]) {
        let list: Vec<_> = list.iter().map(|line| &line[2..]).collect();
        let mut chars = line.chars();
        let who = chars.next().expect("a letter");
        let sign = chars.next();
        let text = chars.as_str().trim();
        match (sign, text.split_once(' ').unwrap_or((text, ""))) {
            (Some('>'), (word, options)) => {
                match word {
                    "connect" => self.connect(who, options).await,
                    "word" => self.word(who, options).await,
                    _ => self.send(who, text, &list).await,
                }
                self.flush(who).await;
                self.listen(who).await;
            }
            (Some('&'), _) => self.send(who, text, &list).await,
            (Some('?'), _) => {
                let mut words = Words::new(text, &self.names);
                let after = Duration::from_millis(words.number("after", 0));
                words.end();
                while !self.receive(who).await && self.connections.contains_key(&who) {}
                let waited = self.last_word.elapsed();
                assert!(
                    waited >= after,
                    "{waited:?} after the last `drop` or `hush`: {text}"
                );
            }
            (Some('!'), ("drop", "")) => {
                let dropped = self.connections.remove(&who).expect("a connection");
                self.last_word = dropped.last_sent;
            }
            // From now on the runner sends only what the script says: no pings of its own.
            (Some('!'), ("hush", "")) => {
                let connection = self.connection(who);
                connection.is_in_session = false;
                self.last_word = connection.last_sent;
            }
            (Some('!'), ("bytes", bytes)) => {
                if !self.connections.contains_key(&who) {
                    let connection = Connection::open(self.server_of(who)).await;
                    self.connections.insert(who, connection);
                }
                let bytes = self.names.bytes(bytes).expect("bytes");
                let connection = self.connection(who);
                connection.output.extend(bytes);
                connection.is_in_session = false;
                connection.flush().await;
            }
            _ => panic!("not a line of a script: {line}"),
        }
    }

    /// The server of this connection. In a cluster, neighbours in the alphabet have different ones.
    fn server_of(&self, who: char) -> &str {
        let number = usize::try_from(u32::from(who)).expect("a letter");
        &self.servers[number % self.servers.len()]
    }

    /// Queues a request. Opens a connection with a new session first if `who` has none.
    async fn send(&mut self, who: char, text: &str, list: &[&str]) {
        if !self.connections.contains_key(&who) {
            self.connect(who, "").await;
            self.lines.pop();
        }
        let request = Request::parse(text, list, &self.names);
        let connection = self.connection(who);
        let xid = match request.op {
            OpCode::PING => Xid::PING,
            OpCode::AUTH => Xid::AUTH,
            _ => connection.next_xid(),
        };
        let sent = request.xid.unwrap_or(xid);
        request.frame(sent, &mut connection.output);
        // The server answers a ping with the xid -2, even if the request had another xid.
        let reply_xid = if request.op == OpCode::PING {
            xid
        } else {
            sent
        };
        connection.pending.push_back((reply_xid, request));
    }

    /// Sends what is queued and waits for all replies.
    async fn flush(&mut self, who: char) {
        if let Some(connection) = self.connections.get_mut(&who) {
            connection.flush().await;
        }
        let waits = |it: &Connection| it.is_ending || !it.pending.is_empty();
        while self.connections.get(&who).is_some_and(waits) {
            self.receive(who).await;
        }
    }

    /// Reads everything that the server has sent so far on all connections, the sender's first.
    async fn listen(&mut self, first: char) {
        let others = self.connections.keys().copied().filter(|who| *who != first);
        let all: Vec<_> = std::iter::once(first).chain(others).collect();
        for who in all {
            match self.connections.get_mut(&who) {
                Some(connection) if connection.is_in_session => connection.probe().await,
                _ => continue,
            }
            while self.receive(who).await {}
        }
    }

    /// Reads the next message. Returns false for the reply to a probe and for the end of the
    /// connection.
    async fn receive(&mut self, who: char) -> bool {
        let connection = self.connection(who);
        let Some(message) = connection.next().await else {
            self.connections.remove(&who);
            self.say(who, "closed");
            return false;
        };
        let mut reader = Reader::new(message);
        let header = ReplyHeader::decode(&mut reader).expect("the header of a reply");
        if header.xid == Xid::NOTIFICATION {
            let event = reply::event(header, &mut reader, &self.names);
            self.say(who, &event);
            return true;
        }
        let pending = &mut connection.pending;
        let next = pending.front().filter(|(xid, _)| *xid == header.xid);
        if next.is_none() {
            assert_eq!(header.xid, Xid::PING, "not the next reply: {header:?}");
            self.names.read(header.zxid);
            return false;
        }
        let (_, request) = pending.pop_front().expect("just found");
        // Servers close the connection behind this reply. A real one may answer a ping meanwhile.
        if header.err == ErrorCode::UNIMPLEMENTED {
            connection.is_ending = true;
            connection.is_in_session = false;
        }
        let mut lines = reply::reply(request.op, header, &mut reader, &mut self.names);
        if let Some((outcome, _)) = lines[0].split_once("ok ").filter(|_| request.is_brief) {
            lines[0] = format!("{outcome}ok");
        }
        let xid = request.xid.map(|_| format!("xid={} ", header.xid));
        self.say(who, &(xid.unwrap_or_default() + &lines[0]));
        self.lines.extend(lines.drain(1..));
        true
    }

    async fn connect(&mut self, who: char, options: &str) {
        let mut words = Words::new(options, &self.names);
        let resumed = words.option("resume").map(|letter| {
            let session = self.names.sessions.get(&letter.parse().expect("a letter"));
            session.expect("a session that was made before").clone()
        });
        let new = || (SessionId::NONE, Bytes::from_static(&[0; PASSWORD_LEN]));
        let (session_id, password) = resumed.clone().unwrap_or_else(new);
        let request = ConnectRequest {
            protocol_version: words.number("version", 0),
            last_zxid_seen: Zxid(words.number("zxid", 0)),
            timeout_ms: words.number("timeout", 30_000),
            session_id: SessionId(words.number("session", session_id.0)),
            password: match words.option("password") {
                Some(password) => self.names.bytes(&password).map(Bytes::from),
                None => Some(password),
            },
            read_only: match words.option("readonly").as_deref() {
                None => Some(false),
                Some("absent") => None,
                Some(value) => Some(value.parse().expect("true or false")),
            },
        };
        words.end();
        let mut connection = Connection::open(self.server_of(who)).await;
        let Some(response) = connection.handshake(&request).await else {
            self.say(who, "closed");
            return;
        };
        self.connections.insert(who, connection);
        assert_eq!(response.protocol_version, 0);
        let password = response.password.expect("a password");
        assert_eq!(password.len(), PASSWORD_LEN);
        let read_only = match response.read_only {
            None => " readonly=absent",
            Some(false) => "",
            Some(true) => " readonly=true",
        };
        let session = (response.session_id, password);
        if response.timeout_ms == 0 {
            assert_eq!(session, new(), "a session although it is refused");
            self.say(who, &format!("refused{read_only}"));
            self.receive(who).await;
            return;
        }
        match resumed {
            Some(resumed) => assert_eq!(resumed, session),
            None => drop(self.names.sessions.insert(who, session)),
        }
        let letter = self.names.session(response.session_id);
        let timeout = response.timeout_ms;
        self.say(
            who,
            &format!("session {letter} timeout={timeout}{read_only}"),
        );
    }

    /// Sends a four-letter word. The answer is text.
    async fn word(&mut self, who: char, word: &str) {
        let mut connection = Connection::open(self.server_of(who)).await;
        connection.output = BytesMut::from(word);
        connection.flush().await;
        let answer = connection.rest().await;
        let answer = String::from_utf8(answer.to_vec()).expect("text");
        for line in answer.lines() {
            // The values differ from run to run, the names do not.
            self.say(who, line.split(": ").next().unwrap_or_default());
        }
        self.say(who, "closed");
    }

    /// Closes all sessions that are still open. Their replies do not count.
    async fn end(&mut self) {
        let happened = self.lines.len();
        while let Some(who) = self.connections.keys().next().copied() {
            if self.connection(who).is_in_session {
                self.send(who, "closeSession", &[]).await;
                self.flush(who).await;
            }
            self.connections.remove(&who);
        }
        self.lines.truncate(happened);
    }

    fn connection(&mut self, who: char) -> &mut Connection {
        let connection = self.connections.get_mut(&who);
        connection.unwrap_or_else(|| panic!("{who} has no connection"))
    }

    fn say(&mut self, who: char, what: &str) {
        self.lines.push(format!("{who}< {what}"));
    }
}
