//! Events out of bytes, however they are cut.

use proptest::prelude::*;

use super::super::ModelError;
use super::{EVENT_BYTES_MAX, Event, Parser};

fn all(chunks: &[&[u8]]) -> Result<Vec<(String, String)>, ModelError> {
    let mut parser = Parser::default();
    let mut events = Vec::new();
    for chunk in chunks {
        parser.push(chunk);
        while let Some(Event { name, data }) = parser.next()? {
            events.push((name, data));
        }
    }
    Ok(events)
}

fn pair(name: &str, data: &str) -> (String, String) {
    (name.to_owned(), data.to_owned())
}

#[test]
fn every_kind_of_line_end_and_field_is_understood() {
    let bytes = b": hello\r\nevent: a\r\ndata: 1\r\n\r\ndata:2\ndata: 3\n\nevent: b\rdata:  4\r\rid: 7\nretry: 1\n\nnonsense\n\ndata\n\n";
    let events = all(&[bytes]).expect("they are events");
    assert_eq!(events, [pair("a", "1"), pair("", "2\n3"), pair("b", " 4"), pair("", "")]);
}

#[test]
fn an_event_that_never_ends_is_an_error_and_not_memory() {
    let chunk = vec![b'x'; 64 * 1024];
    let mut parser = Parser::default();
    parser.push(b"data: ");
    let mut pushed = 0;
    let error = loop {
        parser.push(&chunk);
        pushed += chunk.len();
        match parser.next() {
            Ok(None) => assert!(pushed <= 2 * EVENT_BYTES_MAX, "it grows without end"),
            Ok(Some(event)) => panic!("this is no event: {event:?}"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ModelError::TooLong(_)), "{error}");
}

#[test]
fn many_short_lines_of_one_event_are_bounded_too() {
    let line = b"data: xxxxxxxxxxxxxxxxxxxxxxxx\n".repeat(EVENT_BYTES_MAX / 16);
    assert!(matches!(all(&[&line]), Err(ModelError::TooLong(_))));
}

#[test]
fn what_is_no_text_is_refused() {
    assert!(matches!(all(&[b"data: \xff\n\n"]), Err(ModelError::Malformed(_))));
}

proptest! {
    #[test]
    fn where_the_bytes_are_cut_makes_no_difference(
        text in "(data: [a-z\u{e4}]{0,5}|event: [a-z]{0,3}|:|\r|\n|\r\n|x){0,40}",
        cuts in prop::collection::vec(0usize..200, 0..6),
    ) {
        let bytes = text.as_bytes();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        let mut chunks = Vec::new();
        let mut start = 0;
        for cut in cuts {
            chunks.push(&bytes[start..cut]);
            start = cut;
        }
        chunks.push(&bytes[start..]);
        prop_assert_eq!(all(&chunks).expect("text"), all(&[bytes]).expect("text"));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        // Whether they are events is not the question.
        drop(all(&[&bytes]));
    }
}
