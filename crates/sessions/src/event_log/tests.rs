//! Numbers, gaps, waiting for readers, and characters cut in two.

use std::sync::Arc;
use std::task::Poll;

use super::{
    EventLog, LOG_BYTES_MAX, LogEvent, LogRead, LogReader, OutputText, SHORT_LOG_BYTES_MAX,
};

fn text(text: &str) -> LogEvent {
    LogEvent::Stdout(OutputText::Utf8(text.into()))
}

/// What can be read now, in short.
fn rest(reader: &mut LogReader) -> Vec<String> {
    let mut all = Vec::new();
    while let Poll::Ready(Some(read)) = reader.try_next() {
        all.push(match read {
            LogRead::Gap(events) => format!("gap {events}"),
            LogRead::Event(id, LogEvent::Stdout(OutputText::Utf8(text))) => format!("{id} {text}"),
            LogRead::Event(id, LogEvent::Done) => format!("{id} done"),
            LogRead::Event(id, _) => format!("{id} other"),
        });
    }
    all
}

#[test]
fn each_reader_begins_where_it_wants() {
    let log = Arc::new(EventLog::default());
    for word in ["a", "b", "c"] {
        log.push(text(word));
    }
    let mut all = log.read(0);
    assert_eq!(rest(&mut all), ["1 a", "2 b", "3 c"]);
    assert_eq!(rest(&mut log.read(2)), ["3 c"]);
    assert_eq!(rest(&mut log.read(99)), Vec::<String>::new());
    log.push(LogEvent::Done);
    assert_eq!(rest(&mut all), ["4 done"]);
    assert!(matches!(all.try_next(), Poll::Ready(None)));
    assert_eq!(rest(&mut log.read(3)), ["4 done"]);
}

#[test]
fn what_was_dropped_is_counted() {
    let log = Arc::new(EventLog::default());
    let chunk = "x".repeat(LOG_BYTES_MAX / 4);
    for _ in 0..10 {
        log.push(text(&chunk));
    }
    log.push(LogEvent::Done);
    let read = rest(&mut log.read(0));
    assert_eq!(read[0], "gap 7");
    assert_eq!(read.len(), 5);
    assert!(log.lock().kept <= LOG_BYTES_MAX);
}

#[test]
fn a_writer_waits_for_a_reader_only() {
    let log = Arc::new(EventLog::default());
    let chunk = "x".repeat(LOG_BYTES_MAX / 4);
    for _ in 0..4 {
        log.push(text(&chunk));
    }
    assert!(log.has_room(), "there is no reader");
    let mut reader = log.read(0);
    assert!(!log.has_room());
    rest(&mut reader);
    assert!(log.has_room());
    for _ in 0..3 {
        log.push(text(&chunk));
    }
    drop(reader);
    assert!(!log.has_room(), "it may come back");
    let mut back = log.read(4);
    let read = rest(&mut back);
    assert_eq!(read.len(), 3, "it missed something: {} events", read.len());
    assert!(log.has_room());
}

#[tokio::test]
async fn reader_wakes_when_there_is_more() {
    let log = Arc::new(EventLog::default());
    let mut reader = log.read(0);
    let waiting = tokio::spawn(async move { reader.next().await });
    tokio::task::yield_now().await;
    log.push(text("late"));
    assert!(matches!(waiting.await.unwrap(), Some(LogRead::Event(1, _))));
}

#[tokio::test]
async fn writer_wakes_when_there_is_room() {
    let log = Arc::new(EventLog::default());
    let mut reader = log.read(0);
    log.push(text(&"x".repeat(LOG_BYTES_MAX)));
    let writer = Arc::clone(&log);
    let waiting = tokio::spawn(std::future::poll_fn(move |context| writer.poll_room(context)));
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    rest(&mut reader);
    waiting.await.unwrap();
}

/// A log for which there is no budget keeps nothing that no client reads.
#[test]
fn a_short_log_without_readers_keeps_nothing() {
    let log = Arc::new(EventLog::default());
    let chunk = "x".repeat(64 * 1024);
    for _ in 0..20 {
        log.push(text(&chunk));
    }
    log.shorten();
    assert_eq!(log.lock().kept, 0);
    for _ in 0..20 {
        log.push(text(&chunk));
    }
    assert_eq!(log.lock().kept, 0);
    log.push(LogEvent::Done);
    assert_eq!(rest(&mut log.read(0)), ["gap 40", "41 done"]);
}

#[test]
fn a_reader_of_a_short_log_misses_nothing_and_holds_little() {
    let log = Arc::new(EventLog::default());
    let mut reader = log.read(0);
    let chunk = "x".repeat(16 * 1024);
    for _ in 0..30 {
        log.push(text(&chunk));
    }
    // What was there when the budget was used up stays until it is read, and the writer waits.
    log.shorten();
    assert!(!log.has_room());
    assert_eq!(rest(&mut reader).len(), 30);
    let mut read = 0;
    for _ in 0..100 {
        while log.has_room() {
            log.push(text(&chunk));
        }
        assert!(log.lock().kept <= SHORT_LOG_BYTES_MAX + chunk.len() + 64, "{}", log.lock().kept);
        let new = rest(&mut reader);
        assert!(new.iter().all(|read| !read.starts_with("gap")), "{new:?}");
        read += new.len();
    }
    assert!(read >= 400, "{read}");
}
