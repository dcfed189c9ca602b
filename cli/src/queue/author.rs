//! Which client program has made the node of a contender, as far as its name tells.
//!
//! Names of Curator are those of lockkeeper: only the data, which users choose, may tell one from the other.

use lockkeeper::proto::path;

/// The program that gives its nodes such names: kazoo begins them with a UUID without dashes, go-zk puts `_c_` before it.
pub(super) fn of(node: &str) -> Option<&'static str> {
    let name = path::name(node);
    let (name, program) = match name.strip_prefix("_c_") {
        Some(protected) => (protected, "go-zk"),
        None => (name, "kazoo"),
    };
    let (uuid, _) = name.split_at_checked(32)?;
    let mut digits = uuid.bytes();
    digits.all(|it| it.is_ascii_hexdigit()).then_some(program)
}
