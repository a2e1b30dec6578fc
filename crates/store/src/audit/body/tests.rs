//! Bodies are limited in length, redacted, and can be parsed again.

use expect_test::expect;
use proptest::prelude::*;
use silica_domain::{Limits, Outcome};

use super::{
    Activity, AuditSettings, Begin, BeginBody, CODE_BYTES_MAX, CodeBody, CodeKept, Finish,
    FinishBody, Note, NoteBody, Output, RecordedFile, RecordedUsage, text,
};
use crate::audit::Redaction;
use crate::{Digest, ExecutionId, Tenant};

fn begin() -> Begin {
    let execution = ExecutionId::parse("x").unwrap();
    Begin::new(execution, Tenant::parse("a").unwrap(), Activity::Cell)
}

#[test]
fn bodies_have_this_form() {
    let settings = AuditSettings::default();
    let mut full = begin();
    full.code = Some("print(1)".to_owned());
    full.check = Some("allowed".to_owned());
    full.limits = Some(Limits::default());
    full.details.insert("client".to_owned(), "e2b".to_owned());
    let mut finish = Finish::from(Outcome::Raised);
    finish.error = Some("ValueError".to_owned());
    finish.output = Some(Output { sha256: Digest::of(""), stdout_bytes: 2, stderr_bytes: 0 });
    let file =
        RecordedFile { path: "/workspace/a".to_owned(), bytes: 3, change: "created".to_owned() };
    finish.files = vec![file];
    finish.usage = Some(RecordedUsage { wall_ms: 1, cpu_ms: Some(1), memory_peak_bytes: None });
    let bodies = [
        text(&BeginBody::new(&full, &settings)),
        text(&BeginBody::new(&begin(), &settings)),
        text(&FinishBody::new(&finish, &settings)),
        text(&FinishBody::new(&Finish::new("ok"), &settings)),
        text(&NoteBody::new(&Note::new("server_started"))),
    ];
    expect![[r#"
        {"activity":"cell","code":{"bytes":8,"sha256":"d287bb7f9d15abdc5b6e98536263815744b6ef21c8f3c839fc434ca70d8efe99","text":"print(1)"},"check":"allowed","limits":{"memory_bytes":536870912,"cpu_ms":30000,"wall_ms":60000,"cpu_millis":1000,"processes":128,"open_files":1024,"disk_bytes":104857600,"file_bytes":104857600,"output_bytes":65536,"results":64,"result_bytes":16777216},"details":{"client":"e2b"}}
        {"activity":"cell"}
        {"outcome":"raised","error":"ValueError","output":{"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","stdout_bytes":2,"stderr_bytes":0},"files":[{"path":"/workspace/a","bytes":3,"change":"created"}],"usage":{"wall_ms":1,"cpu_ms":1,"memory_peak_bytes":null}}
        {"outcome":"ok"}
        {"event":"server_started"}"#]]
    .assert_eq(&bodies.join("\n"));
}

#[test]
fn long_code_is_kept_as_its_head_and_the_digest_of_all() {
    let code = "é".repeat(CODE_BYTES_MAX);
    let kept = CodeBody::new(&code, &AuditSettings::default());
    assert_eq!((kept.bytes, kept.cut), (2 * CODE_BYTES_MAX as u64, true));
    assert_eq!(kept.sha256, Digest::of(&code));
    assert_eq!(kept.text.unwrap().len(), CODE_BYTES_MAX);
    let odd = format!("x{code}");
    assert_eq!(
        CodeBody::new(&odd, &AuditSettings::default()).text.unwrap().len(),
        CODE_BYTES_MAX - 1
    );
    let short = CodeBody::new(&code[..CODE_BYTES_MAX], &AuditSettings::default());
    assert!(!short.cut);
}

#[test]
fn code_can_be_kept_as_a_digest_only() {
    let settings = AuditSettings { code: CodeKept::Digest, ..AuditSettings::default() };
    let kept = CodeBody::new("secret = 1", &settings);
    let expected = CodeBody { bytes: 10, sha256: Digest::of("secret = 1"), text: None, cut: false };
    assert_eq!(kept, expected);
}

#[test]
fn every_text_from_outside_is_redacted_before_it_is_digested() {
    let redaction = Redaction::new(&["hunter[0-9]"]).unwrap();
    let settings = AuditSettings { redaction, ..AuditSettings::default() };
    let secret = "hunter2".to_owned();
    let mut begun = begin();
    begun.code = Some(secret.clone());
    begun.check = Some(secret.clone());
    begun.details.insert("a".to_owned(), secret.clone());
    let mut finish = Finish::new("ok");
    finish.error = Some(secret.clone());
    finish.files =
        vec![RecordedFile { path: secret.clone(), bytes: 0, change: "created".to_owned() }];
    finish.details.insert("a".to_owned(), secret.clone());
    let begun = BeginBody::new(&begun, &settings);
    assert_eq!(begun.code.as_ref().unwrap().sha256, Digest::of("[redacted]"));
    let note = NoteBody::new(&Note::new("x").with("a", &secret).redacted(&settings));
    for body in [text(&begun), text(&FinishBody::new(&finish, &settings)), text(&note)] {
        assert!(body.contains("[redacted]") && !body.contains("hunter"), "{body}");
    }
}

#[test]
fn everything_else_is_bounded_too() {
    let settings = AuditSettings::default();
    let long = "\u{1}".repeat(100_000);
    let mut begun = begin();
    begun.code = Some(long.clone());
    begun.check = Some(long.clone());
    let mut finish = Finish::new(&long);
    finish.error = Some(long.clone());
    let file = RecordedFile { path: long.clone(), bytes: 0, change: long.clone() };
    finish.files = vec![file; 1000];
    for number in 0..1000 {
        begun.details.insert(format!("{number}{long}"), long.clone());
    }
    finish.details.clone_from(&begun.details);
    let ended = FinishBody::new(&finish, &settings);
    assert_eq!((ended.files.len(), ended.files_left_out), (200, 800));
    assert!(ended.error.as_deref().unwrap().ends_with('…'));
    for body in [text(&BeginBody::new(&begun, &settings)), text(&ended)] {
        assert!(body.len() < 2 * 1024 * 1024, "{}", body.len());
    }
}

proptest! {
    #[test]
    fn bodies_are_read_as_they_were_written(code: String, check: Option<String>, name: String) {
        let mut begun = begin();
        begun.code = Some(code);
        begun.check = check;
        begun.details.insert(name.clone(), name.clone());
        let body = BeginBody::new(&begun, &AuditSettings::default());
        prop_assert_eq!(&serde_json::from_str::<BeginBody>(&text(&body)).unwrap(), &body);
        let mut finish = Finish::new(&name);
        finish.error = Some(name);
        let body = FinishBody::new(&finish, &AuditSettings::default());
        prop_assert_eq!(&serde_json::from_str::<FinishBody>(&text(&body)).unwrap(), &body);
    }
}
