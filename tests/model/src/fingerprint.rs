//! A hash of states that is quick where they are many small fields.

use std::hash::{Hash, Hasher};

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

    /// Adds the bytes that are no word yet, and how many there are.
    #[inline]
    fn end_word(&mut self) {
        if self.bytes != 0 {
            self.hashes = self.hashes.map(|hash| hash ^ u64::from(self.bytes));
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
