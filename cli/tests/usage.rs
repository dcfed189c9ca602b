//! Error messages for bad usage, and help texts. No test here needs a server.

mod support;

use support::{ended, lockkeeper};

#[test]
fn help_and_version_go_to_stdout_and_fit_a_terminal() {
    let help = ended(&mut lockkeeper(&["--help"])).ends(0).stdout;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    let names = commands.filter_map(|line| line.split(' ').nth(2).filter(|it| !it.is_empty()));
    let names: Vec<_> = names.filter(|name| *name != "help").collect();
    assert_eq!(names.len(), 17, "{help}");
    let texts = names
        .iter()
        .flat_map(|name| [vec![*name, "-h"], vec![*name, "--help"]]);
    for arguments in texts.chain([vec!["--help"], vec!["--version"]]) {
        let text = ended(&mut lockkeeper(&arguments)).ends(0).silently().stdout;
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{arguments:?}: {line:?}");
        }
        let has_example = text.contains("Example");
        assert!(has_example || arguments == ["--version"], "{arguments:?}");
    }
    let nothing = ended(&mut lockkeeper::<&str>(&[]));
    nothing.ends(64).says("Example:");
}
