//! Large files, full disks, and clients that leave in the middle of either.

use std::io::Read;

use serde_json::json;

use crate::harness::server::{TestSandbox, TestServer};
use crate::harness::{TIMEOUT, eventually, status_of};

const MIB: usize = 1 << 20;

/// What the large file holds: every mebibyte is different, so that a piece out of place shows.
fn piece(number: usize) -> Vec<u8> {
    (0..MIB).map(|index| ((index / 251) ^ number) as u8).collect()
}

/// Memory of a process, in bytes.
fn memory(pid: u32) -> u64 {
    let kilobytes = status_of(pid, "VmRSS");
    kilobytes.split(' ').next().unwrap().parse::<u64>().unwrap() * 1024
}

fn roomy(server: &TestServer) -> TestSandbox {
    let limits = json!({"memory_bytes": 512 * MIB, "disk_bytes": 200 * MIB});
    TestSandbox::new(&server.admin, &json!({"limits": limits}))
}

#[test]
fn large_file_goes_up_and_down_at_constant_memory() {
    const PIECES: usize = 100;
    let server = TestServer::new();
    let sandbox = roomy(&server);
    let path = sandbox.at("/files/content?path=large");
    sandbox.client.put(&path, b"warm").expect(201);
    let before = memory(server.pid());
    let mut most = before;
    let mut connection = sandbox.client.connect();
    let head = sandbox.client.head("PUT", &path, &[], PIECES * MIB);
    connection.send(head.as_bytes()).unwrap();
    for number in 0..PIECES {
        connection.send(&piece(number)).unwrap();
        most = most.max(memory(server.pid()));
    }
    let answer = connection.read_head("PUT").expect(200);
    assert_eq!(answer.status, 200);
    let (answer, mut connection) = sandbox.client.begin("GET", &path, &[], b"");
    assert_eq!(answer.header("content-length"), Some(&*(PIECES * MIB).to_string()));
    let mut buffer = vec![0; MIB];
    for number in 0..PIECES {
        connection.read_exact(&mut buffer).unwrap();
        assert!(buffer == piece(number), "piece {number} is wrong");
        most = most.max(memory(server.pid()));
    }
    assert_eq!(connection.read(&mut buffer).unwrap(), 0);
    // Far less than the file, far more than what is on its way at once.
    assert!(most < before + 40 * MIB as u64, "it grew from {before} to {most}");
}

#[test]
fn body_of_unknown_length_is_taken() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let path = sandbox.at("/files/content?path=f");
    let chunked = [("Transfer-Encoding", "chunked")];
    let body = b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
    sandbox.client.request("PUT", &path, &chunked, body).expect(201);
    assert_eq!(sandbox.client.get(&path).body, b"abcde");
    let wrong = sandbox.client.request("PUT", &path, &chunked, b"zz\r\nabc\r\n0\r\n\r\n");
    assert!((400..500).contains(&wrong.status), "{}", wrong.status);
    assert_eq!(sandbox.client.get(&path).body, b"abcde");
}

/// As curl does with every larger upload.
#[test]
fn client_that_asks_before_it_sends_is_answered() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let (path, expect) = (sandbox.at("/files/content?path=f"), [("Expect", "100-continue")]);
    let mut connection = sandbox.client.connect();
    let head = sandbox.client.head("PUT", &path, &expect, 3);
    connection.send(head.as_bytes()).unwrap();
    assert_eq!(connection.read_head("PUT").status, 100);
    connection.send(b"abc").unwrap();
    assert_eq!(connection.read_head("PUT").status, 201);
    let nobody = sandbox.client.with_key(None);
    let mut connection = nobody.connect();
    connection.send(nobody.head("PUT", &path, &expect, 3).as_bytes()).unwrap();
    assert_eq!(connection.read_head("PUT").status, 401);
}

#[test]
fn full_disk_is_reported_and_leaves_the_old_file() {
    let server = TestServer::new();
    let limits = json!({"disk_bytes": 8 * MIB, "file_bytes": 100 * MIB});
    let sandbox = TestSandbox::new(&server.admin, &json!({"limits": limits}));
    let path = |name: &str| sandbox.at(&format!("/files/content?path={name}"));
    sandbox.client.put(&path("kept"), b"old").expect(201);
    sandbox.client.put(&path("most"), &vec![1; 6 * MIB]).expect(201);
    for _ in 0..3 {
        let full = sandbox.client.put(&path("kept"), &vec![2; 4 * MIB]);
        assert_eq!(full.problem(), (507, "disk_full".to_owned()));
        assert_eq!(sandbox.client.get(&path("kept")).body, b"old");
    }
    // Much more than there is room for: refused while it is still being sent.
    let huge = sandbox.client.put(&path("kept"), &vec![2; 30 * MIB]);
    assert!([413, 507].contains(&huge.problem().0), "{}", huge.text());
    assert_eq!(sandbox.client.get(&path("kept")).body, b"old");
    let archived = sandbox.get("/files/archive?path=/workspace").expect(200).body;
    let unpacked = sandbox.client.put(&sandbox.at("/files/archive?path=again"), &archived);
    assert!([413, 507].contains(&unpacked.problem().0), "{}", unpacked.text());
    sandbox.client.delete(&sandbox.at("/files?path=most")).expect(204);
    // The room of what was refused is free again.
    sandbox.client.delete(&sandbox.at("/files?path=again"));
    sandbox.client.put(&path("kept"), &vec![3; 6 * MIB]).expect(200);
    assert_eq!(sandbox.print("print(len(open('kept', 'rb').read()))"), (6 * MIB).to_string());
}

#[test]
fn client_that_leaves_in_the_middle_changes_nothing() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let path = sandbox.at("/files/content?path=f");
    sandbox.client.put(&path, b"old").expect(201);
    let used = || sandbox.get("/usage").expect(200).json()["now"]["disk_bytes"].as_u64().unwrap();
    let before = used();
    for way in 0..3 {
        let mut connection = sandbox.client.connect();
        let chunked = [("Transfer-Encoding", "chunked")];
        let (headers, sent): (&[_], Vec<u8>) = match way {
            0 => (&[], vec![1; MIB]),
            1 => (&chunked, [b"100000\r\n".as_slice(), &vec![1; MIB], b"\r\n"].concat()),
            _ => (&[], Vec::new()),
        };
        let head = sandbox.client.head("PUT", &path, headers, 4 * MIB);
        connection.send(&[head.as_bytes(), &sent].concat()).unwrap();
        if way == 1 {
            connection.end_sending();
            let answer = connection.try_read_head("PUT");
            assert!(answer.is_err() || answer.is_ok_and(|answer| answer.status == 400));
        }
        drop(connection);
        assert_eq!(sandbox.client.get(&path).expect(200).body, b"old");
    }
    assert!(eventually(TIMEOUT, || used() == before), "{} and not {before}", used());
    // The same with an archive, and in the middle of a download.
    let mut connection = sandbox.client.connect();
    let head = sandbox.client.head("PUT", &sandbox.at("/files/archive?path=d"), &[], 4 * MIB);
    connection.send(&[head.as_bytes(), &[0; 100]].concat()).unwrap();
    drop(connection);
    sandbox.client.put(&path, &vec![1; 20 * MIB]).expect(200);
    for _ in 0..5 {
        let (_, mut connection) = sandbox.client.begin("GET", &path, &[], b"");
        connection.read_exact(&mut [0; 1000]).unwrap();
    }
    sandbox.client.delete(&sandbox.path).expect(204);
    server.assert_works();
}

#[test]
fn file_that_changes_while_it_is_read_ends_the_answer() {
    let server = TestServer::new();
    let sandbox = roomy(&server);
    sandbox.client.put(&sandbox.at("/files/content?path=f"), &vec![1; 20 * MIB]).expect(201);
    let (answer, mut connection) =
        sandbox.client.begin("GET", &sandbox.at("/files/content?path=f"), &[], b"");
    assert_eq!(answer.status, 200);
    connection.read_exact(&mut [0; 1000]).unwrap();
    sandbox.run("import os; os.truncate('f', 10)");
    // Cut short, which the announced length shows; not filled up, and not left hanging.
    assert!(connection.read_body().is_err());
    sandbox.run("open('f', 'wb').write(bytes(1000))");
    let (_, mut connection) =
        sandbox.client.begin("GET", &sandbox.at("/files/content?path=f"), &[], b"");
    sandbox.run("open('f', 'ab').write(bytes(1000))");
    assert_eq!(connection.read_body().unwrap().len(), 1000);
}
