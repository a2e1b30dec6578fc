//! Many clients do many things to the same sandboxes at once, and nothing is left of it.

use serde_json::{Value, json};

use crate::harness::http::Client;
use crate::harness::server::{TestSandbox, TestServer};
use crate::harness::{TIMEOUT, descendants, descriptors, eventually};

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn descendants(&mut self, most: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// One of the things a client may do. What comes of it depends on what the others do meanwhile, but
/// an error of the server's is never right.
fn act(client: &Client, sandboxes: &[TestSandbox], numbers: &mut Numbers) {
    let sandbox = &sandboxes[numbers.descendants(sandboxes.len() as u64) as usize];
    let (cell, kernel) =
        (format!("c{}", 1 + numbers.descendants(20)), format!("k{}", 1 + numbers.descendants(3)));
    let command = format!("p{}", 1 + numbers.descendants(10));
    let post = |rest: &str, body: Value| client.post(&sandbox.at(rest), &body);
    let answer = match numbers.descendants(20) {
        0 => post("/cells", json!({"code": "print(1)", "kernel": kernel})),
        1 => post(
            "/cells",
            json!({"code": "import time; time.sleep(600)", "background": true, "kernel": kernel}),
        ),
        2 => post("/cells", json!({"code": "import os; os._exit(1)", "kernel": kernel})),
        3 => {
            post("/cells", json!({"code": "open('f', 'w').write('x' * 100000)", "kernel": kernel}))
        }
        4 => post(&format!("/cells/{cell}/interrupt"), json!({})),
        5 => post(&format!("/cells/{cell}/extend"), json!({"seconds": 1})),
        6 => post("/kernels", json!({})),
        7 => post(&format!("/kernels/{kernel}/restart"), json!({})),
        8 => post(&format!("/kernels/{kernel}/interrupt"), json!({})),
        9 if kernel != "k1" => client.delete(&sandbox.at(&format!("/kernels/{kernel}"))),
        10 => post("/commands", json!({"command": "sleep 600", "background": true})),
        11 => post("/commands", json!({"command": "echo $$; cat f"})),
        12 => post(&format!("/commands/{command}/signal"), json!({"signal": 9})),
        13 => client.put(&sandbox.at("/files/content?path=f"), &vec![1; 50_000]),
        14 => client.get(&sandbox.at("/files/content?path=f")),
        15 => client.get(&sandbox.at("/files/archive?path=/workspace")),
        16 => client.delete(&sandbox.at("/files?path=f")),
        17 => client.post("/v1/run", &json!({"code": "print(1)"})),
        18 => {
            // Leaves at once.
            let body = json!({"code": "import time; time.sleep(0.05)"}).to_string();
            let mut connection = client.connect();
            let path = if numbers.descendants(2) == 0 {
                "/v1/run".to_owned()
            } else {
                sandbox.at("/cells")
            };
            connection
                .send(format!("{}{body}", client.head("POST", &path, &[], body.len())).as_bytes())
                .unwrap();
            return;
        }
        _ => client.get(&sandbox.at("/usage")),
    };
    assert!(answer.status < 500, "{} {}", answer.status, answer.text());
}

#[test]
fn storm_leaves_nothing_behind() {
    let server =
        TestServer::with(&["quota.requests_per_second=100000", "quota.request_burst=100000"]);
    server.assert_works();
    let sandboxes: Vec<TestSandbox> = (0..3).map(|_| server.sandbox()).collect();
    let clients: Vec<_> = (0..6)
        .map(|number| {
            let (client, sandboxes) = (server.admin.clone(), sandboxes.clone());
            std::thread::spawn(move || {
                let mut numbers = Numbers(number);
                (0..60).for_each(|_| act(&client, &sandboxes, &mut numbers));
            })
        })
        .collect();
    // Those that sleep keep others waiting: they are interrupted until all are through.
    let all_done = || {
        for sandbox in &sandboxes {
            for kernel in ["k1", "k2", "k3"] {
                sandbox.post(&format!("/kernels/{kernel}/interrupt"), &json!({}));
            }
        }
        clients.iter().all(std::thread::JoinHandle::is_finished)
    };
    assert!(eventually(TIMEOUT, all_done));
    for client in clients {
        client.join().unwrap();
    }
    // Two at once are one.
    for sandbox in &sandboxes {
        let again = sandbox.clone();
        let other = std::thread::spawn(move || again.client.delete(&again.path).status);
        let statuses = [sandbox.client.delete(&sandbox.path).status, other.join().unwrap()];
        assert!(
            statuses.contains(&204) && statuses.iter().all(|status| [204, 409].contains(status)),
            "{statuses:?}"
        );
    }
    let stats = || server.admin.get("/v1/stats").expect(200).json();
    let empty = || {
        let stats = stats();
        [&stats["sandboxes"], &stats["cells_running"], &stats["cells_queued"]]
            .iter()
            .all(|&number| number == 0)
    };
    assert!(eventually(TIMEOUT, empty), "{}", stats());
    let unfinished = || server.admin.get("/v1/audit/verify").json()["unfinished"].clone();
    assert!(eventually(TIMEOUT, || unfinished() == 0), "{}", unfinished());
    let interpreters = || {
        let processes = descendants(server.pid());
        processes.iter().filter(|process| process.name != "silica").count()
    };
    // The zygote and the one that stands ready.
    assert!(eventually(TIMEOUT, || interpreters() == 2), "{:?}", descendants(server.pid()));
    // Those, the launcher, the master, the ready one's init, and what the zone keeps in stock.
    let processes = || descendants(server.pid()).len();
    assert!(eventually(TIMEOUT, || processes() <= 5 + 16), "{:?}", descendants(server.pid()));
    assert!(
        eventually(TIMEOUT, || descriptors(server.pid()).unwrap() < 80),
        "{:?}",
        descriptors(server.pid())
    );
    server.assert_works();
}
