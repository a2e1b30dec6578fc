//! Manual pages and completions, made from the same definitions as the parser of arguments:
//! `silica man` and `silica completions`.

#[cfg(test)]
mod tests;

use anyhow::{Result, bail};
use clap::{Args, CommandFactory as _, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::{Arguments, show};

/// The name of the program, for which completions are made.
const PROGRAM: &str = "silica";

/// Arguments of `silica completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: KnownShell,
}

/// The shells whose completions are tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KnownShell {
    Bash,
    Zsh,
    Fish,
}

/// Arguments of `silica man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// A command, such as `run` or `template build`; without it, silica itself
    command: Vec<String>,
}

pub(crate) fn print_completions(arguments: &CompletionsArgs) -> Result<i32> {
    show::text(&completions(arguments.shell))?;
    Ok(0)
}

pub(crate) fn print_manual(arguments: &ManArgs) -> Result<i32> {
    let name = [&[PROGRAM.to_owned()], arguments.command.as_slice()].concat().join("-");
    let file = format!("{name}.1");
    let Some((_, page)) = manual()?.into_iter().find(|(name, _)| *name == file) else {
        let command = arguments.command.join(" ");
        bail!("there is no command `{command}`; `silica --help` lists the commands");
    };
    show::text(&page)?;
    Ok(0)
}

/// Returns the script that completes `silica` in a shell.
pub(crate) fn completions(shell: KnownShell) -> String {
    let shell = match shell {
        KnownShell::Bash => Shell::Bash,
        KnownShell::Zsh => Shell::Zsh,
        KnownShell::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), PROGRAM, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Returns every manual page with its file name, that of the program first.
pub(crate) fn manual() -> Result<Vec<(String, String)>> {
    let mut program = Arguments::command();
    program.build();
    let mut pages = Vec::new();
    add_pages(&program, &mut pages)?;
    Ok(pages)
}

fn add_pages(command: &clap::Command, pages: &mut Vec<(String, String)>) -> Result<()> {
    let page = Man::new(command.clone()).source(format!("silica {}", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.render(&mut text)?;
    pages.push((page.get_filename(), String::from_utf8_lossy(&text).into_owned()));
    for child in command.get_subcommands().filter(|child| !child.is_hide_set()) {
        add_pages(child, pages)?;
    }
    Ok(())
}
