//! How do I follow the changes of a node?

use lockkeeper::{Client, CreateMode, Version};
use lockkeeper_server::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let client = Client::connect(&server.connect_string()).await?;
    let node = client
        .create("/config-", "0", CreateMode::EphemeralSequential)
        .await?
        .path;
    let writer = client.clone();
    let path = node.clone();
    let writing = tokio::spawn(async move {
        for value in ["1", "2", "3"] {
            writer.set_data(&path, value, Version::ANY).await?;
        }
        writer.delete(&path, Version::ANY).await
    });

    // A watch fires once. More changes can happen between its event and the next read. So act on
    // the data, not on the event.
    loop {
        match client.get_data_and_watch(&node).await {
            Ok((value, changed)) => {
                println!("{:?}", value.data);
                changed.await?;
            }
            Err(error) if error.is_no_node() => break,
            Err(error) => return Err(error.into()),
        }
    }
    println!("deleted");
    writing.await??;
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
