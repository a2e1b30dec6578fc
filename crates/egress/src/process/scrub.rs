//! Takes the values of secrets out of what the far side answers.
//!
//! Found are the value itself and its percent-, JSON- and base64-encoded forms, also where pieces
//! of a stream divide them. A far side that answers with the value reversed or hashed is not
//! found out; [SECURITY.md] says so.

#[cfg(test)]
mod tests;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use hyper::HeaderMap;
use hyper::body::{Body, Frame, Incoming};
use hyper::header::HeaderValue;
use memchr::memmem::Finder;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::http::BodyError;
use super::tokens::TokenCount;
use crate::secret::BoundSecret;

/// The shortest encoded form that is looked for: a shorter one would be found by chance.
const FORM_BYTES_MIN: usize = 8;

/// A form of a value, and what it is replaced by.
struct Needle {
    finder: Finder<'static>,
    replacement: Arc<str>,
}

/// The forms of some values.
#[derive(Clone)]
pub(super) struct Needles(Arc<Vec<Needle>>);

impl Needles {
    /// Looks for the values of secrets, and puts their placeholders in place of them.
    pub(super) fn of_values<'secret>(
        secrets: impl Iterator<Item = &'secret BoundSecret>,
    ) -> Option<Self> {
        let mut needles = Vec::new();
        for secret in secrets {
            let replacement: Arc<str> = secret.placeholder.as_str().into();
            for form in forms(secret.value.reveal()) {
                let finder = Finder::new(&form).into_owned();
                needles.push(Needle { finder, replacement: Arc::clone(&replacement) });
            }
        }
        (!needles.is_empty()).then(|| Self(Arc::new(needles)))
    }

    /// Looks for placeholders.
    pub(super) fn of_placeholders(secrets: &[BoundSecret]) -> Option<Self> {
        let mut needles = Vec::new();
        for secret in secrets {
            for form in forms(&secret.placeholder) {
                let finder = Finder::new(&form).into_owned();
                needles.push(Needle { finder, replacement: "".into() });
            }
        }
        (!needles.is_empty()).then(|| Self(Arc::new(needles)))
    }

    /// Returns the first place of any form, its length and what replaces it.
    fn first(&self, bytes: &[u8]) -> Option<(usize, usize, &str)> {
        let mut first: Option<(usize, usize, &str)> = None;
        for needle in self.0.iter() {
            let length = needle.finder.needle().len();
            // A later needle matters only where it begins before the first one found, or is longer.
            let end = first.map_or(bytes.len(), |(at, _, _)| bytes.len().min(at + length));
            if let Some(at) = needle.finder.find(&bytes[..end]) {
                let better = first
                    .is_none_or(|(best, longest, _)| at < best || at == best && length > longest);
                if better {
                    first = Some((at, length, &needle.replacement));
                }
            }
        }
        first
    }

    pub(super) fn is_in(&self, bytes: &[u8]) -> bool {
        self.first(bytes).is_some()
    }

    /// Returns how many bytes at the end could be the beginning of a form.
    fn begun(&self, bytes: &[u8]) -> usize {
        let begun = |needle: &Needle| {
            let form = needle.finder.needle();
            let from = bytes.len().saturating_sub(form.len() - 1);
            let window = &bytes[from..];
            memchr::memchr_iter(form[0], window)
                .find(|&at| form.starts_with(&window[at..]))
                .map_or(0, |at| window.len() - at)
        };
        self.0.iter().map(begun).max().unwrap_or(0)
    }

    fn scrub_headers(&self, headers: &mut HeaderMap) {
        for value in headers.values_mut() {
            if let Some(scrubbed) = self.scrub(value.as_bytes()) {
                // A placeholder has no byte that a header may not have.
                *value = HeaderValue::from_bytes(&scrubbed)
                    .unwrap_or_else(|_| HeaderValue::from_static("****"));
            }
        }
    }

    fn scrub(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.first(bytes)?;
        let mut scrubber = Scrubber::new(self.clone());
        let mut passed = scrubber.push(bytes);
        passed.extend(scrubber.finish());
        Some(passed)
    }
}

/// Scrubs the headers of an answer.
pub(super) fn scrub_headers(needles: &Needles, headers: &mut HeaderMap) {
    needles.scrub_headers(headers);
}

/// Returns the forms in which a text may come back.
fn forms(text: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![text.as_bytes().to_vec()];
    for set in [NON_ALPHANUMERIC, super::substitute::COMPONENT] {
        let encoded = utf8_percent_encode(text, set).to_string();
        forms.push(with_lower_digits(&encoded));
        forms.push(encoded.into_bytes());
    }
    forms.push(super::substitute::json_escaped(text).into_bytes());
    // Inside a longer text the first byte may fall on each of three places of a group of base64;
    // digits at both ends then depend on the neighbours and are left out.
    for before in 0..3_usize {
        let mut padded = vec![0; before];
        padded.extend(text.as_bytes());
        let skipped = [0, 2, 3][before];
        let whole = padded.len() * 8 / 6;
        for encoded in [STANDARD_NO_PAD.encode(&padded), URL_SAFE_NO_PAD.encode(&padded)] {
            forms.push(encoded.as_bytes()[skipped..whole].to_vec());
        }
    }
    forms.sort_unstable();
    forms.dedup();
    forms.retain(|form| form.len() >= FORM_BYTES_MIN);
    forms
}

/// Writes the digits behind percent signs in lower case, as some programs do.
fn with_lower_digits(encoded: &str) -> Vec<u8> {
    let mut bytes = encoded.as_bytes().to_vec();
    for at in 0..bytes.len() {
        if bytes[at] == b'%' {
            let end = bytes.len().min(at + 3);
            bytes[at..end].make_ascii_lowercase();
        }
    }
    bytes
}

/// Replaces forms in a stream of bytes.
pub(super) struct Scrubber {
    needles: Needles,
    /// The end of what came, which may be the beginning of a form.
    held: Vec<u8>,
}

impl Scrubber {
    pub(super) fn new(needles: Needles) -> Self {
        Self { needles, held: Vec::new() }
    }

    /// Takes bytes in and returns those that can be passed on.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.held);
        buffer.extend_from_slice(bytes);
        let mut passed = Vec::with_capacity(buffer.len());
        let mut rest = buffer.as_slice();
        while let Some((at, length, replacement)) = self.needles.first(rest) {
            passed.extend_from_slice(&rest[..at]);
            passed.extend_from_slice(replacement.as_bytes());
            rest = &rest[at + length..];
        }
        let held = self.needles.begun(rest);
        let (free, held) = rest.split_at(rest.len() - held);
        passed.extend_from_slice(free);
        self.held = held.to_vec();
        passed
    }

    /// Returns what was held back, when no more bytes come.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

/// Tells whether forms are in a stream of bytes.
pub(super) struct Watcher {
    needles: Needles,
    held: Vec<u8>,
}

impl Watcher {
    pub(super) fn new(needles: Needles) -> Self {
        Self { needles, held: Vec::new() }
    }

    /// Takes bytes in; tells whether a form is now whole.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        let mut buffer = std::mem::take(&mut self.held);
        buffer.extend_from_slice(bytes);
        if self.needles.is_in(&buffer) {
            return true;
        }
        let held = self.needles.begun(&buffer);
        self.held = buffer.split_off(buffer.len() - held);
        false
    }
}

/// The body of an answer, scrubbed, with its tokens counted.
pub(super) struct AnswerBody {
    inner: Incoming,
    scrubber: Option<Scrubber>,
    tokens: Option<TokenCount>,
    /// What follows before the inner body is asked again.
    trailers: Option<HeaderMap>,
    ended: bool,
}

impl AnswerBody {
    pub(super) fn new(
        inner: Incoming,
        needles: Option<Needles>,
        tokens: Option<TokenCount>,
    ) -> Self {
        let scrubber = needles.map(Scrubber::new);
        Self { inner, scrubber, tokens, trailers: None, ended: false }
    }

    fn end(&mut self) {
        self.ended = true;
        if let Some(tokens) = self.tokens.take() {
            tokens.finish();
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            if let Some(trailers) = self.trailers.take() {
                return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            let frame = match Pin::new(&mut self.inner).poll_frame(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(frame))) => Some(frame),
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Some(Err(error.into()))),
                Poll::Ready(None) => None,
            };
            let data = match frame.map(Frame::into_data) {
                Some(Ok(data)) => {
                    if let Some(tokens) = &mut self.tokens {
                        tokens.push(&data);
                    }
                    match &mut self.scrubber {
                        Some(scrubber) => scrubber.push(&data).into(),
                        None => data,
                    }
                }
                last @ (Some(Err(_)) | None) => {
                    self.end();
                    if let Some(Err(frame)) = last
                        && let Ok(mut trailers) = frame.into_trailers()
                    {
                        if let Some(scrubber) = &self.scrubber {
                            scrubber.needles.scrub_headers(&mut trailers);
                        }
                        self.trailers = Some(trailers);
                    }
                    self.scrubber.as_mut().map(Scrubber::finish).unwrap_or_default().into()
                }
            };
            if !data.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(data))));
            }
        }
    }
}
