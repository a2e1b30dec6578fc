//! The oldest messages are dropped first.

use super::{HISTORY_BYTES_MAX, History};
use crate::model::{Message, Part, Reply, Role};

fn reply(text: &str) -> Message {
    let reply =
        Reply { id: "1".to_owned(), text: text.to_owned(), pictures: Vec::new(), failed: false };
    Message { role: Role::User, parts: vec![Part::Reply(reply)] }
}

#[test]
fn whole_exchanges_are_forgotten_and_the_first_that_is_left_is_a_request() {
    let long = "x".repeat(HISTORY_BYTES_MAX / 2);
    let messages = vec![
        Message::user("first"),
        Message::assistant("a call"),
        reply(&long),
        Message::assistant(long.clone()),
        Message::user("second"),
        Message::assistant("short"),
    ];
    let mut history = History { messages, last_output: None };
    history.shorten();
    assert_eq!(history.messages, [Message::user("second"), Message::assistant("short")]);
    history.shorten();
    assert_eq!(history.messages.len(), 2);
}

#[test]
fn one_exchange_that_is_too_long_is_forgotten_whole() {
    let messages = vec![Message::user("x".repeat(HISTORY_BYTES_MAX + 1))];
    let mut history = History { messages, last_output: None };
    history.shorten();
    assert!(history.messages.is_empty());
}
