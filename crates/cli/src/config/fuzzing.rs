//! A door for `tests/fuzz`: the configuration, as its file and as its flags are read.
//!
//! Only there with the feature `fuzzing`; no other code may use it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::document;
use super::error::ConfigError;
use super::file::ConfigFile;
use super::flags::ServeFlags;
use super::load::Loaded;
use super::settings::Settings;

/// The longest complaint: a page, whatever was wrong.
const COMPLAINT_BYTES_MAX: usize = 32 << 10;
/// How many lines are also read as flags.
const FLAGS_MAX: usize = 32;

/// Reads a text as a file, and its lines as `--set`. Settings that are taken must read back as what
/// they are, and complaints must stay short.
pub fn configuration(text: &str) {
    judge(load(Some(text), &ServeFlags::default()));
    let pair = |line: &str| {
        let (name, value) = line.split_once('=')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    let set = text.lines().filter_map(pair).take(FLAGS_MAX).collect();
    judge(load(None, &ServeFlags::setting(set)));
}

fn load(text: Option<&str>, flags: &ServeFlags) -> Result<Loaded, ConfigError> {
    let file = text.map(|text| {
        let path = PathBuf::from("silica.toml");
        ConfigFile { path, text: text.to_owned(), writable_by_all: false }
    });
    Settings::from_layers(file.as_ref(), &BTreeMap::new(), flags)
}

fn judge(loaded: Result<Loaded, ConfigError>) {
    match loaded {
        Ok(loaded) => {
            let text = document::file(&loaded.settings);
            let again = load(Some(&text), &ServeFlags::default());
            let again = again.expect("what was taken is taken again");
            assert_eq!(again.settings, loaded.settings, "{text}");
        }
        Err(error) => assert!(error.to_string().len() <= COMPLAINT_BYTES_MAX, "{error}"),
    }
}
