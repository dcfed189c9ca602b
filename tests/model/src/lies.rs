//! Servers that lie: what a reply to a create says that is not true. Whether the client believes it
//! is decided by the session's own check ([`Asked`]), which looks at the reply alone.
//!
//! Not here:
//! - lies that no client can tell from the truth: a node of the client's own name with another
//!   number, a listing without some of its nodes, a deletion that never was. Against a server that
//!   tells these, no lock holds;
//! - lies about what only the session knows, as the zxid of a handshake (`session/tests/hostile`).

use lockkeeper_session::{
    machine::Asked,
    proto::{
        CreateMode, Request, Response, SessionId, Stat, Version, Zxid,
        records::{Create2Response, CreateRequest},
    },
};

use crate::{
    name::{Marker, Name},
    scenario::Scenario,
    state::{Request as Submitted, State, marker},
};

/// What is said of a node that was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// It is this node of another contender.
    Node { name: Name, owner: u8 },
    /// It was created by another transaction.
    Transaction,
}

/// The lies that may come in place of the reply to this contender's create.
pub(crate) fn to(state: &State, scenario: &Scenario, i: usize) -> Vec<Lie> {
    let contender = &state.contenders[i];
    if state.faults.lies == 0 || contender.request != Submitted::Create || !contender.succeeded {
        return Vec::new();
    }
    let mut lies = vec![Lie::Transaction];
    // The plain lock has one name for all.
    let kind = marker(scenario.roles[i]);
    let is_another = |owner: u8| kind != Marker::Plain && usize::from(owner) != i;
    let nodes = state
        .nodes()
        .iter()
        .filter(|node| node.is_live() && !node.is_place);
    let others = nodes.filter(|node| node.name.marker == kind && is_another(node.owner));
    lies.extend(others.map(|node| Lie::Node {
        name: node.name,
        owner: node.owner,
    }));
    lies
}

impl Lie {
    /// Whether the client of this contender believes it.
    pub(crate) fn is_believed(self, state: &State, i: usize) -> bool {
        let contender = &state.contenders[i];
        let created = contender.created;
        let mode = match created.marker {
            Marker::Plain => CreateMode::Ephemeral,
            _ => CreateMode::EphemeralSequential,
        };
        let owner = u8::try_from(i).expect("few contenders");
        let path = path(created, owner);
        let asked = match mode {
            CreateMode::Ephemeral => path.clone(),
            // Without the number.
            _ => path[..path.len() - 10].to_owned(),
        };
        let asked = Asked::of(Request::Create2(CreateRequest {
            path: asked,
            data: None,
            acl: None,
            flags: mode.flags(),
        }));
        let zxid = Zxid(i64::from(contender.committed) + 1);
        let (path, czxid) = match self {
            Self::Node { name, owner } => (self::path(name, owner), zxid),
            Self::Transaction => (path, Zxid(zxid.0 + 1)),
        };
        let stat = Stat {
            czxid,
            mzxid: czxid,
            pzxid: czxid,
            ctime: 0,
            mtime: 0,
            version: Version(0),
            cversion: Version(0),
            aversion: Version(0),
            ephemeral_owner: SessionId(1),
            data_length: 0,
            num_children: 0,
        };
        let reply = Response::Create2(Create2Response { path, stat });
        asked.check(zxid, &reply).is_ok()
    }
}

/// The path of a node. Each contender has a protection of its own.
fn path(name: Name, owner: u8) -> String {
    let name = name.as_ref();
    match name.strip_prefix("_c_x") {
        Some(rest) => format!("/lock/_c_{owner}{rest}"),
        None => format!("/lock/{name}"),
    }
}
