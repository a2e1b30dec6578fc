//! Giving a session its network, and changing it while it runs.

use std::sync::Arc;

use silica_domain::{
    DnsName, EffectivePolicy, Enforcement, NetworkApproval, NetworkHost, NetworkMode,
    NetworkVerdict,
};
use silica_egress::{AttachSpec, ConnectionRecord, EgressError};

use super::request::{NetworkRequest, NetworkTerms};
use super::sockets::SessionSockets;
use super::state::NetworkInfo;
use crate::error::SessionError;
use crate::session::Session;
use crate::sessions::Sessions;

impl Sessions {
    /// Gives a new session its network.
    pub(crate) async fn connect_network(&self, session: &Arc<Session>) -> Result<(), SessionError> {
        let _changing = session.network.changing.lock().await;
        if let Some(terms) = session.network.terms() {
            let granted = self.granted(session, &terms).await?;
            session.network.set_terms(terms, granted);
        }
        self.attach(session).await
    }

    /// Replaces the network of a session. Connections that the new rules do not allow are closed when
    /// this returns. Processes that run keep their variables.
    pub async fn set_network(
        &self,
        session: &Arc<Session>,
        request: &NetworkRequest,
    ) -> Result<(), SessionError> {
        session.touch()?;
        let _changing = session.network.changing.lock().await;
        let placeholders = session.network.placeholders();
        let terms = self.network_terms(session.tenant(), request, &placeholders).await?;
        let granted = self.granted(session, &terms).await?;
        let secrets = terms.secrets.clone();
        let has_egress = terms.has_egress();
        session.network.set_terms(Arc::new(terms), granted);
        let Some(attachment) = session.network.attachment() else {
            return self.attach(session).await;
        };
        if !has_egress {
            session.network.set_attachment(None);
            report(session, NetworkMode::None);
        }
        if let Some(policy) = session.network.effective() {
            let prefixes = session.network.prefixes();
            if !prefixes.is_empty() {
                session.sandbox.open_sockets(&[], &prefixes).await?;
            }
            attachment.update_secrets(secrets).await?;
            attachment.update(policy).await?;
        }
        Ok(())
    }

    /// Starts to carry the bytes of a session whose terms are set.
    async fn attach(&self, session: &Arc<Session>) -> Result<(), SessionError> {
        let networks = &self.services.networks;
        let (Some(terms), Some(policy), Some(egress)) =
            (session.network.terms(), session.network.effective(), &networks.egress)
        else {
            return Ok(());
        };
        if !terms.has_egress() {
            return Ok(());
        }
        networks.events.insert(session);
        let spec = AttachSpec {
            sandbox: session.id().to_string(),
            key: session.tenant().to_string(),
            policy,
            secrets: terms.secrets.clone(),
            limits: terms.limits.clone(),
        };
        let sockets = Arc::new(SessionSockets(Arc::downgrade(session)));
        let attachment = egress.attach(spec, sockets).await?;
        session.network.set_attachment(Some(Arc::new(attachment)));
        // The session may have ended meanwhile, when there was nothing to take away yet.
        if session.end_reason().is_some() {
            session.network.close();
        }
        report(session, terms.policy.mode());
        Ok(())
    }

    /// Returns what people have allowed to the key of a session before.
    async fn granted(
        &self,
        session: &Session,
        terms: &NetworkTerms,
    ) -> Result<Vec<NetworkApproval>, SessionError> {
        if !terms.policy.ask() {
            return Ok(Vec::new());
        }
        let grants = self.services.store.approvals().grants(session.tenant()).await?;
        let approval = |host: &str, port| {
            host.parse::<DnsName>().ok().map(|name| NetworkApproval { name, port })
        };
        Ok(grants.iter().filter_map(|grant| approval(&grant.host, grant.port)).collect())
    }
}

impl Session {
    /// Returns its network; `None` if it has none.
    pub async fn network_info(&self) -> Option<NetworkInfo> {
        self.network.info().await
    }

    /// Decides on a connection or, with a method, on a request, and opens nothing.
    pub fn check_network(
        &self,
        host: &NetworkHost,
        port: u16,
        request: Option<(&str, &str)>,
    ) -> NetworkVerdict {
        // Without layers nothing is allowed.
        let none = || EffectivePolicy::new(Vec::new(), Vec::new());
        let policy = self.network.effective().unwrap_or_else(none);
        match request {
            Some((method, path)) => policy.decide_request(host, port, method, path),
            None => policy.decide_connection(host, port),
        }
    }

    /// Returns its open connections and the last ones that ended.
    pub async fn connections(&self) -> Result<Vec<ConnectionRecord>, SessionError> {
        match self.network.attachment() {
            Some(attachment) => Ok(attachment.connections().await?),
            None => Ok(Vec::new()),
        }
    }
}

/// Says in the containment report what the network of a session is.
fn report(session: &Session, mode: NetworkMode) {
    let words = match mode {
        NetworkMode::None => "loopback only; connections from outside to exposed ports",
        NetworkMode::List => "loopback, and hosts that its rules allow, through a proxy",
        NetworkMode::Open => "loopback, and public hosts on ports 80 and 443, through a proxy",
    };
    session.sandbox.report_network(Enforcement::Full(words.to_owned()));
}

impl From<EgressError> for SessionError {
    fn from(error: EgressError) -> Self {
        Self::Egress(error)
    }
}
