//! `silica config`, and the configuration of the server.
//!
//! `keys` is the table of all settings; `load` reads them from a file, the environment and flags.
//! The result is a `Settings`, whose values are checked.

pub(crate) mod address;
mod check;
mod codec;
mod document;
pub(crate) mod error;
mod file;
mod flags;
mod keys;
pub(crate) mod load;
pub(crate) mod origin;
mod raw_value;
pub(crate) mod settings;
mod show;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::Args;

pub(crate) use flags::ServeFlags;
pub(crate) use settings::Settings;

use crate::home;
use file::ConfigFile;

/// Arguments of `silica config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print a configuration file with every key, its meaning and its default
    #[arg(long, conflicts_with_all = ["json", "check", "ServeFlags"])]
    default: bool,
    /// Check a configuration file, without the environment and other flags
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "ServeFlags"])]
    check: Option<PathBuf>,
    #[command(flatten)]
    flags: ServeFlags,
}

pub(crate) fn run(arguments: &ConfigArgs) -> Result<i32> {
    if arguments.default {
        crate::show::text(&default_file())?;
        return Ok(0);
    }
    if let Some(path) = &arguments.check {
        return Ok(check_file(path));
    }
    let loaded = Settings::load(&arguments.flags, &environment()?, home::home()?.path())?;
    if arguments.json {
        crate::show::line(serde_json::to_string_pretty(&show::json(&loaded))?)?;
        return Ok(0);
    }
    crate::show::text(&show::table(&loaded))?;
    for notice in &loaded.notices {
        say!("silica: {notice}");
    }
    Ok(0)
}

/// Returns a configuration file with every key, its meaning and its default.
pub(crate) fn default_file() -> String {
    document::file(&Settings::default())
}

/// Returns the environment variables that the configuration uses.
pub(crate) fn environment() -> Result<BTreeMap<String, String>> {
    let mut variables = BTreeMap::new();
    for (name, value) in std::env::vars_os() {
        let Some(name) = name.to_str() else {
            continue;
        };
        if name.starts_with("SILICA_") || matches!(name, "HOME" | "XDG_CONFIG_HOME") {
            let value = value.into_string().map_err(|_| anyhow!("{name} must be UTF-8 text"))?;
            variables.insert(name.to_owned(), value);
        }
    }
    Ok(variables)
}

fn check_file(path: &Path) -> i32 {
    let nothing = BTreeMap::new();
    let loaded = ConfigFile::read(path)
        .and_then(|file| Settings::from_layers(Some(&file), &nothing, &ServeFlags::default()));
    match loaded {
        Ok(loaded) => {
            for notice in &loaded.notices {
                say!("silica: {notice}");
            }
            say!("silica: {} is valid", path.display());
            0
        }
        Err(error) => {
            crate::complain(&error.into());
            1
        }
    }
}
