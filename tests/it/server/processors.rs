//! The processors are shared by key, and what cells leave behind has little of them.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::http::Client;
use crate::harness::server::{TestSandbox, TestServer};
use crate::harness::{TIMEOUT, eventually};

/// How many sandboxes the other key fills with work.
const MANY: usize = 40;

/// How often slower than alone the victim may be on two processors that two keys share.
const SLOWDOWN_MAX: f64 = 2.2;

/// Threads that spin after their cell has ended.
const LEAVE_THREADS: &str = "
import threading
def spin():
    while True: pass
for _ in range(4): threading.Thread(target=spin, daemon=True).start()
";

/// A computation on one processor.
const COMPUTE: &str = "
total = 0
for i in range(8_000_000): total += i
";

/// Returns how many times slower than alone a computation of the victim is on two processors. Found
/// by the parts of processor time that it and the others get, since the machine has other work, too.
fn slowdown(victim: &TestSandbox, others: &[TestSandbox]) -> f64 {
    let used = || -> f64 { others.iter().map(cpu_ms).sum() };
    let before = used();
    let cell = victim.run(COMPUTE);
    let theirs = used() - before;
    assert_eq!(cell["outcome"], "ok", "{cell}");
    let own = cell["usage"]["cpu_ms"].as_f64().unwrap();
    let part = own / (own + theirs);
    (1.0 / (2.0 * part)).max(1.0)
}

/// The processor time that a sandbox has used.
fn cpu_ms(sandbox: &TestSandbox) -> f64 {
    sandbox.get("/usage").expect(200).json()["now"]["cpu_ms"].as_f64().unwrap()
}

fn sandboxes(client: &Client) -> Vec<TestSandbox> {
    (0..MANY).map(|_| TestSandbox::new(client, &json!({}))).collect()
}

#[test]
fn threads_left_behind_by_one_key_do_not_slow_down_another() {
    let server = TestServer::new();
    let (attacker, victim) = (server.tenant(), server.tenant());
    let victim = TestSandbox::new(&victim, &json!({}));
    let left = sandboxes(&attacker);
    for sandbox in &left {
        sandbox.run(LEAVE_THREADS);
    }
    let times = slowdown(&victim, &left);
    println!("slowed down {times:.2} times by threads left behind");
    assert!(times <= SLOWDOWN_MAX, "{times}");
}

#[test]
fn cells_of_one_key_share_what_one_cell_of_another_gets() {
    let server = TestServer::new();
    let (attacker, victim) = (server.tenant(), server.tenant());
    let victim = TestSandbox::new(&victim, &json!({}));
    let busy = sandboxes(&attacker);
    // Commands first: the cells take every permit to start one.
    let (commands, cells) = busy.split_at(MANY / 2);
    for sandbox in commands {
        let spin = json!({"command": "while true; do :; done", "background": true});
        sandbox.post("/commands", &spin).expect(202);
    }
    for sandbox in cells {
        sandbox.start(&json!({"code": "while True: pass", "timeout_seconds": 60}));
    }
    let times = slowdown(&victim, &busy);
    println!("slowed down {times:.2} times by running cells and commands");
    assert!(times <= SLOWDOWN_MAX, "{times}");
}

#[test]
fn processor_time_between_cells_is_bounded() {
    let server = TestServer::with(&["limits.default.cpu_seconds=1"]);
    let sandbox = server.sandbox();
    sandbox.run(LEAVE_THREADS);
    let used = || cpu_ms(&sandbox);
    let metric = "\nsilica_sandboxes_throttled 1\n";
    let throttled = || server.admin.get("/metrics").expect(200).text().contains(metric);
    assert!(eventually(TIMEOUT, throttled), "{}", used());
    let before = used();
    let began = Instant::now();
    std::thread::sleep(Duration::from_secs(2));
    let share = (used() - before) / began.elapsed().as_millis() as f64;
    println!("{share:.3} of a processor once {before} ms were used");
    // A fiftieth is allowed.
    assert!(share < 0.1, "{share}");
    // A cell gets what it got before, and so do the threads until they have used that much again.
    assert_eq!(sandbox.print("print(1)"), "1");
    assert!(!throttled());
    let before = used();
    std::thread::sleep(Duration::from_millis(500));
    assert!(used() - before > 100.0, "{} ms", used() - before);
}

/// A process in the sandbox reads what the host must not open. It is not left behind: it answers in time.
#[test]
fn an_idle_sandbox_is_read_while_another_key_computes() {
    let server = TestServer::new();
    let (attacker, victim) = (server.tenant(), server.tenant());
    let idle = TestSandbox::new(&victim, &json!({}));
    idle.run("1");
    let busy: Vec<_> = (0..4).map(|_| TestSandbox::new(&attacker, &json!({}))).collect();
    for sandbox in &busy {
        sandbox.start(&json!({"code": "while True: pass", "timeout_seconds": 60}));
    }
    let weight = || {
        let stats = victim.get("/v1/stats").expect(200).json();
        stats["budgets"]["cpu_weight"]["held"].as_u64().unwrap()
    };
    assert!(eventually(TIMEOUT, || weight() == 1), "{}", weight());
    let began = Instant::now();
    idle.get("/files?path=/usr").expect(200);
    println!("listed in {:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(2), "took {:?}", began.elapsed());
}

#[test]
fn sandboxes_that_become_active_get_their_part_of_the_weight() {
    const RUNNING: usize = 32;
    const WEIGHT_MAX: u64 = 800;
    let server = TestServer::new();
    let client = server.tenant();
    let all: Vec<_> = (0..RUNNING).map(|_| TestSandbox::new(&client, &json!({}))).collect();
    let weight = || {
        let stats = client.get("/v1/stats").expect(200).json();
        stats["budgets"]["cpu_weight"]["held"].as_u64().unwrap()
    };
    assert!(eventually(TIMEOUT, || weight() == RUNNING as u64), "{}", weight());
    let mut most = 0;
    std::thread::scope(|scope| {
        let start = |sandbox: &TestSandbox| {
            sandbox.start(&json!({"code": "import time; time.sleep(2)"}));
        };
        let starts: Vec<_> =
            all.iter().map(|sandbox| scope.spawn(move || start(sandbox))).collect();
        while starts.iter().any(|start| !start.is_finished()) {
            most = most.max(weight());
        }
    });
    println!("at most {most} while {RUNNING} sandboxes became active");
    // The first eight of them are given 100 each, the others their part.
    assert!(most <= 2 * WEIGHT_MAX + WEIGHT_MAX / 2, "{most}");
    let is_divided = || weight() <= WEIGHT_MAX + WEIGHT_MAX / 4;
    assert!(eventually(TIMEOUT, is_divided), "{}", weight());
}

/// Cells that come one after the other do not hide what threads do between them.
#[test]
fn processor_time_between_frequent_cells_is_charged() {
    let server = TestServer::with(&["quota.cpu_seconds_per_minute=3"]);
    let sandbox = TestSandbox::new(&server.tenant(), &json!({}));
    sandbox.run(LEAVE_THREADS);
    let refused = || {
        std::thread::sleep(Duration::from_millis(400));
        sandbox.post("/cells", &json!({"code": "1"})).status == 429
    };
    let patience = Duration::from_secs(15);
    assert!(eventually(patience, refused), "it used {} ms", cpu_ms(&sandbox));
}
