//! Networks of sandboxes: what is allowed, refused, changed, asked about and recorded.

use rustix::process::Signal;
use serde_json::{Value, json};
use silica_store::{Access, DATABASE_NAME, Store, StoreOptions};

use crate::harness::http::{Client, Response};
use crate::harness::server::{TestSandbox, TestServer};
use crate::harness::upstream::{NAME, OTHER, Upstream};
use crate::harness::{TIMEOUT, descendants, eventually, processes_with, signal};

/// The notes of the audit log about one event.
fn notes(server: &TestServer, event: &str) -> Vec<Value> {
    let path = server.home().path().join(DATABASE_NAME);
    let store = Store::open(&path, StoreOptions::new(Access::ReadOnly)).unwrap();
    let records = store.audit().tail(1000).wait().unwrap();
    let bodies = records.iter().map(|record| serde_json::from_str(&record.body).unwrap());
    bodies.filter(|body: &Value| body["event"] == event).collect()
}

/// Code that fetches an address and prints the answer or the error.
fn fetch(url: &str) -> String {
    format!(
        "import urllib.request, urllib.error\n\
         try:\n print(urllib.request.urlopen({url:?}, timeout=10).read().decode())\n\
         except urllib.error.HTTPError as error:\n print(error.code, error.headers.get('x-silica-egress'), error.read().decode())\n\
         except OSError as error:\n print(type(error).__name__, error)\n"
    )
}

/// Code without the variables that name a proxy.
fn directly(code: &str) -> String {
    let clear = "import os\nfor name in list(os.environ):\n if 'proxy' in name.lower(): del os.environ[name]\n";
    format!("{clear}{code}")
}

#[test]
fn a_sandbox_reaches_what_its_rules_allow_and_nothing_else() {
    let upstream = Upstream::start();
    let (tls, plain) = (upstream.tls_port, upstream.plain_port);
    let server = upstream.serve("list", "");
    let rules = json!([format!("{NAME}:{tls}/tls"), format!("{NAME}:{plain}/http")]);
    let sandbox = TestSandbox::new(&server.admin, &json!({"network": {"allow": rules}}));
    // Through the proxy that the variables name, and without them.
    for code in [
        fetch(&format!("https://{NAME}:{tls}/one")),
        directly(&fetch(&format!("https://{NAME}:{tls}/two"))),
        directly(&fetch(&format!("http://{NAME}:{plain}/three"))),
    ] {
        let cell = sandbox.run(&code);
        assert!(cell["stdout"].as_str().unwrap().contains(NAME), "{cell}");
        assert_eq!(cell["network"]["connections"], 1, "{cell}");
        assert_eq!(cell["network"]["denied"], json!([]), "{cell}");
    }
    let paths: Vec<Value> = upstream.seen().iter().map(|seen| seen["path"].clone()).collect();
    assert_eq!(paths, ["/one", "/two", "/three"]);
    // A name, an address and a port that no rule names.
    let look_up = "import socket\ntry: socket.getaddrinfo('other.far.example', 443)\nexcept OSError as error: print(error)";
    let cell = sandbox.run(look_up);
    assert!(cell["stdout"].as_str().unwrap().contains("not known"), "{cell}");
    assert_eq!(cell["network"]["denied"][0]["host"], OTHER, "{cell}");
    assert_eq!(cell["network"]["denied"][0]["code"], "host_not_allowed", "{cell}");
    let connect = |address: &str, port: u16| {
        sandbox.print(&format!(
            "import socket\ntry: socket.create_connection(({address:?}, {port}), 5)\nexcept OSError as error: print(error)"
        ))
    };
    assert!(connect("1.1.1.1", 443).contains("unreachable"));
    assert!(connect("169.254.169.254", 80).contains("unreachable"));
    assert!(connect(NAME, 9).contains("refused"));
    assert!(connect("127.0.0.1", server.admin.address.port()).contains("refused"));
    let listed = sandbox.get("/network/connections").expect(200).json();
    assert_eq!(listed["connections"].as_array().unwrap().len(), 3, "{listed}");
    assert!(eventually(TIMEOUT, || notes(&server, "connection").len() == 3));
    let note = &notes(&server, "connection")[0]["details"];
    assert_eq!(note["host"], format!("{NAME}:{tls}"), "{note}");
    assert_eq!(note["address"], format!("127.0.0.1:{tls}"), "{note}");
    let containment = sandbox.get("").expect(200).json();
    let detail = &containment["containment"]["measures"]["network"]["detail"];
    assert!(detail.as_str().unwrap().contains("rules"), "{detail}");
}

#[test]
fn no_network_is_the_default_and_the_operator_offers_others() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    assert_eq!(sandbox.get("/network").expect(200).json()["mode"], "none");
    let refused =
        |network: Value| server.admin.post("/v1/sandboxes", &json!({"network": network})).problem();
    for network in [json!({}), json!({"mode": "open"}), json!({"allow": ["example.com"]})] {
        assert_eq!(refused(network), (403, "network_not_offered".to_owned()));
    }
    // Ports need no network.
    TestSandbox::new(&server.admin, &json!({"network": {"mode": "none", "expose": [8000]}}));
    for network in [
        json!({"mode": "some"}),
        json!({"allow": ["*"]}),
        json!({"allow": ["*.com"]}),
        json!({"allow": ["example.com:99999/tcp"]}),
        json!({"allow": [{"host": "a.example", "cidr": "10.0.0.0/8"}]}),
        json!({"allow": [{"host": "a.example", "unknown": 1}]}),
        json!({"allow": [{"host": "a.example", "ports": [22]}]}),
        json!({"expose": [80]}),
        json!({"limits": {"connections": 0}}),
        json!({"limits": {"connections": 1_000_000}}),
        json!({"deny": ["not a host"]}),
    ] {
        let (status, code) = refused(network.clone());
        assert_eq!(status, 400, "{network}: {code}");
    }
}

#[test]
fn an_empty_list_denies_all_and_the_operators_list_is_a_ceiling() {
    let upstream = Upstream::start();
    let tls = upstream.tls_port;
    let more = format!("allow = [\"{NAME}:{tls}/tls\"]\ndeny = [\"*.bad.example\"]");
    let server = upstream.serve("list", &more);
    let sandbox = TestSandbox::new(&server.admin, &json!({"network": {}}));
    let url = format!("https://{NAME}:{tls}/");
    let check = |url: &str| sandbox.post("/network/check", &json!({"url": url})).expect(200).json();
    assert_eq!(check(&url)["code"], "host_not_allowed");
    assert!(sandbox.print(&directly(&fetch(&url))).contains("URLError"));
    let allow = |rules: Value| put(&sandbox, &json!({"allow": rules}));
    assert_eq!(allow(json!([format!("{OTHER}:{tls}/tls")])).problem().1, "network_not_offered");
    assert_eq!(allow(json!(["x.bad.example"])).problem().1, "network_not_offered");
    allow(json!([format!("{NAME}:{tls}/tls")])).expect(204);
    assert_eq!(check(&url)["allowed"], true);
    assert!(sandbox.print(&directly(&fetch(&url))).contains(NAME));
    let shown = sandbox.get("/network").expect(200).json();
    let origins: Vec<&str> = shown["allow"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| rule["origin"].as_str().unwrap())
        .collect();
    assert_eq!(origins, ["key", "sandbox"], "{shown}");
}

#[test]
fn connections_that_new_rules_do_not_allow_are_closed() {
    let upstream = Upstream::start();
    let plain = upstream.plain_port;
    let server = upstream.serve("list", "");
    let rules = json!({"allow": [format!("{NAME}:{plain}/http")]});
    let sandbox = TestSandbox::new(&server.admin, &json!({"network": rules}));
    let code = directly(&format!(
        "import urllib.request, http.client\n\
         answer = urllib.request.urlopen('http://{NAME}:{plain}/stream', timeout=20)\n\
         print(answer.readline().decode(), end='', flush=True)\n\
         try:\n  while answer.readline(): pass\n  print('closed')\n\
         except (OSError, http.client.HTTPException) as error: print('closed')\n"
    ));
    let body = json!({"code": code, "background": true});
    let cell = sandbox.post("/cells", &body).expect(202).json();
    let id = cell["id"].as_str().unwrap().to_owned();
    assert!(eventually(TIMEOUT, || {
        let listed = sandbox.get("/network/connections").expect(200).json();
        listed["connections"].as_array().unwrap().iter().any(|one| one["state"] == "open")
    }));
    put(&sandbox, &json!({"allow": []})).expect(204);
    let cell = sandbox.ended(&id);
    assert!(cell["stdout"].as_str().unwrap().ends_with("closed\n"), "{cell}");
}

#[test]
fn methods_and_paths_are_rules_of_intercepted_requests() {
    let upstream = Upstream::start();
    let tls = upstream.tls_port;
    let server = upstream.serve("list", "");
    let rule = json!({"host": NAME, "ports": [tls], "protocol": "tls", "methods": ["GET"], "paths": ["/v1/*"]});
    let sandbox = TestSandbox::new(&server.admin, &json!({"network": {"allow": [rule]}}));
    let get = |path: &str| sandbox.print(&directly(&fetch(&format!("https://{NAME}:{tls}{path}"))));
    assert!(get("/v1/models").contains("\"path\": \"/v1/models\""));
    let refused = get("/v2/models");
    assert!(refused.starts_with("403 denied"), "{refused}");
    assert!(refused.contains("path_not_allowed"), "{refused}");
    assert!(get("/v1/../v2/models").starts_with("400 denied"));
    let listed = sandbox.get("/network/connections").expect(200).json();
    let kinds: Vec<&Value> =
        listed["connections"].as_array().unwrap().iter().map(|one| &one["kind"]).collect();
    assert!(kinds.iter().all(|kind| **kind == "intercept"), "{listed}");
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn a_person_decides_about_a_host() {
    let upstream = Upstream::start();
    let tls = upstream.tls_port;
    let server = upstream.serve("list", "ask_seconds = 1");
    let boss = key(&server, &json!({"name": "boss", "approve": true}));
    let owner = server.tenant();
    // The port is named, so that it is listened on; the host is not.
    let rules = json!({"allow": [format!("*.unused.far.example:{tls}/tls")], "ask": true});
    let sandbox = TestSandbox::new(&owner, &json!({"network": rules}));
    let url = format!("https://{NAME}:{tls}/asked");
    // With the proxy's variables, since the port is one that only the proxy can ask about.
    let refused = sandbox.print(&fetch(&url));
    assert!(refused.contains("403") || refused.contains("Error"), "{refused}");
    let pending = || boss.get("/v1/approvals").expect(200).json()["approvals"].clone();
    let approvals = pending();
    assert_eq!(approvals.as_array().unwrap().len(), 1, "{approvals}");
    assert_eq!(approvals[0]["kind"], "network");
    assert_eq!(approvals[0]["connection"], json!({"host": NAME, "port": tls}));
    let id = approvals[0]["id"].as_str().unwrap();
    let path = format!("/v1/approvals/{id}/approve");
    assert_eq!(owner.post(&path, &json!({})).problem().0, 403);
    let approved = boss.post(&path, &json!({"scope": "sandbox"})).expect(200).json();
    assert_eq!((&approved["state"], &approved["scope"]), (&json!("approved"), &json!("sandbox")));
    assert!(eventually(TIMEOUT, || sandbox.print(&fetch(&url)).contains("/asked")));
    assert_eq!(pending(), json!([]));
    // Plain HTTP on a port of its own, through the proxy, can be asked about, too.
    let plain = format!("http://{NAME}:{}/plain", upstream.plain_port);
    sandbox.print(&fetch(&plain));
    let id = pending()[0]["id"].as_str().unwrap().to_owned();
    boss.post(&format!("/v1/approvals/{id}/approve"), &json!({"scope": "sandbox"})).expect(200);
    assert!(eventually(TIMEOUT, || sandbox.print(&fetch(&plain)).contains("/plain")));
    // Another sandbox of the same key asks for itself.
    let other = TestSandbox::new(&owner, &json!({"network": rules}));
    other.print(&fetch(&url));
    let approvals = pending();
    let id = approvals[0]["id"].as_str().unwrap();
    boss.post(&format!("/v1/approvals/{id}/deny"), &json!({"reason": "no"})).expect(200);
    let started = std::time::Instant::now();
    assert!(!other.print(&fetch(&url)).contains("\"path\""));
    assert!(started.elapsed().as_millis() < 900, "the decision is there at once");
    assert_eq!(upstream.seen().len(), 2);
}

#[test]
fn a_killed_egress_process_opens_nothing_and_comes_back() {
    let upstream = Upstream::start();
    let plain = upstream.plain_port;
    let server = upstream.serve("list", "");
    let rules = json!({"allow": [format!("{NAME}:{plain}/http")]});
    let sandbox = TestSandbox::new(&server.admin, &json!({"network": rules}));
    let code = directly(&fetch(&format!("http://{NAME}:{plain}/")));
    assert!(sandbox.print(&code).contains(NAME));
    let ours: Vec<u32> = descendants(server.pid()).iter().map(|process| process.pid).collect();
    let egress = processes_with("__egress");
    let egress = egress.iter().find(|process| ours.contains(&process.pid)).expect("it runs");
    signal(egress.pid, Signal::KILL);
    assert!(eventually(TIMEOUT, || sandbox.print(&code).contains(NAME)));
    assert!(sandbox.print("import socket\ntry: socket.getaddrinfo('other.far.example', 443)\nexcept OSError as error: print('no')").contains("no"));
    assert!(eventually(TIMEOUT, || notes(&server, "egress_died").len() == 1));
}

fn put(sandbox: &TestSandbox, body: &Value) -> Response {
    let path = format!("{}/network", sandbox.path);
    sandbox.client.put(&path, body.to_string().as_bytes())
}

fn key(server: &TestServer, body: &Value) -> Client {
    let made = server.admin.post("/v1/keys", body).expect(201).json();
    Client { address: server.admin.address, key: made["key"].as_str().map(str::to_owned) }
}
