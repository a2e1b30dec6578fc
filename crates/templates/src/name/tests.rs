//! Which texts are names.

use super::TemplateName;

#[test]
fn accepts_names() {
    for name in ["a", "0", "python", "code-interpreter", "a-", &"x".repeat(40)] {
        assert_eq!(TemplateName::new(name).expect(name).as_str(), name);
    }
}

#[test]
fn refuses_what_could_leave_the_folder() {
    for name in ["", "-a", "A", "a.b", "..", "a/b", "a b", "é", "current\n", &"x".repeat(41)] {
        assert!(TemplateName::new(name).is_err(), "{name:?}");
    }
}
