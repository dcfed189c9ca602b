//! The chroot of a handle: the node below which its paths lie.
//!
//! Not here: the chroot of a connect string (`connect_string`), with which the first handle begins.

use std::{mem, sync::Arc};

use lockkeeper_proto::path::{self, PathError};

use super::Client;

/// The server's path of the node below which the paths of a handle lie. `None` for the root of the
/// servers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chroot(Option<Arc<str>>);

impl Chroot {
    pub(super) const NONE: Self = Self(None);

    pub(super) fn new(path: Option<String>) -> Self {
        Self(path.filter(|path| path != path::ROOT).map(Arc::from))
    }

    /// What stands before each path. Empty without a chroot.
    pub(super) fn prefix(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// Converts a path of the handle to the server's path.
    pub(super) fn server_path(&self, path: &str) -> String {
        match self.0 {
            None => path.to_owned(),
            Some(_) => self.in_pieces(path).concat(),
        }
    }

    /// Converts a path of the handle to the pieces of the server's path.
    pub(super) fn in_pieces<'a>(&'a self, path: &'a str) -> [&'a str; 2] {
        match self.0.as_deref() {
            None => ["", path],
            Some(chroot) if path == path::ROOT => [chroot, ""],
            Some(chroot) => [chroot, path],
        }
    }

    /// Converts a server's path to a path of the handle. A path outside the chroot does not change.
    pub(super) fn client_path(&self, path: String) -> String {
        let chroot = self.0.as_deref();
        match chroot.and_then(|chroot| path.strip_prefix(chroot)) {
            Some("") => path::ROOT.to_owned(),
            Some(below) if below.starts_with('/') => below.to_owned(),
            _ => path,
        }
    }

    pub(super) fn name_as_client(&self, path: &mut String) {
        *path = self.client_path(mem::take(path));
    }
}

impl Client {
    /// Returns a handle on the same session whose paths all lie below this one. Also known as a
    /// namespace.
    ///
    /// The path is one of this handle, so a chroot of the connect string, or of this handle, stays
    /// in front of it. `/` changes nothing. The client sends nothing, and does not create the node:
    /// only [`create_all`](Self::create_all), [`ensure_path`](Self::ensure_path) and locks do, as
    /// for a chroot of the connect string.
    ///
    /// All paths that the new handle takes or gives are below the new root: those of requests and
    /// transactions, of created nodes, of events and of errors. So are the paths of its locks, in
    /// their errors and in the log. Only [`get_config`](Self::get_config) and its watch name a node
    /// outside. Everything else is that of the session: [`close`](Self::close), the lease, the metrics, the request
    /// capacity, and which kind of watch the client may have on a node. A deadline of this handle
    /// is kept.
    ///
    /// Locks of two handles are one lock if their paths on the servers are the same.
    ///
    /// # Errors
    /// [`PathError`] for an invalid path.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = lockkeeper_server::Server::start().await?;
    /// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
    /// # use lockkeeper_proto as lockkeeper;
    /// use lockkeeper::CreateMode;
    ///
    /// let shop = client.with_chroot("/apps/shop")?;
    /// let made = shop.create_all("/colour", "green", CreateMode::Persistent).await?;
    /// assert_eq!(made.path, "/colour");
    /// assert_eq!(client.get_children("/apps/shop").await?, ["colour"]);
    /// # Ok(()) }
    /// ```
    pub fn with_chroot(&self, path: &str) -> Result<Self, PathError> {
        path::check(path)?;
        Ok(self.below(Chroot::new(Some(self.chroot().server_path(path)))))
    }

    /// A handle whose paths lie below this node of the servers.
    pub(super) fn below(&self, chroot: Chroot) -> Self {
        match chroot.0 {
            None => self.clone(),
            Some(_) => self.in_manner(|it| it.chroot = chroot),
        }
    }

    pub(super) fn chroot(&self) -> &Chroot {
        self.manner.as_ref().map_or(&Chroot::NONE, |it| &it.chroot)
    }
}
