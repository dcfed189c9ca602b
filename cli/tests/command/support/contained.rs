//! Tests in a PID namespace of their own: a fault that kills strangers kills nobody outside.
//!
//! Not here: which tests those are (`on_both_arms`, and the tests that call [`contained`]).

use std::{
    any::type_name,
    env,
    process::{Command, Stdio},
    sync::LazyLock,
};

pub(crate) fn freely(test: impl FnOnce()) {
    test();
}

/// Runs a test in a PID namespace of its own, where one can be made: nothing outside can be killed by mistake. There this program
/// runs again, with this test only.
///
/// The test must be a closure of the function that has the test's name.
pub(crate) fn contained<T: FnOnce()>(test: T) {
    const INSIDE: &str = "LOCKKEEPER_TEST_CONTAINED";
    static CAN: LazyLock<bool> = LazyLock::new(|| {
        let tried = namespace(&["true"]).output();
        tried.is_ok_and(|tried| tried.status.success())
    });
    if env::var_os(INSIDE).is_some() || !*CAN {
        return test();
    }
    let name = type_name::<T>().strip_suffix("::{{closure}}");
    let (_, name) = name.and_then(|name| name.split_once("::")).unwrap();
    let program = env::current_exe().unwrap();
    let only = ["--exact", "--include-ignored", "--nocapture", name];
    // A shell as process 1: it waits for what others leave behind.
    let mut inside = namespace(&["sh", "-c", "\"$@\"; exit $?", "sh"]);
    let inside = inside.arg(program).args(only).env(INSIDE, "1");
    let output = inside.stdin(Stdio::null()).output().unwrap();
    let [said, why] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{why}"
    );
}

/// A command in a PID namespace of its own, whose processes end with it.
pub(crate) fn namespace(command: &[&str]) -> Command {
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
    if !rustix::process::geteuid().is_root() {
        unshare.args(["--user", "--map-root-user"]);
    }
    unshare.args(command);
    unshare
}
