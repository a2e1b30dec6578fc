//! Which files an installation has, and where each goes.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::pages::{self, KnownShell};

/// The directory below which the program is installed; absolute.
#[derive(Debug)]
pub(crate) struct Prefix(PathBuf);

impl Prefix {
    pub(crate) fn new(path: PathBuf) -> Result<Self> {
        if !path.is_absolute() {
            bail!("--prefix must be an absolute path, not {}", path.display());
        }
        Ok(Self(path))
    }

    pub(crate) fn programs(&self) -> PathBuf {
        self.0.join("bin")
    }

    /// Where the list of what was installed is kept.
    pub(crate) fn receipt(&self) -> PathBuf {
        self.0.join("share/silica/installed")
    }

    fn share(&self) -> PathBuf {
        self.0.join("share")
    }

    /// Packages have their units in `/usr/lib`; everything else belongs to the administrator.
    fn units(&self) -> PathBuf {
        if self.0 == Path::new("/usr") { "/usr/lib".into() } else { "/etc".into() }
    }
}

/// One file of an installation.
#[derive(Debug)]
pub(crate) struct Installed {
    pub(crate) path: PathBuf,
    pub(crate) content: Content,
    pub(crate) mode: u32,
    /// True for a file that its administrator edits.
    pub(crate) is_kept_if_there: bool,
}

/// What is in an installed file.
#[derive(Debug)]
pub(crate) enum Content {
    Text(String),
    ThisProgram,
}

impl Installed {
    fn text(path: PathBuf, text: String) -> Self {
        Self { path, content: Content::Text(text), mode: 0o644, is_kept_if_there: false }
    }
}

/// Returns the files of an installation. A package decides on the AppArmor profile when it is
/// installed, so it always has the profile's text among its own files.
pub(super) fn files(prefix: &Prefix, service: bool, is_package: bool) -> Result<Vec<Installed>> {
    let program = prefix.programs().join("silica");
    let mut files = vec![Installed {
        path: program.clone(),
        content: Content::ThisProgram,
        mode: 0o755,
        is_kept_if_there: false,
    }];
    for (name, text) in pages::manual()? {
        files.push(Installed::text(prefix.share().join("man/man1").join(name), text));
    }
    files.extend(completions(prefix));
    if service {
        files.extend(units(prefix, &program));
    }
    let profile = template(include_str!("../../../../packaging/apparmor"), &program);
    if is_package {
        files.push(Installed::text(prefix.share().join("silica/apparmor"), profile));
    } else if rustix::process::geteuid().is_root() && Path::new(APPARMOR_WITH_USERNS).exists() {
        files.push(Installed::text("/etc/apparmor.d/silica".into(), profile));
    }
    Ok(files)
}

/// Present where AppArmor knows the rule `userns`, which older parsers refuse as an error.
const APPARMOR_WITH_USERNS: &str = "/etc/apparmor.d/abi/4.0";

fn completions(prefix: &Prefix) -> [Installed; 3] {
    let share = prefix.share();
    // Debian's zsh looks for packages' completions in a directory of their own.
    let zsh = if prefix.0 == Path::new("/usr") { "vendor-completions" } else { "site-functions" };
    let file = |path: PathBuf, shell| Installed::text(path, pages::completions(shell));
    [
        file(share.join("bash-completion/completions/silica"), KnownShell::Bash),
        file(share.join("zsh").join(zsh).join("_silica"), KnownShell::Zsh),
        file(share.join("fish/vendor_completions.d/silica.fish"), KnownShell::Fish),
    ]
}

fn units(prefix: &Prefix, program: &Path) -> Vec<Installed> {
    let directory = prefix.units();
    let file =
        |path: &str, text: &str| Installed::text(directory.join(path), template(text, program));
    let service = include_str!("../../../../packaging/silica.service");
    let unprivileged = include_str!("../../../../packaging/silica-unprivileged.service");
    let mut configuration = Installed::text(
        "/etc/silica/silica.toml".into(),
        include_str!("../../../../packaging/silica.toml").to_owned(),
    );
    configuration.is_kept_if_there = true;
    vec![
        file("systemd/system/silica.service", service),
        file("systemd/system/silica-unprivileged.service", unprivileged),
        file("sysusers.d/silica.conf", include_str!("../../../../packaging/sysusers.conf")),
        file("tmpfiles.d/silica.conf", include_str!("../../../../packaging/tmpfiles.conf")),
        configuration,
    ]
}

/// Puts the program's path into a file of `packaging/`.
fn template(text: &str, program: &Path) -> String {
    text.replace("@SILICA@", &program.display().to_string())
}
