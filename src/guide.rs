// The chapters of the guide, from `docs/guide`. They are part of the documentation only, and their
// examples run as tests.
//
// The links of a chapter lead to files. In front of each chapter stands `links.txt`, which has the
// same links to modules and types: the first definition of a link counts.

#![doc = include_str!("../docs/guide/links.txt")]
#![doc = include_str!("../docs/guide/README.md")]

macro_rules! chapters {
    ($($name:ident)*) => {$(
        #[doc = include_str!("../docs/guide/links.txt")]
        #[doc = include_str!(concat!("../docs/guide/", stringify!($name), ".md"))]
        pub mod $name {}
    )*};
}

chapters! {
    five_minutes which_lock sessions timeouts fencing shutdown election
    tasks watching errors testing secure coming_from runbook
}
