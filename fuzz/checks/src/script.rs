//! Bytes as a sequence of choices.

use bytes::Bytes;

/// The bytes of the choices that are still to be made. When they have run out, every choice is the
/// first one.
pub(crate) struct Script<'a>(pub(crate) &'a [u8]);

impl Script<'_> {
    pub(crate) fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    /// Takes a length byte, and then that many bytes, or all that are left.
    pub(crate) fn take(&mut self) -> Bytes {
        let length = usize::from(self.byte()).min(self.0.len());
        let (taken, rest) = self.0.split_at_checked(length).unwrap_or_default();
        self.0 = rest;
        Bytes::copy_from_slice(taken)
    }
}
