//! How does a service take a lock for each request, and answer in time when it does not get it?
//!
//! `GET /add/ACCOUNT` adds one to the account. All copies of the service have one lock for each
//! account.
//!
//! Run it with `cargo run --example service [HOSTS]`. Without HOSTS it uses an embedded server.

use std::time::Duration;

use lockkeeper::{
    Client, CreateMode, LockError, Mutex, Version,
    locks::{LockMeter, LockMetrics},
};
use lockkeeper_server::Server;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

/// What all requests share. No pool: one client serves all of them.
#[derive(Clone)]
struct Service {
    client: Client,
    locks: LockMeter,
}

impl Service {
    /// Adds one to an account, under its lock.
    async fn add(&self, account: &str) -> Result<u64, LockError> {
        let path = format!("/accounts/{account}");
        let mutex = Mutex::new(&self.client, &format!("{path}/lock"))?.with_meter(&self.locks);
        let guard = mutex.lock_timeout(Duration::from_secs(10)).await?;
        let node = self.client.get_data(&path).await?;
        let text = String::from_utf8_lossy(&node.data.unwrap_or_default()).into_owned();
        let sum = text.parse::<u64>().unwrap_or(0) + 1;
        // The write and the release are one request, which fails if the lock is lost.
        guard
            .release_with(|write| write.set_data(&path, sum.to_string(), Version::ANY))
            .await?;
        Ok(sum)
    }

    /// Answers one request.
    async fn answer(self, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let account = line
            .strip_prefix("GET /add/")
            .and_then(|rest| rest.split(' ').next());
        let (status, text) =
            match account.filter(|name| name.bytes().all(|b| b.is_ascii_alphanumeric())) {
                None => ("404 Not Found", String::new()),
                Some(account) => match self.add(account).await {
                    Ok(sum) => ("200 OK", sum.to_string()),
                    // The caller may try again. Whether the sum has changed is in the error.
                    Err(error) if error.is_timeout() || error.is_transient() => {
                        ("503 Service Unavailable", error.to_string())
                    }
                    Err(error) => ("500 Internal Server Error", error.to_string()),
                },
            };
        let length = text.len();
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
        stream.get_mut().write_all((head + &text).as_bytes()).await
    }
}

/// Sends a request, and returns the whole answer.
async fn get(address: std::net::SocketAddr, path: &str) -> std::io::Result<String> {
    let (mut stream, mut answer) = (TcpStream::connect(address).await?, String::new());
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes())
        .await?;
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let embedded = Server::start().await?;
    let servers = std::env::args().nth(1).filter(|arg| arg.contains(':'));
    let servers = servers.unwrap_or_else(|| embedded.connect_string());

    let service = Service {
        client: Client::connect(&servers).await?,
        locks: LockMeter::new("accounts"),
    };
    for account in 0..5 {
        let path = format!("/accounts/{account}");
        let mode = CreateMode::Persistent;
        match service.client.create_all(&path, "0", mode).await {
            Err(error) if !error.is_node_exists() => return Err(error.into()),
            _ => service.client.set_data(&path, "0", Version::ANY).await?,
        };
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let serving = service.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serving.clone().answer(stream));
        }
    });

    let requests = (0..50)
        .map(|n| tokio::spawn(async move { get(address, &format!("/add/{}", n % 5)).await }));
    for request in requests.collect::<Vec<_>>() {
        let answer = request.await??;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    let last = get(address, "/add/3").await?;
    assert!(last.ends_with("\r\n\r\n11"), "{last}");
    let LockMetrics {
        acquired,
        contended,
        ..
    } = service.locks.metrics();
    println!("51 requests on 5 accounts: {acquired} locks, {contended} had to wait");
    assert_eq!(acquired, 51);
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
