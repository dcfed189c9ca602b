//! `lockkeeper completions` and `lockkeeper man`: files for packages, made from the command line's own description.

use std::{fmt::Write as _, fs, io, path::PathBuf};

use clap::{Args, Command};
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
#[command(
    after_help = "Example:\n  lockkeeper completions bash > ~/.local/share/bash-completion/completions/lockkeeper"
)]
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
    while let Some(command) = commands.pop() {
        commands.extend(command.get_subcommands().cloned());
        // Writing to memory does not fail.
        let mut page = Vec::new();
        let name = render(command, &mut page)?;
        let file = args.directory.join(name);
        fs::write(&file, page).map_err(|error| Failure::file(&file, &error))?;
    }
    Ok(exit::OK)
}

/// Writes the page of a command, and returns the name of its file.
fn render(command: Command, page: &mut Vec<u8>) -> io::Result<String> {
    let mut variables = String::new();
    for arg in command.get_arguments() {
        if let (Some(name), Some(option)) = (arg.get_env(), arg.get_long()) {
            let name = name.display();
            let _ = writeln!(variables, "  {name:<26}  --{option}, if that is not given");
        }
    }
    if variables.contains("AUTH_FILE") {
        variables += VARIABLES;
    }
    // The first words of a paragraph say to which section it belongs.
    let mut sections = [
        ("EXIT STATUS", "Exit status", String::new()),
        ("ENVIRONMENT", "The command's environment", variables),
        ("NOTES", "", String::new()),
        ("EXAMPLES", "Example", String::new()),
    ];
    let text = command.get_after_long_help().or(command.get_after_help());
    let text = text.map(ToString::to_string).unwrap_or_default();
    for paragraph in text.split("\n\n").filter(|it| !it.is_empty()) {
        let at = sections.iter().position(|(_, start, _)| {
            let is_general = start.is_empty();
            !is_general && paragraph.starts_with(start)
        });
        let at = at.unwrap_or(2);
        let (_, start, section) = &mut sections[at];
        let text = paragraph.strip_prefix(*start).unwrap_or(paragraph);
        let text = text.trim_start_matches(['s', ':']);
        *section += text.strip_prefix('\n').unwrap_or(text);
        *section += "\n\n";
    }
    if sections[0].2.is_empty() {
        sections[0].2 += STATUS;
    }
    let is_top = command.get_display_name() == Some("lockkeeper");
    let see = if is_top {
        "flock(1)"
    } else {
        "lockkeeper(1), flock(1)"
    };
    let has_commands = command.has_subcommands();
    let man = Man::new(command).source(concat!("lockkeeper ", env!("CARGO_PKG_VERSION")));
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_options_section(page)?;
    if has_commands {
        man.render_subcommands_section(page)?;
    }
    for (title, _, text) in sections
        .into_iter()
        .chain([("SEE ALSO", "", see.to_owned())])
    {
        if !text.is_empty() {
            let mut roff = Roff::new();
            roff.control("SH", [title]).control("ad", ["l"]);
            for line in text.trim_end().lines() {
                let words = line.trim_start();
                let indentation = format!("{}n", line.len() - words.len());
                roff.control("in", [&*format!("+{indentation}")]);
                roff.text([roman(words)]);
                roff.control("in", [&*format!("-{indentation}")]);
            }
            roff.to_writer(page)?;
        }
    }
    Ok(man.get_filename())
}

/// The statuses of a command that has none of its own.
const STATUS: &str = "  \
  0    success
  1    a server refused the request
  64   bad usage
  69   no server was reached
  71   the operating system refused something
  128+n  signal n ended the command";

/// The variable that is no option, because it has secrets.
const VARIABLES: &str = "  \
  LOCKKEEPER_AUTH             the identities, one per line, if there is no file

";
