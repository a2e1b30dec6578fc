//! One request and its response.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::uri::PathAndQuery;
use axum::http::{Method, Request, StatusCode, Uri, Version, header, request, response};
use axum::response::Response;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::SendRequest;

use super::body::WatchedBody;
use super::headers::{self, Upgrade};
use super::kept::KeptConnections;
use super::tunnel::Tunnel;
use super::{Foreign, Form, PortRequest, Shown, Target};
use crate::http::connection::Connection;
use crate::http::dialect::Complete;
use crate::http::problem::{Code, Problem};

/// How long a server in a sandbox may take until the head of its response is complete.
const HEAD_PATIENCE: Duration = Duration::from_mins(5);

/// What comes back on one connection, which can be used again once the response was read.
type Answered = (Response<Incoming>, SendRequest<Body>);

/// Passes a request on and the response back.
pub(crate) async fn forward(
    kept: &Arc<KeptConnections>,
    asked: PortRequest,
) -> Result<Response, Problem> {
    let PortRequest { target, form, shown, path, mut request } = asked;
    if matches!(*request.method(), Method::CONNECT | Method::TRACE) {
        let words = "CONNECT and TRACE are not passed on to servers in a sandbox";
        return Err(Problem::new(Code::MethodNotAllowed, words));
    }
    let upgrade = headers::upgrade(&request);
    let client = upgrade.map(|upgrade| (upgrade, hyper::upgrade::on(&mut request)));
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    let working = target.session.use_port();
    let is_head = request.method() == Method::HEAD;
    let inner = inner_request(&target, &form, shown, path, upgrade, request);
    let sent = tokio::select! {
        biased;
        () = target.session.ended() => return Err(broken(target.port, "the sandbox has ended")),
        sent = tokio::time::timeout(HEAD_PATIENCE, send(kept, &target, inner)) => sent,
    };
    let (mut response, sender) = sent.map_err(|_| slow(target.port))??;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let Some((upgrade, client)) = client.filter(|(upgrade, _)| upgrade.is_in(&response)) else {
            return Err(broken(target.port, "it changes the protocol without being asked to"));
        };
        let server = hyper::upgrade::on(&mut response);
        let (parts, _) = response.into_parts();
        let head = outer_head(&parts, &form, &target, Some(upgrade), is_head);
        let session = Arc::clone(&target.session);
        Tunnel { session, working, connection }.start(client, server);
        return Ok(Response::from_parts(head, Body::empty()));
    }
    let (parts, body) = response.into_parts();
    let head = outer_head(&parts, &form, &target, None, is_head);
    let body = WatchedBody::new(body, &target.session).holding(working);
    let body = body.returning(sender, kept, &target);
    Ok(Response::from_parts(head, Body::new(body)))
}

/// Builds the request that the server in the sandbox sees.
fn inner_request(
    target: &Target,
    form: &Form,
    shown: Shown,
    path: PathAndQuery,
    upgrade: Option<Upgrade>,
    request: axum::extract::Request,
) -> Request<Body> {
    let (parts, body) = request.into_parts();
    let mut inner = Request::new(Body::new(WatchedBody::new(body, &target.session)));
    *inner.headers_mut() = headers::inner(&parts, form, shown, target.port, upgrade);
    let request::Parts { method, .. } = parts;
    *inner.method_mut() = method;
    *inner.uri_mut() = Uri::from(path);
    *inner.version_mut() = Version::HTTP_11;
    inner
}

/// Sends a request on a connection that was kept, or on a new one.
async fn send(
    kept: &KeptConnections,
    target: &Target,
    mut request: Request<Body>,
) -> Result<Answered, Problem> {
    target.session.note_traffic()?;
    if !target.session.exposure().contains(target.port) {
        return Err(silica_sessions::SessionError::PortNotExposed(target.port).into());
    }
    // Ends at the latest when no connection is kept any more.
    while let Some(mut sender) = kept.take(target) {
        let again = repeatable(&request);
        match sender.try_send_request(request).await {
            Ok(response) => return Ok((response, sender)),
            // The server may close a connection at any time while it is not used.
            Err(mut error) => match error.take_message().or(again) {
                Some(unsent) => request = unsent,
                None => return Err(unanswered(target.port, &error.into_error())),
            },
        }
    }
    let mut sender = kept.connect(target).await?;
    match sender.try_send_request(request).await {
        Ok(response) => Ok((response, sender)),
        Err(error) => Err(unanswered(target.port, &error.into_error())),
    }
}

/// Returns a copy of a request that may be made twice: one that changes nothing and has no body.
fn repeatable(request: &Request<Body>) -> Option<Request<Body>> {
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    (is_safe && request.body().is_end_stream()).then(|| {
        let mut again = Request::new(Body::empty());
        *again.method_mut() = request.method().clone();
        *again.uri_mut() = request.uri().clone();
        *again.version_mut() = request.version();
        *again.headers_mut() = request.headers().clone();
        again
    })
}

/// Builds the head of the response that the client sees.
fn outer_head(
    parts: &response::Parts,
    form: &Form,
    target: &Target,
    upgrade: Option<Upgrade>,
    is_head: bool,
) -> response::Parts {
    let mut head = Response::new(()).into_parts().0;
    head.status = parts.status;
    head.headers = headers::outer(&parts.headers, form, target.port, upgrade);
    if is_head && let Some(length) = parts.headers.get(header::CONTENT_LENGTH) {
        head.headers.insert(header::CONTENT_LENGTH, length.clone());
    }
    // The guard renders errors of this server, and this is none.
    head.extensions.insert(Complete);
    if *form == Form::Host {
        head.extensions.insert(Foreign);
    }
    head
}

fn unanswered(port: u16, error: &hyper::Error) -> Problem {
    let words = if error.is_parse_too_large() {
        "the head of its response is too large"
    } else if error.is_parse() {
        "its response is not HTTP/1.1"
    } else {
        "it closed the connection without a response"
    };
    broken(port, words)
}

fn broken(port: u16, words: &str) -> Problem {
    Problem::new(Code::PortFailed, format!("the server on port {port} gave no response: {words}"))
}

fn slow(port: u16) -> Problem {
    let seconds = HEAD_PATIENCE.as_secs();
    let words = format!("the server on port {port} did not respond within {seconds} seconds");
    Problem::new(Code::PortSlow, words)
}
