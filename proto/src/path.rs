//! The rules for paths, and the parts of a path.
//!
//! A client checks a path before it sends a request. A server checks the final path of a new node.
//! Source: `PathUtils.validatePath`. It checks UTF-16 units, so it also forbids every character
//! above U+FFFF.

use alloc::string::String;
use core::fmt;

/// The root. It is the only path that ends in a slash.
pub const ROOT: &str = "/";

/// The smallest number of digits that the server appends to the name of a sequential node.
pub const SEQUENCE_DIGITS: usize = 10;

/// Checks a path as ZooKeeper does.
///
/// # Errors
/// The first problem, with its byte offset.
///
/// ```
/// use lockkeeper_proto::path;
/// assert!(path::check("/locks/orders").is_ok());
/// let problem = path::check("/locks//orders").unwrap_err();
/// assert_eq!(problem.to_string(), "empty name at byte 7");
/// ```
pub fn check(path: &str) -> Result<(), PathProblem> {
    let names = check_characters(path)?;
    if names.is_empty() {
        return Ok(());
    }
    if names.ends_with('/') {
        return Err(PathProblem::TrailingSlash);
    }
    check_names(names)
}

/// Checks a path to which the server will append a sequence number. It may end in a slash or a dot.
///
/// # Errors
/// The first problem of the path with its number.
pub fn check_sequential(path: &str) -> Result<(), PathProblem> {
    let names = check_characters(path)?;
    // With its number, the last name is neither empty nor `.` nor `..`. So only the names before it
    // need the check.
    names
        .rsplit_once('/')
        .map_or(Ok(()), |(above, _)| check_names(above))
}

/// Checks the first slash and all characters, and returns the part after the first slash.
///
/// The caller checks the names in that part: see `check_names`.
fn check_characters(path: &str) -> Result<&str, PathProblem> {
    if path.is_empty() {
        return Err(PathProblem::Empty);
    }
    let Some(names) = path.strip_prefix('/') else {
        return Err(PathProblem::NotAbsolute);
    };
    // Nearly every path has only these characters. Counting them is fast, because it handles many
    // bytes at a time.
    let plain = path.bytes().filter(|byte| matches!(byte, b' '..=b'~'));
    if plain.count() == path.len() {
        return Ok(names);
    }
    match path.char_indices().find(|(_, c)| is_forbidden(*c)) {
        Some((at, character)) => Err(PathProblem::Character { at, character }),
        None => Ok(names),
    }
}

/// Checks that no name is empty, `.` or `..`. `names` starts at byte 1 of the path.
fn check_names(names: &str) -> Result<(), PathProblem> {
    let mut at: usize = 1;
    for name in names.split('/') {
        match name {
            "" => return Err(PathProblem::EmptyName { at }),
            "." | ".." => return Err(PathProblem::Relative { at }),
            _ => at = at.saturating_add(name.len()).saturating_add(1),
        }
    }
    Ok(())
}

/// Whether `c` is forbidden in every path.
fn is_forbidden(c: char) -> bool {
    matches!(c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}'      // control characters
        | '\u{e000}'..='\u{f8ff}'                  // private use
        | '\u{fff0}'..='\u{ffff}'                  // specials, including the replacement character
        | '\u{10000}'..                            // surrogate pairs in Java
    )
}

/// The path of the parent node; `None` for the root.
#[must_use]
pub fn parent(path: &str) -> Option<&str> {
    match path.rsplit_once('/')? {
        (_, "") => None,
        ("", _) => Some(ROOT),
        (parent, _) => Some(parent),
    }
}

/// The last name of a path; empty for the root.
#[must_use]
pub fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// The path of the node called `name` under `parent`.
#[must_use]
pub fn join(parent: &str, name: &str) -> String {
    let parent = parent.strip_suffix('/').unwrap_or(parent);
    let mut path = String::with_capacity(parent.len().saturating_add(name.len()).saturating_add(1));
    path.push_str(parent);
    path.push('/');
    path.push_str(name);
    path
}

/// The path itself and every path above it, longest first, without the root.
///
/// ```
/// let levels: Vec<_> = lockkeeper_proto::path::levels("/a/b/c").collect();
/// assert_eq!(levels, ["/a/b/c", "/a/b", "/a"]);
/// ```
pub fn levels(path: &str) -> impl Iterator<Item = &str> {
    core::iter::successors(Some(path), |path| parent(path)).take_while(|path| *path != ROOT)
}

/// Whether `path` is `ancestor` or lies below it. `/app` is not an ancestor of `/application`.
#[must_use]
pub fn is_within(path: &str, ancestor: &str) -> bool {
    ancestor == ROOT
        || path
            .strip_prefix(ancestor)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What is wrong with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathProblem {
    /// The path is empty.
    Empty,
    /// The path does not start with a slash.
    NotAbsolute,
    /// The path ends with a slash.
    TrailingSlash,
    /// Two slashes follow each other.
    EmptyName {
        /// Byte offset of the second one.
        at: usize,
    },
    /// A name is `.` or `..`.
    Relative {
        /// Byte offset of the name.
        at: usize,
    },
    /// The path contains a control, private-use or special character, or a character above U+FFFF.
    Character {
        /// Byte offset of the character.
        at: usize,
        /// The character.
        character: char,
    },
}

impl fmt::Display for PathProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty; a path looks like /locks/orders"),
            Self::NotAbsolute => f.write_str("it must start with /"),
            Self::TrailingSlash => f.write_str("it must not end with /"),
            Self::EmptyName { at } => write!(f, "empty name at byte {at}"),
            Self::Relative { at } => {
                write!(f, "\".\" and \"..\" are not allowed as names, at byte {at}")
            }
            Self::Character { at, character } => {
                write!(f, "character {character:?} at byte {at} is not allowed")
            }
        }
    }
}

impl core::error::Error for PathProblem {}

/// A path that breaks a rule, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathError {
    /// The path as the caller gave it.
    pub path: String,
    /// What is wrong with it.
    pub problem: PathProblem,
}

impl PathError {
    /// Makes an error from the path and its problem.
    #[must_use]
    pub fn new(path: &str, problem: PathProblem) -> Self {
        Self {
            path: String::from(path),
            problem,
        }
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bad path {:?}: {}", self.path, self.problem)
    }
}

impl core::error::Error for PathError {}

#[cfg(test)]
mod tests {
    use alloc::{format, vec::Vec};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_error_names_the_path_and_the_rule() {
        for (path, text) in [
            (
                "",
                r#"bad path "": it is empty; a path looks like /locks/orders"#,
            ),
            ("a", r#"bad path "a": it must start with /"#),
            ("/a/", r#"bad path "/a/": it must not end with /"#),
            ("/a//b", r#"bad path "/a//b": empty name at byte 3"#),
            (
                "/a/..",
                r#"bad path "/a/..": "." and ".." are not allowed as names, at byte 3"#,
            ),
            (
                "/\u{1}",
                r#"bad path "/\u{1}": character '\u{1}' at byte 1 is not allowed"#,
            ),
        ] {
            let problem = check(path).unwrap_err();
            assert_eq!(format!("{}", PathError::new(path, problem)), text);
        }
    }

    #[test]
    fn paths_follow_the_rules_of_the_java_client() {
        for good in [
            "/",
            "/a",
            "/a/b",
            "/...",
            "/a.",
            "/.a",
            "/a b",
            "/é",
            "/\u{2028}",
            "/\u{f900}",
        ] {
            assert_eq!(check(good), Ok(()), "{good:?}");
        }
        let problem = |path: &str| check(path).unwrap_err();
        assert_eq!(problem(""), PathProblem::Empty);
        assert_eq!(problem("a"), PathProblem::NotAbsolute);
        assert_eq!(problem("/g/"), PathProblem::TrailingSlash);
        assert_eq!(problem("//a"), PathProblem::EmptyName { at: 1 });
        assert_eq!(problem("/g//b"), PathProblem::EmptyName { at: 3 });
        assert_eq!(problem("/g/./b"), PathProblem::Relative { at: 3 });
        assert_eq!(problem("/g/.."), PathProblem::Relative { at: 3 });
        for bad in [
            '\0', '\u{1}', '\u{1f}', '\u{7f}', '\u{9f}', '\u{e000}', '\u{f8ff}', '\u{fff0}',
            '\u{fffd}', '🔒',
        ] {
            let path = format!("/g/x{bad}");
            assert_eq!(
                problem(&path),
                PathProblem::Character {
                    at: 4,
                    character: bad
                }
            );
        }
    }

    #[test]
    fn a_sequential_path_may_end_in_a_slash() {
        assert_eq!(check_sequential("/g/"), Ok(()));
        assert_eq!(check_sequential("/g/lock-"), Ok(()));
        assert_eq!(check_sequential("/"), Ok(()));
        for (path, at) in [("//", 1), ("/g//", 3), ("/g///", 3), ("//g", 1)] {
            assert_eq!(
                check_sequential(path),
                Err(PathProblem::EmptyName { at }),
                "{path:?}"
            );
        }
    }

    #[test]
    fn a_name_of_dots_is_legal_if_a_number_follows() {
        assert_eq!(check_sequential("/g/."), Ok(()));
        assert_eq!(check_sequential("/.."), Ok(()));
        assert_eq!(
            check_sequential("/g/../x-"),
            Err(PathProblem::Relative { at: 3 })
        );
    }

    #[test]
    fn a_path_is_split_and_joined_at_its_slashes() {
        assert_eq!(
            (parent("/"), parent("/a"), parent("/a/b")),
            (None, Some("/"), Some("/a"))
        );
        assert_eq!((name("/"), name("/a"), name("/a/b")), ("", "a", "b"));
        assert_eq!((&*join("/", "a"), &*join("/a", "b")), ("/a", "/a/b"));
        assert!(is_within("/app/x", "/app") && is_within("/app", "/app") && is_within("/x", "/"));
        assert!(!is_within("/application", "/app"));
        assert_eq!(levels("/").count(), 0);
    }

    proptest! {
        #![proptest_config(crate::cases::cases())]

        #[test]
        fn a_path_joins_from_its_levels_and_a_sequential_path_is_checked_with_its_number(path in "[/.a-c\u{0}é🔒]{0,12}") {
            if !path.is_empty() {
                let numbered = format!("{path}0000000001");
                prop_assert_eq!(check_sequential(&path), check(&numbered));
            }
            if check(&path).is_ok() && path != ROOT {
                let levels: Vec<_> = levels(&path).collect();
                let rebuilt = levels.iter().rev().fold(String::from(ROOT), |up, level| join(&up, name(level)));
                prop_assert_eq!(rebuilt, path);
            }
        }
    }
}
