//! The flags of `silica serve` and `silica config` that set keys.

use std::path::PathBuf;

use clap::Args;

use super::origin::Origin;
use super::raw_value::{RawKind, RawValue};
use crate::units;

/// The settings on the command line.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Settings")]
pub(crate) struct ServeFlags {
    /// The configuration file [default: silica.toml in the data directory, else the one in
    /// /etc/silica or ~/.config/silica]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// The address to listen on, for example 127.0.0.1:8585 or [::]:8585
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(super) listen: Option<String>,
    /// The URL at which clients reach the server, for links to it
    #[arg(long, value_name = "URL")]
    pub(super) public_url: Option<String>,
    /// The certificate, PEM
    #[arg(long, value_name = "FILE")]
    pub(super) tls_certificate: Option<String>,
    /// The certificate's private key, PEM
    #[arg(long, value_name = "FILE")]
    pub(super) tls_key: Option<String>,
    /// The format of the log: text or json
    #[arg(long, value_name = "FORMAT")]
    pub(super) log_format: Option<String>,
    /// The number of sandboxes of a template to keep ready; can be given again, and replaces the
    /// pool of the configuration
    #[arg(long, value_name = "TEMPLATE=SIZE", value_parser = units::variable)]
    pub(super) warm: Vec<(String, String)>,
    /// Set any key of the configuration, for example cells.timeout_seconds=60; can be given again
    #[arg(long, value_name = "KEY=VALUE", value_parser = units::variable)]
    pub(super) set: Vec<(String, String)>,
}

impl ServeFlags {
    /// Returns flags that only set these keys.
    pub(crate) fn setting(set: Vec<(String, String)>) -> Self {
        Self { set, ..Self::default() }
    }

    /// Returns flags that only name the configuration file.
    pub(crate) fn of_file(config: &std::path::Path) -> Self {
        Self { config: Some(config.to_owned()), ..Self::default() }
    }

    /// Returns the keys that the flags set, each with its value and flag. Named flags follow
    /// `--set` and so take precedence over it.
    pub(super) fn values(&self) -> Vec<(&str, RawValue, Origin)> {
        let general = self
            .set
            .iter()
            .map(|(key, value)| (key.as_str(), RawValue::bare(value), Origin::Flag("--set")));
        let named = [
            ("listen", self.listen.clone(), "--listen"),
            ("public_url", self.public_url.clone(), "--public-url"),
            ("tls.certificate", self.tls_certificate.as_deref().map(absolute), "--tls-certificate"),
            ("tls.key", self.tls_key.as_deref().map(absolute), "--tls-key"),
            ("log.format", self.log_format.clone(), "--log-format"),
        ];
        let named = named.into_iter().filter_map(|(key, text, flag)| {
            // Unlike with `--set`, an empty text does not unset the key: it is more likely an unset
            // shell variable.
            let given = RawValue { kind: RawKind::Text(text?), line: None };
            Some((key, given, Origin::Flag(flag)))
        });
        general.chain(named).chain(self.pool()).collect()
    }

    fn pool(&self) -> Option<(&'static str, RawValue, Origin)> {
        let entry = |(name, size): &(String, String)| (name.clone(), RawValue::bare(size));
        let kind = RawKind::Table(self.warm.iter().map(entry).collect());
        let given = RawValue { kind, line: None };
        (!self.warm.is_empty()).then_some(("pool", given, Origin::Flag("--warm")))
    }
}

/// Returns a path made absolute by the working directory; the codec of the key rejects invalid
/// paths.
fn absolute(path: &str) -> String {
    let absolute = std::path::absolute(path).ok();
    absolute.and_then(|path| path.into_os_string().into_string().ok()).unwrap_or(path.to_owned())
}
