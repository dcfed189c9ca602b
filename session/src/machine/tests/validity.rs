//! What a proof is worth that comes behind the end of a lease on which somebody relied.
//!
//! Not here: how machine and server come to it (`proof`), that no order of messages lets a lease
//! outlive its session (`tests/model`).

use std::time::{Duration, Instant};

use super::pair::{SECOND, birth};
use crate::machine::{Lengths, Validity};

const LENGTHS: Lengths = Lengths {
    lease: Duration::from_secs(8),
    confirm: Duration::from_secs(2),
};

/// A lease that somebody relied on has ended, and a touch of this age is proved. Returns when.
fn doubted(age: Duration) -> (Validity, Instant) {
    let (mut validity, begin) = (Validity::default(), birth());
    validity.extend(begin);
    validity.rely();
    let at = begin + 9 * SECOND;
    proved(&mut validity, at, at - age);
    assert_eq!(validity.from(), Some(begin));
    (validity, at)
}

fn proved(validity: &mut Validity, now: Instant, touched: Instant) {
    validity.heard(now, LENGTHS, true);
    validity.proved(now, touched, LENGTHS);
}

/// The write is sent and answered at these instants.
fn written(validity: &mut Validity, sent: Instant, now: Instant) {
    validity.heard(now, LENGTHS, true);
    validity.written(now, sent, LENGTHS);
}

#[test]
fn one_write_confirms_all_proofs_without_a_gap_between_their_leases() {
    let (mut validity, at) = doubted(4 * SECOND);
    proved(&mut validity, at + SECOND, at - SECOND);
    written(&mut validity, at + 2 * SECOND, at + 2 * SECOND);
    assert_eq!(validity.from(), Some(at - SECOND));
    proved(&mut validity, at + 2 * SECOND, at + SECOND);
    assert_eq!(validity.from(), Some(at + SECOND), "no doubt is left");
}

/// The leader may have decided in the gap, and have heard of the newer touch after that.
#[test]
fn a_proof_behind_a_gap_is_confirmed_by_itself() {
    let (mut validity, at) = doubted(7 * SECOND);
    let later = at + SECOND * 3 / 2;
    proved(&mut validity, later, at - 4 * SECOND);
    written(&mut validity, at + 2 * SECOND, at + 2 * SECOND);
    assert_eq!(validity.from(), Some(at - 9 * SECOND), "it is too early");
    written(&mut validity, later + 2 * SECOND, later + 2 * SECOND);
    assert_eq!(validity.from(), Some(at - 4 * SECOND));
}

#[test]
fn a_confirmation_behind_the_end_of_what_it_confirms_leaves_doubt() {
    let (mut validity, at) = doubted(7 * SECOND);
    let late = at + 3 * SECOND;
    written(&mut validity, at + 2 * SECOND, late);
    // By the same answer.
    validity.proved(late, at + SECOND, LENGTHS);
    assert_eq!(validity.from(), Some(at - 7 * SECOND));
    written(&mut validity, late + 2 * SECOND, late + 2 * SECOND);
    assert_eq!(validity.from(), Some(at + SECOND));
}
