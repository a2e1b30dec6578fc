//! The guest's `/etc`: made up, except for a few files of the host that are public and needed.
//!
//! Nothing else of the host's configuration may come in. In particular no certificates: a private
//! authority of the host would reveal where the host is. The usual places lead to a file of the
//! engine's, with the public authorities.

use std::fs;
use std::path::Path;

use super::{StepError, tree, trust};

/// Largest host file that is copied, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

const FILES: &[(&str, &str)] = &[
    (
        "passwd",
        "root:x:0:0:root:/:/bin/sh\n\
         user:x:1000:1000::/home/user:/bin/bash\n\
         nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
    ),
    ("group", "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n"),
    ("hosts", "127.0.0.1 localhost sandbox\n::1 localhost sandbox\n"),
    ("hostname", "sandbox\n"),
    (
        "nsswitch.conf",
        // `dns` also in sandboxes that reach no resolver, where it fails at once: glibc reads this
        // file once, and never again after the root has changed, so that what a zygote has read
        // counts for all its forks.
        "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
    ),
    // Without a line in it, 127.0.0.1 is asked; resolv.conf(5).
    ("resolv.conf", ""),
    ("services", include_str!("etc/services")),
    ("protocols", include_str!("etc/protocols")),
    ("timezone", "Etc/UTC\n"),
    ("shells", "/bin/sh\n/bin/bash\n"),
    (
        "profile",
        "export PATH=/opt/silica/venv/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin\n\
         [ -z \"${BASH_VERSION-}\" ] || . /etc/bash.bashrc\n",
    ),
    ("bash.bashrc", "PS1='\\w\\$ '\n"),
];

/// Copied if the host has them: the name in the guest and the places on the host, best first.
const COPIES: &[(&str, &[&str])] = &[
    ("os-release", &["etc/os-release", "usr/lib/os-release"]),
    ("ld.so.cache", &["etc/ld.so.cache"]),
    ("ld.so.conf", &["etc/ld.so.conf"]),
    ("mime.types", &["etc/mime.types"]),
    ("localtime", &["usr/share/zoneinfo/UTC", "usr/share/zoneinfo/Etc/UTC"]),
];

/// Where programs of the usual distributions look for certificates.
const CERTIFICATES: &[&str] = &[
    "ssl/certs/ca-certificates.crt",
    "ssl/cert.pem",
    "pki/tls/certs/ca-bundle.crt",
    "pki/tls/cert.pem",
];

/// Makes the guest's `/etc` in `etc`, after the host whose root is `host`.
pub(super) fn create(etc: &Path, host: &Path) -> Result<(), StepError> {
    for (name, content) in FILES {
        tree::file(&etc.join(name), content.as_bytes())?;
    }
    for name in CERTIFICATES {
        let path = etc.join(name);
        // Each level by itself, so that every one of them gets its mode.
        for level in path.ancestors().skip(1).take_while(|level| *level != etc) {
            tree::folder(level)?;
        }
        tree::link(Path::new(trust::TRUST_BUNDLE), &path)?;
    }
    for (name, places) in COPIES {
        let found = places.iter().map(|place| host.join(place)).find(|path| small_file(path));
        if let Some(path) = found {
            let content = fs::read(&path).map_err(tree::io("read", &path))?;
            tree::file(&etc.join(name), &content)?;
        }
    }
    copy_if_there(&host.join("etc/ld.so.conf.d"), &etc.join("ld.so.conf.d"))?;
    copy_if_there(&host.join("etc/fonts"), &etc.join("fonts"))?;
    copy_alternatives(&host.join("etc/alternatives"), &etc.join("alternatives"))
}

fn copy_if_there(source: &Path, target: &Path) -> Result<(), StepError> {
    if source.is_dir() {
        tree::copy(source, target, &|_| true)?;
    }
    Ok(())
}

/// Copies the links of Debian's alternatives that lead to `/usr`; any other would lead nowhere and
/// only reveal what the host has installed.
fn copy_alternatives(source: &Path, target: &Path) -> Result<(), StepError> {
    if !source.is_dir() {
        return Ok(());
    }
    tree::folder(target)?;
    for path in tree::children(source)? {
        let Ok(to) = fs::read_link(&path) else {
            continue;
        };
        let system = ["/usr", "/bin", "/sbin", "/lib"].iter().any(|place| to.starts_with(place));
        if let (true, Some(name)) = (system, path.file_name()) {
            tree::link(&to, &target.join(name))?;
        }
    }
    Ok(())
}

fn small_file(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() <= FILE_BYTES_MAX)
}

#[cfg(test)]
mod tests;
