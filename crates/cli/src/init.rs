//! `silica init`: everything that a server needs, in one go: a configuration, a key and a template.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
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
    fs::create_dir_all(home.path()).with_context(|| {
        format!(
            "cannot create the data directory {}; SILICA_HOME names another",
            home.path().display()
        )
    })?;
    let path = arguments.config.clone().unwrap_or_else(|| home.path().join("silica.toml"));
    let file = NewFile::prepare(&path, &config::default_file())?;
    let flags = config::ServeFlags::of_file(file.temporary.path());
    let settings = Settings::load(&flags, &config::environment()?, home.path())?.settings;
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
    // Last, so that everything can be tried again if a step fails.
    let written = file.finish();
    if written.is_err() {
        // The key was shown to no one; its record does no harm if it stays.
        let _ = store.keys().revoke(&record.id).wait();
    }
    store.close_wait();
    written?;
    say!("silica: wrote {}", path.display());
    say!("silica: created the admin key {} ({}); it is shown this once", record.name, record.id);
    let url = crate::serve::url(&settings, settings.listen.port());
    show::text(&lines(&url, &secret.reveal(), arguments.config.as_deref()))?;
    Ok(0)
}

/// A file that takes its name when everything else is done. Without `finish` nothing of it stays.
#[derive(Debug)]
struct NewFile {
    path: PathBuf,
    temporary: tempfile::NamedTempFile,
}

impl NewFile {
    /// Writes the text beside the path, at which there must be no file.
    fn prepare(path: &Path, text: &str) -> Result<Self> {
        let path = std::path::absolute(path)?;
        ensure!(fs::symlink_metadata(&path).is_err(), taken(&path));
        let failed = || format!("cannot write {}", path.display());
        let directory = path.parent().with_context(failed)?;
        // Readable by its owner alone, as all files of this kind.
        let mut temporary = tempfile::Builder::new()
            .prefix(".silica-")
            .suffix(".toml")
            .tempfile_in(directory)
            .with_context(failed)?;
        temporary.write_all(text.as_bytes()).with_context(failed)?;
        Ok(Self { path, temporary })
    }

    fn finish(self) -> Result<()> {
        let failed = || format!("cannot write {}", self.path.display());
        match self.temporary.persist_noclobber(&self.path) {
            Ok(_) => Ok(()),
            Err(refused) if refused.error.kind() == ErrorKind::AlreadyExists => {
                bail!(taken(&self.path))
            }
            Err(refused) => Err(refused.error).with_context(failed),
        }
    }
}

fn taken(path: &Path) -> String {
    format!(
        "{} is there already, and nothing was changed; silica config shows what it says, and \
         silica key create NAME makes another key",
        path.display()
    )
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
