//! What tests do with a server besides faults: move its clock, look for what clients left, be
//! `super`.

use lockkeeper_test_support::peer as common;
use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::TcpStream,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use common::{PATIENCE, Peer, auth, create_with, exists, get_children, get_data, now, set_data};
use futures::executor::block_on;
use lockkeeper_proto::{
    Acl,
    CreateMode::{Ephemeral, Persistent},
    ErrorCode, EventType, Perms, Request, Response,
    records::{CreateTtlRequest, Empty, GetAclRequest, SetAclRequest},
};
use lockkeeper_server::{Cluster, Server};

const SECOND: Duration = Duration::from_secs(1);

/// Runs a test on a server and on a cluster. Its clients are connected to the first member.
macro_rules! on_both {
    ($($(#[$attribute:meta])* async fn $name:ident($server:ident: &Server) $body:block)*) => {$(
        $(#[$attribute])*
        #[tokio::test]
        async fn $name() {
            async fn test($server: &Server) $body
            test(&Server::start().await.unwrap()).await;
            test(&Cluster::start(3).await.unwrap()).await;
        }
    )*};
}

on_both! {
    async fn advancing_the_clock_ends_sessions_without_waiting(server: &Server) {
        let mut short = Peer::join_for(server, 2_000).await;
        let mut long = Peer::join_for(server, 60_000).await;
        short.create("/e", Ephemeral).await.unwrap();
        long.call(&exists("/e", true)).await.unwrap();
        server.advance(SECOND);
        short.create("/f", Ephemeral).await.unwrap();
        server.advance(SECOND);
        assert_eq!(server.report().sessions.len(), 2, "the create was activity");
        server.advance(2 * SECOND);
        short.raw.assert_closed().await;
        assert_eq!(long.event().await.event_type, EventType::NODE_DELETED);
        assert_eq!(server.paths(), Vec::<String>::new());
        // Requests after that are handled at the new time.
        let before = server.counters().expired;
        long.create("/n", Persistent).await.unwrap();
        server.advance(59 * SECOND);
        long.call(&exists("/n", false)).await.unwrap();
        server.advance(59 * SECOND);
        assert_eq!(server.counters().expired, before);
        server.advance(3 * SECOND);
        long.raw.assert_closed().await;
    }
}

#[tokio::test]
async fn advancing_the_clock_moves_the_times_of_nodes() {
    let server = Server::start().await.unwrap();
    let mut peer = Peer::join_for(&server, 60_000).await;
    peer.create("/n", Persistent).await.unwrap();
    server.advance(50 * SECOND);
    peer.call(&set_data("/n", b"")).await.unwrap();
    let Ok(Response::Exists(answer)) = peer.call(&exists("/n", false)).await else {
        panic!("/n is missing");
    };
    let stat = answer.stat;
    assert!(
        (50_000..60_000).contains(&(stat.mtime - stat.ctime)),
        "{stat:?}"
    );
}

on_both! {
    /// It had no end, and later no session did.
    async fn advancing_the_clock_by_the_longest_time_has_an_end(server: &Server) {
        let mut connected = Peer::join(server).await;
        let gone = Peer::join(server).await;
        server.faults().cut(gone.session);
        server.advance(Duration::MAX);
        server.advance(Duration::MAX);
        connected.raw.assert_closed().await;
        assert!(!server.report().sessions.contains_key(&gone.session));
        let brief = Peer::join_for(server, 1000).await;
        server.faults().cut(brief.session);
        let begin = now();
        while server.report().sessions.contains_key(&brief.session) {
            assert!(begin.elapsed() < PATIENCE, "its session does not end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Work that was always due kept the server busy and its clock where it was.
#[tokio::test]
async fn intervals_of_zero_let_time_go_on() {
    let builder = || Server::builder().max_session_timeout(SECOND);
    let at_once = builder().container_check_interval(Duration::ZERO);
    let server = at_once.start().await.unwrap();
    let quick = builder().tick_time(Duration::ZERO);
    let cluster = quick.start_cluster(3).await.unwrap();
    for server in [&server, &cluster] {
        let peer = Peer::join(server).await;
        server.faults().cut(peer.session);
        server.advance(10 * SECOND);
        assert!(server.report().sessions.is_empty());
    }
}

/// With paused time, a time to live is over as soon as the timers that tokio moves to are: the wall
/// clock stood still, so such a node stayed for ever.
#[tokio::test(start_paused = true)]
async fn a_time_to_live_ends_by_a_paused_clock() {
    let server = Server::start().await.unwrap();
    let mut peer = Peer::join_for(&server, 60_000).await;
    let ttl = CreateTtlRequest {
        path: "/n".to_owned(),
        data: None,
        acl: Some(Acl::OPEN_UNSAFE.into()),
        flags: 5,
        ttl_ms: 90_000,
    };
    peer.call(&Request::CreateTtl(ttl)).await.unwrap();
    tokio::time::sleep(61 * SECOND).await;
    assert_eq!(server.paths(), ["/n"]);
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(server.paths(), Vec::<String>::new());
}

#[tokio::test]
async fn what_clients_left_is_named() {
    let server = Server::start().await.unwrap();
    server.assert_no_leaks();
    let mut peer = Peer::join(&server).await;
    peer.create("/e", Ephemeral).await.unwrap();
    peer.call(&get_children("/", true)).await.unwrap();
    peer.call(&get_data("/e", true)).await.unwrap();
    let quiet = Peer::join(&server).await;
    server.faults().cut(quiet.session);
    let found = catch_unwind(AssertUnwindSafe(|| server.assert_no_leaks())).unwrap_err();
    let text = found.downcast_ref::<String>().unwrap();
    let lines: Vec<_> = text.lines().collect();
    let [_, of_peer, of_quiet] = lines[..] else {
        panic!("{text}");
    };
    assert!(
        of_peer.starts_with(&format!("{}: ", peer.session)),
        "{text}"
    );
    for part in [
        "is_connected: true",
        r#"ephemerals: ["/e"]"#,
        r#"watches: [("/", "#,
        r#", ("/e", "#,
    ] {
        assert!(of_peer.contains(part), "{text}");
    }
    assert!(
        of_quiet.starts_with(&format!("{}: ", quiet.session)),
        "{text}"
    );
    assert!(of_quiet.contains("is_connected: false"), "{text}");
    peer.close().await;
    assert!(server.faults().expire_early(quiet.session));
    server.assert_no_leaks();
}

/// The user `super` is that of `superDigest` of a real server: confirmed with 3.9.3, except for the
/// order of the identities.
#[tokio::test]
async fn no_acl_counts_for_the_user_super() {
    let server = Server::builder()
        .super_user("secret")
        .start()
        .await
        .unwrap();
    let mut owner = Peer::join(&server).await;
    owner.call(&auth("u:p")).await.unwrap();
    let nobody = Acl::new(Perms::READ, "digest", "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=");
    let node = create_with("/n", b"", Persistent, vec![nobody]);
    owner.call(&node).await.unwrap();
    let refused = owner.call(&set_data("/n", b"")).await;
    assert_eq!(refused, Err(ErrorCode::NO_AUTH));
    for credentials in ["super:wrong", "u:secret", "super:"] {
        let mut peer = Peer::join(&server).await;
        peer.call(&auth(credentials)).await.unwrap();
        let refused = peer.call(&get_data("/n", false)).await;
        assert_eq!(refused, Err(ErrorCode::NO_AUTH), "{credentials}");
    }
    let mut root = Peer::join(&server).await;
    root.call(&auth("super:secret")).await.unwrap();
    root.call(&get_data("/n", true)).await.unwrap();
    root.call(&set_data("/n", b"")).await.unwrap();
    assert_eq!(root.event().await.event_type, EventType::NODE_DATA_CHANGED);
    // What `auth` stands for is the identity with the password's hash.
    let set = Request::SetAcl(SetAclRequest {
        path: "/n".to_owned(),
        acl: Some(Acl::CREATOR_ALL.into()),
        version: lockkeeper_proto::Version::ANY,
    });
    root.call(&set).await.unwrap();
    let get = Request::GetAcl(GetAclRequest {
        path: "/n".to_owned(),
    });
    let Ok(Response::GetAcl(read)) = root.call(&get).await else {
        panic!("no answer");
    };
    let hashed = |it: &Acl| it.id.scheme == "digest" && it.id.id.starts_with("super:");
    assert!(read.acl.iter().any(hashed), "{read:?}");
    let Ok(Response::WhoAmI(answer)) = root.call(&Request::WhoAmI(Empty {})).await else {
        panic!("no answer");
    };
    let schemes: Vec<_> = answer
        .client_info
        .iter()
        .map(|it| &*it.auth_scheme)
        .collect();
    assert_eq!(schemes, ["ip", "super", "digest"]);
}

/// A program without async has no runtime to start a server on.
#[test]
fn a_server_on_a_thread_of_its_own_needs_no_runtime() {
    let server = Server::builder().start_on_thread().unwrap();
    let address = server.local_addr();
    let ask = || {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(b"ruok")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    assert_eq!(ask().unwrap(), "imok");
    let refused = |asked: std::io::Result<String>| asked.unwrap_err().kind();
    block_on(server.faults().close_port());
    assert_eq!(refused(ask()), ErrorKind::ConnectionRefused);
    block_on(server.faults().open_port()).unwrap();
    assert_eq!(ask().unwrap(), "imok");
    let taken = Server::builder().listen(address).start_on_thread();
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::AddrInUse);
    block_on(server.shutdown());
    assert_eq!(refused(ask()), ErrorKind::ConnectionRefused);
    // The port was open for a moment more, most of all when the server had just begun.
    for _ in 0..200 {
        let server = Server::builder().start_on_thread().unwrap();
        let address = server.local_addr();
        block_on(server.shutdown());
        let late = TcpStream::connect(address);
        assert_eq!(late.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    }
}
