//! What a proof is worth that comes behind the end of a lease on which somebody relied.
//!
//! Not here: how machine and server come to it (`proof`), that no order of messages lets a lease
//! outlive its session (`tests/model`).

use std::time::{Duration, Instant};

use super::pair::birth;
use crate::machine::{Lengths, Validity};

const LENGTHS: Lengths = Lengths {
    lease: Duration::from_secs(8),
    confirm: Duration::from_secs(2),
};

/// All times are seconds behind the beginning.
struct Client {
    begin: Instant,
    validity: Validity,
}

impl Client {
    fn at(&self, seconds: f32) -> Instant {
        self.begin + Duration::from_secs_f32(seconds)
    }

    /// Somebody relied on a lease that began at 0. At 9, this touch is proved.
    fn doubted(touched: f32) -> Self {
        let (begin, validity) = (birth(), Validity::default());
        let mut client = Self { begin, validity };
        client.validity.extend(begin);
        client.validity.rely();
        client.proved(9.0, touched);
        client.assert_from(0.0);
        client
    }

    fn proved(&mut self, now: f32, touched: f32) {
        let (now, touched) = (self.at(now), self.at(touched));
        self.validity.heard(now, LENGTHS, true);
        self.validity.proved(now, touched, LENGTHS);
    }

    /// A write is sent and answered at these instants.
    fn written(&mut self, sent: f32, now: f32) {
        let (now, sent) = (self.at(now), self.at(sent));
        self.validity.heard(now, LENGTHS, true);
        self.validity.written(now, sent, LENGTHS);
    }

    #[track_caller]
    fn assert_from(&self, from: f32) {
        assert_eq!(self.validity.from(), Some(self.at(from)));
    }
}

#[test]
fn one_write_confirms_all_proofs_without_a_gap_between_their_leases() {
    let mut client = Client::doubted(5.0);
    client.proved(10.0, 8.0);
    client.written(11.0, 11.0);
    client.assert_from(8.0);
    // No doubt is left.
    client.proved(11.0, 10.0);
    client.assert_from(10.0);
}

/// The leader may have decided in the gap, and have heard of the newer touch after that.
#[test]
fn a_proof_behind_a_gap_is_confirmed_by_itself() {
    let mut client = Client::doubted(2.0);
    client.proved(10.5, 5.0);
    client.written(11.0, 11.0);
    client.assert_from(0.0);
    client.written(12.5, 12.5);
    client.assert_from(5.0);
}

#[test]
fn a_confirmation_behind_the_end_of_what_it_confirms_leaves_doubt() {
    let mut client = Client::doubted(2.0);
    client.written(11.0, 12.0);
    // By the same answer.
    let (now, touched) = (client.at(12.0), client.at(10.0));
    client.validity.proved(now, touched, LENGTHS);
    client.assert_from(2.0);
    client.written(14.0, 14.0);
    client.assert_from(10.0);
}
