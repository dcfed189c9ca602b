//! How do several processes begin a step together, and leave it together? (a double barrier)
//!
//! Each process creates a node that ends with its session. All begin when there are enough nodes,
//! and all leave when there is none. Each step has a path of its own; its two nodes stay until
//! somebody deletes them.

use lockkeeper::{Client, CreateMode, Error, Version};
use lockkeeper_server::Server;

/// One process. A process that dies leaves the barrier when its session ends.
async fn process(client: Client, step: &str, name: u32, count: usize) -> Result<(), Error> {
    let node = format!("{step}/{name}");
    client.create(&node, "", CreateMode::Ephemeral).await?;
    // Whoever comes late finds this node, also when the others have left already.
    let begin = format!("{step}-begins");
    let (found, told) = client.exists_and_watch(&begin).await?;
    if found.is_none() {
        if client.get_children(step).await?.len() >= count {
            match client.create(&begin, "", CreateMode::Persistent).await {
                Err(error) if !error.is_node_exists() => return Err(error),
                _ => {}
            }
        }
        told.await?;
    }
    println!("{name} works"); // all have come
    client.delete(&node, Version::ANY).await?;
    loop {
        let (nodes, change) = client.get_children_and_watch(step).await?;
        if nodes.is_empty() {
            break;
        }
        change.await?;
    }
    println!("{name} leaves"); // all have finished
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let first = Client::connect(&server.connect_string()).await?;
    first.create("/step-1", "", CreateMode::Persistent).await?;
    let mut processes = tokio::task::JoinSet::new();
    for name in 0..3 {
        let client = Client::connect(&server.connect_string()).await?;
        processes.spawn(process(client, "/step-1", name, 3));
    }
    while let Some(process) = processes.join_next().await {
        process??;
    }
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
