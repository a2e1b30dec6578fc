//! A destination that is not read.

use std::io::Read as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{LINE_BYTES_MAX, LINES_MAX, LineQueue};

const PATIENCE: Duration = Duration::from_secs(10);

/// The reader of the pipe is there and reads nothing, as a stopped `journalctl` or `less` would.
#[test]
fn an_unread_destination_drops_lines_and_holds_up_nothing() {
    static TOLD: AtomicU64 = AtomicU64::new(0);
    let (mut reader, writer) = std::io::pipe().unwrap();
    let queue = LineQueue::to(writer, |lines| {
        TOLD.fetch_add(lines, Ordering::Relaxed);
    })
    .unwrap();
    let line = [&[b'x'; 99][..], b"\n"].concat();
    let total = 4 * LINES_MAX as u64;
    for _ in 0..total {
        queue.add(&line);
    }
    let waiting = queue.dropped.load(Ordering::Relaxed) + TOLD.load(Ordering::Relaxed);
    assert!(waiting > 0, "nothing was dropped");
    // A flush has its bound, too.
    let began = Instant::now();
    queue.flush(began + Duration::from_millis(50));
    assert!(began.elapsed() < PATIENCE);
    // When it is read again everything that was kept arrives, and the rest is told.
    let reading = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).unwrap();
        bytes.len() as u64 / 100
    });
    queue.flush(Instant::now() + PATIENCE);
    drop(queue);
    let kept = reading.join().unwrap();
    assert_eq!(kept + TOLD.load(Ordering::Relaxed), total);
}

#[test]
fn a_long_line_is_cut() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let queue = LineQueue::to(writer, |_| {}).unwrap();
    queue.add(&vec![b'x'; LINE_BYTES_MAX + 1]);
    queue.add(b"next\n");
    drop(queue);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    assert_eq!((first.len(), rest), (LINE_BYTES_MAX, "next\n"));
}
