//! Opens TCP connections. Each attempt resolves the name again and tries its addresses side by
//! side. While no answer comes, it tries the addresses of the last answer.
//!
//! Not here: how long an attempt may take and which server is next. The machine drops an attempt
//! that takes too long.

use std::{
    fmt,
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use tokio::{net::TcpStream, time::sleep};

use super::{
    sockets::{connect, look_up},
    transport::Connector,
};
use crate::Endpoint;
use crate::client::{
    random::random_u64,
    sync::{
        os::{Mutex, lock},
        select::{Either, select},
    },
};

/// How long one address may take to accept before the next address is tried as well. For so long a
/// connection waits for the fresh addresses of a name before it is made to a former address.
///
/// Source: RFC 8305, section 5, "Connection Attempt Delay".
const STAGGER: Duration = Duration::from_millis(250);
/// The most addresses of one name in one attempt. The next attempt starts with other addresses.
const MOST_ADDRESSES: usize = 16;
/// The most servers whose turns are remembered: many clients may share a connector.
const MOST_TURNS: usize = 1024;

/// Which address is first in an attempt, for each server.
///
/// Each attempt begins with the next one, so that an address that accepts connections and does not
/// serve cannot hide the other addresses. The servers of a list are tried in a fixed order. A
/// common turn would always come to the same address of each of them.
#[derive(Debug)]
struct Turns {
    first: usize,
    /// Servers, each with its next index and the addresses of the last answer.
    of: Vec<(Endpoint, usize, Vec<SocketAddr>)>,
}

impl Turns {
    /// The index of the first address in this attempt at this server, and the known addresses.
    fn next(&mut self, server: &Endpoint) -> (usize, Vec<SocketAddr>) {
        if let Some((_, next, known)) = self.of(server) {
            let turn = *next;
            *next = turn.wrapping_add(1);
            return (turn, known.clone());
        }
        if self.of.len() == MOST_TURNS {
            self.of.clear();
            self.first = self.first.wrapping_add(1);
        }
        self.of
            .push((server.clone(), self.first.wrapping_add(1), Vec::new()));
        (self.first, Vec::new())
    }

    fn of(&mut self, server: &Endpoint) -> Option<&mut (Endpoint, usize, Vec<SocketAddr>)> {
        self.of.iter_mut().find(|(it, ..)| it == server)
    }
}

impl Connector {
    /// Makes a connector for plain TCP without Nagle's delay.
    ///
    /// Each attempt resolves the name again. While the name server does not answer, it tries the
    /// addresses of the last answer. If the name has several addresses, each attempt begins
    /// with a different one. When an address has not accepted within 250 ms, the next one is tried
    /// as well. The first connection that is accepted is used.
    #[must_use]
    pub fn tcp() -> Self {
        let dialer = Dialer::new();
        Self::new(move |endpoint| dialer.clone().dial(endpoint))
    }
}

/// Opens the connections of a client.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    turns: Arc<Mutex<Turns>>,
}

impl Dialer {
    pub(crate) fn new() -> Self {
        // Different clients that start together begin with different addresses of a name.
        let first = usize::try_from(random_u64() >> 33).unwrap_or_default();
        Self {
            turns: Arc::new(Mutex::new(Turns {
                first,
                of: Vec::new(),
            })),
        }
    }

    /// Connects to the address of the server that accepts first.
    async fn dial(self, endpoint: Endpoint) -> io::Result<TcpStream> {
        let fresh = look_up(&endpoint);
        self.attempt(&endpoint, fresh, connect).await
    }

    /// Connects to the fresh addresses. If they do not come in time, or if the name server fails, it
    /// connects to the known ones: a session must not end because the name server is slow. Fresh
    /// addresses that come meanwhile take the place of the known ones.
    async fn attempt<T, F: Future<Output = io::Result<T>>>(
        &self,
        server: &Endpoint,
        fresh: impl Future<Output = io::Result<Vec<SocketAddr>>>,
        connect: impl Fn(SocketAddr) -> F,
    ) -> io::Result<T> {
        let (turn, known) = lock(&self.turns).next(server);
        let connect = |addresses| first_of(in_turn(addresses, turn), &connect);
        let mut fresh = pin!(async {
            let fresh = fresh.await?;
            if let Some((_, _, known)) = lock(&self.turns).of(server) {
                known.clone_from(&fresh);
            }
            Ok::<_, io::Error>(fresh)
        });
        if known.is_empty() {
            return connect(fresh.await?).await;
        }
        let mut to_known = pin!(async {
            sleep(STAGGER).await;
            connect(known).await
        });
        match select(fresh.as_mut(), to_known.as_mut()).await {
            Either::Left(Ok(fresh)) => connect(fresh).await,
            Either::Left(Err(error)) => to_known.await.map_err(|_| error),
            Either::Right(Ok(connection)) => Ok(connection),
            Either::Right(Err(_)) => connect(fresh.await?).await,
        }
    }
}

/// The addresses in the order in which this attempt tries them.
fn in_turn(addresses: Vec<SocketAddr>, turn: usize) -> Vec<SocketAddr> {
    // They are few: the code of a sort would be longer than this.
    let mut sorted = Vec::new();
    for address in addresses {
        if let Err(place) = sorted.binary_search(&address) {
            sorted.insert(place, address);
        }
    }
    if let Some(first) = turn.checked_rem(sorted.len()) {
        sorted.rotate_left(first);
    }
    sorted.truncate(MOST_ADDRESSES);
    sorted
}

/// Returns the first connection that is accepted. An address is tried when the address before it
/// has failed or has not answered for [`STAGGER`]. Earlier attempts continue.
async fn first_of<A, T, F>(addresses: Vec<A>, connect: impl Fn(A) -> F) -> io::Result<T>
where
    A: Clone + fmt::Display,
    F: Future<Output = io::Result<T>>,
{
    let several = addresses.len() > 1;
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let mut rest = addresses.into_iter();
    let mut attempts = Vec::new();
    loop {
        if let Some(address) = rest.next() {
            attempts.push((address.clone(), Box::pin(connect(address))));
        }
        if attempts.is_empty() {
            return Err(failure);
        }
        let ended = first_to_end(&mut attempts);
        let (address, ended) = if rest.len() == 0 {
            ended.await
        } else {
            match select(ended, sleep(STAGGER)).await {
                Either::Left(ended) => ended,
                Either::Right(()) => continue,
            }
        };
        match ended {
            Ok(connection) => return Ok(connection),
            Err(error) if several => {
                failure = io::Error::new(error.kind(), format!("{address}: {error}"));
            }
            Err(error) => failure = error,
        }
    }
}

/// The first attempt to end, which is taken out. There are few, so each is polled.
async fn first_to_end<A, F: Future>(attempts: &mut Vec<(A, Pin<Box<F>>)>) -> (A, F::Output) {
    poll_fn(|cx| {
        let ended = attempts.iter_mut().enumerate().find_map(|(at, attempt)| {
            match attempt.1.as_mut().poll(cx) {
                Poll::Ready(output) => Some((at, output)),
                Poll::Pending => None,
            }
        });
        match ended {
            Some((at, output)) => Poll::Ready((attempts.swap_remove(at).0, output)),
            None => Poll::Pending,
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::Instant;

    use super::*;

    fn address(number: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, number], 2181))
    }

    fn refused() -> io::Error {
        io::ErrorKind::ConnectionRefused.into()
    }

    /// Regression: a first address that did not answer used up the whole attempt, and the next
    /// attempt began with the same address.
    #[tokio::test(start_paused = true)]
    async fn a_silent_address_does_not_hide_the_others() {
        let begin = Instant::now();
        let asked = Mutex::new(Vec::new());
        let found = first_of((1..=4).map(address).collect(), |to| {
            asked.lock().unwrap().push((to, begin.elapsed()));
            async move {
                match to {
                    to if to == address(3) => {
                        sleep(Duration::from_millis(100)).await;
                        Ok(to)
                    }
                    _ => pending().await,
                }
            }
        });
        assert_eq!(found.await.unwrap(), address(3));
        let asked = asked.into_inner().unwrap();
        let expected = [1, 2, 3].map(|n| (address(n), STAGGER * u32::from(n - 1)));
        assert_eq!(asked, expected);
        assert_eq!(begin.elapsed(), 2 * STAGGER + Duration::from_millis(100));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_address_is_still_waited_for() {
        let found = first_of(vec![address(1), address(2)], |to| async move {
            if to == address(1) {
                sleep(10 * STAGGER).await;
                return Ok(to);
            }
            Err(refused())
        });
        assert_eq!(found.await.unwrap(), address(1));
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_that_refuse_cost_no_time_and_the_error_names_the_last_one() {
        let begin = Instant::now();
        let none = first_of((1..=9).map(address).collect(), |_| async {
            Err::<(), _>(refused())
        });
        let error = none.await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(error.to_string().starts_with("192.0.2.9:2181: "), "{error}");
        assert_eq!(begin.elapsed(), Duration::ZERO);
        let nowhere = first_of(Vec::<SocketAddr>::new(), |_| async {
            Err::<(), _>(refused())
        });
        assert_eq!(nowhere.await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    /// Regression: a reconnect waited for the name server alone. A slow one cost the session, and
    /// with it the lock, on a healthy server.
    #[tokio::test(start_paused = true)]
    async fn known_addresses_are_tried_while_fresh_ones_do_not_come() {
        let server = Endpoint {
            host: "zk1".to_owned(),
            port: 2181,
        };
        let unknown = || Err(io::ErrorKind::HostUnreachable);
        let (none, long) = (Duration::ZERO, 100 * STAGGER);
        // When the name server answers, what, who accepts, and who is found when.
        for (time, answer, accepts, found, after) in [
            (none, Ok(2), &[1, 2][..], Ok(2), STAGGER),
            (long, Ok(2), &[1, 2], Ok(1), 2 * STAGGER),
            // While the known address does not answer yet, and when it has refused.
            (STAGGER * 3 / 2, Ok(2), &[1, 2], Ok(2), STAGGER * 5 / 2),
            (long, Ok(2), &[2], Ok(2), long + STAGGER),
            (none, unknown(), &[1], Ok(1), 2 * STAGGER),
            (none, unknown(), &[], Err("host"), 2 * STAGGER),
            (long, unknown(), &[], Err("host"), long),
        ] {
            let dialer = Dialer::new();
            let dial = async |time, answer: Result<u8, io::ErrorKind>, accepts: &[u8]| {
                let fresh = async {
                    sleep(time).await;
                    Ok(vec![address(answer?)])
                };
                let connect = async |to: SocketAddr| {
                    sleep(STAGGER).await;
                    let found = accepts.iter().find(|number| address(**number) == to);
                    found.copied().ok_or_else(refused)
                };
                dialer.attempt(&server, fresh, connect).await
            };
            let begin = Instant::now();
            let nothing_known = dial(long, Ok(1), &[1]).await;
            assert_eq!(nothing_known.unwrap(), 1);
            assert_eq!(begin.elapsed(), long + STAGGER);
            let begin = Instant::now();
            let outcome = dial(time, answer, accepts).await;
            let outcome = outcome.map_err(|error| error.kind());
            assert_eq!(outcome, found.map_err(|_| io::ErrorKind::HostUnreachable));
            assert_eq!(begin.elapsed(), after, "{time:?} {answer:?} {accepts:?}");
        }
    }

    /// Regression: one turn counted for all servers. A client of two servers with two addresses
    /// each tried them alternately, and began with the same address of a server every time.
    #[test]
    fn every_server_has_its_own_turn() {
        let server = |number: usize| Endpoint {
            host: format!("zk{number}"),
            port: 2181,
        };
        let of = Vec::new();
        let mut turns = Turns { first: 7, of };
        for attempt in 0..4 {
            for number in 0..2 {
                let (first, _) = turns.next(&server(number));
                assert_eq!(first, 7 + attempt);
            }
        }
        for number in 0..2 * MOST_TURNS {
            turns.next(&server(number));
        }
        assert!(turns.of.len() <= MOST_TURNS);
        let mut firsts = (0..2).map(|_| turns.next(&server(0)));
        assert_ne!(firsts.next(), firsts.next());
    }

    #[test]
    fn each_attempt_begins_with_a_different_address() {
        let addresses: Vec<_> = (0..40).map(address).collect();
        let mut first: Vec<_> = (7..47)
            .map(|turn| {
                let order = in_turn(addresses.clone(), turn);
                assert_eq!(order.len(), MOST_ADDRESSES);
                order[0]
            })
            .collect();
        assert_eq!(
            in_turn(addresses.clone(), 7),
            in_turn(addresses.clone(), 47)
        );
        first.sort_unstable();
        assert_eq!(first, addresses);
        assert_eq!(in_turn(Vec::new(), 3), []);
        let twice = vec![address(1), address(1)];
        assert_eq!(in_turn(twice, 0), [address(1)]);
    }
}
