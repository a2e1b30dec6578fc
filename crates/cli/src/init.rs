//! `silica init`: everything that a server needs, in one go: a configuration, a key and a template.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use silica_store::Access;
use silica_store::keys::{KeyName, NewKey};

use crate::config::{self, Settings};
use crate::{home, show};

/// The name of the key.
const KEY_NAME: &str = "init";

/// Arguments of `silica init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Where to write the configuration [default: silica.toml in the data directory]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Leave the template to the first start of the server
    #[arg(long)]
    no_template: bool,
}

pub(crate) fn run(arguments: &InitArgs) -> Result<i32> {
    let home = home::home()?;
    std::fs::create_dir_all(home.path()).with_context(|| {
        format!(
            "cannot create the data directory {}; SILICA_HOME names another",
            home.path().display()
        )
    })?;
    let path = arguments.config.clone().unwrap_or_else(|| home.path().join("silica.toml"));
    write_new(&path, &config::default_file())?;
    say!("silica: wrote {}", path.display());
    let settings =
        Settings::load(&config::ServeFlags::of_file(&path), &config::environment()?, home.path())?
            .settings;
    if !arguments.no_template {
        home::template(&home, settings.sandboxes.template.as_str())?;
    }
    let store = home::store(Access::Tool)?;
    let new = NewKey {
        name: KeyName::new(KEY_NAME)?,
        admin: true,
        approve: false,
        jupyter: false,
        limits: None,
    };
    let (record, secret) = store.keys().create(new).wait()?;
    store.close_wait();
    say!("silica: created the admin key {} ({}); it is shown this once", record.name, record.id);
    let url = crate::serve::url(&settings, settings.listen.port());
    show::text(&lines(&url, &secret.reveal(), arguments.config.as_deref()))?;
    Ok(0)
}

/// Writes a file that is not there yet.
fn write_new(path: &Path, text: &str) -> Result<()> {
    let opened = File::options().write(true).create_new(true).mode(0o600).open(path);
    let mut file = match opened {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
            "{} is there already, and nothing was changed; silica config shows what it says, and \
             silica key create NAME makes another key",
            path.display()
        ),
        opened => opened.with_context(|| format!("cannot write {}", path.display()))?,
    };
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

/// Returns the lines to copy into a shell.
fn lines(url: &str, secret: &str, config: Option<&Path>) -> String {
    let e2b = secret.replacen("silica_", "e2b_", 1);
    let start = match config {
        Some(path) => format!("silica serve --config {}", path.display()),
        None => "silica serve".to_owned(),
    };
    format!(
        "# Start the server:\n{start}\n\n\
         # For silica, its SDK and curl:\nexport SILICA_URL={url}\nexport SILICA_KEY={secret}\n\n\
         # For E2B's SDKs:\nexport E2B_API_URL={url}\nexport E2B_SANDBOX_URL={url}\n\
         export E2B_API_KEY={e2b}\n"
    )
}
