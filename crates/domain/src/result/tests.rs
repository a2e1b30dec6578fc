//! Which representations are text.

use super::*;

#[test]
fn text_is_distinguished_from_bytes_by_type() {
    let textual = |mime: &str| Payload { mime: mime.into(), data: Vec::new() }.is_textual();
    let text = [
        "text/plain",
        "text/html",
        "image/svg+xml",
        "application/json",
        "application/javascript",
        "application/vnd.plotly.v1+json",
        "made/up",
    ];
    let bytes = [
        "image/png",
        "image/jpeg",
        "application/pdf",
        "application/octet-stream",
        "application/zip",
        "audio/wav",
        "video/mp4",
        "font/woff2",
    ];
    assert!(text.into_iter().all(textual));
    assert!(!bytes.into_iter().any(textual));
}

#[test]
fn all_that_is_held_is_counted() {
    let payload = |data: &[u8]| Payload { mime: "a/b".into(), data: data.into() };
    let payloads = vec![payload(b"123"), payload(b"45")];
    let bundle = Bundle { main: true, payloads, metadata: "{}".into(), display: None };
    assert_eq!(bundle.bytes(), 7);
}
