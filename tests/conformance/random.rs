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

use std::ops::Range;

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
            let expected = runner::happened(&embedded, drawn.clone()).await;
            let happened = runner::happened(other, drawn).await;
            let outcome = script::compare(who, &expected.join("\n"), &happened);
            outcome.unwrap_or_else(|difference| panic!("{difference}"));
            other.part_done();
        }
    })
    .await;
}

/// The rules of the generator. `<NAME>` is one of the alternatives of that rule, and `N*` makes an
/// alternative so many times as likely; `@` is `a` or `b`.
///
/// `a` and `b` do everything and leave one-time watches. `c`, `d` and `e` only listen, with
/// persistent watches. Each session of `f` has at most one node, and then ends.
///
/// - The server may answer an `auth` before earlier requests, so none is pending. Each connection
///   has one identity at most.
/// - There are few paths, so that requests meet on the same nodes. Some are not valid. 3.8 fails on
///   one without a slash when it looks for watches above it. A sequential create of `$` would make
///   a sibling of the root, outside of the case.
/// - Each ACL grants READ to everyone, except that of `$/secret`: the permission that `exists`
///   needs differs between versions.
const RULES: &str = "\
step: 5* @& <request> | 28* @> <request> | 6* @> multi <parts> | @> multiRead <reads> | \
    @> sync $; @! drop; @> connect resume=@ | <listen> | <login> | \
    f> create <path> mode=ephemeral; f> closeSession
parts: | ;+ <part> | ;+ <part>;+ <part> | ;+ <part>;+ <part>;+ <part> | \
    ;+ <part>;+ <part>;+ <part>;+ <part>
reads: | ;+ <read> | ;+ <read>;+ <read> | ;+ <read>;+ <read>;+ <read> | \
    ;+ <read>;+ <read>;+ <read>;+ <read>
listen: 2* c> addWatch <watched> kind=recursive | c> removeWatches <watched> kind=any | \
    2* e> addWatch <watched> kind=persistent | e> removeWatches <watched> kind=any
login: a> sync $; a> auth digest user:pass; a> whoAmI | \
    b> sync $; b> auth digest other:word; b> whoAmI
request: 7* <write> | setACL <path> <acl> <version> | <get> <path> | <secret> | \
    checkWatches <watched> kind=<no kind> | getEphemerals <prefix> | \
    removeWatches <watched> kind=<kind> | \
    setWatches zxid=<zxid> data=<path> exist=<path> child=<path> | 4* <look> <path> <watch>
get: getACL | getAllChildrenNumber | sync
look: exists | getData | getChildren | getChildren2
part: check <path> <version> | 5* <write in a list>
write in a list: <write>
read: <plain read> <path> <watch>
plain read: getData | getChildren
watch: | watch
no kind: 0 | 9
kind: data | children | any | 9
prefix: / | $/a | null
zxid: 0 | z0 | 9223372036854775807
secret: create $/secret <secret acl> | setACL $/secret <secret acl> <version> | \
    getACL $/secret | 2* <plain read> $/secret watch
secret acl: acl=world:anyone:a,digest:user:smGaoVKd/cQkjm7b88GyorAUz20=:r | acl=world:anyone:ra
write: 4* <create> <made> <acl> <mode> <data> | createTTL <made> <ttl> <data> | \
    createContainer <empty> <acl> <data> | setData <path> <data> <version> | \
    2* delete <path> <version>
create: create | create2
mode: 2* | 2* mode=ephemeral | 2* mode=sequential | 2* mode=ephemeral-sequential | mode=ttl | mode=9
ttl: 2* ttl=3600000 | ttl=3600000 mode=ttl-sequential | ttl=3600000 mode=9 | ttl=0 | \
    ttl=1099511627776
empty: $/a/d | $/b/c/e/f | $/no/x
path: 18* <below> | $ | no
watched: 18* <below> | $ | $/a
made: 18* <below> | $/ | no
below: $/ | 2* $/a | 2* $/b | $/a/c | $/a/d | 2* $/b/c | $/b/c/e | $/b/c/e/f | $/n-0000000000 | \
    $/n- | $/a/.. | $/b/ | $/a//c | $/a\u{1} | //x
acl: 5* acl=world:anyone:rwcda | acl=<other acl>
other acl: world:anyone:r,auth::rwcda | world:anyone:rwc | world:anyone:rda | none | \
    auth::wcd,world:anyone:r | world:anyone:r,ip:127.0.0.0/8:rwcda | null | foo:bar:rwcda | \
    world:anyone:r,digest:user:smGaoVKd/cQkjm7b88GyorAUz20=:rwcda,world:anyone:r | \
    world:someone:rwcda | world:anyone:r,digest:a:b:c:rwcda | world:anyone:r,ip:10.0.0:rwcda
data: | data=x | data=null | data=longer
version: 3* | version=0 | version=1 | version=2";

/// The generator, and whether transactions may have creates that servers before 3.9 answer
/// otherwise.
struct Draw(Rng, bool);

impl Draw {
    fn script(&mut self) -> String {
        let mut script = String::from(
            "a> auth digest user:pass
             c> addWatch $ kind=recursive
             d> addWatch $ kind=persistent
             d> addWatch $/a kind=persistent
             d> addWatch $/b/c kind=recursive\n",
        );
        for _ in 0..LENGTH {
            let step = self.one_of("step").replace(';', "\n");
            script += &step.replace('@', self.0.one_of(&["a", "b"]));
            script += "\n";
        }
        script + "a> sync $\nb> sync $\na> getAllChildrenNumber $\n"
    }

    /// One of the alternatives of a rule.
    fn one_of(&mut self, name: &str) -> String {
        let mut rules = RULES.lines().filter_map(|rule| rule.split_once(':'));
        let rule = rules.find(|(of, _)| *of == name);
        let mut choices = Vec::new();
        for choice in rule.expect("a rule").1.split('|') {
            let (times, text) = choice.split_once('*').unwrap_or(("1", choice));
            let times = times.trim().parse().expect("a number");
            choices.extend(std::iter::repeat_n(text.trim(), times));
        }
        loop {
            let mut text = self.0.one_of(&choices).to_owned();
            while let Some((before, rest)) = text.split_once('<') {
                let (name, after) = rest.split_once('>').expect("the end of a name");
                text = format!("{before}{}{after}", self.one_of(name));
            }
            // Since 3.9, a bad flag or a null ACL fails the whole transaction, wherever it stands.
            let has_bad_flag = text.contains("mode=9")
                || text.contains("mode=ttl") && !text.starts_with("createTTL");
            let is_malformed = has_bad_flag || text.contains("acl=null");
            if name != "write in a list" || self.1 || !is_malformed {
                break text;
            }
        }
    }
}
