//! Names of nodes: small, and with a text that the recipes read.

use std::sync::OnceLock;

use lockkeeper_recipes::rank::Kind;

use crate::scenario::Role;

/// What the name of a node says of its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Marker {
    /// A contender for a mutex, or a place in the queue of a semaphore.
    Lock,
    Write,
    Read,
    Lease,
    /// The one node of a plain lock.
    Plain,
}

/// The name of a node. The protection in front of it is the same for all: who owns a node is in the
/// state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name {
    pub(crate) number: u8,
    pub(crate) marker: Marker,
}

impl Name {
    /// The fixed name of the plain lock.
    pub(crate) const PLAIN: Self = Self {
        number: 0,
        marker: Marker::Plain,
    };

    /// More numbers than a run of any scenario has at a time.
    const NUMBERS: usize = 32;

    pub(crate) fn new(marker: Marker, number: u8) -> Self {
        Self { number, marker }
    }
}

const MARKERS: [(Marker, &str); 4] = [
    (Marker::Lock, "lock-"),
    (Marker::Write, "__WRIT__"),
    (Marker::Read, "__READ__"),
    (Marker::Lease, "lease-"),
];

/// The marker of the nodes of this role.
pub(crate) fn marker(role: Role) -> Marker {
    match role {
        Role::Queue(Kind::Read) => Marker::Read,
        Role::Queue(Kind::Write) => Marker::Write,
        Role::Queue(_) => Marker::Lock,
        Role::Plain => Marker::Plain,
        Role::Permit => Marker::Lease,
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        static NAMES: OnceLock<Vec<String>> = OnceLock::new();
        let names = NAMES.get_or_init(|| {
            let of_marker = |(_, marker): (Marker, &'static str)| {
                (0..Self::NUMBERS).map(move |number| format!("_c_x-{marker}{number:010}"))
            };
            MARKERS.into_iter().flat_map(of_marker).collect()
        });
        match MARKERS
            .iter()
            .position(|(marker, _)| *marker == self.marker)
        {
            Some(marker) => &names[marker * Self::NUMBERS + usize::from(self.number)],
            None => "lock",
        }
    }
}

impl From<&Self> for Name {
    fn from(name: &Self) -> Self {
        *name
    }
}

impl From<&str> for Name {
    /// Reads what `as_ref` has written.
    fn from(text: &str) -> Self {
        let bytes = text.as_bytes();
        let marker = match bytes.get(5..9) {
            Some(b"lock") => Marker::Lock,
            Some(b"__WR") => Marker::Write,
            Some(b"__RE") => Marker::Read,
            Some(b"leas") => Marker::Lease,
            _ => return Self::PLAIN,
        };
        let digits = &bytes[bytes.len() - 2..];
        let number = (digits[0] - b'0') * 10 + (digits[1] - b'0');
        Self::new(marker, number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_was_written() {
        for (marker, _) in MARKERS {
            for number in 0..Name::NUMBERS {
                let name = Name::new(marker, u8::try_from(number).unwrap());
                assert_eq!(Name::from(name.as_ref()), name);
            }
        }
        assert_eq!(Name::from(Name::PLAIN.as_ref()), Name::PLAIN);
    }
}
