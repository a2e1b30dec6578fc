//! Tests of values that are copied from text to text.

use serde_json::{Value, json};

use super::*;

fn shown(mime: &str, data: &[u8]) -> String {
    let payload = Payload { mime: mime.to_owned(), data: data.to_vec() };
    serde_json::to_string(&PayloadValue(&payload)).expect("a payload is a JSON value")
}

#[test]
fn json_is_copied_on_one_line() {
    let text = "{\n \"a\" : [1, -2, 3.5, 18446744073709551615, true, null, \"é\\u0000\\n\"],\n\t\"b\": {}}";
    let expected: Value = serde_json::from_str(text).expect("JSON");
    let copied = shown("application/json", text.as_bytes());
    assert_eq!(copied, expected.to_string());
    assert!(!copied.contains('\n'), "a line break would end an event: {copied}");
}

#[test]
fn what_is_not_json_is_a_string() {
    let deep = "[".repeat(1000) + &"]".repeat(1000);
    for text in ["", "{", "1 2", "nan", "[1,]", "{} x", "event: done\n\n", &deep] {
        assert_eq!(shown("application/json", text.as_bytes()), json!(text).to_string());
    }
}

#[test]
fn text_and_bytes_are_strings() {
    assert_eq!(shown("text/plain", "a\n\"€\"".as_bytes()), r#""a\n\"€\"""#);
    assert_eq!(shown("image/png", b"\x89PNG"), r#""iVBORw==""#);
    assert_eq!(shown("text/plain", b"\xff\xfe"), r#""//4=""#, "text that is not UTF-8");
    assert_eq!(LossyText(b"a\xff\xe2\x82b").to_string(), "a\u{fffd}\u{fffd}b");
}
