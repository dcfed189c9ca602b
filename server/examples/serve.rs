//! Serves on an address until the process is stopped: `cargo run -p lockkeeper-server --example
//! serve -- 127.0.0.1:2181`.

use std::time::Duration;

use lockkeeper_server::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1);
    let address = address.as_deref().unwrap_or("127.0.0.1:0").parse()?;
    let server = Server::builder()
        .listen(address)
        .fresh()
        .container_check_interval(Duration::from_secs(5))
        .start()
        .await?;
    println!("listening on {}", server.local_addr());
    std::future::pending().await
}
