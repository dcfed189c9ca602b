//! SASL mechanisms for the settings of a ZooKeeper client.
//!
//! | feature | mechanism |
//! |---|---|
//! | `digest-md5` | `DigestMd5`: a user and a password |
//!
//! DIGEST-MD5 is our own code: `rsasl`, the framework that other clients use, does not have it.
//!
//! Not here: how tokens travel, and mechanisms of a program's own (`sasl` in `lockkeeper-session`).

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

#[cfg(feature = "digest-md5")]
mod digest_md5;

#[cfg(feature = "digest-md5")]
pub use digest_md5::DigestMd5;
