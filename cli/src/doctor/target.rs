//! The servers to ask. A name that has several addresses stands for as many servers, and a client uses any of them.

use std::{
    collections::BTreeSet,
    net::{SocketAddr, ToSocketAddrs as _},
    thread,
    time::Duration,
};

use lockkeeper::client::Endpoint;
use tokio::{sync::oneshot, time::timeout};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) endpoint: Endpoint,
    /// The server as the user named it, if that is more than this one.
    pub(super) name: Option<Endpoint>,
    /// Empty if the look-up failed, or took too long.
    pub(super) addresses: Vec<SocketAddr>,
}

pub(super) async fn of(server: &Endpoint, within: Duration) -> Vec<Target> {
    split(server, look_up(server, within).await)
}

/// On a thread of its own, since the end of the runtime would wait for a look-up.
async fn look_up(server: &Endpoint, within: Duration) -> BTreeSet<SocketAddr> {
    let (sender, receiver) = oneshot::channel();
    let (host, port) = (server.host.clone(), server.port);
    let look = move || sender.send((host.as_str(), port).to_socket_addrs());
    if thread::Builder::new().spawn(look).is_err() {
        return BTreeSet::new();
    }
    let found = timeout(within, receiver).await;
    let found = found.ok().and_then(Result::ok).and_then(Result::ok);
    found.into_iter().flatten().collect()
}

fn split(server: &Endpoint, addresses: BTreeSet<SocketAddr>) -> Vec<Target> {
    // One machine may have an address of each family.
    let (four, six): (Vec<_>, Vec<_>) = addresses.iter().partition(|it| it.is_ipv4());
    let all = if six.len() > four.len() { six } else { four };
    if all.len() < 2 {
        return vec![Target {
            endpoint: server.clone(),
            name: None,
            addresses: addresses.into_iter().collect(),
        }];
    }
    let target = |address: SocketAddr| Target {
        endpoint: address.into(),
        name: Some(server.clone()),
        addresses: vec![address],
    };
    all.into_iter().map(target).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_as_many_servers_as_it_has_addresses_of_one_family() {
        let name = Endpoint {
            host: "zk".to_owned(),
            port: 2181,
        };
        for (addresses, asked) in [
            (&[][..], &["zk:2181"][..]),
            (&["127.0.0.1:2181", "[::1]:2181"], &["zk:2181"]),
            (
                &["10.0.0.2:2181", "[::1]:2181", "10.0.0.1:2181"],
                &["10.0.0.1:2181", "10.0.0.2:2181"],
            ),
            (
                &["[::2]:2181", "10.0.0.2:2181", "[::1]:2181"],
                &["[::1]:2181", "[::2]:2181"],
            ),
        ] {
            let found = addresses.iter().map(|it| it.parse().unwrap()).collect();
            let targets = split(&name, found);
            let told: Vec<_> = targets.iter().map(|it| it.endpoint.to_string()).collect();
            assert_eq!(told, asked);
            let is_named = |it: &Target| it.name == (asked.len() > 1).then(|| name.clone());
            assert!(targets.iter().all(is_named), "{targets:?}");
        }
    }
}
