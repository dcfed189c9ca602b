//! Runs a script against a server and records what the server sends, in the language of the
//! scripts.
//!
//! Not here: parsing of scripts and the comparison (`script`), the text of a reply (`reply`), the
//! socket (`connection`).

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use lockkeeper::proto::{
    ErrorCode, OpCode, SessionId, Xid, Zxid,
    connect::{ConnectRequest, PASSWORD_LEN},
};

use super::{
    connection::{Connection, Pending, new_session, open},
    names::Names,
    reply,
    request::Outgoing,
    script::{self, Step, What},
    support::Ensemble,
    words::Words,
};

/// Who answers what is expected, and what happens.
const WHO: [&str; 2] = ["ZooKeeper answers", "this server answered"];

/// Runs a script below `root`, a path of its own. Returns what differs from the script, with the
/// whole transcript.
pub(crate) async fn check(servers: String, root: String, script: String) -> Result<(), String> {
    let runner = Runner::new(&servers, root).await;
    script::compare(WHO, &script, &runner.run_all(&script).await)
}

/// Runs a script and returns the transcript: the script's own lines and what the server sent.
pub(crate) async fn happened(ensemble: &Ensemble, script: &str) -> Vec<String> {
    let root = ensemble.unique_path("conformance");
    let runner = Runner::new(&ensemble.servers(), root).await;
    runner.run_all(script).await
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
            names: Names::default(),
            connections: BTreeMap::new(),
            last_word: Instant::now(),
            lines: Vec::new(),
        };
        runner.names.root = root;
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

    async fn run_all(mut self, script: &str) -> Vec<String> {
        for step in &script::parse(script) {
            self.run(step).await;
        }
        self.end().await;
        self.lines
    }

    async fn run(&mut self, step: &Step) {
        self.lines.extend(step.source.iter().cloned());
        let Step {
            who,
            what,
            text,
            more,
            ..
        } = step;
        let who = *who;
        match what {
            What::Request => {
                self.request(who, text, more).await;
                self.flush(who).await;
                self.listen(who).await;
            }
            What::Queue => self.send(who, text, more).await,
            What::Await => {
                let mut words = Words::new(text, &self.names);
                let after = words
                    .number("after")
                    .map_or(Duration::ZERO, Duration::from_millis);
                words.end();
                while !self.receive(who).await && self.connections.contains_key(&who) {}
                let waited = self.last_word.elapsed();
                assert!(
                    waited >= after,
                    "{waited:?} after the last `drop` or `hush`: {text}"
                );
            }
            What::Order => self.order(who, text).await,
        }
    }

    async fn request(&mut self, who: char, text: &str, more: &[String]) {
        match text.split_once(' ').unwrap_or((text, "")) {
            ("connect", options) => self.connect(who, options).await,
            ("word", word) => self.word(who, word).await,
            _ => self.send(who, text, more).await,
        }
    }

    /// The server of this connection. In a cluster, neighbours in the alphabet have different ones.
    fn server_of(&self, who: char) -> &str {
        let number = usize::try_from(u32::from(who)).expect("a letter");
        &self.servers[number % self.servers.len()]
    }

    /// Opens a connection with a new session if `who` has none.
    async fn open(&mut self, who: char) {
        if !self.connections.contains_key(&who) {
            let mut connection = Connection::open(self.server_of(who)).await;
            let response = connection.handshake(&new_session(30_000)).await;
            let response = response.expect("a session");
            let password = response.password.expect("a password");
            self.names.add_session(who, response.session_id, password);
            self.connections.insert(who, connection);
        }
    }

    /// Queues a request. Opens a connection with a new session first if `who` has none.
    async fn send(&mut self, who: char, text: &str, more: &[String]) {
        self.open(who).await;
        let request = Outgoing::parse(text, more, &self.names);
        let connection = self.connection(who);
        let xid = match request.op {
            _ if request.xid.is_some() => request.xid.unwrap_or_default(),
            OpCode::PING => Xid::PING,
            OpCode::AUTH => Xid::AUTH,
            _ => connection.next_xid(),
        };
        request.frame(xid, &mut connection.output);
        connection.pending.push_back(Pending {
            // The server answers a ping with the xid -2, even if the request had another xid.
            reply_xid: if request.op == OpCode::PING {
                Xid::PING
            } else {
                xid
            },
            op: request.op,
            is_numbered: request.xid.is_some(),
            is_brief: request.is_brief,
        });
    }

    /// Sends what is queued and waits for all replies.
    async fn flush(&mut self, who: char) {
        if let Some(connection) = self.connections.get_mut(&who) {
            connection.flush().await;
        }
        while self
            .connections
            .get(&who)
            .is_some_and(|connection| !connection.pending.is_empty())
        {
            self.receive(who).await;
        }
        if self.connections.get(&who).is_some_and(|it| it.is_ending) {
            while self.receive(who).await {}
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
        let (header, body) = open(message);
        if header.xid == Xid::NOTIFICATION {
            let event = reply::event(header, body, &self.names);
            self.say(who, &event);
            return true;
        }
        let mut pending = connection.pending.iter();
        let at = pending.position(|pending| pending.reply_xid == header.xid);
        let Some(at) = at else {
            assert_eq!(
                header.xid,
                Xid::PING,
                "a reply without a request: {header:?}"
            );
            self.names.read(header.zxid);
            return false;
        };
        let pending = connection.pending.remove(at).expect("just found");
        // Servers close the connection behind this reply. A real one may answer a ping meanwhile.
        if header.err == ErrorCode::UNIMPLEMENTED {
            connection.is_ending = true;
            connection.is_in_session = false;
        }
        let mut lines = reply::reply(pending.op, header, body, &mut self.names).into_iter();
        let mut first = lines.next().expect("a line");
        if let Some((outcome, _)) = first.split_once("ok ").filter(|_| pending.is_brief) {
            first = format!("{outcome}ok");
        }
        if pending.is_numbered {
            first = format!("xid={} {first}", header.xid);
        }
        if at > 0 {
            first = format!("early {first}");
        }
        self.say(who, &first);
        self.lines.extend(lines);
        true
    }

    async fn order(&mut self, who: char, text: &str) {
        match text.split_once(' ').unwrap_or((text, "")) {
            ("drop", "") => {
                let dropped = self.connections.remove(&who).expect("a connection");
                self.last_word = dropped.last_sent;
            }
            // From now on the runner sends only what the script says: no pings of its own.
            ("hush", "") => {
                let connection = self.connection(who);
                connection.is_in_session = false;
                self.last_word = connection.last_sent;
            }
            ("bytes", bytes) => {
                if !self.connections.contains_key(&who) {
                    let connection = Connection::open(self.server_of(who)).await;
                    self.connections.insert(who, connection);
                }
                let bytes = Words::new(bytes, &self.names).bytes().expect("bytes");
                let connection = self.connection(who);
                connection.output.extend_from_slice(&bytes);
                connection.is_in_session = false;
                connection.flush().await;
            }
            _ => panic!("no such order: {text}"),
        }
    }

    async fn connect(&mut self, who: char, options: &str) {
        let mut words = Words::new(options, &self.names);
        let resumed = words
            .option("resume")
            .map(|letter| letter.parse().expect("a letter"));
        let known = resumed.map(|letter| self.names.session_called(letter));
        let (session_id, password) = known
            .clone()
            .unwrap_or((SessionId::NONE, Bytes::from_static(&[0; PASSWORD_LEN])));
        let request = ConnectRequest {
            protocol_version: words.number("version").unwrap_or(0),
            last_zxid_seen: words
                .option("zxid")
                .map_or(Zxid::ZERO, |zxid| self.names.zxid_called(&zxid)),
            timeout_ms: words.number("timeout").unwrap_or(30_000),
            session_id: words.number("session").map_or(session_id, SessionId),
            password: words.option_bytes("password", Some(password.to_vec())),
            read_only: match words.option("readonly").as_deref() {
                None => Some(false),
                Some("absent") => None,
                Some(value) => Some(value.parse().expect("true or false")),
            },
        };
        words.end();
        let mut connection = Connection::open(self.server_of(who)).await;
        let response = connection.handshake(&request).await;
        if response.is_some() {
            self.connections.insert(who, connection);
        }
        let Some(response) = response else {
            self.say(who, "closed");
            return;
        };
        assert_eq!(response.protocol_version, 0);
        let password = response.password.expect("a password");
        assert_eq!(password.len(), PASSWORD_LEN);
        let read_only = match response.read_only {
            None => " readonly=absent",
            Some(false) => "",
            Some(true) => " readonly=true",
        };
        if response.timeout_ms == 0 {
            assert_eq!(response.session_id, SessionId::NONE);
            assert!(
                password.iter().all(|byte| *byte == 0),
                "a password without a session"
            );
            self.say(who, &format!("refused{read_only}"));
            self.receive(who).await;
            return;
        }
        match known {
            Some(known) => assert_eq!(known, (response.session_id, password)),
            None => self.names.add_session(who, response.session_id, password),
        }
        let letter = self.names.session(response.session_id);
        self.say(
            who,
            &format!(
                "session {letter} timeout={}{read_only}",
                response.timeout_ms
            ),
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
            let name = line.split_once(": ").map_or(line, |(name, _)| name);
            self.say(who, name);
        }
        self.say(who, "closed");
    }

    /// Closes all sessions that are still open. Their replies do not count.
    async fn end(&mut self) {
        let happened = self.lines.len();
        while let Some(who) = self.connections.keys().next().copied() {
            self.close(who).await;
        }
        self.lines.truncate(happened);
    }

    async fn close(&mut self, who: char) {
        if self.connection(who).is_in_session {
            self.send(who, "closeSession", &[]).await;
            self.flush(who).await;
        }
        self.connections.remove(&who);
    }

    fn connection(&mut self, who: char) -> &mut Connection {
        let connection = self.connections.get_mut(&who);
        connection.unwrap_or_else(|| panic!("{who} has no connection"))
    }

    fn say(&mut self, who: char, what: &str) {
        self.lines.push(format!("{who}< {what}"));
    }
}
