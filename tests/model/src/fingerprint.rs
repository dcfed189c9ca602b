//! A hash of states that is quick where they are many small fields. It touches nothing else.

use std::hash::{Hash, Hasher};

/// A state is kept as this hash, and not as itself: see `explore`.
pub(crate) fn fingerprint(state: &impl Hash) -> u128 {
    let mut hasher = Fingerprint::default();
    state.hash(&mut hasher);
    hasher.end_word();
    let [one, other] = hasher.hashes;
    u128::from(mix(one)) << 64 | u128::from(other)
}

/// Two hashes of 64 bits, independent of each other. A state is many small fields: eight of them
/// are one word. For sets and maps of states, whose keys nobody chooses.
#[derive(Clone, Copy, Debug)]
pub struct Fingerprint {
    hashes: [u64; 2],
    word: u64,
    bytes: u8,
}

impl Default for Fingerprint {
    fn default() -> Self {
        Self {
            hashes: [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344],
            word: 0,
            bytes: 0,
        }
    }
}

impl Fingerprint {
    #[inline]
    fn add(&mut self, byte: u8) {
        self.word = self.word << 8 | u64::from(byte);
        self.bytes += 1;
        if self.bytes == 8 {
            self.add_word();
        }
    }

    #[inline]
    fn add_word(&mut self) {
        let [one, other] = &mut self.hashes;
        *one = (one.rotate_left(5) ^ self.word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        *other = mix(*other ^ self.word);
        self.word = 0;
        self.bytes = 0;
    }

    /// Adds the bytes that are no word yet, and how many there are, as a number that is large so that
    /// no bytes make up for it.
    #[inline]
    fn end_word(&mut self) {
        if self.bytes != 0 {
            let count = u64::from(self.bytes).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.hashes = self.hashes.map(|hash| hash ^ count);
            self.add_word();
        }
    }
}

/// The finalizer of `SplitMix64`.
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl Hasher for Fingerprint {
    fn finish(&self) -> u64 {
        let mut all = *self;
        all.end_word();
        all.hashes[1]
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.add(*byte);
        }
    }

    #[inline]
    fn write_u8(&mut self, byte: u8) {
        self.add(byte);
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.end_word();
        self.word = number;
        self.add_word();
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    /// The number of an enum's variant.
    #[inline]
    fn write_isize(&mut self, number: isize) {
        self.add(u8::try_from(number).expect("few variants"));
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, hash::BuildHasher, hash::BuildHasherDefault};

    use super::*;

    /// Bytes that are no full word count with how many they are: a zero among them, or none.
    #[test]
    fn states_that_differ_by_leading_zeros_differ() {
        let (mut all, mut short) = (HashSet::new(), HashSet::new());
        let mut add = |state: &dyn Fn(&mut Fingerprint)| {
            let mut hasher = Fingerprint::default();
            state(&mut hasher);
            short.insert(hasher.finish());
            hasher.end_word();
            all.insert(hasher.hashes);
        };
        for zeros in 0..7 {
            add(&|it| (0..zeros).for_each(|_| it.write_u8(0)));
            add(&|it| {
                (0..zeros).for_each(|_| it.write_u8(0));
                it.write_u64(5);
            });
            add(&|it| {
                (0..zeros).for_each(|_| it.write_u8(0));
                it.write_u8(5);
            });
        }
        assert_eq!((all.len(), short.len()), (21, 21));
        let quick = BuildHasherDefault::<Fingerprint>::default();
        assert_ne!(quick.hash_one((0_u8, 5_u8)), quick.hash_one(5_u8));
        assert_ne!(fingerprint(&(0_u8, 5_u8)), fingerprint(&5_u8));
    }
}
