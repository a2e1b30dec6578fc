//! The configuration as a whole, without files: layers in, settings or words out.

mod errors;
mod layers;
mod reading_back;

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::error::ConfigError;
use super::file::ConfigFile;
use super::flags::ServeFlags;
use super::load::Loaded;
use super::settings::Settings;

/// A file with this text that lies nowhere.
fn file(text: &str) -> ConfigFile {
    let path = PathBuf::from("silica.toml");
    ConfigFile { path, text: text.to_owned(), writable_by_all: false }
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn environment(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs(variables).into_iter().collect()
}

/// The flag `--set`, several times.
fn set(settings: &[(&str, &str)]) -> ServeFlags {
    ServeFlags { set: pairs(settings), ..ServeFlags::default() }
}

fn load(text: &str, variables: &[(&str, &str)], flags: &ServeFlags) -> Result<Loaded, ConfigError> {
    Settings::from_layers(Some(&file(text)), &environment(variables), flags)
}
