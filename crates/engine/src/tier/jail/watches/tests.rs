//! How the watches of commands end.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::*;
use crate::command::ended;

fn permit() -> Permit {
    Arc::new(Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap())
}

#[tokio::test]
async fn sandbox_that_was_ended_by_its_owner_ends_its_commands() {
    let mut watches = Watches::default();
    let mut forgotten = watches.add(1, 10, permit());
    let mut died = watches.add(2, 20, permit());
    let mut killed = watches.add(3, 30, permit());
    let mut fine = watches.add(3, 31, permit());
    watches.forget_enclosure(1);
    watches.enclosure_died(2, true);
    watches.exited(30, Exit::Signal(9), 1);
    watches.exited(31, Exit::Status(0), 1);
    let end = |exit, out_of_memory| CommandEnd { exit, out_of_memory };
    assert_eq!(ended(&mut forgotten).await, end(CommandExit::SandboxDied, false));
    assert_eq!(ended(&mut died).await, end(CommandExit::SandboxDied, true));
    assert_eq!(ended(&mut killed).await, end(CommandExit::Signal(9), true));
    assert_eq!(ended(&mut fine).await, end(CommandExit::Status(0), false));
}
