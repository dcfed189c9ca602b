//! Generated scripts: each seed gives many requests on few nodes, and all arms must answer them
//! alike.
//!
//! The embedded server's answers are the script for the real server and for a cluster. The
//! generator leaves out three things:
//! - everything that depends on time (expiry, and the reaper: a container never gets a child);
//! - everything that has no defined order (the deletes of several ephemeral nodes of one session,
//!   the identities of a connection that has several);
//! - everything that differs between versions (see `cases/watches.txt`). So a listener has one watch
//!   mode for each path, and no request asks whether a node exists that the client may not read.
//!   With a real server before 3.9, no transaction has a create with a bad flag or a null ACL.

use std::{fmt::Write, ops::Range};

use lockkeeper_sim::Rng;

use super::{
    connection::Connection,
    runner, script,
    support::{self, Arm},
};

/// The seeds, one script each. A seed that has once failed is added behind them.
const SEEDS: Range<u64> = 0..40;

/// Requests in each script.
const LENGTH: usize = 200;

#[tokio::test]
#[ignore = "needs a real ZooKeeper: tests/run.sh"]
async fn both_servers_answer_random_requests_alike() {
    let address = support::from_environment("LOCKKEEPER_TEST_ZOOKEEPER");
    let mut connection = Connection::open(&address).await;
    connection.output.extend_from_slice(b"srvr");
    connection.flush().await;
    let text = connection.rest().await;
    let is_3_9 = text.starts_with(b"Zookeeper version: 3.9.");
    println!("transactions with creates that are malformed since 3.9: {is_3_9}");
    answers_alike(Arm::Real, SEEDS, is_3_9).await;
}

/// Neighbours in the alphabet are connected to different members.
#[tokio::test]
async fn a_cluster_answers_random_requests_as_one_server() {
    answers_alike(Arm::Cluster, 0..10, true).await;
}

async fn answers_alike(other: Arm, seeds: Range<u64>, malformed: bool) {
    support::run(other, async |other| {
        let embedded = Arm::Embedded.start().await;
        for seed in seeds {
            // The test runner shows this line when the test fails.
            println!("seed {seed}");
            let rng = Rng::from_seed(seed);
            let drawn = Draw(rng, malformed).script();
            let who = ["the embedded server answered", "the other one"];
            let expected = runner::happened(&embedded, &drawn).await;
            let happened = runner::happened(other, &drawn).await;
            let outcome = script::compare(who, &expected.join("\n"), &happened);
            outcome.unwrap_or_else(|difference| panic!("{difference}"));
            other.part_done();
        }
    })
    .await;
}

/// The generator, and whether transactions may have creates that servers before 3.9 answer
/// otherwise.
struct Draw(Rng, bool);

impl Draw {
    /// `a` and `b` do everything and leave one-time watches. `c`, `d` and `e` only listen, with
    /// persistent watches. Each session of `f` has at most one node, and then ends.
    fn script(&mut self) -> String {
        let mut script = String::from(
            "a> auth digest user:pass
             c> addWatch $ kind=recursive
             d> addWatch $ kind=persistent
             d> addWatch $/a kind=persistent
             d> addWatch $/b/c kind=recursive\n",
        );
        for _ in 0..LENGTH {
            let who = self.0.one_of(&['a', 'b']);
            let _ = match self.0.draw() % 44 {
                0..5 => writeln!(script, "{who}& {}", self.request()),
                5 => writeln!(
                    script,
                    "{who}> sync $\n{who}! drop\n{who}> connect resume={who}"
                ),
                6..12 => writeln!(script, "{who}> multi{}", self.list(Self::operation)),
                12 => writeln!(script, "{who}> multiRead{}", self.list(Self::plain_read)),
                13 => {
                    let (who, kind) = self.0.one_of(&[('c', "recursive"), ('e', "persistent")]);
                    let op = self.0.one_of(&["addWatch", "addWatch", "removeWatches"]);
                    let kind = if op == "addWatch" { kind } else { "any" };
                    writeln!(script, "{who}> {op} {} kind={kind}", self.watched_path())
                }
                14 => {
                    // The server may answer an `auth` before earlier requests, so none is pending.
                    // Each connection has one identity at most.
                    let secret = if who == 'a' {
                        "user:pass"
                    } else {
                        "other:word"
                    };
                    writeln!(
                        script,
                        "{who}> sync $\n{who}> auth digest {secret}\n{who}> whoAmI"
                    )
                }
                15 => {
                    let path = self.path();
                    writeln!(script, "f> create {path} mode=ephemeral\nf> closeSession")
                }
                _ => writeln!(script, "{who}> {}", self.request()),
            };
        }
        script + "a> sync $\nb> sync $\na> getAllChildrenNumber $\n"
    }

    fn list(&mut self, one: impl Fn(&mut Self) -> String) -> String {
        let count = self.0.draw() % 5;
        let mut lines = vec![String::new()];
        lines.extend((0..count).map(|_| one(self)));
        lines.join("\n+ ")
    }

    fn request(&mut self) -> String {
        match self.0.draw() % 18 {
            0..7 => self.write(),
            7 => {
                let acl = self.acl();
                format!("setACL {} {acl}{}", self.path(), self.version())
            }
            8 => {
                let op = self.0.one_of(&["getACL", "getAllChildrenNumber", "sync"]);
                format!("{op} {}", self.path())
            }
            16 => self.secret_request(),
            17 => {
                let kind = self.0.one_of(&["0", "9"]);
                format!("checkWatches {} kind={kind}", self.watched_path())
            }
            9 => format!("getEphemerals {}", self.0.one_of(&["/", "$/a", "null"])),
            10 => {
                let kind = self.0.one_of(&["data", "children", "any", "9"]);
                format!("removeWatches {} kind={kind}", self.watched_path())
            }
            11 => {
                let zxid = self.0.one_of(&["0", "z0", "9223372036854775807"]);
                let (data, exist, child) = (self.path(), self.path(), self.path());
                format!("setWatches zxid={zxid} data={data} exist={exist} child={child}")
            }
            _ => {
                let op = self
                    .0
                    .one_of(&["exists", "getData", "getChildren", "getChildren2"]);
                let watch = self.0.one_of(&["", " watch"]);
                format!("{op} {}{watch}", self.path())
            }
        }
    }

    /// A request for a node that not everyone may read.
    fn secret_request(&mut self) -> String {
        let acl = [
            "acl=world:anyone:a,digest:user:smGaoVKd/cQkjm7b88GyorAUz20=:r",
            "acl=world:anyone:ra",
        ];
        let acl = self.0.one_of(&acl);
        match self.0.draw() % 5 {
            0 => format!("create $/secret {acl}"),
            1 => format!("setACL $/secret {acl}{}", self.version()),
            2 => "getACL $/secret".to_owned(),
            _ => format!("{} watch", self.plain_read_of("$/secret")),
        }
    }

    /// An operation of a transaction.
    fn operation(&mut self) -> String {
        match self.0.draw() % 6 {
            0 => format!("check {}{}", self.path(), self.version()),
            _ if self.1 => self.write(),
            // Since 3.9, a bad flag or a null ACL fails the whole transaction, wherever it stands.
            _ => loop {
                let write = self.write();
                let has_bad_flag = write.contains("mode=9")
                    || write.contains("mode=ttl") && !write.starts_with("createTTL");
                if !has_bad_flag && !write.contains("acl=null") {
                    break write;
                }
            },
        }
    }

    fn write(&mut self) -> String {
        match self.0.draw() % 9 {
            0..4 => {
                let mode = [
                    "",
                    "",
                    " mode=ephemeral",
                    " mode=ephemeral",
                    " mode=sequential",
                    " mode=sequential",
                    " mode=ephemeral-sequential",
                    " mode=ephemeral-sequential",
                    " mode=ttl",
                    " mode=9",
                ];
                let op = self.0.one_of(&["create", "create2"]);
                let (mode, acl) = (self.0.one_of(&mode), self.acl());
                // A sequential create of `$` would make a sibling of the root, outside of the case.
                let path = match self.path() {
                    "$" => "$/",
                    other => other,
                };
                format!("{op} {path} {acl}{mode}{}", self.data())
            }
            4 => {
                let options = [
                    "ttl=3600000",
                    "ttl=3600000",
                    "ttl=3600000 mode=ttl-sequential",
                    "ttl=3600000 mode=9",
                    "ttl=0",
                    "ttl=1099511627776",
                ];
                let options = self.0.one_of(&options);
                // As for other sequential creates.
                let path = match self.path() {
                    "$" => "$/",
                    other => other,
                };
                format!("createTTL {path} {options}{}", self.data())
            }
            8 => {
                let path = self.0.one_of(&["$/a/d", "$/b/c/e/f", "$/no/x"]);
                format!("createContainer {path} {}{}", self.acl(), self.data())
            }
            5 => format!("setData {}{}{}", self.path(), self.data(), self.version()),
            _ => format!("delete {}{}", self.path(), self.version()),
        }
    }

    fn plain_read(&mut self) -> String {
        let path = self.path();
        self.plain_read_of(path) + self.0.one_of(&["", " watch"])
    }

    fn plain_read_of(&mut self, path: &str) -> String {
        format!("{} {path}", self.0.one_of(&["getData", "getChildren"]))
    }

    /// A path with a slash. 3.8 fails on others when it looks for watches above them.
    fn watched_path(&mut self) -> &'static str {
        match self.path() {
            "no" => "$/a",
            other => other,
        }
    }

    /// One of few paths, so that requests meet on the same nodes. Some are not valid paths.
    fn path(&mut self) -> &'static str {
        self.0.one_of(&[
            "$/",
            "$/a",
            "$/a",
            "$/b",
            "$/b",
            "$/a/c",
            "$/a/d",
            "$/b/c",
            "$/b/c",
            "$/b/c/e",
            "$/b/c/e/f",
            "$/n-0000000000",
            "$/n-",
            "$",
            "$/a/..",
            "$/b/",
            "$/a//c",
            "$/a\u{1}",
            "//x",
            "no",
        ])
    }

    fn acl(&mut self) -> &'static str {
        // Each list grants READ to everyone: the permission that `exists` needs differs between
        // versions.
        let choices = [
            "acl=world:anyone:r,auth::rwcda",
            "acl=world:anyone:rwc",
            "acl=world:anyone:rda",
            "acl=none",
            "acl=auth::wcd,world:anyone:r",
            "acl=world:anyone:r,ip:127.0.0.0/8:rwcda",
            "acl=world:anyone:r,digest:user:smGaoVKd/cQkjm7b88GyorAUz20=:rwcda,world:anyone:r",
            "acl=null",
            "acl=foo:bar:rwcda",
            "acl=world:someone:rwcda",
            "acl=world:anyone:r,digest:a:b:c:rwcda",
            "acl=world:anyone:r,ip:10.0.0:rwcda",
        ];
        match self.0.draw() % 6 {
            0 => self.0.one_of(&choices),
            _ => "acl=world:anyone:rwcda",
        }
    }

    fn data(&mut self) -> &'static str {
        self.0
            .one_of(&["", " data=x", " data=null", " data=longer"])
    }

    fn version(&mut self) -> &'static str {
        self.0
            .one_of(&["", "", "", " version=0", " version=1", " version=2"])
    }
}
