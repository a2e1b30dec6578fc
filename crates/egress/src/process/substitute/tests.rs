//! Values that are put in.

use hyper::Request;

use super::{BodyForm, Scope, substitute_body, substitute_head};
use crate::secret::{BoundSecret, SecretPlace, SecretValue};

const PLACEHOLDER: &str = "silica_secret_token_0123456789abcdef";

fn secret(places: &[SecretPlace]) -> BoundSecret {
    BoundSecret {
        name: "token".to_owned(),
        placeholder: PLACEHOLDER.to_owned(),
        value: SecretValue::new("a b\"c/d&e=f".to_owned()).unwrap(),
        hosts: vec!["api.example.com".parse().unwrap()],
        places: places.to_vec(),
        inject: None,
        counts_tokens: false,
    }
}

#[test]
fn every_condition_is_needed() {
    let secrets = [secret(&[SecretPlace::Header])];
    let granted = ["token".to_owned()];
    let name = "api.example.com".parse().unwrap();
    let other = "evil.example.com".parse().unwrap();
    for (granted, verified, allowed) in [
        (&granted[..], Some((&name, 443)), true),
        (&[], Some((&name, 443)), false),
        (&granted, Some((&other, 443)), false),
        (&granted, Some((&name, 8443)), false),
        (&granted, None, false),
    ] {
        let scope = Scope { secrets: &secrets, granted, verified };
        let request = Request::get("/").header("x-key", PLACEHOLDER).body(()).unwrap();
        let (mut parts, ()) = request.into_parts();
        let used = substitute_head(&mut parts, &scope);
        assert_eq!(used.is_ok(), allowed, "{verified:?}");
        if allowed {
            assert!(parts.headers["x-key"].is_sensitive());
            assert_eq!(parts.headers["x-key"], "a b\"c/d&e=f");
        } else {
            assert_eq!(parts.headers["x-key"], PLACEHOLDER);
        }
    }
}

#[test]
fn bodies_are_escaped_by_their_type() {
    let secrets = [secret(&[SecretPlace::Body])];
    let granted = ["token".to_owned()];
    let name = "api.example.com".parse().unwrap();
    let scope = Scope { secrets: &secrets, granted: &granted, verified: Some((&name, 443)) };
    for (form, expected) in [
        (BodyForm::Json, r#"<a b\"c/d&e=f>"#),
        (BodyForm::Form, "<a%20b%22c%2Fd%26e%3Df>"),
        (BodyForm::Text, r#"<a b"c/d&e=f>"#),
    ] {
        let body = format!("<{PLACEHOLDER}>");
        let (changed, used) = substitute_body(body.as_bytes(), form, &scope).unwrap();
        assert_eq!(String::from_utf8(changed).unwrap(), expected);
        assert_eq!(used, ["token"]);
    }
}

#[test]
fn types_of_bodies() {
    for (kind, form) in [
        ("application/json; charset=utf-8", Some(BodyForm::Json)),
        ("application/vnd.api+json", Some(BodyForm::Json)),
        ("application/x-www-form-urlencoded", Some(BodyForm::Form)),
        ("text/plain", Some(BodyForm::Text)),
        ("multipart/form-data; boundary=x", None),
        ("application/octet-stream", None),
    ] {
        let request = Request::post("/").header("content-type", kind).body(()).unwrap();
        let (mut parts, ()) = request.into_parts();
        assert_eq!(BodyForm::of(&parts), form, "{kind}");
        parts.headers.insert("content-encoding", "gzip".parse().unwrap());
        assert_eq!(BodyForm::of(&parts), None, "{kind}, encoded");
    }
}
