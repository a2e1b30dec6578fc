//! Answers of models.

use super::{TEXT_BYTES_MAX, UsageReader};

fn usage(is_stream: bool, answer: &str, piece: usize) -> Option<(u64, u64)> {
    let mut reader = UsageReader::new(is_stream);
    for part in answer.as_bytes().chunks(piece) {
        reader.push(part);
    }
    reader.finish();
    reader.usage()
}

#[test]
fn forms_of_providers_are_read_in_any_pieces() {
    let chat = r#"{"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}"#;
    let responses = r#"{"output": [], "usage": {"input_tokens": 5, "output_tokens": 6}}"#;
    let chat_events = "data: {\"choices\": []}\n\ndata: {\"usage\": {\"prompt_tokens\": 3, \
                       \"completion_tokens\": 4}}\n\ndata: [DONE]\n\n";
    let response_events = "event: response.completed\r\ndata: {\"response\": {\"usage\": \
                           {\"input_tokens\": 5, \"output_tokens\": 6}}}\r\n\r\n";
    let message_events = "data: {\"message\": {\"usage\": {\"input_tokens\": 7, \"output_tokens\": \
                          1}}}\n\ndata: {\"delta\": {}, \"usage\": {\"output_tokens\": 8}}";
    for (is_stream, answer, expected) in [
        (false, chat, (3, 4)),
        (false, responses, (5, 6)),
        (true, chat_events, (3, 4)),
        (true, response_events, (5, 6)),
        (true, message_events, (7, 8)),
    ] {
        for piece in [1, 10, 10_000] {
            assert_eq!(usage(is_stream, answer, piece), Some(expected), "{answer}");
        }
    }
}

#[test]
fn answers_that_do_not_say_have_no_usage() {
    for answer in
        ["", "{}", "not json", r#"{"usage": null}"#, r#"{"usage": {"prompt_tokens": -1}}"#]
    {
        assert_eq!(usage(false, answer, 100), None, "{answer}");
        assert_eq!(usage(true, &format!("data: {answer}\n\n"), 100), None, "{answer}");
    }
}

#[test]
fn long_texts_and_lines_are_not_kept() {
    let long = "x".repeat(TEXT_BYTES_MAX + 1);
    assert_eq!(usage(false, &format!("{long}{{\"usage\": {{}}}}"), 1 << 20), None);
    let behind = format!("data: {long}\n\ndata: {{\"usage\": {{\"output_tokens\": 1}}}}\n\n");
    assert_eq!(usage(true, &behind, 1 << 20), Some((0, 1)));
}
