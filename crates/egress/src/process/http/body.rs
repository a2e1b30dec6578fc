//! Bodies of requests and answers, and the secrets in them.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, RANGE,
};
use hyper::{Request, Response};
use silica_domain::{Grant, NetworkHost};

use super::headers::{self, Upgrade};
use super::{BodyError, HttpConnection, ProxyBody};
use crate::events::RequestRecord;
use crate::process::refusal::Refusal;
use crate::process::scrub::{self, AnswerBody, Needles, Watcher};
use crate::process::substitute::{BodyForm, Scope, substitute_body, substitute_head};
use crate::process::tokens::TokenCount;
use crate::secret::SecretPlace;

/// The longest body in which secrets are put.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// A request that is fit to be sent.
pub(super) struct Prepared {
    pub(super) request: Request<ProxyBody>,
    pub(super) record: RequestRecord,
    /// What must not come back.
    pub(super) needles: Option<Needles>,
    pub(super) tokens: Option<PendingTokens>,
    pub(super) watch: Watch,
}

/// What is needed to count the tokens of an answer.
pub(super) struct PendingTokens {
    context: Arc<crate::process::sandbox::Sandbox>,
    secret: String,
    request_bytes: u64,
}

/// Whether a placeholder was found in a body that was being sent.
#[derive(Clone, Default)]
pub(super) struct Watch(Arc<AtomicBool>);

impl Watch {
    /// Returns why a request failed.
    pub(super) fn refusal(&self, error: &hyper::Error) -> Refusal {
        if self.0.load(Ordering::Relaxed) {
            let why = "the body has the placeholder of a secret that is not allowed in it";
            return Refusal::forbidden("secret_not_allowed", why);
        }
        Refusal::upstream("http_failed", format!("the far side did not answer: {error}"))
    }
}

pub(super) fn empty() -> ProxyBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// Puts secrets into a request and makes its headers fit for the far side.
pub(super) async fn prepare(
    context: &HttpConnection,
    request: Request<Incoming>,
    grant: &Grant,
    host: &NetworkHost,
    port: u16,
    upgrade: Upgrade,
) -> Result<Prepared, Refusal> {
    let secrets = context.sandbox.secrets();
    let verified = match host {
        NetworkHost::Name(name) if context.secure => Some((name, port)),
        NetworkHost::Name(_) | NetworkHost::Address(_) => None,
    };
    let scope = Scope { secrets: &secrets, granted: &grant.secrets, verified };
    let (mut parts, body) = request.into_parts();
    // Before values come in: a guest may name an injected header in `Connection`.
    headers::clean_request(&mut parts.headers, upgrade);
    let mut record = RequestRecord {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        status: 0,
        secrets: substitute_head(&mut parts, &scope)?,
    };
    let needles = Needles::of_values(scope.usable());
    if needles.is_some() {
        // An encoded answer cannot be searched, and parts of a value are not found.
        parts.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        parts.headers.remove(RANGE);
        parts.headers.remove(hyper::header::IF_RANGE);
    }
    let in_body = scope.usable().any(|secret| secret.places.contains(&SecretPlace::Body));
    let watch = Watch::default();
    let form = BodyForm::of(&parts).filter(|_| in_body);
    let body = match form {
        Some(form) => {
            let (body, used) = whole(body, form, &scope).await?;
            record.secrets.extend(used);
            parts.headers.remove(CONTENT_LENGTH);
            Full::new(body).map_err(|never| match never {}).boxed_unsync()
        }
        None => watched(body, Needles::of_placeholders(&secrets), &watch),
    };
    let request_bytes = body.size_hint().lower();
    let counted = scope.usable().find(|secret| secret.counts_tokens);
    let tokens = counted.map(|secret| PendingTokens {
        context: Arc::clone(&context.sandbox),
        secret: secret.name.clone(),
        request_bytes,
    });
    record.secrets.sort_unstable();
    record.secrets.dedup();
    Ok(Prepared { request: Request::from_parts(parts, body), record, needles, tokens, watch })
}

/// Reads a whole body and puts secrets into it.
async fn whole(
    body: Incoming,
    form: BodyForm,
    scope: &Scope<'_>,
) -> Result<(Bytes, Vec<String>), Refusal> {
    let collected = Limited::new(body, BODY_BYTES_MAX).collect().await;
    let bytes = collected.map_err(|error| {
        if error.is::<http_body_util::LengthLimitError>() {
            Refusal::too_large("secrets are put into bodies of at most 1 MiB")
        } else {
            Refusal::bad_request("the body ended early")
        }
    })?;
    let (changed, used) = substitute_body(&bytes.to_bytes(), form, scope)?;
    Ok((changed.into(), used))
}

fn watched(body: Incoming, placeholders: Option<Needles>, watch: &Watch) -> ProxyBody {
    match placeholders {
        Some(needles) => {
            let watcher = Watcher::new(needles);
            WatchedBody { inner: body, watcher, watch: watch.clone() }.boxed_unsync()
        }
        None => body.map_err(Into::into).boxed_unsync(),
    }
}

/// A body that ends with an error when a placeholder is in it.
struct WatchedBody {
    inner: Incoming,
    watcher: Watcher,
    watch: Watch,
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        let found = match &polled {
            Poll::Ready(Some(Ok(frame))) => match (frame.data_ref(), frame.trailers_ref()) {
                (Some(data), _) => self.watcher.push(data),
                (None, Some(trailers)) => {
                    trailers.values().any(|value| self.watcher.push(value.as_bytes()))
                }
                (None, None) => false,
            },
            Poll::Ready(Some(Err(_)) | None) | Poll::Pending => false,
        };
        if found {
            self.watch.0.store(true, Ordering::Relaxed);
            return Poll::Ready(Some(Err("a placeholder is in the body".into())));
        }
        polled.map(|frame| frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Makes an answer fit for the guest.
pub(super) fn finish(
    response: Response<Incoming>,
    needles: Option<Needles>,
    tokens: Option<PendingTokens>,
) -> Result<Response<ProxyBody>, Refusal> {
    let (mut parts, body) = response.into_parts();
    if let Some(needles) = &needles {
        let encoding = parts.headers.get(CONTENT_ENCODING);
        if encoding.is_some_and(|encoding| encoding != "identity") {
            let why = "the far side encoded its answer although it was asked not to";
            return Err(Refusal::upstream("answer_encoded", why));
        }
        scrub::scrub_headers(needles, &mut parts.headers);
        if !body.is_end_stream() {
            // The length changes where a value is replaced.
            parts.headers.remove(CONTENT_LENGTH);
        }
    }
    let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_stream = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
    let succeeded = parts.status.is_success();
    let tokens = tokens.filter(|_| succeeded).map(|pending| {
        TokenCount::new(&pending.context, pending.secret, pending.request_bytes, is_stream)
    });
    if needles.is_none() && tokens.is_none() {
        return Ok(Response::from_parts(parts, body.map_err(Into::into).boxed_unsync()));
    }
    let body = AnswerBody::new(body, needles, tokens);
    Ok(Response::from_parts(parts, body.boxed_unsync()))
}
