//! How does a directory of files refuse a holder of the past?
//!
//! A file cannot compare. But each holder can write to a file of its own, named after its token, and readers take the one with
//! the highest: what a holder of the past writes late, nobody reads. It works on a shared file system, too.
//!
//! `cargo run --example fence_file [HOSTS]`: on an embedded server unless HOSTS names a real one.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use lockkeeper::{Client, FencingToken, Mutex};
use lockkeeper_server::Server;

/// Writes what belongs to a holder. A reader sees all of it or nothing.
fn write(directory: &Path, token: FencingToken, text: &str) -> io::Result<()> {
    // Twenty digits: names sort as the numbers do.
    let file = directory.join(format!("{:020}", token.get()));
    let half_written = file.with_extension("tmp");
    fs::write(&half_written, text)?;
    fs::rename(half_written, file)
}

/// Reads what the newest holder that has written anything wrote.
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

    // The first holder was paused before its second write, and has not noticed anything yet.
    write(&directory, stale, "late")?;
    assert_eq!(read(&directory)?, "second");
    println!("the late write changed nothing that is read");
    second.release().await?;
    fs::remove_dir_all(&directory)?;
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
