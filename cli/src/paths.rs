//! Parsing the paths of locks and nodes. An error says what is wrong, and which path was probably meant.

use std::{fmt, str::FromStr};

use lockkeeper::proto::path::{self, PathProblem};

/// The path of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockPath(String);

impl LockPath {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for LockPath {
    type Err = BadPath;

    fn from_str(text: &str) -> Result<Self, BadPath> {
        let NodePath(path) = text.parse()?;
        if path == path::ROOT {
            return Err(BadPath::Root);
        }
        Ok(Self(path))
    }
}

/// The path of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodePath(String);

impl NodePath {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodePath {
    type Err = BadPath;

    fn from_str(text: &str) -> Result<Self, BadPath> {
        match path::check(text) {
            Ok(()) => Ok(Self(text.to_owned())),
            Err(problem) => Err(BadPath::Problem {
                problem,
                better: better(text),
            }),
        }
    }
}

/// The path that the user probably meant, if it can be guessed.
fn better(text: &str) -> Option<String> {
    let names = text.split('/').filter(|name| !name.is_empty());
    let guess: String = names.flat_map(|name| ["/", name]).collect();
    (guess.len() > 1 && path::check(&guess).is_ok()).then_some(guess)
}

/// Why a path is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BadPath {
    /// It is the root, which cannot be a lock.
    Root,
    /// It is not a valid path.
    Problem {
        problem: PathProblem,
        better: Option<String>,
    },
}

impl fmt::Display for BadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => {
                f.write_str("the root cannot be a lock; use a path such as /locks/backup")
            }
            Self::Problem { problem, better } => {
                problem.fmt(f)?;
                better
                    .as_ref()
                    .map_or(Ok(()), |better| write!(f, "; did you mean {better}?"))
            }
        }
    }
}

impl std::error::Error for BadPath {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_a_bad_path_suggests_a_good_one() {
        let error = |text: &str| text.parse::<LockPath>().unwrap_err().to_string();
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
