//! What is said of a body that is wrong.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::parse;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only parsed")]
struct Body {
    files: Vec<File>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only parsed")]
struct File {
    path: String,
}

fn complaint(text: &str) -> String {
    let problem = parse::<Body>(text.as_bytes()).unwrap_err();
    format!("{problem:?}")
}

#[test]
fn complaint_names_the_field() {
    for (body, place) in [
        (r#"{"files": {}}"#, "body: files: invalid type"),
        (r#"{"files": [{"path": "a"}, {"path": 1}]}"#, "body: files[1].path: invalid type"),
        (r#"{"files": [{"path": "a", "x": 1}]}"#, "body: files[0].x: unknown field `x`"),
        (r#"{"files": [], "metadata": {"who": 1}}"#, "body: metadata.who: invalid type"),
        // The whole body has no name.
        ("{}", "body: missing field `files`"),
        ("{", "body: EOF"),
    ] {
        assert!(complaint(body).contains(place), "{body}: {}", complaint(body));
    }
}

#[test]
fn long_names_are_not_repeated() {
    let name = "n".repeat(1000);
    let said = complaint(&format!(r#"{{"files": [], "metadata": {{"{name}": 1}}}}"#));
    assert!(said.contains("body: invalid type") && !said.contains(&name), "{said}");
}
