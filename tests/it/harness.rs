//! What the tests share: data directories, runs of the binary, engines, servers, an HTTP client, and
//! a look at the processes of the host.

mod engine;
mod home;
pub(crate) mod http;
mod processes;
mod program;
pub(crate) mod server;
pub(crate) mod upstream;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use silica_engine::jail_host::UseOfHost;

pub(crate) use self::engine::{
    LiveSandbox, TestEngine, assert_works, cell, print, start_engine, start_trusting_engine, text,
};
pub(crate) use self::home::TestHome;
pub(crate) use self::processes::{
    Process, descendants, descriptors, namespace_depth, namespace_ids, processes, processes_with,
    signal, status_of, zombies,
};
pub(crate) use self::program::{
    CommandOutput, collect, finish, first_line, on_terminal, on_terminal_raw, start,
};

/// The binary under test.
pub(crate) const SILICA: &str = env!("CARGO_BIN_EXE_silica");

/// Plain Python.
pub(crate) const PYTHON: &str = "python";
/// Python with the usual libraries.
pub(crate) const SCIENCE: &str = "code-interpreter";

/// Every facility of the host is used.
pub(crate) const EVERYTHING: UseOfHost = UseOfHost { cgroups: true, unique_ids: true };

/// How long a test waits for anything that should take no time; generous, for busy machines.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// How long a killed process and its control group may take to be gone.
pub(crate) const GONE_WITHIN: Duration = Duration::from_secs(5);

/// By how much waiting is prolonged, for emulated machines.
pub(crate) fn slowness() -> u32 {
    std::env::var("SILICA_TEST_SLOWNESS").map_or(1, |times| times.parse().unwrap())
}

/// Polls until `holds` returns true, for at most `timeout`; returns whether it did.
pub(crate) fn eventually(timeout: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + timeout * slowness();
    loop {
        if holds() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// [`eventually`] for tests that share their thread with an engine.
pub(crate) async fn eventually_async(timeout: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + timeout * slowness();
    loop {
        if holds() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A name that nothing else on this machine contains, short enough for a process.
pub(crate) fn unique_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("m{}x{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Python that renames its own process, so that [`processes_with`] finds it.
pub(crate) fn name_process(name: &str) -> String {
    format!("open('/proc/self/comm', 'w').write({name:?});")
}
