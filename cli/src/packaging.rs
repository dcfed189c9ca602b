//! `lockkeeper completions` and `lockkeeper man`: files for packages, made from the command line's own description.

use std::{fs, path::PathBuf};

use clap::{Arg, Args, Command};
use clap_complete::Shell;
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};

use crate::{
    exit::{self, Failure},
    text,
};

/// Print the completion of commands and options for a shell
#[derive(Args, Debug)]
#[command(after_help = "Example, as a line of ~/.bashrc:\n  source <(lockkeeper completions bash)")]
pub(crate) struct CompletionsArgs {
    #[arg(value_enum)]
    shell: Shell,
}

/// Write the manual pages into a directory
#[derive(Args, Debug)]
#[command(
    after_help = "There is a page for lockkeeper, and one for each command, such as lockkeeper-run.1.\n\n\
        Example:\n  lockkeeper man /usr/local/share/man/man1"
)]
pub(crate) struct ManArgs {
    /// The directory; it must exist
    directory: PathBuf,
}

pub(crate) fn completions(args: &CompletionsArgs, mut all: Command) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut all, "lockkeeper", &mut script);
    text::print(script)?;
    Ok(exit::OK)
}

pub(crate) fn man(args: &ManArgs, all: Command) -> Result<u8, Failure> {
    let mut commands = vec![all.disable_help_subcommand(true)];
    commands[0].build();
    while let Some(mut command) = commands.pop() {
        commands.extend(command.get_subcommands().cloned());
        // The option of `wire spy` with this name is another one.
        let is_connect = |it: &Arg| it.get_id() == "connect" && !it.is_required_set();
        let of_servers = usize::from(command.get_arguments().any(is_connect));
        let refused = ["", " 1 a server refused; 69 no server was reached;"][of_servers];
        let connect = ["", "[--connect <HOSTS>] "][of_servers];
        let help = command.get_after_long_help().or(command.get_after_help());
        let mut help = help.map(ToString::to_string).unwrap_or_default();
        if !help.contains("Exit status") {
            help = format!("Exit status: 0 success;{refused} {USUAL}\n\n{help}");
        }
        // As in the help, with the servers, which almost every use names.
        let usage = command.render_usage().to_string().replace("Usage: ", "");
        let usage = usage.replacen("[OPTIONS]", &format!("{connect}[OPTIONS]"), 1);
        let command = command.override_usage(usage);
        let command = command.after_help(None).after_long_help(None);
        let man = Man::new(command).source(concat!("lockkeeper ", env!("CARGO_PKG_VERSION")));
        // Writing to memory does not fail.
        let mut page = Vec::new();
        man.render(&mut page)?;
        sections(&help).to_writer(&mut page)?;
        let file = args.directory.join(man.get_filename());
        let what = format!("write {}", file.display());
        fs::write(&file, page).map_err(Failure::system(what))?;
    }
    Ok(exit::OK)
}

/// The exit statuses that every command may have.
const USUAL: &str =
    "64 bad usage; 71 the operating system refused something; 128+n signal n ended it.";

/// The first words of a paragraph, and the section to which it belongs.
const SECTIONS: [(&str, &str); 3] = [
    ("Exit status", "EXIT STATUS"),
    ("The command's environment", "ENVIRONMENT"),
    ("Example", "EXAMPLES"),
];

/// The paragraphs behind the options, each in its section.
fn sections(help: &str) -> Roff {
    let (mut roff, mut section) = (Roff::new(), "");
    for paragraph in help.split_terminator("\n\n") {
        let begins = |it: &&(&str, _)| paragraph.starts_with(it.0);
        let title = SECTIONS.iter().find(begins).map_or("NOTES", |it| it.1);
        if title != section {
            // Each line of an example is one to copy: not broken, and no word of it divided.
            let lines = if title == "EXAMPLES" { "nf" } else { "fi" };
            roff.control("SH", [title]).control("ad", ["l"]);
            roff.control(lines, []);
            section = title;
        }
        for line in paragraph.lines() {
            let words = line.trim_start();
            let indentation = format!("{}n", line.len() - words.len());
            roff.control("in", [&*format!("+{indentation}")]);
            roff.text([roman(words)]);
            roff.control("in", [&*format!("-{indentation}")]);
        }
        roff.control("sp", []);
    }
    roff
}
