//! DNS SRV records (feature `srv`): a connector that looks up the servers behind the name of a
//! record.
//!
//! It asks the DNS at each attempt and keeps nothing of the answer. So a changed record counts from
//! the next attempt. Not here: the addresses of a server (`dial`), and how the name stands in the
//! connect string (`connect_string`).
//!
//! Source: RFC 2782.

#[cfg(test)]
mod tests;

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use hickory_resolver::{
    TokioResolver,
    config::ResolveHosts,
    net::{NetError, runtime::TokioRuntimeProvider},
    proto::rr::{RData, rdata::SRV},
};
use tokio::runtime;

pub(in crate::client) use hickory_resolver::config::ResolverConfig;

use crate::{
    Endpoint,
    client::{
        net::{
            dial::{STAGGER, begin_with, first_of},
            sockets::off_thread,
            transport::Connector,
        },
        random::Random,
        sync::os::{Mutex, lock},
    },
    machine::rng::Rng,
};

/// An attempt that comes later than this after the one before begins with the first target again.
/// Until then each attempt begins with the next target, since the connection of the one before did
/// not last.
const LASTED: Duration = Duration::from_secs(60);

/// How long a name server may take to answer; a lookup asks twice. So the error of a lookup comes
/// before the end of an attempt with the default settings, and one lost packet does not cost the
/// attempt.
const PATIENCE: Duration = Duration::from_secs(1);

/// Looks up the names of records, with the name servers of the system or with these. The connector
/// below connects to the servers that they name, and to all other servers.
pub(in crate::client) fn over(
    below: Connector,
    resolver: Option<ResolverConfig>,
    random: Random,
) -> Connector {
    let order = Arc::new(Mutex::new(Order::new(random)));
    Connector::on(move |record, net| {
        if !record.is_srv() {
            return below.connect(record, net);
        }
        let (order, resolver, below) = (order.clone(), resolver.clone(), below.clone());
        let net = net.clone();
        Box::pin(async move {
            let name = record.host.clone();
            // The resolver needs a runtime of tokio.
            let look_up = move || {
                let runtime = runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()?;
                runtime.block_on(look_up(&name, resolver))
            };
            let answer = off_thread(look_up).await?;
            let now = net.shared.lock().clock.now();
            let (seed, turn) = lock(&order).next(now);
            let connect = |target: Endpoint| {
                let connecting = below.connect(target.clone(), &net);
                let record = &record;
                async move {
                    let stream = connecting.await?;
                    tracing::debug!(%record, %target, "a target of the SRV record has accepted");
                    Ok(stream)
                }
            };
            let stagger = || net.sleep(STAGGER);
            first_of(targets(answer, seed, turn)?, connect, stagger).await
        })
    })
}

/// Asks for the record. An error says what is wrong. It does not name the record, because every
/// message about it begins with the name of the server, which is the record.
async fn look_up(name: &str, resolver: Option<ResolverConfig>) -> io::Result<Vec<SRV>> {
    let failed = |error: NetError| {
        if error.is_no_records_found() {
            io::Error::new(io::ErrorKind::NotFound, "there is no such DNS SRV record")
        } else {
            io::Error::other(format!("the lookup of the DNS SRV record failed: {error}"))
        }
    };
    let mut builder = match resolver {
        Some(config) => TokioResolver::builder_with_config(config, TokioRuntimeProvider::default()),
        None => TokioResolver::builder_tokio().map_err(failed)?,
    };
    let options = builder.options_mut();
    options.timeout = options.timeout.min(PATIENCE);
    options.attempts = 1; // besides the first one
    options.cache_size = 0; // an answer is used once
    options.use_hosts_file = ResolveHosts::Never; // it has no such records
    let resolver = builder.build().map_err(failed)?;
    let answer = resolver.srv_lookup(name).await.map_err(failed)?;
    let records = answer.answers().iter().map(|answer| &answer.data);
    let servers = records.filter_map(|record| match record {
        RData::SRV(server) => Some(server.clone()),
        _ => None,
    });
    Ok(servers.collect())
}

/// The servers in the order in which this attempt tries them.
fn targets(mut answer: Vec<SRV>, seed: u64, turn: usize) -> io::Result<Vec<Endpoint>> {
    // The target `.` says that there is no such service. Nothing can listen on port 0.
    answer.retain(|server| !server.target.is_root() && server.port != 0);
    if answer.is_empty() {
        let text = "the DNS SRV record names no server: its target is \".\", or its port 0";
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    }
    let mut targets = in_order(answer, &mut Rng::new(seed));
    begin_with(&mut targets, turn);
    Ok(targets)
}

/// The lowest priority first. Within a priority at random, by weight.
fn in_order(mut servers: Vec<SRV>, rng: &mut Rng) -> Vec<Endpoint> {
    // Name servers rotate their answers. The same record and seed must lead to the same order.
    servers.sort_by(|one, other| {
        let key = |server: &SRV| (server.priority, server.weight, server.port);
        (key(one), &one.target).cmp(&(key(other), &other.target))
    });
    servers.dedup();
    let mut order = Vec::with_capacity(servers.len());
    while let Some(first) = servers.first() {
        let lowest = first.priority;
        let equals = servers
            .iter()
            .take_while(|server| server.priority == lowest);
        let sums = equals.scan(0, |sum, server| {
            *sum += u64::from(server.weight);
            Some(*sum)
        });
        let sum = sums.clone().last().unwrap_or(0);
        let drawn = rng.below(sum + 1);
        let chosen = sums.take_while(|sum| *sum < drawn).count();
        order.push(endpoint(&servers.remove(chosen)));
    }
    order
}

fn endpoint(server: &SRV) -> Endpoint {
    let name = server.target.to_ascii();
    Endpoint {
        host: name.strip_suffix('.').unwrap_or(&name).to_owned(),
        port: server.port,
    }
}

/// The order of the targets stays the same for attempts that follow each other, so that each of
/// them can begin with the next target.
#[derive(Debug)]
struct Order {
    random: Random,
    seed: u64,
    turn: usize,
    last: Option<Instant>,
}

impl Order {
    fn new(random: Random) -> Self {
        Self {
            seed: random.next(),
            random,
            turn: 0,
            last: None,
        }
    }

    /// The seed of the order in this attempt, and which target is first.
    fn next(&mut self, now: Instant) -> (u64, usize) {
        if self.last.is_some_and(|last| now - last > LASTED) {
            self.seed = self.random.next();
            self.turn = 0;
        }
        self.last = Some(now);
        let turn = self.turn;
        self.turn = turn.wrapping_add(1);
        (self.seed, turn)
    }
}
