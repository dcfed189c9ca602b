//! SASL mechanisms for the settings of a ZooKeeper client.
//!
//! | feature | mechanism |
//! |---|---|
//! | `digest-md5` | `DigestMd5`: a user and a password |
//! | `gssapi` | `Kerberos`: a ticket |
//!
//! DIGEST-MD5 is our own code: `rsasl`, the framework that other clients use, does not have it.
//!
//! Kerberos is the system's library, by `libgssapi`, which adds three crates to a program, and
//! bindgen to its build. `rsasl` 2.3 and `cross-krb5` 0.5 are layers above the same crate: `rsasl`
//! above its old release 0.7, with a framework of callbacks that an exchange of three tokens does
//! not need, and `cross-krb5` with `anyhow`, for Windows.
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

#[cfg(any(feature = "gssapi", test))]
mod apart;
#[cfg(feature = "digest-md5")]
mod digest_md5;
#[cfg(feature = "gssapi")]
mod kerberos;

#[cfg(feature = "digest-md5")]
pub use digest_md5::DigestMd5;
#[cfg(feature = "gssapi")]
pub use kerberos::Kerberos;
