//! Connecting and acquiring the lock, within the time limit of the command line.

use std::{
    future::{Future, pending},
    io::{self, IsTerminal as _},
    pin::pin,
    time::Duration,
};

use lockkeeper::{
    Client, CreateMode, Guard, LockError, Mutex, RwLock, Semaphore,
    client::Builder,
    locks::inspect,
    node::{Acl, Perms},
    proto::{ErrorCode, path},
    raw::AsRaw,
};
use tokio::time::{sleep, timeout};

use super::{Run, RunArgs, args::Access, once};
use crate::{
    client,
    duration::Human,
    exit::{self, Failure, Level},
    refusal, text,
};

/// After this time a user at a terminal is told that the command waits for the lock.
const SILENCE: Duration = Duration::from_secs(1);

/// After this time a user who wants to hear of each step is told so. A wait that is shorter is no wait.
const VERBOSE_SILENCE: Duration = Duration::from_millis(50);

/// How long servers may take to answer an attempt that does not wait.
const TRY: Duration = Duration::from_secs(1);

/// Makes the client. An attempt that does not wait needs a server now; otherwise the client connects in the background. A request
/// that comes before or behind the wait for the lock has as much time as is left, and a second at least: the grant may come in the
/// last moment.
pub(super) async fn client(settings: Builder, args: &RunArgs) -> Result<Client, Failure> {
    let mut settings = settings.session_timeout(args.session_timeout);
    if let Some(tick) = args.tick {
        settings = settings.tick_time(tick);
    }
    if args.acl == Access::Creator {
        settings = settings.default_acl(Acl::CREATOR_ALL);
    }
    if let Some(limit) = args.limit() {
        settings = settings.deadline(limit.max(TRY));
    }
    if args.is_try() {
        client::connect(settings, TRY).await
    } else {
        Ok(settings.connect_lazy())
    }
}

/// What a client needs to harm the users of a lock.
const HARMFUL: Perms = Perms(Perms::ALL.0 & !Perms::READ.0);

impl Run {
    /// `--acl`: makes the lock's directories and the nodes of `--once-per`, if they are to be closed. Those that exist must not be open to
    /// everyone.
    ///
    /// To delete a node, a client needs a permission on the node above it. So the ACL of the lock's directory decides who can enter the
    /// queue, and who can throw others out; that of the record of `--once-per` decides who can say that the command has run. The default
    /// ACL of the client closes what this run creates.
    pub(super) async fn prepare_access(&self) -> Result<(), Failure> {
        let (client, args) = (&self.client, &self.args);
        if args.acl == Access::World {
            return Ok(());
        }
        let mut nodes = vec![args.path.clone()];
        if args.holders.is_some() {
            nodes.extend(["locks", "leases"].map(|name| path::join(&args.path, name)));
        }
        if args.once_per.is_some() {
            nodes.extend(once::nodes(&args.path));
        }
        for node in nodes {
            client.ensure_path(&node).await?;
            let acl = client.get_acl(&node).await?.acl;
            let mut others = acl.iter().filter(|it| it.perms.allows_any_of(HARMFUL));
            if let Some(who) = others.find_map(|it| args.acl.other(it)) {
                return Err(failure!(
                    USAGE,
                    "{node} exists, and {who} may change it; restrict it, for example with setAcl of zkCli.sh, or leave out --acl"
                ));
            }
        }
        Ok(())
    }

    /// Does this within the time for the lock.
    pub(super) async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let (path, is_try) = (&self.args.path, self.args.is_try());
        // In a box, so that this future does not have the room for it twice.
        let work = Box::pin(work);
        let Some(limit) = self.args.limit() else {
            return work.await;
        };
        let left = limit.saturating_sub(self.began.elapsed());
        if let Ok(done) = timeout(if is_try { TRY } else { left }, work).await {
            return done;
        }
        let waited = Human(self.began.elapsed());
        let why = match self.client.raw().outage() {
            Some(why) if !is_try => format!("; {why}"),
            _ if self.grants_none().await => format!("; {}", refusal::TOO_EARLY),
            _ if is_try => {
                let silent = failure!(UNAVAILABLE, "{path}: no server has answered in a second");
                return Err(silent);
            }
            _ => self.standing().await,
        };
        Err(failure!(
            NOT_ACQUIRED,
            "{path}: lock not acquired in {waited}{why}"
        ))
    }

    /// Takes the lock that the arguments ask for. `None` if the lock is taken, and the attempt does not wait.
    async fn attempt(&self) -> Result<Option<Guard>, LockError> {
        let (client, args, path) = (&self.client, &self.args, &self.args.path);
        let (who, waits) = (self.who(), !self.args.is_try());
        if let Some(holders) = args.holders {
            let semaphore = Semaphore::new(client, path, holders)?.with_data(who);
            return if waits {
                semaphore.acquire().await.map(Some)
            } else {
                semaphore.try_acquire().await
            };
        }
        if args.shared {
            let lock = RwLock::new(client, path)?.with_data(who);
            return if waits {
                lock.read().await.map(Some)
            } else {
                lock.try_read().await
            };
        }
        let mutex = Mutex::new(client, path)?.with_data(who);
        if waits {
            mutex.lock().await.map(Some)
        } else {
            mutex.try_lock().await
        }
    }

    /// Acquires the lock. If the session expires during the wait, the library enters the queue again, at its end.
    ///
    /// # Cancel safety
    /// The same as for [`Mutex::lock`](lockkeeper::Mutex::lock).
    pub(super) async fn acquire(&self) -> Result<Guard, Failure> {
        let path = &self.args.path;
        match self.told(self.attempt()).await {
            Ok(Some(guard)) => Ok(guard),
            Ok(None) => {
                let standing = self.standing().await;
                Err(failure!(
                    NOT_ACQUIRED,
                    "{path}: the lock is taken{standing}"
                ))
            }
            Err(error) => Err(Failure::lock(path, error)),
        }
    }

    /// Waits for the lock, and tells the user of a long wait. A user at a terminal hears of it after [`SILENCE`]. A user who wants to hear
    /// of each step hears of it soon.
    async fn told<T>(&self, lock: impl Future<Output = T>) -> T {
        let (path, mut lock) = (&self.args.path, pin!(lock));
        let is_verbose = exit::says(Level::Verbose);
        let silence = if is_verbose { VERBOSE_SILENCE } else { SILENCE };
        if let Ok(result) = timeout(silence, &mut lock).await {
            return result;
        }
        let tell = async {
            if self.grants_none().await {
                say!("{path}: waiting for the lock; {}", refusal::TOO_EARLY);
            } else if is_verbose || io::stderr().is_terminal() {
                let standing = self.standing().await;
                say!("{path}: waiting for the lock{standing}");
            }
            // That may turn out later.
            while self.client.raw().slow().is_none() {
                sleep(SILENCE).await;
            }
            if let Some(slow) = self.client.raw().slow() {
                say!("{path}: waiting for the lock; {slow}");
            }
            pending().await
        };
        tokio::select! {
            biased;
            result = &mut lock => result,
            result = tell => result,
        }
    }

    /// Whether the server grants no lock to anybody, as `lockkeeper serve` after a restart. The library goes on trying then, and
    /// cannot say why. Any other server refuses this create, too, because the node above it is missing.
    async fn grants_none(&self) -> bool {
        let node = path::join(&self.args.path, "no-such-node/probe");
        let probe = self.client.create(&node, "", CreateMode::Ephemeral);
        matches!(timeout(TRY, probe).await, Ok(Err(error)) if error.code() == Some(ErrorCode::THROTTLED_OP))
    }

    /// Our place in the queue, and a holder, as far as they are known soon.
    async fn standing(&self) -> String {
        let entries = inspect(&self.client, &self.args.path);
        let Ok(Ok(entries)) = timeout(TRY, entries).await else {
            return String::new();
        };
        let session = self.client.snapshot().session_id;
        let ours = entries.iter().find(|it| it.stat.ephemeral_owner == session);
        let place = ours.map(|ours| format!(", {} ahead", ours.ahead));
        let holder = entries.iter().find(|it| it.holds).map(|holder| {
            let who = match text::data_in_a_line(holder.data.as_deref()) {
                who if who.is_empty() => format!("session {}", holder.stat.ephemeral_owner),
                who => who,
            };
            let age = || format!(", queued {} ago", text::age(holder));
            let age = holder.is_readable.then(age).unwrap_or_default();
            format!("; held by {who}{age}")
        });
        [place, holder].into_iter().flatten().collect()
    }
}
