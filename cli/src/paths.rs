//! Parsing the paths of locks and nodes. An error says what is wrong, and which path was probably meant.

use lockkeeper::proto::path;

/// Checks the path of a lock.
pub(crate) fn lock(text: &str) -> Result<String, String> {
    match node(text)? {
        path if path == path::ROOT => {
            Err("the root cannot be a lock; use a path such as /locks/backup".to_owned())
        }
        path => Ok(path),
    }
}

/// Checks the path of a node.
pub(crate) fn node(text: &str) -> Result<String, String> {
    let checked = path::check(text).map_err(|error| match better(text) {
        Some(better) => format!("{}; did you mean {better}?", error.problem()),
        None => error.problem().to_owned(),
    });
    checked.map(|()| text.to_owned())
}

/// The path that the user probably meant, if it can be guessed.
fn better(text: &str) -> Option<String> {
    let names = text.split('/').filter(|name| !name.is_empty());
    let guess: String = names.flat_map(|name| ["/", name]).collect();
    (guess.len() > 1 && path::check(&guess).is_ok()).then_some(guess)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_a_bad_path_suggests_a_good_one() {
        let error = |text: &str| lock(text).unwrap_err();
        assert_eq!(
            error("locks/backup"),
            "it must start with /; did you mean /locks/backup?"
        );
        assert_eq!(
            error("/locks/backup/"),
            "it must not end with /; did you mean /locks/backup?"
        );
        assert_eq!(
            error("//locks//backup"),
            "empty name at byte 1; did you mean /locks/backup?"
        );
        assert!(error("").contains("/locks/orders"));
        assert!(error("/").contains("/locks/backup"));
        assert!(!error("/a/../b").contains("did you mean"));
        assert_eq!(lock("/a/b").as_deref(), Ok("/a/b"));
    }
}
