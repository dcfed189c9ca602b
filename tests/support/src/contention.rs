//! A dozen clients that contend for one lock, write to two fenced stores while they hold it, and
//! record a history.
//!
//! The lock is a mutex or a read/write lock. The first store is in memory and compares tokens. The
//! second store consists of nodes: each write is a transaction under the guard and creates a
//! numbered node, or nothing if the lock is lost. The numbers show the order in which the servers
//! applied the writes.
//!
//! Not here: the failures that happen meanwhile (`main`).

use std::{
    fs,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use lockkeeper::{
    Client, CreateMode, Guard, LockError, Mutex, RwLock,
    error::{Effect, Loss},
    locks::WriteGuard,
    raw::AsRaw,
};
use lockkeeper_sim::{
    check::{Bounds, check},
    history::{Answer, Attempt, End, Mode, What},
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    programs::scratch,
    proxy::Proxy,
    recorder::{Figures, Recorder},
    servers::{COUNT, Servers, port_of},
    waiting::LONG,
};

/// How many clients contend.
pub const CLIENTS: u32 = 12;

/// The session timeout of the clients.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(3);

/// How long an attempt may take when nothing is broken. Each contender waits for eleven others, and
/// each of these holds for milliseconds.
const MAX_WAIT: Duration = Duration::from_secs(15);

/// The longest time that a contender holds the lock, unless a test asks it to hold on.
const LONGEST_HOLD_MS: u64 = 8;

/// The running contention.
#[derive(Debug)]
pub struct Contention {
    pub recorder: Arc<Recorder>,
    wishes: Arc<Wishes>,
    let_go: watch::Sender<u64>,
    /// The contenders that hold on because a test asked for it.
    holders: mpsc::UnboundedReceiver<u32>,
    contenders: JoinSet<()>,
    clients: Vec<Client>,
    /// One proxy for each client, or none if the clients connect directly.
    proxies: Vec<Proxy>,
    path: String,
}

/// What the test asks of the contenders.
#[derive(Debug, Default)]
struct Wishes {
    stop: AtomicBool,
    /// The next contender that gets the lock holds it until [`Contention::let_go`], or until it
    /// loses it.
    hold_on: AtomicBool,
}

/// The kind of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Mutex,
    /// A read/write lock. Half of the attempts want to read.
    ReadWrite,
}

#[derive(Debug)]
enum Lock {
    Mutex(Mutex),
    ReadWrite(RwLock),
}

#[derive(Debug)]
struct Contender {
    number: u32,
    lock: Lock,
    log: String,
    recorder: Arc<Recorder>,
    wishes: Arc<Wishes>,
    holds_on: mpsc::UnboundedSender<u32>,
    let_go: watch::Receiver<u64>,
    random: u64,
}

impl Contention {
    /// Starts the contention, at a path that no other run uses.
    pub async fn start(
        servers: &Servers,
        kind: Kind,
        with_proxies: bool,
        session_timeout: Duration,
    ) -> Self {
        let plain = servers.connect_string();
        let first = client(&plain, session_timeout).await;
        let path = format!("/failures-{:016x}", first.raw().random_u64());
        let (lock, log) = (format!("{path}/lock"), format!("{path}/log"));
        for node in [&path, &lock, &log] {
            let mode = CreateMode::Persistent;
            first.create(node, "", mode).await.expect("a new node");
        }
        first.close().await;
        let (sender, holders) = mpsc::unbounded_channel();
        let mut contention = Self {
            recorder: Arc::new(Recorder::new(&lock)),
            wishes: Arc::default(),
            let_go: watch::Sender::default(),
            holders,
            contenders: JoinSet::new(),
            clients: Vec::new(),
            proxies: Vec::new(),
            path,
        };
        for number in 0..CLIENTS {
            let client = if with_proxies {
                let proxy = Proxy::to(&servers.addresses()).await;
                let client = client(&proxy.connect_string(), session_timeout).await;
                contention.proxies.push(proxy);
                client
            } else {
                client(&plain, session_timeout).await
            };
            let contender = Contender {
                number,
                lock: match kind {
                    Kind::Mutex => Lock::Mutex(Mutex::new(&client, &lock).expect("a path")),
                    Kind::ReadWrite => {
                        Lock::ReadWrite(RwLock::new(&client, &lock).expect("a path"))
                    }
                },
                log: log.clone(),
                recorder: contention.recorder.clone(),
                wishes: contention.wishes.clone(),
                holds_on: sender.clone(),
                let_go: contention.let_go.subscribe(),
                random: client.raw().random_u64() | 1,
            };
            contention.contenders.spawn(contender.run());
            contention.clients.push(client);
        }
        contention.until_more_grants(50).await;
        contention
    }

    pub fn proxies(&self) -> &[Proxy] {
        &self.proxies
    }

    pub fn client(&self, number: u32) -> &Client {
        &self.clients[usize::try_from(number).expect("few")]
    }

    /// The server that a client is connected to.
    pub fn server_of(&self, servers: &Servers, number: u32) -> Option<usize> {
        let client = self.client(number);
        let Some(proxy) = self.proxy(number) else {
            return servers.of(client);
        };
        let port = port_of(client)?;
        proxy
            .ports()
            .iter()
            .position(|of_server| *of_server == port)
    }

    /// Waits until a client holds the lock that is connected to such a server, asks it to hold on,
    /// and returns the server. The connections of other holders are reset: their clients go on to
    /// the next server.
    pub async fn hold_on_at(
        &mut self,
        servers: &Servers,
        is_wanted: impl Fn(usize) -> bool,
    ) -> usize {
        loop {
            let holder = self.hold_on().await;
            match self.server_of(servers, holder) {
                Some(server) if is_wanted(server) => return server,
                _ => {
                    self.recorder.disturbed();
                    self.proxy(holder).expect("a proxy").reset();
                    self.let_go();
                }
            }
        }
    }

    fn proxy(&self, number: u32) -> Option<&Proxy> {
        self.proxies.get(usize::try_from(number).expect("few"))
    }

    pub async fn until_more_grants(&self, count: usize) {
        self.until_more_grants_within(count, LONG).await;
    }

    pub async fn until_more_grants_within(&self, count: usize, limit: Duration) {
        let wanted = self.recorder.grants() + count;
        let enough = async {
            while self.recorder.grants() < wanted {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let granted = timeout(limit, enough).await;
        assert!(granted.is_ok(), "timed out: the contenders get the lock");
    }

    /// Asks the next contender that gets the lock to hold on, and returns its number.
    pub async fn hold_on(&mut self) -> u32 {
        self.wishes.hold_on.store(true, Ordering::SeqCst);
        let holder = timeout(MAX_WAIT, self.holders.recv()).await;
        holder
            .expect("a contender gets the lock")
            .expect("contenders")
    }

    /// Ends the hold of a contender that was asked to hold on.
    pub fn let_go(&self) {
        self.let_go.send_modify(|times| *times += 1);
    }

    /// Ends the contention and checks its history. Panics if the checker finds anything wrong.
    pub async fn finish(mut self, servers: &Servers, name: &str) -> Figures {
        self.wishes.stop.store(true, Ordering::SeqCst);
        self.let_go();
        let calm = self.recorder.calm();
        let ended = timeout(3 * MAX_WAIT, async {
            while let Some(contender) = self.contenders.join_next().await {
                contender.expect("no panic");
            }
        });
        let hangs = ended.await.is_err();
        self.recorder.give_up_answers();
        if !hangs {
            self.look_at_nodes(servers).await;
        }
        let bounds = Bounds {
            calm,
            max_wait: Some(MAX_WAIT),
            news: MAX_WAIT,
            hand_over: None,
            knows_sessions: false,
        };
        let history = self.recorder.history();
        let found = check(&history, &bounds);
        if hangs || !found.is_empty() {
            let file = scratch().join(format!("{name}.history"));
            let lines: Vec<_> = history.iter().map(ToString::to_string).collect();
            fs::write(&file, lines.join("\n")).expect("a file below target/");
            let found: Vec<_> = found.iter().map(ToString::to_string).collect();
            let (file, found) = (file.display(), found.join("\n"));
            panic!("{name}: hangs: {hangs}; the history is in {file}\n{found}");
        }
        let figures = self.recorder.figures();
        for client in self.clients {
            client.close().await;
        }
        figures
    }

    /// Records how often each write was applied and which nodes are left in the queue, as the
    /// leader has them.
    async fn look_at_nodes(&self, servers: &Servers) {
        let leader = servers.leader();
        let at_leader = client(&servers.address(leader).to_string(), SESSION_TIMEOUT).await;
        let log = format!("{}/log", self.path);
        at_leader.sync(&log).await.expect("a leader");
        let nodes = at_leader.get_children(&log).await.expect("the log");
        let mut applied: Vec<_> = nodes.iter().map(|node| parse(node)).collect();
        applied.sort_unstable();
        // The store's own order, over all writes: no write comes after one with a higher token.
        let later = applied
            .windows(2)
            .find(|pair| pair[0].token > pair[1].token);
        assert_eq!(later, None, "a write without the lock");
        let mut times = vec![0; usize::try_from(self.recorder.writes()).expect("few")];
        for line in &applied {
            times[usize::try_from(line.write).expect("few")] += 1;
        }
        for (write, times) in (0..).zip(times) {
            self.recorder.note(CLIENTS, What::Applied { write, times });
        }
        // All contenders have released, and their sessions still live: the checker reports each
        // node that is left.
        let lock = format!("{}/lock", self.path);
        for node in left(&at_leader, &lock).await {
            let node = format!("{lock}/{node}");
            let stat = at_leader.exists(&node).await.expect("a leader");
            let session = stat.map_or(0, |stat| stat.ephemeral_owner.0);
            self.recorder.note(CLIENTS, What::Left { node, session });
        }
        at_leader.close().await;
        // The other servers must have the same nodes. Only a restarted server may differ. That is a
        // fault of the server and not of the client (ZOOKEEPER-4785).
        for number in (0..COUNT).filter(|number| *number != leader) {
            let client = client(&servers.address(number).to_string(), SESSION_TIMEOUT).await;
            let left = left(&client, &lock).await;
            if !left.is_empty() {
                let differs = format!(
                    "SERVER {number} DIFFERS FROM ITS LEADER: below {lock} it has {left:?}"
                );
                assert!(servers.came_back(number), "{differs}");
                println!("{differs}");
            }
            client.close().await;
        }
    }
}

/// The nodes that stay in a queue for longer than a session lives: none, if all contenders have
/// released.
async fn left(client: &Client, lock: &str) -> Vec<String> {
    let deadline = Instant::now() + 2 * SESSION_TIMEOUT;
    loop {
        let left = client.get_children(lock).await.expect("the lock");
        if left.is_empty() || Instant::now() > deadline {
            return left;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

impl Contender {
    async fn run(mut self) {
        while !self.wishes.stop.load(Ordering::SeqCst) {
            let shares = matches!(self.lock, Lock::ReadWrite(_)) && self.random() & 1 == 0;
            let mode = if shares {
                Mode::Shared
            } else {
                Mode::Exclusive
            };
            let attempt = self.recorder.asked(self.number, mode);
            let guard = match &self.lock {
                Lock::Mutex(mutex) => mutex.lock().await,
                Lock::ReadWrite(lock) if shares => lock.read().await,
                Lock::ReadWrite(lock) => lock.write().await.map(WriteGuard::into_guard),
            };
            let end = match guard {
                Ok(guard) => {
                    self.recorder.granted(self.number, attempt, &guard);
                    self.hold(attempt, mode, guard).await
                }
                Err(error) => end_of(&error),
            };
            self.recorder.ended(self.number, attempt, end);
        }
    }

    /// Works under the lock and releases it. If the lock is lost, does what a holder that had not
    /// noticed would do.
    async fn hold(&mut self, attempt: Attempt, mode: Mode, guard: Guard) -> End {
        let lost = {
            let mut told = pin!(guard.lost());
            let work = pin!(self.work(attempt, mode, &guard));
            tokio::select! {
                loss = &mut told => loss,
                () = work => None,
            }
        };
        self.recorder.note(self.number, What::LetGo(attempt));
        if let Some(loss) = lost {
            self.recorder.told(loss);
            if mode == Mode::Exclusive {
                self.write_late(attempt, &guard).await;
            }
        }
        match guard.release().await {
            Ok(()) => End::Released,
            Err(error) => end_of(&error),
        }
    }

    async fn work(&mut self, attempt: Attempt, mode: Mode, guard: &Guard) {
        let token = guard.fencing_token().get();
        let writes = mode == Mode::Exclusive;
        let holds_on = self.wishes.hold_on.swap(false, Ordering::SeqCst);
        if writes {
            self.recorder.store(self.number, attempt, token);
            let _ = self.write(guard).await;
        }
        if holds_on {
            self.let_go.mark_unchanged();
            self.holds_on.send(self.number).expect("the test listens");
            let look = Duration::from_millis(50);
            while timeout(look, self.let_go.changed()).await.is_err() {
                self.recorder.valid(self.number, attempt, guard);
            }
        } else {
            sleep(Duration::from_millis(self.random() % LONGEST_HOLD_MS)).await;
        }
        self.recorder.valid(self.number, attempt, guard);
        if writes {
            self.recorder.store(self.number, attempt, token);
        }
    }

    /// The next random number: xorshift64.
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Repeats the writes with the old token, once another holder has written, or after a while.
    async fn write_late(&self, attempt: Attempt, guard: &Guard) {
        let token = guard.fencing_token().get();
        let next = async {
            // The guard may become valid again: a lease can run out although the lock is not lost.
            while self.recorder.highest() <= token && !guard.is_valid() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = timeout(2 * SESSION_TIMEOUT, next).await;
        self.recorder.store(self.number, attempt, token);
        if let Err(LockError::Lost {
            loss: Loss::Deleted | Loss::Expired,
            ..
        }) = self.write(guard).await
        {
            self.recorder.refused();
        }
    }

    /// Writes to the store of nodes: creates one node, or nothing if the lock is lost.
    async fn write(&self, guard: &Guard) -> Result<(), LockError> {
        let token = guard.fencing_token();
        let write = self.recorder.write(self.number);
        let node = format!("{}/w-{write}-{token}-", self.log);
        let mode = CreateMode::PersistentSequential;
        let result = guard.transaction().create(&node, "", mode).commit().await;
        let answer = match &result {
            Ok(_) => Answer::Applied,
            Err(LockError::Session(error)) if error.effect() == Effect::Unknown => Answer::Unknown,
            Err(_) => Answer::NotApplied,
        };
        self.recorder.answered(self.number, write, answer);
        result.map(drop)
    }
}

/// A write that was applied. The order of these values is the one in which the servers applied the
/// writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Applied {
    sequence: u64,
    token: u64,
    write: u64,
}

/// `w-WRITE-TOKEN-SEQUENCE`.
fn parse(node: &str) -> Applied {
    let mut parts = node
        .split('-')
        .skip(1)
        .map(|part| part.parse().expect("a number"));
    let mut next = || parts.next().expect("three numbers");
    let (write, token, sequence) = (next(), next(), next());
    Applied {
        sequence,
        token,
        write,
    }
}

/// How an attempt ended that has this error.
pub fn end_of(error: &LockError) -> End {
    match error {
        LockError::Lost {
            loss: Loss::Deleted,
            ..
        } => End::LostDeleted,
        LockError::Lost { .. } => End::LostSession,
        LockError::TimedOut { .. } => End::TimedOut,
        other => End::Failed(other.to_string()),
    }
}

/// A client of servers that serve.
pub async fn client(servers: &str, session_timeout: Duration) -> Client {
    let builder = Client::builder(servers).expect("a list of servers");
    let builder = builder.session_timeout(session_timeout);
    let max_wait = builder.connect_timeout(Duration::from_secs(30));
    max_wait.connect().await.expect("servers that serve")
}
