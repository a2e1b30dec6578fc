//! Tests of the reader of events.

use super::{EventReader, ServerEvent};

#[test]
fn events_are_cut_wherever_the_bytes_are() {
    let text =
        b": hello\n\nid: 1\nevent: stdout\ndata: {\"text\":\"a\"}\n\nevent: done\ndata: {}\n\n";
    for size in 1..text.len() {
        let mut reader = EventReader::default();
        let mut events = Vec::new();
        for chunk in text.chunks(size) {
            reader.push(chunk).unwrap();
            while let Some(ServerEvent { name, .. }) = reader.next_event().unwrap() {
                events.push(name);
            }
        }
        assert_eq!(events, ["stdout", "done"], "{size}");
    }
}
