//! Puts the values of secrets into requests, where their placeholders are and the rules allow it.
//!
//! A placeholder that goes anywhere else ends the request: it is a mistake, or a guest that looks
//! for a host that shows it the value.

#[cfg(test)]
mod tests;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use memchr::memmem;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode, utf8_percent_encode};
use silica_domain::DnsName;

use super::refusal::Refusal;
use super::scrub::Needles;
use crate::secret::{BoundSecret, HeaderInjection, SecretPlace};

/// What is encoded in a part of a URL: all but the unreserved characters (RFC 3986, 2.3).
pub(super) const COMPONENT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Where a request goes, and which secrets may go with it.
pub(super) struct Scope<'request> {
    pub(super) secrets: &'request [BoundSecret],
    /// The names of the secrets that the rule allows.
    pub(super) granted: &'request [String],
    /// The host, if the connection is TLS that is verified.
    pub(super) verified: Option<(&'request DnsName, u16)>,
}

impl<'request> Scope<'request> {
    fn allows(&self, secret: &BoundSecret) -> bool {
        self.granted.contains(&secret.name)
            && self.verified.is_some_and(|(name, port)| {
                secret.hosts.iter().any(|host| host.matches(name, port))
            })
    }

    /// Returns the secrets that may go to the host.
    pub(super) fn usable(&self) -> impl Iterator<Item = &'request BoundSecret> {
        self.secrets.iter().filter(|secret| self.allows(secret))
    }

    /// Decides on a placeholder that was found at a place.
    fn check(&self, secret: &BoundSecret, place: SecretPlace) -> Result<(), Refusal> {
        let refuse = |why: String| Err(Refusal::forbidden("secret_not_allowed", why));
        let name = &secret.name;
        if self.verified.is_none() {
            return refuse(format!("the secret {name} goes over TLS that is read here, alone"));
        }
        if !self.allows(secret) {
            return refuse(format!("the secret {name} is not bound to this host by its rule"));
        }
        if !secret.places.contains(&place) {
            return refuse(format!(
                "the secret {name} is not allowed in this part of a request; its places are {:?}",
                secret.places
            ));
        }
        Ok(())
    }
}

/// Puts values into the head of a request. Returns the names of the secrets that were used.
pub(super) fn substitute_head(
    parts: &mut Parts,
    scope: &Scope<'_>,
) -> Result<Vec<String>, Refusal> {
    let mut used = Vec::new();
    inject(parts, scope, &mut used)?;
    let injected: Vec<&str> = scope
        .usable()
        .filter_map(|secret| secret.inject.as_ref())
        .map(HeaderInjection::header)
        .collect();
    for (name, value) in &mut parts.headers {
        if !injected.contains(&name.as_str()) {
            substitute_header(name, value, scope, &mut used)?;
        }
    }
    substitute_uri(parts, scope, &mut used)?;
    used.sort_unstable();
    used.dedup();
    Ok(used)
}

/// Sets headers that need no placeholder, in place of what the guest sent.
fn inject(parts: &mut Parts, scope: &Scope<'_>, used: &mut Vec<String>) -> Result<(), Refusal> {
    for secret in scope.usable() {
        let Some(injection) = &secret.inject else {
            continue;
        };
        let name = HeaderName::try_from(injection.header());
        let value = HeaderValue::try_from(injection.with(&secret.value));
        let (Ok(name), Ok(mut value)) = (name, value) else {
            return Err(Refusal::forbidden("secret_not_allowed", "the header cannot be injected"));
        };
        value.set_sensitive(true);
        parts.headers.insert(name, value);
        used.push(secret.name.clone());
    }
    Ok(())
}

fn substitute_header(
    name: &HeaderName,
    value: &mut HeaderValue,
    scope: &Scope<'_>,
    used: &mut Vec<String>,
) -> Result<(), Refusal> {
    let basic = if name == AUTHORIZATION { basic_credentials(value.as_bytes()) } else { None };
    if let Some(mut credentials) = basic {
        let mut changed = false;
        for secret in scope.secrets {
            if memmem::find(&credentials, secret.placeholder.as_bytes()).is_some() {
                scope.check(secret, SecretPlace::Basic)?;
                credentials = replaced(&credentials, secret, secret.value.reveal());
                used.push(secret.name.clone());
                changed = true;
            }
        }
        if changed {
            *value = sensitive(format!("Basic {}", STANDARD.encode(&credentials)).as_bytes())?;
        }
        return Ok(());
    }
    let mut bytes = value.as_bytes().to_vec();
    let mut changed = false;
    for secret in scope.secrets {
        if memmem::find(&bytes, secret.placeholder.as_bytes()).is_some() {
            scope.check(secret, SecretPlace::Header)?;
            bytes = replaced(&bytes, secret, secret.value.reveal());
            used.push(secret.name.clone());
            changed = true;
        }
    }
    refuse_hidden(value.as_bytes(), scope)?;
    if changed {
        *value = sensitive(&bytes)?;
    }
    Ok(())
}

fn sensitive(bytes: &[u8]) -> Result<HeaderValue, Refusal> {
    let mut value = HeaderValue::from_bytes(bytes)
        .map_err(|_| Refusal::forbidden("secret_not_allowed", "the header cannot carry it"))?;
    // Keeps it out of the far side's and our own index of headers (RFC 7541, 7.1.3).
    value.set_sensitive(true);
    Ok(value)
}

fn basic_credentials(value: &[u8]) -> Option<Vec<u8>> {
    let (scheme, rest) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    STANDARD.decode(rest.trim_ascii()).ok()
}

fn replaced(bytes: &[u8], secret: &BoundSecret, by: &str) -> Vec<u8> {
    let placeholder = secret.placeholder.as_bytes();
    let mut replaced = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = memmem::find(rest, placeholder) {
        replaced.extend_from_slice(&rest[..at]);
        replaced.extend_from_slice(by.as_bytes());
        rest = &rest[at + placeholder.len()..];
    }
    replaced.extend_from_slice(rest);
    replaced
}

/// Refuses placeholders in a form in which they are not replaced.
fn refuse_hidden(bytes: &[u8], scope: &Scope<'_>) -> Result<(), Refusal> {
    let decoded: Vec<u8> = percent_decode(bytes).collect();
    for secret in scope.secrets {
        let placeholder = secret.placeholder.as_bytes();
        let plain = memmem::find(bytes, placeholder).is_some();
        let by_percent = memmem::find(&decoded, placeholder).is_some();
        let encoded = Needles::of_placeholders(std::slice::from_ref(secret))
            .is_some_and(|needles| needles.is_in(bytes));
        if !plain && (by_percent || encoded) {
            let why = format!("the placeholder of the secret {} is encoded", secret.name);
            return Err(Refusal::forbidden("secret_not_allowed", why));
        }
    }
    Ok(())
}

fn substitute_uri(
    parts: &mut Parts,
    scope: &Scope<'_>,
    used: &mut Vec<String>,
) -> Result<(), Refusal> {
    let Some(both) = parts.uri.path_and_query().map(PathAndQuery::as_str) else {
        return Ok(());
    };
    let (path, query) = match both.split_once('?') {
        Some((path, query)) => (path.to_owned(), Some(query.to_owned())),
        None => (both.to_owned(), None),
    };
    let path = substitute_component(&path, SecretPlace::Path, scope, used)?;
    let query = match query {
        Some(query) => {
            format!("?{}", substitute_component(&query, SecretPlace::Query, scope, used)?)
        }
        None => String::new(),
    };
    let changed = format!("{path}{query}");
    if changed != both {
        let mut uri = parts.uri.clone().into_parts();
        let too_long = |_| Refusal::forbidden("secret_not_allowed", "the URL cannot carry it");
        uri.path_and_query = Some(changed.parse().map_err(too_long)?);
        let bad = |_| Refusal::forbidden("secret_not_allowed", "the URL cannot carry it");
        parts.uri = hyper::Uri::from_parts(uri).map_err(bad)?;
    }
    Ok(())
}

fn substitute_component(
    text: &str,
    place: SecretPlace,
    scope: &Scope<'_>,
    used: &mut Vec<String>,
) -> Result<String, Refusal> {
    refuse_hidden(text.as_bytes(), scope)?;
    let mut text = text.to_owned();
    for secret in scope.secrets {
        if text.contains(&secret.placeholder) {
            scope.check(secret, place)?;
            let value = utf8_percent_encode(secret.value.reveal(), COMPONENT).to_string();
            text = text.replace(&secret.placeholder, &value);
            used.push(secret.name.clone());
        }
    }
    Ok(text)
}

/// What a body's type means for a value that is put into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyForm {
    Json,
    Form,
    Text,
}

impl BodyForm {
    /// Returns the form of a body in which values can be put.
    pub(super) fn of(parts: &Parts) -> Option<Self> {
        if parts.headers.contains_key(hyper::header::CONTENT_ENCODING) {
            return None;
        }
        let kind = parts.headers.get(hyper::header::CONTENT_TYPE)?.to_str().ok()?;
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        if kind == "application/json" || kind.ends_with("+json") {
            Some(Self::Json)
        } else if kind == "application/x-www-form-urlencoded" {
            Some(Self::Form)
        } else if kind.starts_with("text/") {
            Some(Self::Text)
        } else {
            None
        }
    }

    fn escaped(self, value: &str) -> String {
        match self {
            Self::Json => json_escaped(value),
            Self::Form => utf8_percent_encode(value, COMPONENT).to_string(),
            Self::Text => value.to_owned(),
        }
    }
}

/// Puts values into a whole body. Returns the body and the names of the secrets that were used.
pub(super) fn substitute_body(
    body: &[u8],
    form: BodyForm,
    scope: &Scope<'_>,
) -> Result<(Vec<u8>, Vec<String>), Refusal> {
    let mut changed = body.to_vec();
    let mut used = Vec::new();
    for secret in scope.secrets {
        if memmem::find(&changed, secret.placeholder.as_bytes()).is_some() {
            scope.check(secret, SecretPlace::Body)?;
            changed = replaced(&changed, secret, &form.escaped(secret.value.reveal()));
            used.push(secret.name.clone());
        }
    }
    if used.is_empty()
        && Needles::of_placeholders(scope.secrets).is_some_and(|needles| needles.is_in(body))
    {
        let why = "the placeholder of a secret is encoded in the body";
        return Err(Refusal::forbidden("secret_not_allowed", why));
    }
    Ok((changed, used))
}

/// Returns a text as the inside of a JSON string.
pub(super) fn json_escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}
