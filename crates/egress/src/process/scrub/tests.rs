//! Values that are taken out, however they are divided.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use super::{Needles, Scrubber, Watcher};
use crate::secret::{BoundSecret, SecretValue};

const VALUE: &str = "pass/word+42=\"x\"";

fn secret(value: &str) -> BoundSecret {
    BoundSecret {
        name: "token".to_owned(),
        placeholder: "PLACEHOLDER".to_owned(),
        value: SecretValue::new(value.to_owned()).unwrap(),
        hosts: Vec::new(),
        places: Vec::new(),
        inject: None,
        counts_tokens: false,
    }
}

fn needles() -> Needles {
    Needles::of_values([secret(VALUE)].iter()).unwrap()
}

fn scrub(pieces: &[&[u8]]) -> String {
    let mut scrubber = Scrubber::new(needles());
    let mut passed = Vec::new();
    for piece in pieces {
        passed.extend(scrubber.push(piece));
    }
    passed.extend(scrubber.finish());
    String::from_utf8(passed).unwrap()
}

#[test]
fn value_is_found_at_every_division() {
    let text = format!("before {VALUE} between {VALUE}{VALUE} after");
    let expected = "before PLACEHOLDER between PLACEHOLDERPLACEHOLDER after";
    for at in 0..text.len() {
        let (left, right) = text.as_bytes().split_at(at);
        assert_eq!(scrub(&[left, right]), expected, "{at}");
    }
    let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
    assert_eq!(scrub(&bytes), expected);
}

#[test]
fn encoded_values_are_found() {
    for encoded in [
        "pass%2Fword%2B42%3D%22x%22".to_owned(),
        "pass%2fword%2b42%3d%22x%22".to_owned(),
        r#"pass/word+42=\"x\""#.to_owned(),
        STANDARD.encode(VALUE),
        URL_SAFE.encode(VALUE),
        STANDARD.encode(format!("u:{VALUE}")),
        STANDARD.encode(format!("us:{VALUE}:more")),
        STANDARD.encode(format!("user:{VALUE}!")),
    ] {
        let scrubbed = scrub(&[format!("<{encoded}>").as_bytes()]);
        assert!(scrubbed.contains("PLACEHOLDER"), "{encoded}: {scrubbed}");
        assert!(!scrubbed.contains(&encoded[4..encoded.len() - 4]), "{encoded}: {scrubbed}");
    }
}

#[test]
fn bytes_that_begin_no_value_are_not_held_back() {
    let mut scrubber = Scrubber::new(needles());
    assert_eq!(scrubber.push(b"data: {\"a\": 1}\n\n"), b"data: {\"a\": 1}\n\n");
    assert_eq!(scrubber.push(b"data: pas"), b"data: ");
    assert_eq!(scrubber.push(b"ta"), b"pasta");
    assert_eq!(scrubber.finish(), b"");
}

#[test]
fn text_without_a_value_is_unchanged() {
    let text = "pass/word+42=\"y\" pass/word".repeat(100);
    let pieces: Vec<&[u8]> = text.as_bytes().chunks(7).collect();
    assert_eq!(scrub(&pieces), text);
}

#[test]
fn watcher_finds_divided_placeholders() {
    let needles = Needles::of_placeholders(&[secret(VALUE)]).unwrap();
    for at in 0..11 {
        let mut watcher = Watcher::new(needles.clone());
        let (left, right) = "PLACEHOLDER".split_at(at);
        assert!(!watcher.push(format!("x{left}").as_bytes()));
        assert!(watcher.push(format!("{right}x").as_bytes()), "{at}");
    }
    let mut watcher = Watcher::new(needles);
    assert!(!watcher.push(b"PLACE") && !watcher.push(b"HOLDERS of PLACE HOLDER".get(7..).unwrap()));
}
