// The chapters of the guide, from `docs/guide`. They are part of the documentation only, and their
// examples run as tests.
//
// The links of a chapter lead to files. In front of each chapter stands `links.txt`, which has the
// same links to modules and types: the first definition of a link counts.

#![doc = include_str!("../docs/guide/links.txt")]
#![doc = include_str!("../docs/guide/README.md")]

#[doc = include_str!("../docs/guide/links.txt")]
#[doc = include_str!("../docs/guide/five_minutes.md")]
pub mod five_minutes {}

#[doc = include_str!("../docs/guide/links.txt")]
#[doc = include_str!("../docs/guide/which_lock.md")]
pub mod which_lock {}

#[doc = include_str!("../docs/guide/links.txt")]
#[doc = include_str!("../docs/guide/sessions.md")]
pub mod sessions {}

#[doc = include_str!("../docs/guide/links.txt")]
#[doc = include_str!("../docs/guide/timeouts.md")]
pub mod timeouts {}

#[doc = include_str!("../docs/guide/links.txt")]
#[doc = include_str!("../docs/guide/fencing.md")]
pub mod fencing {}

#[doc = include_str!("../docs/guide/links.txt")]
#[doc = include_str!("../docs/guide/shutdown.md")]
pub mod shutdown {}

#[doc = include_str!("../docs/guide/links.txt")]
#[doc = include_str!("../docs/guide/election.md")]
pub mod election {}

#[doc = include_str!("../docs/guide/links.txt")]
#[doc = include_str!("../docs/guide/tasks.md")]
pub mod tasks {}

#[doc = include_str!("../docs/guide/links.txt")]
#[doc = include_str!("../docs/guide/watching.md")]
pub mod watching {}

#[doc = include_str!("../docs/guide/links.txt")]
#[doc = include_str!("../docs/guide/errors.md")]
pub mod errors {}

#[doc = include_str!("../docs/guide/links.txt")]
#[doc = include_str!("../docs/guide/testing.md")]
pub mod testing {}

#[doc = include_str!("../docs/guide/links.txt")]
#[doc = include_str!("../docs/guide/coming_from.md")]
pub mod coming_from {}

#[doc = include_str!("../docs/guide/links.txt")]
#[doc = include_str!("../docs/guide/runbook.md")]
pub mod runbook {}
