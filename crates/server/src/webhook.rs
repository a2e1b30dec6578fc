//! Posts approvals and decisions on them to the operator's address.
//!
//! Each message is signed: `X-Silica-Signature: t=TIME,v1=HEX`, where HEX is HMAC-SHA256 with the
//! common secret over the time in seconds, a full stop, and the body. The code is not in it: reading
//! it needs a key.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, Mac};
use serde::Serialize;
use sha2::Sha256;
use silica_store::approvals::ApprovalRecord;
use tokio::sync::Semaphore;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::facade::native::wire::approval::ApprovalSummary;

/// How often a message is tried.
const ATTEMPTS_MAX: u32 = 4;
/// The pause after the first attempt; each is four times the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// How long one attempt may take.
const ATTEMPT_PATIENCE: Duration = Duration::from_secs(10);
/// Messages on their way at a time.
const DELIVERIES_MAX: usize = 8;

/// The address, and the secret that signs messages.
#[derive(Clone)]
pub struct WebhookOptions {
    /// The address.
    pub url: String,
    /// What messages are signed with.
    pub secret: Vec<u8>,
}

/// The secret is not for logs.
impl std::fmt::Debug for WebhookOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("WebhookOptions").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Why the address cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the client for the webhook could not be made")]
pub struct WebhookError(#[source] reqwest::Error);

/// Posts every record from `news` until the channel closes.
pub fn start(news: Receiver<ApprovalRecord>, options: WebhookOptions) -> Result<(), WebhookError> {
    // Fails if a provider is installed already, which is this one.
    let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .timeout(ATTEMPT_PATIENCE)
        // What is signed for one address is not for another.
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(WebhookError)?;
    let hook = Arc::new(Webhook { client, options });
    tokio::spawn(run(hook, news));
    Ok(())
}

async fn run(hook: Arc<Webhook>, mut news: Receiver<ApprovalRecord>) {
    let places = Arc::new(Semaphore::new(DELIVERIES_MAX));
    loop {
        let record = match news.recv().await {
            Ok(record) => record,
            Err(RecvError::Lagged(missed)) => {
                tracing::warn!(missed, "the webhook is too slow; messages were left out");
                continue;
            }
            Err(RecvError::Closed) => return,
        };
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let hook = Arc::clone(&hook);
        tokio::spawn(async move {
            hook.deliver(&record).await;
            drop(place);
        });
    }
}

/// What the address receives.
#[derive(Serialize)]
struct Message<'a> {
    event: &'a str,
    approval: ApprovalSummary,
}

struct Webhook {
    client: reqwest::Client,
    options: WebhookOptions,
}

impl Webhook {
    async fn deliver(&self, record: &ApprovalRecord) {
        let event = format!("approval.{}", record.state.name());
        let message = Message { event: &event, approval: record.into() };
        let body = serde_json::to_string(&message).unwrap_or_default();
        let mut pause = FIRST_PAUSE;
        for attempt in 1..=ATTEMPTS_MAX {
            match self.attempt(&body).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(attempt, error, approval = %record.id, "the webhook failed");
                }
            }
            if attempt < ATTEMPTS_MAX {
                tokio::time::sleep(pause).await;
                pause *= 4;
            }
        }
    }

    async fn attempt(&self, body: &str) -> Result<(), String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let sent = self
            .client
            .post(&self.options.url)
            .header("content-type", "application/json")
            .header("x-silica-signature", signature(&self.options.secret, now, body))
            .body(body.to_owned())
            .send()
            .await;
        // The address may hold a secret of its own.
        let response = sent.map_err(|error| error.without_url().to_string())?;
        let status = response.status();
        if status.is_success() { Ok(()) } else { Err(format!("it answered {status}")) }
    }
}

/// The value of the header.
fn signature(secret: &[u8], time: u64, body: &str) -> String {
    use std::fmt::Write as _;
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key of any length will do");
    mac.update(format!("{time}.").as_bytes());
    mac.update(body.as_bytes());
    let mut text = format!("t={time},v1=");
    for byte in mac.finalize().into_bytes() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests;
