//! The cases, one file per subject.

mod acl;
mod acl_lists;
mod check_order;
mod events;
mod modes;
mod multi;
mod nodes;
mod paths;
mod sasl;
mod sessions;
mod set_watches;
mod stat;
mod watches;
mod wire;
