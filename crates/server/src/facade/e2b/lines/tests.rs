//! Lines are ASCII, and results have the names that E2B's clients know.

use expect_test::{Expect, expect};
use serde_json::json;
use silica_domain::{Bundle, Payload};

use super::{ResultLine, line, output};

fn written<T: serde::Serialize>(value: &T) -> String {
    let mut chunk = Vec::new();
    line(&mut chunk, value).unwrap();
    String::from_utf8(chunk).unwrap()
}

#[test]
fn no_byte_is_above_127_and_nothing_is_lost() {
    let value = json!({"te\u{e4}xt": "a\u{85}\u{2028}\u{1f600}\n\"\\", "list": [1, null, 1.5]});
    let text = written(&value);
    assert!(text.is_ascii(), "{text}");
    assert_eq!(text.matches('\n').count(), 1, "{text}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
}

#[test]
fn output_has_a_moment() {
    let mut chunk = Vec::new();
    output(&mut chunk, "stdout", &silica_sessions::OutputText::Utf8("x\n".into())).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&chunk).unwrap();
    assert_eq!((&value["type"], &value["text"]), (&json!("stdout"), &json!("x\n")));
    assert!(value["timestamp"].as_str().unwrap().ends_with('Z'), "{value}");
}

fn check(main: bool, payloads: &[(&str, &[u8])], expected: &Expect) {
    let payloads = payloads
        .iter()
        .map(|(mime, data)| Payload { mime: (*mime).to_owned(), data: data.to_vec() })
        .collect();
    expected.assert_eq(&written(&ResultLine(&Bundle {
        main,
        payloads,
        metadata: String::new(),
        display: None,
    })));
}

#[test]
fn results_are_told_by_their_kind() {
    let pictures: &[(&str, &[u8])] = &[("text/plain", b"<Figure>"), ("image/png", b"\x89PNG")];
    check(
        false,
        pictures,
        &expect![[r#"
            {"type":"result","text":"<Figure>","png":"iVBORw==","is_main_result":false}
        "#]],
    );
    let table: &[(&str, &[u8])] =
        &[("text/html", b"<b>"), ("application/vnd.silica.data+json", b"{\"a\":[1]}")];
    check(
        true,
        table,
        &expect![[r#"
            {"type":"result","html":"<b>","data":{"a":[1]},"is_main_result":true}
        "#]],
    );
    let others: &[(&str, &[u8])] =
        &[("application/x.own+json", b"[1]"), ("application/json", b"{}")];
    check(
        true,
        others,
        &expect![[r#"
            {"type":"result","json":{},"extra":{"application/x.own+json":[1]},"is_main_result":true}
        "#]],
    );
}

#[test]
fn texts_lose_their_quotes() {
    for (shown, plain) in [("'a'", "a"), ("\"it's\"", "it's"), ("'", "'"), ("'a", "'a"), ("1", "1")]
    {
        let found = super::unquoted(shown);
        assert_eq!(found, json!(plain), "{shown}");
    }
}
