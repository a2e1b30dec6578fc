//! Every command has a page, and every shell's script knows every command.

use clap::CommandFactory as _;

use super::{KnownShell, completions, manual};
use crate::Arguments;

fn commands() -> Vec<String> {
    let program = Arguments::command();
    let visible = program.get_subcommands().filter(|command| !command.is_hide_set());
    visible.map(|command| command.get_name().to_owned()).collect()
}

#[test]
fn every_command_has_a_manual_page() {
    let pages = manual().unwrap();
    assert_eq!(pages[0].0, "silica.1");
    for command in commands() {
        let file = format!("silica-{command}.1");
        let page = pages.iter().find(|(name, _)| *name == file);
        let (_, text) = page.unwrap_or_else(|| panic!("{file} is missing"));
        assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{text}");
    }
    assert!(pages.iter().any(|(name, _)| name == "silica-template-build.1"));
}

#[test]
fn completions_name_every_command() {
    for shell in [KnownShell::Bash, KnownShell::Zsh, KnownShell::Fish] {
        let script = completions(shell);
        for command in commands() {
            assert!(script.contains(&command), "{shell:?} does not complete {command}");
        }
    }
}
