//! When a request is sent again: how often, and after how long.

#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;

use super::ModelError;

/// The first pause; each one after is twice as long.
const PAUSE_FIRST: Duration = Duration::from_millis(500);

/// The longest pause of our own choice.
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// The longest pause that a provider may ask for; for longer ones nobody waits.
pub(super) const RETRY_AFTER_MAX: Duration = Duration::from_mins(1);

/// How long to wait before attempt number `attempt` + 1; `None` to give up.
pub(super) fn pause(error: &ModelError, attempt: u32, retries: u32) -> Option<Duration> {
    if attempt >= retries || !error.is_passing() {
        return None;
    }
    match error.retry_after() {
        Some(asked) => (asked <= RETRY_AFTER_MAX).then_some(asked),
        None => Some(jitter(PAUSE_FIRST.saturating_mul(1 << attempt.min(8)).min(PAUSE_MAX))),
    }
}

/// Between three quarters of a pause and all of it, so that many clients do not come back at once.
fn jitter(pause: Duration) -> Duration {
    let mut byte = [0; 1];
    // Without random bytes all come back at once, which is what this makes rarer, and no more.
    let _ = rustix::rand::getrandom(&mut byte, rustix::rand::GetRandomFlags::empty());
    pause.mul_f64(1.0 - f64::from(byte[0]) / 1024.0)
}

/// What a provider says about when to come back: milliseconds, seconds or a date.
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
