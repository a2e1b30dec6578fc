//! The write-ahead log stays short.

use super::LOG_BYTES_KEPT;
use crate::audit::Finish;
use crate::file::StorePaths;
use crate::random::random;
use crate::testing::{TestData, begin, eventually};
use crate::{Access, Store};

/// Code of 60 kB that cannot be compressed well.
fn code() -> String {
    let digits: Vec<String> =
        (0..940).map(|_| crate::digest::to_hex(&random::<32>().unwrap())).collect();
    format!("# {}", digits.concat())
}

#[test]
fn long_write_ahead_log_is_emptied_while_the_server_runs() {
    let data = TestData::new();
    let store = Store::open(&data.path(), data.options(Access::Server)).unwrap();
    let paths = StorePaths { database: data.path(), patience: std::time::Duration::ZERO };
    let mut longest = 0;
    let mut written = 0;
    for number in 0..600 {
        let begin = begin(&format!("x{number}"), "someone", &code());
        let ticket = store.audit().begin(&begin).wait().unwrap();
        store.audit().finish(ticket, &Finish::new("ok")).wait().unwrap();
        longest = longest.max(paths.log_bytes());
        written += 30_000;
    }
    assert!(written > 2 * LOG_BYTES_KEPT, "the log never had to be emptied");
    assert!(longest > LOG_BYTES_KEPT, "the log was at most {longest} bytes");
    assert!(longest < 4 * LOG_BYTES_KEPT, "the log was {longest} bytes long");
    // The next commits look at it, or the housekeeping of the next minute.
    let is_short = || {
        let ticket = store.audit().note(crate::audit::Note::new("tick")).wait();
        ticket.is_ok() && paths.log_bytes() <= LOG_BYTES_KEPT
    };
    assert!(eventually(is_short), "the log is {} bytes long", paths.log_bytes());
}

/// Readers that overlap: at every moment one of them sees the log as it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn overlapping_reads_do_not_keep_the_write_ahead_log() {
    let data = TestData::new();
    let store = Store::open(&data.path(), data.options(Access::Server)).unwrap();
    let paths = StorePaths { database: data.path(), patience: std::time::Duration::ZERO };
    let reads = (0..4).map(|number| {
        let store = store.clone();
        tokio::spawn(async move {
            tokio::time::sleep(std::time::Duration::from_millis(10 * number)).await;
            loop {
                let read = store.read(|connection| {
                    connection.query_row("SELECT count(*) FROM audit", [], |_| Ok(()))?;
                    std::thread::sleep(std::time::Duration::from_millis(40));
                    Ok(())
                });
                read.await.unwrap();
            }
        })
    });
    let reads: Vec<_> = reads.collect();
    let mut longest = 0;
    for number in 0..800 {
        let begin = begin(&format!("x{number}"), "someone", &code());
        let ticket = store.audit().begin(&begin).await.unwrap();
        store.audit().finish(ticket, &Finish::new("ok")).await.unwrap();
        longest = longest.max(paths.log_bytes());
    }
    assert!(longest > LOG_BYTES_KEPT, "the log was at most {longest} bytes");
    let mut is_short = false;
    for _ in 0..200 {
        store.audit().note(crate::audit::Note::new("tick")).await.unwrap();
        is_short |= paths.log_bytes() <= LOG_BYTES_KEPT;
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(is_short, "the log is {} bytes long", paths.log_bytes());
    for read in reads {
        read.abort();
    }
}
