//! Pauses, and what providers say about them.

use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::super::ModelError;
use super::{PAUSE_MAX, RETRY_AFTER_MAX, pause, retry_after};

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).expect("a value"))
    };
    pairs.iter().map(pair).collect()
}

fn busy(retry_after: Option<Duration>) -> ModelError {
    ModelError::Busy {
        status: 429,
        retry_after,
        words: super::super::error::ProviderMessage::default(),
    }
}

#[test]
fn every_form_is_understood_and_nonsense_is_not() {
    let seconds = Duration::from_secs;
    assert_eq!(retry_after(&headers(&[("retry-after", "7")])), Some(seconds(7)));
    let both = headers(&[("retry-after-ms", "1500"), ("retry-after", "9")]);
    assert_eq!(retry_after(&both), Some(Duration::from_millis(1500)));
    let past = headers(&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")]);
    assert_eq!(retry_after(&past), Some(Duration::ZERO));
    let later = httpdate::fmt_http_date(SystemTime::now() + seconds(3600));
    let wait = retry_after(&headers(&[("retry-after", &later)])).expect("a date");
    assert!(wait > seconds(3000) && wait <= seconds(3600), "{wait:?}");
    for nonsense in ["", "-3", "nan", "1e300", "tomorrow"] {
        assert_eq!(retry_after(&headers(&[("retry-after", nonsense)])), None, "{nonsense}");
    }
}

#[test]
fn pauses_grow_and_end() {
    let first = pause(&busy(None), 0, 9).expect("it is tried again");
    assert!(first <= Duration::from_millis(500) && first > Duration::from_millis(370));
    assert!(pause(&busy(None), 8, 9).expect("and again") <= PAUSE_MAX);
    assert_eq!(pause(&busy(None), 9, 9), None);
    assert_eq!(pause(&ModelError::NoKey, 0, 9), None);
}

#[test]
fn what_the_provider_asks_for_is_done_unless_it_is_too_much() {
    assert_eq!(pause(&busy(Some(Duration::from_secs(3))), 0, 2), Some(Duration::from_secs(3)));
    let long = RETRY_AFTER_MAX + Duration::from_secs(1);
    assert_eq!(pause(&busy(Some(long)), 0, 2), None);
}
