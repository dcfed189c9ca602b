//! Macros that make the methods: each from its name, its arguments and its summary. The documentation links to the async
//! method, which has the details.
//!
//! Also the results: what an async method returns, as the blocking type ([`Outcome`]).

use lockkeeper_proto::{
    Stat,
    records::{ClientInfo, Create2Response, GetAclResponse, GetChildren2Response, GetDataResponse},
};
use lockkeeper_recipes::{FencingToken, Participant};
use lockkeeper_session::{Error, OpResult, ReadResult};

use crate::{Client, wait};

/// Methods that wait: they block the thread until the future of the async method is done.
macro_rules! waits {
    ($async:literal: $($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {$(
        $(#[$meta])*
        ///
        #[doc = concat!("See the async [`", stringify!($name), "`](", $async, "::", stringify!($name), ").")]
        ///
        /// # Errors
        /// As the async method, and [`InsideRuntime`](lockkeeper_session::Error::InsideRuntime).
        pub fn $name(&self, $($arg: $type),*) -> $result {
            crate::methods::call(crate::methods::Session::session(self), self.inner.$name($($arg),*))
        }
    )*};
}

/// Methods that do not wait.
macro_rules! gets {
    ($async:literal: $($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {$(
        $(#[$meta])*
        ///
        #[doc = concat!("See the async [`", stringify!($name), "`](", $async, "::", stringify!($name), ").")]
        #[must_use]
        pub fn $name(&self, $($arg: $type),*) -> $result {
            self.inner.$name($($arg),*)
        }
    )*};
}

/// Methods that take the value and return it with a change.
macro_rules! builds {
    ($async:literal: $($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),*);)*) => {$(
        $(#[$meta])*
        ///
        #[doc = concat!("See the async [`", stringify!($name), "`](", $async, "::", stringify!($name), ").")]
        #[must_use]
        #[allow(clippy::needless_update, reason = "some types have no other field")]
        pub fn $name(self, $($arg: $type),*) -> Self {
            Self { inner: self.inner.$name($($arg),*), ..self }
        }
    )*};
}

pub(crate) use {builds, gets, waits};

/// What belongs to a client.
pub(crate) trait Session {
    fn session(&self) -> &Client;
}

/// Implements [`Session`] for types with a field `client`.
macro_rules! session {
    ($($type:ty),*) => {$(
        impl crate::methods::Session for $type {
            fn session(&self) -> &crate::Client {
                &self.client
            }
        }
    )*};
}

pub(crate) use session;

/// Waits for the result of an async method.
pub(crate) fn call<T: Outcome, E: From<Error>>(
    client: &Client,
    future: impl Future<Output = Result<T, E>>,
) -> Result<T::Blocking, E> {
    Ok(wait::block_on(future)??.of(client))
}

/// The result of an async method.
pub(crate) trait Outcome {
    /// The result of the blocking method.
    type Blocking;

    /// The blocking result, which keeps the client's thread.
    fn of(self, client: &Client) -> Self::Blocking;
}

impl<T: Outcome> Outcome for Option<T> {
    type Blocking = Option<T::Blocking>;

    fn of(self, client: &Client) -> Self::Blocking {
        self.map(|value| value.of(client))
    }
}

impl<T: Outcome> Outcome for Vec<T> {
    type Blocking = Vec<T::Blocking>;

    fn of(self, client: &Client) -> Self::Blocking {
        self.into_iter().map(|value| value.of(client)).collect()
    }
}

/// A read, and its watcher.
impl<T: Outcome, W: Outcome> Outcome for (T, W) {
    type Blocking = (T::Blocking, W::Blocking);

    fn of(self, client: &Client) -> Self::Blocking {
        (self.0.of(client), self.1.of(client))
    }
}

/// Results that are the same in both.
macro_rules! plain {
    ($($type:ty),*) => {$(
        impl Outcome for $type {
            type Blocking = Self;

            fn of(self, _: &Client) -> Self {
                self
            }
        }
    )*};
}

plain!(
    (),
    bool,
    u32,
    usize,
    String,
    Stat,
    Create2Response,
    GetDataResponse,
    GetChildren2Response,
    GetAclResponse,
    ClientInfo,
    OpResult,
    Result<ReadResult, Error>,
    FencingToken,
    Participant
);

/// Results that become a blocking type with the fields `inner` and `client`.
macro_rules! wrapped {
    ($($async:ty => $blocking:ty),*) => {$(
        impl crate::methods::Outcome for $async {
            type Blocking = $blocking;

            fn of(self, client: &crate::Client) -> $blocking {
                <$blocking>::new(self, client)
            }
        }
    )*};
}

pub(crate) use wrapped;
