//! How does a directory of files ignore a former holder of the lock?
//!
//! A file cannot compare tokens. So each holder writes its own file, and the token is the name of
//! the file. Readers take the file with the highest token. A late write of a former holder is then
//! never read. This also works on a shared file system.
//!
//! Run it with `cargo run --example fence_file [HOSTS]`. Without HOSTS it uses an embedded server.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use lockkeeper::{Client, FencingToken, Mutex};
use lockkeeper_server::Server;

/// Writes the text of a holder. A reader sees the whole text or nothing.
fn write(directory: &Path, token: FencingToken, text: &str) -> io::Result<()> {
    // With twenty digits, the names sort in the order of the numbers.
    let file = directory.join(format!("{:020}", token.get()));
    let half_written = file.with_extension("tmp");
    fs::write(&half_written, text)?;
    fs::rename(half_written, file)
}

/// Reads the text with the highest token.
fn read(directory: &Path) -> io::Result<String> {
    let mut files: Vec<PathBuf> = fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.retain(|file| file.extension().is_none());
    let newest = files.into_iter().max().ok_or(io::ErrorKind::NotFound)?;
    fs::read_to_string(newest)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let embedded = Server::start().await?;
    let servers = std::env::args().nth(1).filter(|arg| arg.contains(':'));
    let servers = servers.unwrap_or_else(|| embedded.connect_string());
    let directory = std::env::temp_dir().join(format!("lockkeeper-example-{}", std::process::id()));
    fs::create_dir_all(&directory)?;

    let client = Client::connect(&servers).await?;
    let mutex = Mutex::new(&client, "/locks/report")?;
    let first = mutex.lock().await?;
    write(&directory, first.fencing_token(), "first")?;
    let stale = first.fencing_token();
    drop(first);

    let second = mutex.lock().await?;
    write(&directory, second.fencing_token(), "second")?;

    // The first holder was paused before its second write, and does not know that it has lost the
    // lock.
    write(&directory, stale, "late")?;
    assert_eq!(read(&directory)?, "second");
    println!("readers do not see the late write");
    second.release().await?;
    fs::remove_dir_all(&directory)?;
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
