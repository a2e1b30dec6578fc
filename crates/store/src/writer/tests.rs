//! What shares a transaction and what does not.

use std::sync::mpsc::{Sender, channel};

use tokio::task::JoinHandle;

use crate::error::Failure;
use crate::testing::TestData;
use crate::{Store, StoreError, Write};

fn scratch() -> (TestData, Store) {
    let data = TestData::new();
    let store = data.open();
    data.tamper("CREATE TABLE scratch (name TEXT)");
    (data, store)
}

fn insert(store: &Store, name: &'static str, then: Result<(), StoreError>) -> Write<()> {
    store.write(move |connection| {
        connection.execute("INSERT INTO scratch VALUES (?1)", [name])?;
        then.map_err(Failure::from)
    })
}

fn rows(data: &TestData) -> Vec<String> {
    let other = data.raw_connection();
    let mut statement = other.prepare("SELECT name FROM scratch ORDER BY rowid").unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Keeps the writer busy, in a transaction of its own, until the sender is dropped.
async fn hold(store: &Store) -> (JoinHandle<Result<(), StoreError>>, Sender<()>) {
    let (release, released) = channel::<()>();
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let held = store.write(move |_| {
        let _ = begun.send(());
        let _ = released.recv();
        Ok(())
    });
    // A caller that waits on a thread of its own has its job queued.
    let held = tokio::task::spawn_blocking(move || held.wait());
    has_begun.await.unwrap();
    (held, release)
}

/// Has all of them queued: on one thread a task that was spawned runs until it has to wait.
async fn queue(writes: Vec<Write<()>>) -> Vec<JoinHandle<Result<(), StoreError>>> {
    let writes = writes.into_iter().map(|write| tokio::spawn(write.into_future())).collect();
    tokio::task::yield_now().await;
    writes
}

/// Queues all while the writer is held, so that they share a transaction.
async fn together(store: &Store, writes: Vec<Write<()>>) -> Vec<Result<(), StoreError>> {
    let (held, release) = hold(store).await;
    let writes = queue(writes).await;
    drop(release);
    held.await.unwrap().unwrap();
    let mut ends = Vec::new();
    for write in writes {
        ends.push(write.await.unwrap());
    }
    ends
}

#[tokio::test]
async fn failure_of_one_undoes_only_its_own_work() {
    let (data, store) = scratch();
    let writes = vec![
        insert(&store, "first", Ok(())),
        insert(&store, "second", Err(StoreError::Duplicate { id: "second".to_owned() })),
        insert(&store, "third", Ok(())),
    ];
    let ends = together(&store, writes).await;
    assert!(ends[0].is_ok() && ends[2].is_ok(), "{ends:?}");
    assert!(matches!(&ends[1], Err(StoreError::Duplicate { id }) if id == "second"), "{ends:?}");
    assert_eq!(rows(&data), ["first", "third"]);
}

#[tokio::test]
async fn lost_transaction_fails_everybody_in_it_and_nobody_after() {
    let (data, store) = scratch();
    let loses = store.write(|connection| {
        connection.execute_batch("ROLLBACK")?;
        Err(StoreError::Full { path: "x".into() }.into())
    });
    let writes = vec![insert(&store, "first", Ok(())), loses, insert(&store, "third", Ok(()))];
    for end in together(&store, writes).await {
        assert!(matches!(end, Err(StoreError::Full { .. })), "{end:?}");
    }
    assert_eq!(rows(&data), [""; 0]);
    insert(&store, "later", Ok(())).await.unwrap();
    assert_eq!(rows(&data), ["later"]);
}

#[tokio::test]
async fn what_was_queued_is_done_though_nobody_waits() {
    let (data, store) = scratch();
    let (held, release) = hold(&store).await;
    let abandoned = queue(vec![insert(&store, "abandoned", Ok(()))]).await.pop().unwrap();
    abandoned.abort();
    assert!(abandoned.await.unwrap_err().is_cancelled());
    drop(release);
    held.await.unwrap().unwrap();
    insert(&store, "last", Ok(())).await.unwrap();
    assert_eq!(rows(&data), ["abandoned", "last"]);
}

#[test]
fn what_fails_alone_is_undone() {
    let (data, store) = scratch();
    let failed = insert(&store, "x", Err(StoreError::AuditBroken)).wait();
    assert!(matches!(failed, Err(StoreError::AuditBroken)));
    assert_eq!(rows(&data), [""; 0]);
}

#[test]
fn everything_before_a_closing_is_done_and_nothing_after() {
    let (data, store) = scratch();
    insert(&store, "before", Ok(())).wait().unwrap();
    store.close_wait();
    let refused = insert(&store, "after", Ok(())).wait();
    assert!(matches!(refused, Err(StoreError::Closed)), "{refused:?}");
    store.close_wait();
    assert_eq!(rows(&data), ["before"]);
}

#[tokio::test]
async fn what_is_put_aside_shares_the_next_commit() {
    let (data, store) = scratch();
    insert(&store, "aside", Ok(())).put_aside(|error| panic!("{error}"));
    insert(&store, "awaited", Ok(())).await.unwrap();
    assert_eq!(rows(&data), ["aside", "awaited"]);
}

#[tokio::test]
async fn what_is_put_aside_is_written_without_company() {
    let (data, store) = scratch();
    insert(&store, "aside", Ok(())).put_aside(|error| panic!("{error}"));
    while rows(&data).is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    drop(store);
}

#[tokio::test]
async fn what_is_put_aside_is_written_before_the_file_is_closed() {
    let (data, store) = scratch();
    insert(&store, "aside", Ok(())).put_aside(|error| panic!("{error}"));
    store.close().await;
    assert_eq!(rows(&data), ["aside"]);
}

#[tokio::test]
async fn failure_of_a_deferred_write_is_reported_and_harms_no_other() {
    let (data, store) = scratch();
    let (sender, failure) = tokio::sync::oneshot::channel();
    insert(&store, "aside", Err(StoreError::Closed)).put_aside(|error| drop(sender.send(error)));
    insert(&store, "awaited", Ok(())).await.unwrap();
    assert!(matches!(failure.await.unwrap(), StoreError::Closed));
    assert_eq!(rows(&data), ["awaited"]);
}

#[tokio::test]
async fn a_task_that_finds_the_store_free_writes_itself() {
    let (data, store) = scratch();
    insert(&store, "aside", Ok(())).put_aside(|error| panic!("{error}"));
    let thread = std::thread::current().id();
    let (sender, end) = tokio::sync::oneshot::channel();
    let then = move |end| drop(sender.send((end, std::thread::current().id())));
    insert(&store, "in passing", Ok(())).then(then).await.unwrap();
    let (end, by) = end.await.unwrap();
    end.unwrap();
    assert_eq!((by, rows(&data)), (thread, vec!["aside".to_owned(), "in passing".to_owned()]));
    let by = store.write(|_| Ok(std::thread::current().id())).await.unwrap();
    assert_eq!(by, thread);
}

#[tokio::test]
async fn a_task_that_finds_the_store_busy_leaves_it_to_the_thread() {
    let (data, store) = scratch();
    let (held, release) = hold(&store).await;
    let (sender, end) = tokio::sync::oneshot::channel();
    insert(&store, "queued", Ok(())).then(|end| drop(sender.send(end))).await.unwrap();
    drop(release);
    held.await.unwrap().unwrap();
    end.await.unwrap().unwrap();
    assert_eq!(rows(&data), ["queued"]);
}

#[tokio::test]
async fn a_task_that_finds_another_process_writing_leaves_it_to_the_thread() {
    let (data, store) = scratch();
    let other = data.raw_connection();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (sender, end) = tokio::sync::oneshot::channel();
    insert(&store, "queued", Ok(())).then(|end| drop(sender.send(end))).await.unwrap();
    other.execute_batch("ROLLBACK").unwrap();
    end.await.unwrap().unwrap();
    assert_eq!(rows(&data), ["queued"]);
}

#[tokio::test]
async fn waiters_after_the_end_get_the_end() {
    let (_ground, store) = scratch();
    store.close().await;
    let late = insert(&store, "late", Ok(())).then(|_| ()).await;
    assert!(matches!(late, Err(StoreError::Closed)), "{late:?}");
}
