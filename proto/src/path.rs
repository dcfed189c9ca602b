//! The rules for paths, and the parts of a path.
//!
//! A client checks a path before it sends a request. A server checks the final path of a new node.
//! Source: `PathUtils.validatePath`. It checks UTF-16 units, so it also forbids every character
//! above U+FFFF.

use alloc::{format, string::String};
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
/// let error = path::check("/locks//orders").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     r#"bad path "/locks//orders": empty name at byte 7; did you mean /locks/orders?"#
/// );
/// ```
pub fn check(path: &str) -> Result<(), PathError> {
    if is_plain(path) && !path.ends_with('/') {
        return Ok(());
    }
    let checked = characters(path).and_then(|names| match names {
        "" => Ok(()),
        names if names.ends_with('/') => Err(String::from("it must not end with /")),
        names => check_names(names),
    });
    checked.map_err(|problem| PathError::new(path, problem, ""))
}

/// Checks a path to which the server will append a sequence number. It may end in a slash or a dot.
///
/// # Errors
/// The first problem of the path with its number.
pub fn check_sequential(path: &str) -> Result<(), PathError> {
    if is_plain(path) {
        return Ok(());
    }
    // With its number, the last name is neither empty nor `.` nor `..`. So only the names before it
    // need the check.
    let check_above = |names: &str| {
        let above = names.rsplit_once('/');
        above.map_or(Ok(()), |(above, _)| check_names(above))
    };
    let checked = characters(path).and_then(check_above);
    let end = if path.ends_with('/') { "/" } else { "" };
    checked.map_err(|problem| PathError::new(path, problem, end))
}

/// Whether the path begins with a slash and has only usual characters, none of them a slash or a dot
/// behind a slash: nearly every path.
fn is_plain(path: &str) -> bool {
    let bytes = path.as_bytes();
    let pairs = bytes.iter().zip(bytes.get(1..).unwrap_or_default());
    // A fold looks at many bytes at a time.
    let is_strange = |found, (before, byte): (&u8, &u8)| {
        let begins_name = *before == b'/';
        found | !matches!(byte, b' '..=b'~') | (begins_name & matches!(byte, b'/' | b'.'))
    };
    bytes.first() == Some(&b'/') && !pairs.fold(false, is_strange)
}

/// Checks the first slash and all characters, and returns the part after the first slash.
///
/// The caller checks the names in that part: see `check_names`.
fn characters(path: &str) -> Result<&str, String> {
    if path.is_empty() {
        return Err(String::from("it is empty; a path looks like /locks/orders"));
    }
    let names = path.strip_prefix('/').ok_or("it must start with /")?;
    match path.char_indices().find(|(_, c)| is_forbidden(*c)) {
        Some((at, c)) => Err(format!("character {c:?} at byte {at} is not allowed")),
        None => Ok(names),
    }
}

/// Checks that no name is empty, `.` or `..`. `names` starts at byte 1 of the path.
fn check_names(names: &str) -> Result<(), String> {
    let mut at: usize = 1;
    for name in names.split('/') {
        match name {
            "" => return Err(format!("empty name at byte {at}")),
            "." | ".." => {
                return Err(format!(
                    "\".\" and \"..\" are not allowed as names, at byte {at}"
                ));
            }
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

/// A path that breaks a rule: what is wrong with it, and where it can be guessed, which path was meant.
///
/// A guess is a good path with the same names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathError {
    path: String,
    problem: String,
}

impl PathError {
    /// With a guess what was meant, if a good path has the same names. `end` is the last part of that path.
    fn new(path: &str, mut problem: String, end: &str) -> Self {
        let names = path.split('/').filter(|name| !name.is_empty());
        let guess: String = names.flat_map(|name| ["/", name]).collect();
        if characters(&guess).and_then(check_names).is_ok() {
            problem = format!("{problem}; did you mean {guess}{end}?");
        }
        Self {
            path: String::from(path),
            problem,
        }
    }

    /// The text of the error, without the path.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
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
    use alloc::vec::Vec;
    use proptest::prelude::*;

    use super::*;

    fn problem(checked: Result<(), PathError>) -> String {
        checked.unwrap_err().problem
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
        let dots = r#""." and ".." are not allowed as names, at byte 3"#;
        for (bad, wanted) in [
            ("", "it is empty; a path looks like /locks/orders"),
            ("a", "it must start with /; did you mean /a?"),
            ("/g/", "it must not end with /; did you mean /g?"),
            ("//a", "empty name at byte 1; did you mean /a?"),
            ("g//b/", "it must start with /; did you mean /g/b?"),
            ("//", "it must not end with /"),
            ("g/./b", "it must start with /"),
            ("/g/./b", dots),
            ("/g/..", dots),
            ("/\u{1}", r"character '\u{1}' at byte 1 is not allowed"),
        ] {
            let error = check(bad).unwrap_err();
            assert_eq!(error.problem, wanted);
            assert_eq!(format!("{error}"), format!("bad path {bad:?}: {wanted}"));
        }
        for bad in [
            '\0', '\u{1}', '\u{1f}', '\u{7f}', '\u{9f}', '\u{e000}', '\u{f8ff}', '\u{fff0}',
            '\u{fffd}', '🔒',
        ] {
            let wanted = format!("character {bad:?} at byte 4 is not allowed");
            assert_eq!(problem(check(&format!("/g/x{bad}"))), wanted);
        }
    }

    #[test]
    fn a_sequential_path_may_end_in_a_slash_or_in_dots() {
        for good in ["/g/", "/g/lock-", "/", "/g/.", "/.."] {
            assert_eq!(check_sequential(good), Ok(()));
        }
        for (bad, wanted) in [
            ("//", "empty name at byte 1"),
            ("/g//", "empty name at byte 3; did you mean /g/?"),
            ("/g///", "empty name at byte 3; did you mean /g/?"),
            ("//g", "empty name at byte 1; did you mean /g?"),
        ] {
            assert_eq!(problem(check_sequential(bad)), wanted, "{bad:?}");
        }
        assert!(problem(check_sequential("/g/../x-")).ends_with("at byte 3"));
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
                let checked = [check_sequential(&path), check(&numbered)];
                let [sequential, whole] = checked.map(|checked| checked.map_err(|it| it.problem));
                let wrong = |problem: &String| String::from(problem.split(';').next().unwrap_or_default());
                prop_assert_eq!(sequential.as_ref().map_err(wrong), whole.as_ref().map_err(wrong));
                for (problem, check) in [(sequential, check_sequential as fn(&str) -> _), (whole, check)] {
                    let guess = problem.err().and_then(|it| Some(String::from(it.split_once("mean ")?.1)));
                    prop_assert!(guess.is_none_or(|it| check(it.trim_end_matches('?')).is_ok()));
                }
            }
            let is_good = |names: &str| names.split('/').all(|name| !["", ".", ".."].contains(&name));
            let is_good = path == ROOT || path.strip_prefix('/').is_some_and(is_good);
            prop_assert_eq!(check(&path).is_ok(), is_good && !path.contains(['\0', '🔒']));
            if check(&path).is_ok() && path != ROOT {
                let levels: Vec<_> = levels(&path).collect();
                let rebuilt = levels.iter().rev().fold(String::from(ROOT), |up, level| join(&up, name(level)));
                prop_assert_eq!(rebuilt, path);
            }
        }
    }
}
