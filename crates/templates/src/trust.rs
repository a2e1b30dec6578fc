//! The certificates that programs in a guest trust: one file, which the engine puts into every
//! sandbox. Packages that bring a list of their own get a link to it, or they would not know an
//! authority that the engine adds.

use std::path::Path;

use super::{StepError, tree};

/// The file, as the guest sees it.
pub const TRUST_BUNDLE: &str = "/opt/silica/trust/bundle.pem";

/// The lists that packages bring, below the folder of packages.
const OF_PACKAGES: [&str; 2] = ["certifi/cacert.pem", "pip/_vendor/certifi/cacert.pem"];

/// Replaces the lists of packages below `site`.
pub(super) fn replace_lists(site: &Path) -> Result<(), StepError> {
    for name in OF_PACKAGES {
        let path = site.join(name);
        if path.symlink_metadata().is_ok() {
            tree::link(Path::new(TRUST_BUNDLE), &path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
