//! The completion of commands and options for bash, zsh and fish. File names are completed where nothing else fits.

use clap::Arg;

use super::{Node, summary};

/// The forms of an option: `--wait`, `-E`.
fn forms(option: &Arg) -> Vec<String> {
    let long = option.get_long().map(|long| format!("--{long}"));
    let short = option.get_short().map(|short| format!("-{short}"));
    [long, short].into_iter().flatten().collect()
}

/// The values that an option can have, if it has only a few.
fn values(option: &Arg) -> Vec<String> {
    if !option.get_action().takes_values() {
        return Vec::new();
    }
    let values = option.get_possible_values();
    values
        .iter()
        .map(|value| value.get_name().to_owned())
        .collect()
}

/// The lines of a `case` that finds the present command, word by word.
fn steps(nodes: &[Node]) -> String {
    let below = nodes.iter().filter(|node| node.path.len() > 1);
    let step = |node: &Node| {
        let path = node.path.join(" ");
        format!("            '{path}') path='{path}' ;;\n")
    };
    below.map(step).collect()
}

pub(super) fn bash(nodes: &[Node]) -> String {
    let words = |node: &Node| {
        let options = node.options().flat_map(forms);
        let commands = node.subcommands().map(|(name, _)| name.to_owned());
        let words: Vec<_> = commands.chain(options).collect();
        format!(
            "        '{}') words='{}' ;;\n",
            node.path.join(" "),
            words.join(" ")
        )
    };
    let value = |option: &Arg| {
        let (forms, values) = (forms(option).join("|"), values(option));
        (!values.is_empty()).then(|| format!("        {forms}) words='{}' ;;\n", values.join(" ")))
    };
    let values: Vec<_> = nodes
        .iter()
        .flat_map(|node| node.options().filter_map(value))
        .collect();
    format!(
        "_lockkeeper() {{
    local word words= path=lockkeeper current=${{COMP_WORDS[COMP_CWORD]}}
    for word in \"${{COMP_WORDS[@]:1:COMP_CWORD-1}}\"; do
        # What follows is a command of its own.
        [ \"$word\" = -- ] && return
        case \"$path $word\" in
{}        esac
    done
    case $path in
{}    esac
    case ${{COMP_WORDS[COMP_CWORD-1]}} in
{}    esac
    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))
}}
complete -o default -F _lockkeeper lockkeeper
",
        steps(nodes),
        nodes.iter().map(words).collect::<String>(),
        values.concat(),
    )
}

pub(super) fn zsh(nodes: &[Node]) -> String {
    let entry = |word: &str, help: String| {
        let help = help
            .replace('\\', "\\\\")
            .replace('\'', "'\\''")
            .replace(':', "\\:");
        format!("            '{word}:{help}'\n")
    };
    let entries = |node: &Node| {
        let commands = node
            .subcommands()
            .map(|(name, it)| entry(name, summary(it.get_about())));
        let options = node.options().flat_map(|option| {
            let help = summary(option.get_help());
            forms(option)
                .into_iter()
                .map(move |form| entry(&form, help.clone()))
        });
        let entries: String = commands.chain(options).collect();
        format!(
            "        '{}') entries=(\n{entries}        ) ;;\n",
            node.path.join(" ")
        )
    };
    format!(
        "#compdef lockkeeper
_lockkeeper() {{
    local word path=lockkeeper
    local -a entries
    for word in ${{words[2,CURRENT-1]}}; do
        # What follows is a command of its own.
        [[ $word == -- ]] && {{ _normal; return }}
        case \"$path $word\" in
{}        esac
    done
    case $path in
{}    esac
    _describe -o lockkeeper entries || _files
}}
compdef _lockkeeper lockkeeper
",
        steps(nodes),
        nodes.iter().map(entries).collect::<String>(),
    )
}

pub(super) fn fish(nodes: &[Node]) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    let lines = |node: &Node| {
        let when = match node.path.get(1..) {
            None | Some([]) => "__fish_use_subcommand".to_owned(),
            Some(path) => {
                let seen = |word: &String| format!("__fish_seen_subcommand_from {word}");
                path.iter().map(seen).collect::<Vec<_>>().join("; and ")
            }
        };
        let start = format!("complete -c lockkeeper -n {}", quoted(&when));
        let commands = node.subcommands().map(|(name, command)| {
            let help = quoted(&summary(command.get_about()));
            format!("{start} -a {name} -d {help}\n")
        });
        let options = node.options().map(|option| {
            let long = option.get_long().map(|long| format!(" -l {long}"));
            let short = option.get_short().map(|short| format!(" -s {short}"));
            let takes = if option.get_action().takes_values() {
                " -r"
            } else {
                ""
            };
            let values = values(option);
            let values = match values.as_slice() {
                [] => String::new(),
                values => format!(" -f -a {}", quoted(&values.join(" "))),
            };
            let (long, short) = (long.unwrap_or_default(), short.unwrap_or_default());
            let help = quoted(&summary(option.get_help()));
            format!("{start}{long}{short}{takes}{values} -d {help}\n")
        });
        commands.chain(options).collect::<String>()
    };
    nodes.iter().map(lines).collect()
}
