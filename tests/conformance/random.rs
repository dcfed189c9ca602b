//! Generated scripts: each seed gives many requests on few nodes, and both arms must answer them alike.
//!
//! The embedded server's answers are the script for the real server. The generator leaves out three things:
//! - everything that depends on time (the reaper, expiry);
//! - everything that has no defined order (the deletes of several ephemeral nodes of one session);
//! - everything that differs between versions (see `cases::watches`).

use std::fmt::Write;

use lockkeeper_sim::Rng;

use super::{
    runner, script,
    support::{self, Arm},
};

/// The seeds, one script each. A seed that has once failed is added behind them.
const SEEDS: std::ops::Range<u64> = 0..40;

/// Requests in each script.
const LENGTH: usize = 80;

#[tokio::test]
#[ignore = "needs a real ZooKeeper: tests/run.sh"]
async fn both_servers_answer_random_requests_alike() {
    support::run(Arm::Real, async |real| {
        let embedded = Arm::Embedded.start().await;
        for seed in SEEDS {
            // The test runner shows this line when the test fails.
            println!("seed {seed}");
            let drawn = Draw(Rng::from_seed(seed)).script();
            let expected = runner::happened(&embedded, &drawn).await;
            let happened = runner::happened(real, &drawn).await;
            script::compare(&expected.join("\n"), &happened);
            real.part_done();
        }
    })
    .await;
}

struct Draw(Rng);

impl Draw {
    /// `a` and `b` do everything and leave one-time watches; `c` and `d` only listen, with persistent watches.
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
            let _ = match self.0.draw() % 40 {
                0..5 => writeln!(script, "{who}& {}", self.request()),
                5 => writeln!(
                    script,
                    "{who}> sync $\n{who}! drop\n{who}> connect resume={who}"
                ),
                6..12 => writeln!(script, "{who}> multi{}", self.list(Self::write)),
                12 => writeln!(script, "{who}> multiRead{}", self.list(Self::plain_read)),
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
        match self.0.draw() % 16 {
            0..7 => self.write(),
            7 => {
                let acl = self.acl();
                format!("setACL {} {acl}{}", self.path(), self.version())
            }
            8 => {
                let op = self.0.one_of(&["getACL", "getAllChildrenNumber", "sync"]);
                format!("{op} {}", self.path())
            }
            9 => format!("getEphemerals {}", self.0.one_of(&["/", "$/a", "null"])),
            10 => {
                let kind = self.0.one_of(&["data", "children", "any"]);
                format!("removeWatches {} kind={kind}", self.path())
            }
            11 => {
                let zxid = self.0.one_of(&["0", "z0"]);
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

    fn write(&mut self) -> String {
        match self.0.draw() % 8 {
            0..4 => {
                let mode = [
                    "",
                    " mode=ephemeral",
                    " mode=sequential",
                    " mode=ephemeral-sequential",
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
            4 => format!("createTTL {} ttl=3600000{}", self.path(), self.data()),
            5 => format!("setData {}{}{}", self.path(), self.data(), self.version()),
            _ => format!("delete {}{}", self.path(), self.version()),
        }
    }

    fn plain_read(&mut self) -> String {
        let op = self.0.one_of(&["getData", "getChildren"]);
        format!("{op} {}", self.path())
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
        ])
    }

    fn acl(&mut self) -> &'static str {
        // Each list grants READ to everyone: the permission that `exists` needs differs between versions.
        let choices = [
            "acl=world:anyone:r,auth::rwcda",
            "acl=world:anyone:rwc",
            "acl=world:anyone:rda",
            "acl=none",
            "acl=auth::wcd,world:anyone:r",
        ];
        match self.0.draw() % 8 {
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
