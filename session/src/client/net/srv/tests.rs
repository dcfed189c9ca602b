//! SRV records: the order of their targets, and clients that find their servers by them.
//!
//! The name server is a task of the test. The servers are the embedded one.

use std::{collections::BTreeMap, net::Ipv4Addr};

use hickory_resolver::{
    config::{ConnectionConfig, NameServerConfig},
    proto::{
        op::{Message, OpCode, ResponseCode},
        rr::{Name, Record},
    },
};
use lockkeeper_server::Cluster;
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use super::*;
use crate::{
    Builder, Client, Clock, Snapshot,
    client::{
        net::{
            sockets::{Net, Sockets},
            transport::Transport,
        },
        shared::Shared,
    },
    machine::{Config, Machine},
};

const RECORD: &str = "dns-srv://_zookeeper._tcp.example.org";
const LOOKUP_FAILED: &str = "the lookup of the DNS SRV record failed: ";
/// The limit of each wait: long enough for any step on a busy machine.
const LONG: Duration = Duration::from_secs(30);

fn server(priority: u16, weight: u16, port: u16, target: &str) -> SRV {
    SRV::new(priority, weight, port, target.parse().unwrap())
}

fn names(order: io::Result<Vec<Endpoint>>) -> Vec<String> {
    order
        .unwrap()
        .into_iter()
        .map(|endpoint| endpoint.host)
        .collect()
}

#[test]
fn the_lowest_priority_is_first_and_each_attempt_begins_with_the_next_target() {
    let answer = vec![
        server(20, 0, 2181, "c."),
        server(10, 5, 2181, "a."),
        server(10, 0, 2181, "b."),
        server(10, 5, 2181, "a."),
        server(30, 9, 2181, "d."),
    ];
    let mut swapped = answer.clone();
    swapped.reverse();
    for seed in 0..50 {
        let order = names(targets(answer.clone(), seed, 0));
        assert_eq!(order[2..], ["c", "d"]);
        assert_eq!(names(targets(swapped.clone(), seed, 0)), order);
        for turn in 0..9 {
            let mut expected = order.clone();
            expected.rotate_left(turn % 4);
            assert_eq!(names(targets(answer.clone(), seed, turn)), expected);
        }
    }
    let whole = targets(vec![server(1, 1, 2182, "zk1.example.org.")], 0, 7).unwrap();
    assert_eq!(whole[0].to_string(), "zk1.example.org:2182");
}

#[test]
fn a_target_is_first_as_often_as_its_weight_says() {
    let answer = vec![
        server(1, 0, 2181, "never."),
        server(1, 10, 2181, "seldom."),
        server(1, 30, 2181, "often."),
        server(1, 60, 2181, "mostly."),
    ];
    let mut first: BTreeMap<String, u32> = BTreeMap::new();
    for seed in 0..10_000 {
        *first
            .entry(names(targets(answer.clone(), seed, 0)).remove(0))
            .or_default() += 1;
    }
    // One of the 101 numbers from 0 to the sum of the weights is for all that weigh nothing.
    for (name, share) in [
        ("never", 99),
        ("seldom", 990),
        ("often", 2970),
        ("mostly", 5941),
    ] {
        assert!(first[name].abs_diff(share) < 150, "{first:?}");
    }
    let none = (1..=9).map(|n| server(1, 0, n, "a.")).collect::<Vec<_>>();
    let first = targets(none, 3, 0).unwrap();
    assert_eq!(first.len(), 9);
}

#[test]
fn a_huge_answer_is_cut() {
    let answer: Vec<_> = (1..3000)
        .map(|port| server(port % 7, port, port, "a."))
        .collect();
    let order = targets(answer.clone(), 1, 0).unwrap();
    assert_eq!(order.len(), 16);
    assert_ne!(targets(answer, 1, 16).unwrap()[0], order[0]);
}

#[test]
fn a_record_that_says_that_there_is_no_service_is_an_error() {
    for answer in [
        vec![],
        vec![server(0, 0, 0, ".")],
        vec![server(0, 0, 2181, "."), server(0, 0, 0, "a.")],
    ] {
        let error = targets(answer, 0, 0).unwrap_err();
        assert!(error.to_string().contains("names no server"), "{error}");
    }
    let answer = vec![server(0, 0, 2181, "."), server(0, 0, 2181, "a.")];
    assert_eq!(names(targets(answer, 0, 0)), ["a"]);
}

#[test]
fn after_a_connection_that_lasted_the_order_begins_anew() {
    let mut order = Order::new(Random::seeded(1));
    let start = tokio::time::Instant::now().into_std();
    let mut next = |after: Duration| order.next(start + after);
    let (seed, first) = next(Duration::ZERO);
    assert_eq!(first, 0);
    assert_eq!(next(LASTED), (seed, 1));
    assert_eq!(next(LASTED * 2), (seed, 2));
    let (other, first) = next(LASTED * 4);
    assert_eq!(first, 0);
    assert_ne!(other, seed);
}

type Answer = Result<Vec<SRV>, ResponseCode>;

/// A name server for one record, on a port of 127.0.0.1.
struct Dns {
    config: ResolverConfig,
    answer: Arc<Mutex<Answer>>,
}

impl Dns {
    async fn start(answer: Answer) -> Self {
        let (dns, socket) = Self::silent(answer).await;
        tokio::spawn(serve(socket, dns.answer.clone()));
        dns
    }

    /// One that does not answer yet.
    async fn silent(answer: Answer) -> (Self, UdpSocket) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let mut udp = ConnectionConfig::udp();
        udp.port = socket.local_addr().unwrap().port();
        let server = NameServerConfig::new(Ipv4Addr::LOCALHOST.into(), true, vec![udp]);
        let dns = Self {
            config: ResolverConfig::from_parts(None, Vec::new(), vec![server]),
            answer: Arc::new(Mutex::new(answer)),
        };
        (dns, socket)
    }

    /// The error of an attempt to connect.
    async fn failure(&self) -> String {
        let connector = over(by_port(), Some(self.config.clone()), Random::system());
        match soon(connector.connect(record(), &net())).await {
            Ok(_) => panic!("connected"),
            Err(error) => error.to_string(),
        }
    }

    fn set(&self, answer: Vec<SRV>) {
        *self.answer.lock().unwrap() = Ok(answer);
    }

    /// Settings for a client that asks this name server.
    fn builder(&self) -> Builder {
        let mut builder = Client::builder(RECORD).unwrap().connector(by_port());
        builder.resolver = Some(self.config.clone());
        builder
    }
}

async fn serve(socket: UdpSocket, answer: Arc<Mutex<Answer>>) {
    let mut datagram = [0; 4096];
    loop {
        let (length, from) = socket.recv_from(&mut datagram).await.unwrap();
        let question = Message::from_vec(&datagram[..length]).unwrap();
        let query = question.queries[0].clone();
        assert_eq!(
            query.name(),
            &"_zookeeper._tcp.example.org.".parse::<Name>().unwrap()
        );
        let mut reply = Message::response(question.metadata.id, OpCode::Query);
        match &*answer.lock().unwrap() {
            Ok(servers) => {
                let record = |server: &SRV| {
                    Record::from_rdata(query.name().clone(), 3600, RData::SRV(server.clone()))
                };
                reply.add_answers(servers.iter().map(record));
            }
            Err(code) => reply.metadata.response_code = *code,
        }
        reply.add_query(query);
        socket
            .send_to(&reply.to_vec().unwrap(), from)
            .await
            .unwrap();
    }
}

/// Connects to the port on this machine. It ignores the name.
fn by_port() -> Connector {
    Connector::new(|endpoint| {
        assert!(endpoint.host.ends_with(".example.org"), "{endpoint}");
        Box::pin(async move {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, endpoint.port)).await?;
            Ok(Box::new(stream) as Box<dyn Transport>)
        })
    })
}

/// What a connector needs of a client, without a client. Its timers never fire.
fn net() -> Net {
    let config = Config::new(&RECORD.parse().unwrap(), 1);
    let clock = Clock::system();
    let machine = Machine::new(config, clock.now());
    Net {
        shared: Arc::new(Shared::new(machine, clock, None, Random::system())),
        sockets: Sockets::Tokio,
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.expect("a hang")
}

fn port(address: &str) -> u16 {
    address.rsplit_once(':').unwrap().1.parse().unwrap()
}

fn record() -> Endpoint {
    let servers: crate::ConnectString = RECORD.parse().unwrap();
    servers.endpoints()[0].clone()
}

#[tokio::test]
async fn a_client_follows_the_record_to_another_server_in_the_same_session() {
    let cluster = Cluster::start(3).await.unwrap();
    let members: Vec<_> = cluster.servers().collect();
    let target = |member| {
        let port = port(&cluster.connect_string_of(member));
        server(0, 0, port, "zk.example.org.")
    };
    let dns = Dns::start(Ok(vec![target(members[0])])).await;
    let client = soon(dns.builder().connect()).await.unwrap();
    let before = client.snapshot();
    assert_eq!(before.server.unwrap().to_string(), RECORD);

    dns.set(vec![target(members[1]), target(members[2])]);
    let mut snapshots = client.snapshots();
    soon(cluster.stop(members[0])).await;
    let moved = |now: &Snapshot| now.state.is_connected() && now.connections > 1;
    let after = soon(snapshots.wait_for(moved)).await.unwrap().clone();
    assert_eq!(after.session_id, before.session_id);
    soon(client.sync("/")).await.unwrap();
    soon(client.close()).await;
}

/// The first target, by its priority, accepts connections and says nothing.
#[tokio::test]
async fn a_target_that_accepts_and_does_not_serve_does_not_hide_the_others() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let good = lockkeeper_server::Server::start().await.unwrap();
    let dns = Dns::start(Ok(vec![
        server(
            0,
            0,
            silent.local_addr().unwrap().port(),
            "silent.example.org.",
        ),
        server(1, 0, good.local_addr().port(), "good.example.org."),
    ]))
    .await;
    let builder = dns.builder().server_timeout(Duration::from_millis(500));
    let client = soon(builder.connect_timeout(LONG).connect()).await.unwrap();
    assert!(client.metrics().attempts > 1);
    soon(client.close()).await;
}

#[tokio::test]
async fn the_error_says_what_is_wrong_with_the_record() {
    let failure = async |answer| Dns::start(answer).await.failure().await;
    let missing = "there is no such DNS SRV record";
    assert_eq!(failure(Err(ResponseCode::NXDomain)).await, missing);
    assert_eq!(failure(Ok(Vec::new())).await, missing);
    let closed = failure(Ok(vec![server(0, 0, 0, ".")])).await;
    assert!(closed.contains("names no server"), "{closed}");
    let refused = ["a.example.org.", "b.example.org."].map(|target| server(0, 0, 1, target));
    let refused = failure(Ok(refused.into())).await;
    assert!(refused.contains(".example.org:1: "), "{refused}");
    let broken = failure(Err(ResponseCode::ServFail)).await;
    assert!(broken.starts_with(LOOKUP_FAILED), "{broken}");
}

#[tokio::test]
async fn a_silent_name_server_is_the_cause_before_the_attempt_ends() {
    let (dns, _socket) = Dns::silent(Ok(Vec::new())).await;
    let begin = tokio::time::Instant::now().into_std();
    let silent = dns.failure().await;
    assert!(silent.starts_with(LOOKUP_FAILED), "{silent}");
    // A quarter of the default session timeout.
    assert!(begin.elapsed() < Duration::from_millis(2500), "{begin:?}");
}
