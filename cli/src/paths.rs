//! Parsing the paths of locks and nodes. An error says what is wrong, and which path was probably meant.

use std::str::FromStr;

use lockkeeper::proto::path;

/// The path of a lock.
#[derive(Clone, Debug)]
pub(crate) struct LockPath(String);

impl LockPath {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LockPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse()? {
            NodePath(path) if path == path::ROOT => {
                Err("the root cannot be a lock; use a path such as /locks/backup".to_owned())
            }
            NodePath(path) => Ok(Self(path)),
        }
    }
}

/// The path of a node.
#[derive(Clone, Debug)]
pub(crate) struct NodePath(String);

impl NodePath {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodePath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        path::check(text).map_err(|problem| match better(text) {
            Some(better) => format!("{problem}; did you mean {better}?"),
            None => problem.to_string(),
        })?;
        Ok(Self(text.to_owned()))
    }
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
        let error = |text: &str| text.parse::<LockPath>().unwrap_err();
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
        assert_eq!("/a/b".parse::<LockPath>().unwrap().as_str(), "/a/b");
    }
}
