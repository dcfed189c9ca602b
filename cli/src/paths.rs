//! Parsing the paths of locks and nodes.

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
    let checked = path::check(text).map_err(|error| error.problem().to_owned());
    checked.map(|()| text.to_owned())
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
        assert!(error("").contains("/locks/orders"));
        assert!(error("/").contains("/locks/backup"));
        assert_eq!(lock("/a/b").as_deref(), Ok("/a/b"));
    }
}
