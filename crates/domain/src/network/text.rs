//! Rules as short texts, for command lines and lists: `HOST`, `HOST:PORT,PORT`,
//! `HOST:PORT/PROTOCOL`, and the same with a range of addresses in place of the host.

#[cfg(test)]
mod tests;

use std::str::FromStr;

use super::address::Cidr;
use super::error::{NetworkError, excerpt};
use super::rule::{DenyRule, NetworkRule, RuleDraft};

impl FromStr for NetworkRule {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        Self::parse(&draft(text)?)
    }
}

impl FromStr for DenyRule {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        Self::parse(&draft(text)?)
    }
}

/// Splits a text into its target, its ports and its protocol.
fn draft(text: &str) -> Result<RuleDraft, NetworkError> {
    let (target, rest) = split_target(text);
    let mut draft = RuleDraft::default();
    if target.parse::<Cidr>().is_ok() {
        draft.cidr = Some(target.to_owned());
    } else {
        draft.host = Some(target.to_owned());
    }
    let (ports, protocol) = match rest.split_once('/') {
        Some((ports, protocol)) => (ports, Some(protocol)),
        None => (rest, None),
    };
    draft.protocol = protocol.map(str::to_owned);
    if !ports.is_empty() {
        let malformed = |port: &str| NetworkError::Text(excerpt(text), excerpt(port));
        let ports = ports.split(',').map(|port| port.parse().map_err(|_| malformed(port)));
        draft.ports = ports.collect::<Result<_, _>>()?;
    }
    Ok(draft)
}

/// Splits the target from what follows it. A range has a `/` of its own, and one of IPv6 is in
/// brackets.
fn split_target(text: &str) -> (&str, &str) {
    if let Some((target, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (target, rest.strip_prefix(':').unwrap_or(rest));
    }
    if let Some((target, rest)) = text.split_once(':') {
        return (target, rest);
    }
    match text.split_once('/') {
        Some((host, protocol)) if text.parse::<Cidr>().is_err() => {
            (host, &text[text.len() - protocol.len() - 1..])
        }
        _ => (text, ""),
    }
}
