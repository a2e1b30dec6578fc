//! Ids as text.

use proptest::prelude::*;

use super::{ExecutionId, KeyId, SandboxId, Tenant};

#[test]
fn made_ids_have_their_own_form_and_differ() {
    let (one, two) = (KeyId::random().unwrap(), KeyId::random().unwrap());
    assert_ne!(one, two);
    assert_eq!(KeyId::parse(one.as_str()), Ok(one.clone()));
    assert_eq!(Tenant::from(&one).as_str(), one.as_str());
    let sandbox = SandboxId::random().unwrap();
    assert!(sandbox.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric()), "{sandbox}");
    assert_eq!(SandboxId::parse(sandbox.as_str()), Ok(sandbox));
    SandboxId::parse("sbx_0123456789abcdefghij").unwrap();
    let execution = ExecutionId::random().unwrap();
    assert_eq!(ExecutionId::parse(execution.as_str()), Ok(execution));
}

#[test]
fn executions_are_in_the_order_of_their_time() {
    let mut made = Vec::new();
    for _ in 0..5 {
        made.push(ExecutionId::random().unwrap());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(made.is_sorted(), "{made:?}");
}

#[test]
fn other_forms_are_refused() {
    for wrong in ["", "key_", "key_0123456789aB", "key_0123456789abc", "sbx_0123456789ab"] {
        assert!(KeyId::parse(wrong).is_err(), "{wrong}");
    }
    for wrong in
        ["sbx", "sbx_0123456789ABCDEFGHIJ", "sbx0123456789abcdefghi/", "sbx-0123456789abcdefghij"]
    {
        assert!(SandboxId::parse(wrong).is_err(), "{wrong}");
    }
    let long = "x".repeat(65);
    for wrong in ["", "a b", "a/b", "ä", "a'b", "a\n", &long] {
        assert!(ExecutionId::parse(wrong).is_err(), "{wrong}");
        assert!(Tenant::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn message_repeats_only_the_head_of_a_wrong_text() {
    let error = Tenant::parse(&"ä".repeat(10_000)).unwrap_err();
    assert!(error.to_string().len() < 300, "{error}");
}

proptest! {
    #[test]
    fn what_is_taken_is_kept_as_it_was(text in ".{0,70}") {
        if let Ok(id) = ExecutionId::parse(&text) {
            prop_assert_eq!(id.as_str(), text);
        }
    }
}
