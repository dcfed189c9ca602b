//! What the recipes promise beside the contract of all locks, on the embedded server.
//!
//! | file | what |
//! |---|---|
//! | `kinds` | what each kind promises beside the common contract: counting, re-entry, several locks at once |
//! | `plain` | the plain lock after its node is gone |
//! | `elections` | leading, and a program that shuts down |
//! | `head` | the first waiter of a semaphore while no lease is proved |
//! | `mixed` | different kinds on one path |
//! | `holds` | holds: their limit, how they end |
//! | `releases` | what a release says when the servers do not simply delete the node |
//! | `telling` | who gives a lock up tells its users first |
//! | `losses` | what no lock may do after a loss |
//! | `data` | the data of a lock node |
//! | `hand_over` | a lock that is handed over to another process |
//! | `crowd` | many contenders of one client in one queue |
//! | `lagging` | contenders at a server that lags |
//! | `lost_creates` | what many lost creates cost |
//! | `long_requests` | requests that are longer than the servers take |
//! | `semaphores` | the first waiter of a semaphore whose requests fail |
//! | `lies` | servers that lie |
//! | `restart` | an embedded server that is started again |
//! | `blocking` | clients on threads of their own |
//! | `runtime_ends` | a program that ends while it holds a lock |
//! | `inspect` | holders and waiters as another client sees them |
//! | `meter` | one meter for many locks |
//! | `support` | servers, clients and nodes of these tests |
//!
//! Not here: the contract (`tests/contract` of the workspace); what counts memory or threads of a
//! process, or has its log (`memory`, `threads`, `log`).

mod blocking;
mod crowd;
mod data;
mod elections;
mod hand_over;
mod head;
mod holds;
mod inspect;
mod kinds;
mod lagging;
mod lies;
mod long_requests;
mod losses;
mod lost_creates;
mod meter;
mod mixed;
mod plain;
mod releases;
mod restart;
mod runtime_ends;
mod semaphores;
mod support;
mod telling;
