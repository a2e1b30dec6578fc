//! What a server answers before it is ready: it listens at once, and building a template may take
//! minutes.
//!
//! `/healthz` works, `/readyz` says what the start waits for, and every other request waits for a
//! limited time. Tests: `tests/it/server/startup.rs`.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt;

use super::guard::check_source;
use super::json::Answer;
use super::problem::{Code, Problem};
use crate::app::AppOptions;
use crate::facade::native::wire::service::Alive;
use crate::facade::{self, native::Native};
use crate::http::dialect::{Dialect, OwnOrigin};

/// How long a request waits for the server to become ready.
const REQUEST_PATIENCE: Duration = Duration::from_secs(10);

/// The most requests that wait at a time; others are refused at once.
const WAITING_MAX: usize = 64;

/// When a client is asked to try again.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// The start of a server; cheap to clone.
#[derive(Clone, Debug)]
pub struct Startup(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: AppOptions,
    started: Instant,
    doing: Mutex<String>,
    ready: watch::Sender<Option<Router>>,
    waiting: Semaphore,
}

impl Startup {
    /// Begins a start. The options decide which hosts and origins are answered.
    pub fn new(options: AppOptions) -> Self {
        Self(Arc::new(Inner {
            options,
            started: Instant::now(),
            doing: Mutex::new("starting".to_owned()),
            ready: watch::Sender::new(None),
            waiting: Semaphore::new(WAITING_MAX),
        }))
    }

    /// Says what the start is doing now.
    pub fn set_doing(&self, what: impl Into<String>) {
        *self.0.doing.lock().unwrap_or_else(PoisonError::into_inner) = what.into();
    }

    /// Ends the start: from now on this service answers, also the requests that wait.
    pub fn finish(&self, router: Router) {
        self.0.ready.send_replace(Some(router));
    }

    /// Returns the service to listen with.
    pub fn router(&self) -> Router {
        let startup = self.clone();
        Router::new().fallback(move |request: Request| {
            let startup = startup.clone();
            async move { startup.serve(request).await }
        })
    }

    async fn serve(&self, request: Request) -> Response {
        let ready = self.0.ready.borrow().clone();
        let router = match ready {
            Some(router) => router,
            None => match self.wait(&request).await {
                Ok(router) => router,
                Err(response) => return response,
            },
        };
        let response: Result<Response, Infallible> = router.oneshot(request).await;
        match response {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// Answers a request to a server that is not ready, or returns the service once there is one.
    fn wait(&self, request: &Request) -> impl Future<Output = Result<Router, Response>> + Send {
        let dialect = dialect(request);
        let checked = check_source(&self.0.options, request, OwnOrigin::Refused);
        let path = request.uri().path().to_owned();
        let startup = self.clone();
        async move {
            let refuse = |problem: &Problem| dialect.refuse(problem, "");
            checked.map_err(|problem| refuse(&problem))?;
            if path == "/healthz" {
                return Err(Answer(Alive { status: "ok" }).into_response());
            }
            let waited = if path == "/readyz" { None } else { startup.ready().await };
            waited.ok_or_else(|| refuse(&startup.problem()))
        }
    }

    /// Waits for the service for a limited time, in one of a limited number of places.
    async fn ready(&self) -> Option<Router> {
        let _place = self.0.waiting.try_acquire().ok()?;
        let mut ready = self.0.ready.subscribe();
        let waited = ready.wait_for(Option::is_some);
        let waited = tokio::time::timeout(REQUEST_PATIENCE, waited).await;
        waited.ok()?.ok()?.clone()
    }

    fn problem(&self) -> Problem {
        let doing = self.0.doing.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let seconds = self.0.started.elapsed().as_secs();
        let detail = format!("the server has been starting for {seconds} s: {doing}");
        Problem::new(Code::Starting, detail).retry_after(RETRY_AFTER)
    }
}

/// Returns the dialect of the facade that a request is for.
fn dialect(request: &Request) -> Arc<dyn Dialect> {
    let mounted = facade::all(None).into_iter().find(|(mount, _)| mount.takes(request));
    match mounted {
        Some((_, facade)) => facade,
        None => Arc::new(Native),
    }
}
