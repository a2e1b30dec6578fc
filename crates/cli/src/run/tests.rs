//! The flags that set limits.

use clap::Args as _;
use silica_domain::Limit;

use super::RunArgs;
use crate::limits::flag;

#[test]
fn every_limit_has_a_flag_of_its_own() {
    let command = RunArgs::augment_args(clap::Command::new("run"));
    let known: Vec<String> = command
        .get_arguments()
        .filter_map(|argument| argument.get_long().map(|long| format!("--{long}")))
        .collect();
    let flags: Vec<&str> = Limit::ALL.iter().map(|&limit| flag(limit)).collect();
    for (index, flag) in flags.iter().enumerate() {
        assert!(known.iter().any(|known| known == flag), "{flag}");
        assert!(!flags[..index].contains(flag), "{flag}");
    }
}
