//! Retries of a request: how often, and after what pause.

#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;

use super::ModelError;

/// The first pause; each later one is twice as long as the one before.
const PAUSE_FIRST: Duration = Duration::from_millis(500);

/// The longest pause, unless the provider asks for more.
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// The longest pause that a provider may ask for; a request with a longer one is not retried.
pub(super) const RETRY_AFTER_MAX: Duration = Duration::from_mins(1);

/// Returns the pause before attempt number `attempt` + 1; `None` to give up.
pub(super) fn pause(error: &ModelError, attempt: u32, retries: u32) -> Option<Duration> {
    if attempt >= retries || !error.is_passing() {
        return None;
    }
    match error.retry_after() {
        Some(asked) => (asked <= RETRY_AFTER_MAX).then_some(asked),
        None => Some(jitter(PAUSE_FIRST.saturating_mul(1 << attempt.min(8)).min(PAUSE_MAX))),
    }
}

/// Returns between three quarters of a pause and all of it, so that many clients do not retry at once.
fn jitter(pause: Duration) -> Duration {
    let mut byte = [0; 1];
    // Without random bytes the pause is the whole one, which only makes collisions likelier.
    let _ = rustix::rand::getrandom(&mut byte, rustix::rand::GetRandomFlags::empty());
    pause.mul_f64(1.0 - f64::from(byte[0]) / 1024.0)
}

/// Returns when the provider asks to retry: milliseconds, seconds or a date.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let number = |name: &str| text(name).and_then(|text| text.trim().parse::<f64>().ok());
    let seconds = |number: f64| Duration::try_from_secs_f64(number).ok();
    if let Some(millis) = number("retry-after-ms") {
        return seconds(millis / 1000.0);
    }
    if let Some(number) = number("retry-after") {
        return seconds(number);
    }
    let date = text("retry-after").and_then(|text| httpdate::parse_http_date(text).ok())?;
    // A date that has passed means now.
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}
