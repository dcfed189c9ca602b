//! Stories of several servers, as text: elections, links that are cut, followers that learn of
//! transactions late, and servers that lag or stop.
//!
//! Each story is a section of a file in `stories/`, and each of its lines is a step. Servers are
//! `A`, `B` and `C`; clients have names.
//!
//! | line | what it means |
//! |---|---|
//! | `elections` | three members, which have all transactions at once and give up after 2.5 s |
//! | `followers` | three members, which learn of transactions after at most 100 ms and do not give up |
//! | `join x A`, `fresh x A [with REQUEST]` | a session of 4 s; without waiting for the answer |
//! | `resume x A of y [none]`, `ask x A of y` | the same for a session of another connection, perhaps of a client that has seen the `noted` or the `latest` transaction |
//! | `x> XID OP PATH`, `x< XID OP ANSWER` | a request, perhaps a `garbled` one; its reply: a path, `ok`, `none` if there is no node, or `unreadable` |
//! | `x writes PATH`, `x sees PATH`, `x misses PATH` | a create; what a read of its server shows |
//! | `x silent`, `x open`, `x closed`, `x greeted` | what the connection has got |
//! | `x leaves` | its client gives the connection up |
//! | `x idles MS`, `x hears PATH` | it only pings; it gets an event |
//! | `lag A`, `catch-up A` | the server gets no transaction; it gets those that it has missed |
//! | `cut A B [one-way]`, `mend A B [one-way]` | the link between two members |
//! | `each $a $b = 1 2 \| 3 4` .. `end` | the lines between them, once with each of the values |
//!
//! The other words are the names of the engine's hooks, and of what the test looks at.

use std::time::Duration;

use lockkeeper_proto::{
    CreateMode, ErrorCode, OpCode, Request, Response, SessionId, WatcherEvent, Xid, Zxid,
    connect::{ConnectRequest, ConnectResponse},
    frame,
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, Reader},
    records::Empty,
};
use lockkeeper_server::engine::{ConnId, ServerId};
use lockkeeper_test_support::peer;

use crate::world::{
    MS, World, connect_frame, create, delete, framed, get_data, new_session, request_frame, sync,
};

/// How long members go on without what their role needs.
pub(crate) const LIMIT: Duration = Duration::from_millis(2500);

/// The longest time that a transaction travels.
const LONGEST: Duration = Duration::from_millis(100);

/// Makes a test of each story of a file, and one that no story of the file is left out.
macro_rules! stories {
    ($($file:ident: $($story:ident)*;)*) => {$(
        mod $file {
            const TEXT: &str = include_str!(concat!("stories/", stringify!($file), ".txt"));

            $(#[test]
            fn $story() {
                super::tell(TEXT, stringify!($story));
            })*

            #[test]
            fn all_stories_are_told() {
                let told = [$(stringify!($story)),*];
                let all: Vec<_> = TEXT.lines().filter_map(|line| line.strip_prefix("## ")).collect();
                assert_eq!(all, told);
            }
        }
    )*};
}

stories! {
    elections:
        a_write_is_answered_by_every_member_and_seen_at_all
        a_follower_that_is_cut_off_gives_up_after_the_sync_limit_and_comes_back
        one_direction_is_enough_for_a_follower_to_give_up
        a_link_between_followers_matters_only_without_a_leader
        a_leader_without_a_majority_commits_nothing_and_is_replaced
        what_waited_is_committed_if_the_leader_has_its_majority_back_in_time
        a_deposed_leader_that_is_cut_off_goes_on_until_the_sync_limit
        a_deposed_leader_with_whole_links_follows_its_successor
        a_former_leader_learns_of_its_successor_when_the_link_is_mended
        the_member_that_knows_most_is_elected
        without_a_majority_nobody_serves_and_no_session_ends
        nobody_is_elected_who_does_not_reach_a_majority
        a_restart_cuts_all_connections_and_renews_every_timeout;
    links:
        a_server_that_is_cut_off_answers_its_clients_while_the_leader_ends_their_sessions
        what_waited_arrives_in_order_when_the_link_is_mended
        with_one_direction_cut_the_other_works
        a_write_that_waited_is_refused_if_its_session_has_moved
        a_handshake_makes_writes_valid_that_waited_even_if_it_was_given_up
        a_session_that_a_leader_without_the_others_has_resumed_stays_if_it_is_not_deposed
        a_server_that_gives_up_loses_what_waited
        a_leader_without_the_others_goes_on_and_its_writes_are_lost
        the_end_of_a_session_by_a_leader_without_the_others_is_lost
        activity_that_a_server_has_not_reported_is_lost_when_it_fails;
    followers:
        requests_that_came_with_the_handshake_are_answered_when_the_session_has_begun
        a_write_and_the_requests_behind_it_wait_for_its_transaction
        a_write_of_a_former_connection_answers_the_same_xid_at_another_server
        the_same_xid_at_the_same_server_or_another_xid_gets_its_own_reply
        a_read_is_stale_unless_a_sync_or_a_write_precedes_it
        a_follower_ends_a_session_when_the_transaction_arrives
        a_session_that_ends_before_its_server_knows_of_it_is_greeted_and_closed
        the_beginning_of_a_session_is_mistaken_for_a_write_with_the_xid_0_at_another_server
        a_deposed_leader_loses_only_transactions_that_no_follower_has_learned
        no_election_loses_what_was_done_by_hand_or_came_before_it
        servers_lag_independently_and_their_watches_fire_after_catching_up
        a_lagging_server_refuses_clients_that_have_seen_more;
}

/// Tells a story of a file. The output of a test that fails ends with the line that it broke.
fn tell(text: &str, story: &str) {
    let begin = format!("## {story}\n");
    let (_, rest) = text.split_once(&begin).expect("the story");
    let lines = rest.lines().take_while(|line| !line.starts_with("## "));
    let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with("# "));
    let mut stage = Stage::new();
    while let Some(line) = lines.next() {
        let Some(each) = line.strip_prefix("each ") else {
            stage.line(line);
            continue;
        };
        let block: Vec<_> = lines.by_ref().take_while(|line| *line != "end").collect();
        let (names, rows) = each.split_once(" = ").expect("values");
        for row in rows.split(" | ") {
            for line in &block {
                let values = names.split(' ').zip(row.split(' '));
                stage.line(&values.fold((*line).to_owned(), |line, (name, value)| {
                    line.replace(name, value)
                }));
            }
        }
    }
}

/// The servers of a story, and its clients.
struct Stage {
    world: World,
    /// Their names, connections, and sessions once they have begun.
    clients: Vec<(String, ConnId, Option<ConnectResponse>)>,
    noted: Zxid,
}

impl Stage {
    fn new() -> Self {
        Self {
            world: World::new(500),
            clients: Vec::new(),
            noted: Zxid::ZERO,
        }
    }

    fn line(&mut self, line: &str) {
        println!("{line}");
        let words: Vec<_> = line.split(' ').collect();
        if let Some(name) = words[0].strip_suffix('>') {
            let id = self.id(name);
            self.world.send(id, &request(&words[1..]));
        } else if let Some(name) = words[0].strip_suffix('<') {
            let id = self.id(name);
            let answer = reply(&mut self.world, id, words[2]);
            assert_eq!(
                answer,
                (Xid(words[1].parse().unwrap()), words[3].to_owned())
            );
        } else if self.clients.iter().any(|(name, ..)| name == words[0]) {
            self.of_client(&words);
        } else if matches!(words.get(1), Some(&("A" | "B" | "C"))) {
            self.of_server(&words);
        } else {
            self.of_all(&words);
        }
        self.world.collect();
    }

    /// The steps of all servers, and those that begin a connection.
    fn of_all(&mut self, words: &[&str]) {
        let (engine, now) = (&mut self.world.engine, self.world.now);
        match words {
            ["elections" | "followers"] => {
                *self = Self::new();
                let (limit, travel) = match words[0] {
                    "elections" => (LIMIT, Duration::ZERO),
                    _ => (60_000 * MS, LONGEST),
                };
                let now = self.world.now;
                self.world.engine.set_ensemble(3, limit, travel, now);
                assert_eq!(self.world.engine.leader(), Some(ServerId(2)));
            }
            ["join", name, at] => {
                self.connect(name, server(at), &connect_frame(4000));
                self.world.pass(LONGEST);
                self.of_client(&[name, "greeted"]);
            }
            ["fresh", name, at, with @ ..] => {
                let with = with.get(1..).map(request).unwrap_or_default();
                self.connect(name, server(at), &[connect_frame(4000), with].concat());
            }
            ["ask" | "resume", name, at, "of", of, ..] => {
                let last_zxid_seen = match words.last() {
                    Some(&"latest") => engine.last_zxid(),
                    Some(&"noted") => self.noted,
                    _ => Zxid::ZERO,
                };
                let session = self.session(of);
                let asked = framed(&ConnectRequest {
                    last_zxid_seen,
                    session_id: session.session_id,
                    password: session.password.clone(),
                    ..new_session(4000)
                });
                self.connect(name, server(at), &asked);
                if words[0] == "resume" {
                    self.of_client(&[name, "greeted"]);
                    let is_refused = words.last() == Some(&"none");
                    let expected = if is_refused {
                        SessionId::NONE
                    } else {
                        session.session_id
                    };
                    assert_eq!(self.session(name).session_id, expected);
                }
            }
            ["expire", name] => {
                let session = self.session(name).session_id;
                assert!(self.world.engine.expire_early(session, now));
            }
            ["lives" | "over", name] => {
                let session = self.session(name).session_id;
                let lives = self
                    .world
                    .engine
                    .live_sessions()
                    .any(|live| live == session);
                assert_eq!(lives, words[0] == "lives");
            }
            ["sessions", count] => {
                assert_eq!(
                    engine.live_sessions().count(),
                    count.parse::<usize>().unwrap()
                );
            }
            ["paths", paths @ ..] => assert_eq!(engine.paths(), paths),
            ["leader", "none"] => assert_eq!(engine.leader(), None),
            ["elect", "none"] => assert_eq!(engine.elect_another(now), None),
            ["lost", count] => assert_eq!(engine.counters().lost.to_string(), *count),
            ["note"] => self.noted = engine.last_zxid(),
            ["further"] => assert!(engine.last_zxid() > self.noted),
            ["pass", ms] => self.world.pass(MS * ms.parse::<u32>().unwrap()),
            ["sound"] => engine.assert_sound(),
            other => panic!("{other:?}"),
        }
    }

    /// The steps of one server, or of a link.
    fn of_server(&mut self, words: &[&str]) {
        let (engine, now) = (&mut self.world.engine, self.world.now);
        let one = server(words[1]);
        match words[0] {
            verb @ ("cut" | "mend") => {
                let other = server(words[2]);
                engine.set_cut_between(one, other, verb == "cut", now);
                if words.len() == 3 {
                    engine.set_cut_between(other, one, verb == "cut", now);
                }
            }
            verb @ ("lag" | "catch-up") => engine.set_lags(one, verb == "lag"),
            "stop" => engine.stop_server(one, now),
            "start" => engine.start_server(one, now),
            "leader" => assert_eq!(engine.leader(), Some(one)),
            "elect" => assert_eq!(engine.elect_another(now), Some(one)),
            "serves" => assert!(!refuses(&mut self.world, one)),
            "refuses" => assert!(refuses(&mut self.world, one)),
            other => panic!("{other}"),
        }
    }

    /// The steps of a client that has a connection.
    fn of_client(&mut self, words: &[&str]) {
        let id = self.id(words[0]);
        let world = &mut self.world;
        match words[1] {
            "writes" => {
                world.send(id, &request(&["1", "create", words[2]]));
                world.pass(MS);
            }
            "sees" => assert!(sees(world, id, words[2])),
            "misses" => assert!(!sees(world, id, words[2])),
            "silent" => {
                let (sent, closed) = world.of(id);
                assert!(!*closed && frame::split(sent, usize::MAX >> 1).unwrap().is_none());
            }
            "leaves" => world.engine.disconnected(id, world.now),
            "open" => assert!(!world.of(id).1),
            "closed" => assert!(world.of(id).1),
            "greeted" => {
                let session = ConnectResponse::decode(&mut world.frame(id)).unwrap();
                let is_refused = session.session_id == SessionId::NONE;
                assert_eq!(session.timeout_ms == 0, is_refused);
                let client = self.clients.iter_mut().find(|(_, it, _)| *it == id);
                client.unwrap().2 = Some(session);
            }
            "hears" => {
                let mut event = world.frame(id);
                let header = ReplyHeader::decode(&mut event).unwrap();
                assert_eq!(header.xid, Xid::NOTIFICATION);
                assert_eq!(WatcherEvent::decode(&mut event).unwrap().path, words[2]);
            }
            "idles" => {
                for _ in 0..words[2].parse::<u32>().unwrap() / 500 {
                    world.pass(500 * MS);
                    world.send(id, &request_frame(Xid::PING, &Request::Ping(Empty {})));
                    assert_eq!(reply(world, id, "ping"), (Xid::PING, "ok".to_owned()));
                }
            }
            other => panic!("{other}"),
        }
    }

    fn connect(&mut self, name: &str, at: ServerId, bytes: &[u8]) {
        let id = self.world.connect_to(at);
        self.clients.push((name.to_owned(), id, None));
        self.world.send(id, bytes);
    }

    fn id(&self, name: &str) -> ConnId {
        let mut clients = self.clients.iter();
        clients.find(|(it, ..)| it == name).expect("a client").1
    }

    fn session(&self, name: &str) -> ConnectResponse {
        let mut clients = self.clients.iter();
        let (.., session) = clients.find(|(it, ..)| it == name).expect("a client");
        session.clone().expect("a session")
    }
}

fn server(name: &str) -> ServerId {
    ServerId("ABC".find(name).expect("a server").try_into().unwrap())
}

/// The frame of `XID OP PATH [ephemeral]`.
fn request(words: &[&str]) -> Vec<u8> {
    let (xid, path) = (Xid(words[0].parse().unwrap()), words[2]);
    if words[1] == "garbled" {
        // Without the body.
        let op = OpCode::EXISTS;
        return framed(&RequestHeader { xid, op });
    }
    let request = match (words[1], words.get(3)) {
        ("create", None) => create(path, CreateMode::Persistent),
        ("create", Some(_)) => create(path, CreateMode::Ephemeral),
        ("exists", _) => peer::exists(path, false),
        ("watch", _) => get_data(path, true),
        ("delete", _) => delete(path),
        ("sync", _) => sync(path),
        other => panic!("{other:?}"),
    };
    request_frame(xid, &request)
}

/// The xid of the next reply, and its answer in the words of a story.
fn reply(world: &mut World, id: ConnId, op: &str) -> (Xid, String) {
    let op = match op {
        "create" => OpCode::CREATE,
        "exists" => OpCode::EXISTS,
        "watch" => OpCode::GET_DATA,
        "delete" => OpCode::DELETE,
        "sync" => OpCode::SYNC,
        _ => OpCode::PING,
    };
    let mut reply: Reader = world.frame(id);
    let header = ReplyHeader::decode(&mut reply).unwrap();
    let answer = match header.err {
        ErrorCode::NO_NODE => "none".to_owned(),
        ErrorCode::MARSHALLING_ERROR => "unreadable".to_owned(),
        ErrorCode::OK => match Response::decode(op, &mut reply).unwrap() {
            Response::Create(created) => created.path,
            _ => "ok".to_owned(),
        },
        other => other.to_string(),
    };
    (header.xid, answer)
}

/// A new session of 4 s.
pub(crate) fn join(world: &mut World, at: ServerId) -> ConnId {
    let id = world.connect_to(at);
    world.send(id, &connect_frame(4000));
    world.pass(LONGEST);
    ConnectResponse::decode(&mut world.frame(id)).unwrap();
    id
}

pub(crate) fn sees(world: &mut World, id: ConnId, path: &str) -> bool {
    world.send(id, &request(&["2", "exists", path]));
    let (_, answer) = reply(world, id, "exists");
    assert!(["ok", "none"].contains(&&*answer), "{answer}");
    answer == "ok"
}

/// Whether a server is stopped, or says that it does not serve.
pub(crate) fn refuses(world: &mut World, server: ServerId) -> bool {
    let id = world.connect_to(server);
    world.send(id, b"isro");
    world.of(id).0 != b"rw"[..]
}
