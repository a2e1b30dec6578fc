//! Secrets of a key: where each may go, and the operations on them.

use silica_egress::{BoundSecret, HeaderInjection, SecretHost, SecretPlace, SecretValue};
use silica_store::secrets::{
    NewSecret, Put, SECRETS_OF_ONE_MAX, SecretName, SecretRecord, SecretTerms, SecretText,
};
use silica_store::{Tenant, Timestamp};

use crate::error::SessionError;
use crate::sessions::Sessions;

/// The most hosts of one secret.
const HOSTS_MAX: usize = 16;

/// The longest beginning of a placeholder.
const PREFIX_BYTES_MAX: usize = 32;

/// The longest name of an environment variable.
const VARIABLE_BYTES_MAX: usize = 128;

/// What sessions do with the terms of a secret.
pub(super) trait Terms {
    /// Checks every part, so that using the secret later cannot fail.
    fn check(&self) -> Result<(), SessionError>;
    /// Returns the hosts.
    fn checked_hosts(&self) -> Result<Vec<SecretHost>, SessionError>;
    /// Binds a value to these terms under a placeholder.
    fn bind(
        &self,
        name: &str,
        placeholder: String,
        value: &SecretText,
    ) -> Result<BoundSecret, SessionError>;
}

impl Terms for SecretTerms {
    fn check(&self) -> Result<(), SessionError> {
        if self.hosts.is_empty() || self.hosts.len() > HOSTS_MAX {
            return Err(bad(format!("hosts must name 1 to {HOSTS_MAX} hosts")));
        }
        self.checked_hosts()?;
        places(self)?;
        injection(self)?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let is_variable = |name: &String| {
            (1..=VARIABLE_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_name)
        };
        if !self.env.as_ref().is_none_or(is_variable) {
            let words = "env must be the name of a variable: letters, digits and _";
            return Err(bad(words.to_owned()));
        }
        let is_prefix = |prefix: &String| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            prefix.len() <= PREFIX_BYTES_MAX && prefix.bytes().all(allowed)
        };
        if !self.prefix.as_ref().is_none_or(is_prefix) {
            return Err(bad(format!(
                "prefix must have at most {PREFIX_BYTES_MAX} letters, digits, -, _ and ."
            )));
        }
        Ok(())
    }

    fn checked_hosts(&self) -> Result<Vec<SecretHost>, SessionError> {
        self.hosts
            .iter()
            .map(|host| host.parse().map_err(|error| bad(format!("{error}"))))
            .collect()
    }

    fn bind(
        &self,
        name: &str,
        placeholder: String,
        value: &SecretText,
    ) -> Result<BoundSecret, SessionError> {
        let value = SecretValue::new(value.reveal().to_owned());
        Ok(BoundSecret {
            name: name.to_owned(),
            placeholder,
            value: value.map_err(|error| bad(error.to_string()))?,
            hosts: self.checked_hosts()?,
            places: places(self)?,
            inject: injection(self)?,
            counts_tokens: self.counts_tokens,
        })
    }
}

/// A secret that a client stores.
#[derive(Clone, Debug)]
pub struct SecretDraft {
    /// The value.
    pub value: SecretText,
    /// Where it may go.
    pub terms: SecretTerms,
}

/// A secret without its value.
#[derive(Clone, Debug, PartialEq)]
pub struct SecretInfo {
    pub name: String,
    pub terms: SecretTerms,
    /// `None` for a secret that the operator offers.
    pub created_at: Option<Timestamp>,
    pub changed_at: Option<Timestamp>,
}

impl From<SecretRecord> for SecretInfo {
    fn from(record: SecretRecord) -> Self {
        Self {
            name: record.name,
            terms: record.terms,
            created_at: Some(record.created_at),
            changed_at: Some(record.changed_at),
        }
    }
}

impl Sessions {
    /// Stores a secret of a key, or replaces the one of this name; returns whether it is new.
    pub async fn put_secret(
        &self,
        tenant: &Tenant,
        name: &str,
        draft: SecretDraft,
    ) -> Result<(SecretInfo, bool), SessionError> {
        let name = secret_name(name)?;
        draft.terms.check()?;
        // Checks the value, too.
        draft.terms.bind(name.as_str(), String::new(), &draft.value)?;
        let SecretDraft { value, terms } = draft;
        let new = NewSecret { tenant: tenant.clone(), name, value, terms };
        match self.services.store.secrets().put(new).await? {
            Put::Created(record) => Ok((record.into(), true)),
            Put::Replaced(record) => Ok((record.into(), false)),
            Put::TooMany => Err(SessionError::TooManySecrets(SECRETS_OF_ONE_MAX)),
        }
    }

    /// Returns the secrets of a key and those that the operator offers, by name, without values.
    pub async fn secrets(&self, tenant: &Tenant) -> Result<Vec<SecretInfo>, SessionError> {
        let own = self.services.store.secrets().list(tenant).await?;
        let mut secrets: Vec<SecretInfo> = own.into_iter().map(SecretInfo::from).collect();
        for (name, offered) in &self.services.networks.options.secrets {
            // A key's own secret hides the operator's of the same name.
            if !secrets.iter().any(|secret| secret.name == *name) {
                secrets.push(SecretInfo {
                    name: name.clone(),
                    terms: offered.terms.clone(),
                    created_at: None,
                    changed_at: None,
                });
            }
        }
        secrets.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(secrets)
    }

    /// Returns a secret of a key, or one that the operator offers, without its value.
    pub async fn secret(&self, tenant: &Tenant, name: &str) -> Result<SecretInfo, SessionError> {
        let found = self.secrets(tenant).await?.into_iter().find(|secret| secret.name == name);
        found.ok_or_else(|| SessionError::NoSecret(name.to_owned()))
    }

    /// Deletes a secret of a key. Sandboxes that use it keep it until they end.
    pub async fn delete_secret(&self, tenant: &Tenant, name: &str) -> Result<(), SessionError> {
        let missing = || SessionError::NoSecret(name.to_owned());
        let known = SecretName::parse(name).map_err(|_| missing())?;
        let deleted = self.services.store.secrets().delete(tenant, &known).await?;
        if deleted { Ok(()) } else { Err(missing()) }
    }

    /// Returns a secret with its value, for the process that puts it into requests.
    pub(super) async fn open_secret(
        &self,
        tenant: &Tenant,
        name: &str,
    ) -> Result<(SecretTerms, SecretText), SessionError> {
        let missing = || SessionError::NoSecret(name.to_owned());
        let known = SecretName::parse(name).map_err(|_| missing())?;
        if let Some((record, value)) = self.services.store.secrets().open(tenant, &known).await? {
            return Ok((SecretInfo::from(record).terms, value));
        }
        let offered = self.services.networks.options.secrets.get(name).ok_or_else(missing)?;
        Ok((offered.terms.clone(), offered.value.clone()))
    }
}

fn places(terms: &SecretTerms) -> Result<Vec<SecretPlace>, SessionError> {
    if terms.places.is_empty() {
        return Ok(vec![SecretPlace::Header]);
    }
    let parse = |place: &String| place.parse().map_err(|error| bad(format!("{error}")));
    terms.places.iter().map(parse).collect()
}

fn injection(terms: &SecretTerms) -> Result<Option<HeaderInjection>, SessionError> {
    let inject = terms.inject.as_ref();
    let made = inject.map(|(header, value)| HeaderInjection::new(header, value)).transpose();
    made.map_err(|error| bad(error.to_string()))
}

fn secret_name(name: &str) -> Result<SecretName, SessionError> {
    SecretName::parse(name).map_err(|error| bad(error.to_string()))
}

fn bad(words: String) -> SessionError {
    SessionError::BadNetwork(words)
}
