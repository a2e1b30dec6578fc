//! Checks that settings which are valid by themselves do not contradict each other.

use silica_domain::{Limit, LimitError, LimitUnit};

use super::error::Problem;
use super::keys::key;
use super::load::Origins;
use super::origin::Origin;
use super::settings::{Provider, Settings};

/// A default value and the key of its maximum.
struct Pair {
    value: &'static str,
    most: &'static str,
    holds: fn(&Settings) -> bool,
}

const PAIRS: [Pair; 3] = [
    Pair {
        value: "sandboxes.ttl_seconds",
        most: "sandboxes.ttl_seconds_max",
        holds: |settings| settings.sandboxes.ttl <= settings.sandboxes.ttl_max,
    },
    Pair {
        value: "sandboxes.idle_seconds",
        most: "sandboxes.idle_seconds_max",
        holds: |settings| {
            settings.sandboxes.idle.unwrap_or_default() <= settings.sandboxes.idle_max
        },
    },
    Pair {
        value: "cells.timeout_seconds",
        most: "cells.timeout_seconds_max",
        holds: |settings| settings.cells.timeout <= settings.cells.timeout_max,
    },
];

/// Returns all contradictions between settings.
pub(super) fn contradictions(settings: &Settings, origins: &Origins) -> Vec<Problem> {
    let checker = Checker { settings, origins };
    let pairs = PAIRS.iter().filter(|pair| !(pair.holds)(settings));
    let mut problems: Vec<Problem> =
        pairs.map(|pair| checker.more_than(pair.value, pair.most)).collect();
    problems.extend(checker.half_of_tls());
    problems.extend(checker.half_of_webhook());
    problems.extend(checker.hosts_of_ports());
    problems.extend(checker.limits());
    problems.extend(checker.half_of_a_model());
    problems
}

/// Describes settings in messages, with their values and origins.
struct Checker<'a> {
    settings: &'a Settings,
    origins: &'a Origins,
}

impl Checker<'_> {
    /// Returns "`key` is value (origin)".
    fn value(&self, path: &str) -> String {
        let value = key(path).and_then(|key| (key.write)(self.settings).toml());
        let origin = self.origins.get(path).unwrap_or(&Origin::Default);
        format!("`{path}` is {} ({origin})", value.as_deref().unwrap_or("not set"))
    }

    fn more_than(&self, value: &str, most: &str) -> Problem {
        let value = self.value(value);
        let most = self.value(most);
        Problem::Together(format!("{value}, which is more than its maximum: {most}"))
    }

    fn half_of_tls(&self) -> Option<Problem> {
        let tls = &self.settings.tls;
        let [certificate, key] = ["tls.certificate", "tls.key"].map(|path| self.value(path));
        (tls.certificate.is_some() != tls.key.is_some())
            .then(|| Problem::Together(format!("{certificate} and {key}; set both or neither")))
    }

    /// Below the domain of ports only ports answer, so the server itself cannot be there.
    fn hosts_of_ports(&self) -> Option<Problem> {
        let domain = self.settings.ports.domain.as_ref()?;
        let is_below = |host: &str| {
            host.strip_suffix(domain.as_str()).is_some_and(|before| before.ends_with('.'))
        };
        let public = self.settings.public_url.as_deref().and_then(|url| {
            let authority = url.split_once("://")?.1.split('/').next()?;
            authority.split(':').next()
        });
        let hosts = self.settings.server.allowed_hosts.iter().map(String::as_str).chain(public);
        hosts.into_iter().any(is_below).then(|| {
            let [ports, hosts, url] =
                ["ports.domain", "server.allowed_hosts", "public_url"].map(|path| self.value(path));
            Problem::Together(format!(
                "{ports}, below which only ports answer, and {hosts}, {url}; choose another domain"
            ))
        })
    }

    fn half_of_webhook(&self) -> Option<Problem> {
        let approvals = &self.settings.approvals;
        let [url, secret] =
            ["approvals.webhook_url", "approvals.webhook_secret_file"].map(|path| self.value(path));
        let half = approvals.webhook_url.is_some() != approvals.webhook_secret_file.is_some();
        half.then(|| Problem::Together(format!("{url} and {secret}; set both or neither")))
    }

    fn half_of_a_model(&self) -> Option<Problem> {
        let model = &self.settings.model;
        let missing = match model.provider {
            Provider::None => None,
            Provider::Scripted => model.script.is_none().then_some("model.script"),
            Provider::Anthropic | Provider::OpenAi => model.name.is_none().then_some("model.name"),
        };
        let [provider, missing] = ["model.provider", missing?].map(|path| self.value(path));
        Some(Problem::Together(format!("{provider}, but {missing}; set both")))
    }

    fn limits(&self) -> Option<Problem> {
        let limits = &self.settings.limits;
        match limits.default.clone().checked(&limits.max).err()? {
            // The codecs of the keys reject values that are too small.
            LimitError::TooSmall { limit, .. } | LimitError::TooLarge { limit, .. } => {
                let path = |section| limit_path(section, limit);
                Some(self.more_than(&path("limits.default"), &path("limits.max")))
            }
            LimitError::DiskOverMemory { .. } => {
                let [disk, memory] = [Limit::Disk, Limit::Memory]
                    .map(|limit| self.value(&limit_path("limits.default", limit)));
                let reason = "files are kept in memory, so the first must be less than the second";
                Some(Problem::Together(format!("{disk} and {memory}; {reason}")))
            }
        }
    }
}

/// Returns the key of a limit; keys of times end in their unit.
pub(super) fn limit_path(section: &str, limit: Limit) -> String {
    let unit = match limit.unit() {
        LimitUnit::Milliseconds => "_seconds",
        LimitUnit::Bytes | LimitUnit::Thousandths | LimitUnit::Count => "",
    };
    format!("{section}.{}{unit}", limit.name())
}
