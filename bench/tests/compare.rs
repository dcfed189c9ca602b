//! `compare.py`: its status, without a server.

use std::{io::ErrorKind, process::Command};

/// It printed an empty table, and ended with 0.
#[test]
fn a_comparison_without_a_program_fails_and_says_how_to_build_it() {
    let mut python = Command::new("python3");
    python.current_dir(env!("CARGO_MANIFEST_DIR"));
    python.env("BENCH_BUILD", "/nowhere");
    let arguments = ["compare.py", "127.0.0.1:1", "lock_uncontended:1"];
    let options = ["--only", "lockkeeper", "--quiet-wait", "0", "--rounds", "1"];
    match python.args(arguments).args(options).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("NOT TESTED: python3 is not installed");
        }
        ended => {
            let ended = ended.unwrap();
            let said = String::from_utf8(ended.stderr).unwrap();
            assert_eq!(ended.status.code(), Some(1), "{said}");
            let last = "no result of lockkeeper; to build them: bench/peers/build.sh\n";
            assert!(said.ends_with(last), "{said}");
        }
    }
}
