//! Manual pages, in the macros of man(7).

use clap::Arg;

use super::{Node, summary};

/// The page of a command.
pub(super) fn page(node: &mut Node) -> String {
    let name = node.path.join("-");
    let command = node.path.join(" ");
    let about = summary(node.command.get_about());
    let usage = node.command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let version = env!("CARGO_PKG_VERSION");
    let mut page = vec![
        format!(
            ".TH {} 1 \"\" \"lockkeeper {version}\"",
            name.to_uppercase()
        ),
        ".SH NAME".to_owned(),
        format!("{} \\- {}", escaped(&name), escaped(&about)),
        ".SH SYNOPSIS".to_owned(),
        escaped(usage),
    ];
    let arguments: Vec<_> = node.command.get_positionals().collect();
    section(&mut page, "ARGUMENTS", &arguments);
    let options: Vec<_> = node.options().collect();
    section(&mut page, "OPTIONS", &options);
    if node.subcommands().next().is_some() {
        page.push(".SH COMMANDS".to_owned());
    }
    for (below, command) in node.subcommands() {
        let about = summary(command.get_about());
        page.extend([
            ".TP".to_owned(),
            format!("\\fB{}\\fR(1)", escaped(&format!("{name}-{below}"))),
        ]);
        page.push(escaped(&about));
    }
    let after = node
        .command
        .get_after_long_help()
        .or(node.command.get_after_help());
    if let Some(after) = after {
        page.extend([
            ".SH NOTES".to_owned(),
            ".nf".to_owned(),
            escaped(&after.to_string()),
        ]);
        page.push(".fi".to_owned());
    }
    page.push(".SH SEE ALSO".to_owned());
    page.push(match node.path.len() {
        1 => "flock(1)".to_owned(),
        _ => format!(
            "lockkeeper(1); the help of the command itself: {} \\-\\-help",
            escaped(&command)
        ),
    });
    page.join("\n") + "\n"
}

fn section(page: &mut Vec<String>, title: &str, arguments: &[&Arg]) {
    if arguments.is_empty() {
        return;
    }
    page.push(format!(".SH {title}"));
    for argument in arguments {
        let help = argument.get_long_help().or(argument.get_help());
        page.push(".TP".to_owned());
        page.push(format!("\\fB{}\\fR", escaped(&argument.to_string())));
        let help = help.map(ToString::to_string).unwrap_or_default();
        let defaults = argument.get_default_values();
        page.push(escaped(
            &match defaults.first().and_then(|value| value.to_str()) {
                Some(value) if argument.get_action().takes_values() => {
                    format!("{help} [default: {value}]")
                }
                _ => help,
            },
        ));
    }
}

/// Text that troff prints as it is.
fn escaped(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    let line = |line: &str| {
        // A line that begins like this would be a macro.
        let guard = if line.starts_with(['.', '\'']) {
            "\\&"
        } else {
            ""
        };
        format!("{guard}{line}")
    };
    escaped.lines().map(line).collect::<Vec<_>>().join("\n")
}
