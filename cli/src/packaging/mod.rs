//! `lockkeeper completions` and `lockkeeper man`: files for packages, made from the command line's own description.
//!
//! | file | what |
//! |---|---|
//! | `completions` | for shells |
//! | `man` | manual pages |
//!
//! Not here: any option. So these files can never lack one.

mod completions;
mod man;

use std::path::PathBuf;

use clap::{Arg, Args, Command, CommandFactory as _, ValueEnum};

use crate::{
    args::Cli,
    exit::{self, Failure},
    text,
};

/// Print the completion of commands and options for a shell
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  lockkeeper completions bash > ~/.local/share/bash-completion/completions/lockkeeper"
)]
pub(crate) struct CompletionsArgs {
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

/// A shell.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Write the manual pages into a directory
#[derive(Args, Debug)]
#[command(
    after_help = "There is a page for lockkeeper, and one for each command, such as lockkeeper-run.1.\n\n\
        Example:\n  lockkeeper man /usr/local/share/man/man1"
)]
pub(crate) struct ManArgs {
    /// The directory; it must exist
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

pub(crate) fn completions(args: &CompletionsArgs) -> Result<u8, Failure> {
    let nodes = nodes();
    text::print(match args.shell {
        Shell::Bash => completions::bash(&nodes),
        Shell::Zsh => completions::zsh(&nodes),
        Shell::Fish => completions::fish(&nodes),
    })?;
    Ok(exit::OK)
}

pub(crate) fn man(args: &ManArgs) -> Result<u8, Failure> {
    for mut node in nodes() {
        let file = args.directory.join(node.path.join("-") + ".1");
        let page = man::page(&mut node);
        std::fs::write(&file, page).map_err(|error| Failure::File(file, error))?;
    }
    Ok(exit::OK)
}

/// A command, and the words that lead to it: `lockkeeper`, `wire`, `decode`.
struct Node {
    path: Vec<String>,
    command: Command,
}

/// All commands, each before its subcommands.
fn nodes() -> Vec<Node> {
    let mut root = Cli::command();
    root.build();
    let mut nodes = Vec::new();
    let mut left = vec![Node {
        path: vec![root.get_name().to_owned()],
        command: root,
    }];
    while let Some(node) = left.pop() {
        let mut below: Vec<_> = node
            .subcommands()
            .map(|(name, command)| Node {
                path: [node.path.as_slice(), &[name.to_owned()]].concat(),
                command: command.clone(),
            })
            .collect();
        below.reverse();
        left.extend(below);
        nodes.push(node);
    }
    nodes
}

impl Node {
    /// The subcommands without clap's own `help`.
    fn subcommands(&self) -> impl Iterator<Item = (&str, &Command)> {
        let all = self.command.get_subcommands();
        all.map(|command| (command.get_name(), command))
            .filter(|(name, _)| *name != "help")
    }

    /// The options, which begin with a dash.
    fn options(&self) -> impl Iterator<Item = &Arg> {
        let shown = |arg: &&Arg| !arg.is_positional() && !arg.is_hide_set();
        self.command.get_arguments().filter(shown)
    }
}

/// The first sentence of a help text.
fn summary(text: Option<&clap::builder::StyledStr>) -> String {
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}
