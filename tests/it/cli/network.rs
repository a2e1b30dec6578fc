//! `silica run --net` and `--secret`, `silica secret`, and what a key may reach.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::http::Client;
use crate::harness::server::{TestSandbox, TestServer};
use crate::harness::upstream::{NAME, OTHER, Upstream};
use crate::harness::{CommandOutput, PYTHON, SILICA, TestHome, collect, finish, start};

const VALUE: &str = "sk-live-7f3a9c51d2e84b60";

fn fetch(url: &str) -> String {
    format!(
        "import os, urllib.request, urllib.error\n\
         request = urllib.request.Request({url:?}, headers={{'x-key': os.environ.get('API_KEY', '-')}})\n\
         try: print(urllib.request.urlopen(request, timeout=10).read().decode())\n\
         except OSError as error: print(error)\n"
    )
}

/// The flags by which code of this machine reaches the outside world of the tests.
fn flags(upstream: &Upstream) -> Vec<String> {
    let roots = upstream.authority();
    let mut flags = vec!["--net-private=127.0.0.0/8".to_owned()];
    flags.extend([NAME, OTHER].map(|name| format!("--net-host={name}=127.0.0.1")));
    flags.push(format!("--net-roots={}", roots.display()));
    flags
}

fn run(home: &TestHome, flags: &[String], code: &str) -> CommandOutput {
    let mut arguments: Vec<&str> = flags.iter().map(String::as_str).collect();
    arguments.extend(["-c", code]);
    home.run(&arguments)
}

#[test]
fn code_reaches_what_its_flags_name_and_is_told_of_the_rest() {
    let upstream = Upstream::start();
    let (tls, plain) = (upstream.tls_port, upstream.plain_port);
    let home = TestHome::new(PYTHON);
    let mut flags = flags(&upstream);
    flags.push(format!("--net={NAME}:{tls}/tls"));
    flags.push(format!("--net={NAME}:{plain}/http"));
    let code = fetch(&format!("https://{NAME}:{tls}/one"))
        + &fetch(&format!("http://{NAME}:{plain}/two"))
        + "import socket\n\
           try: socket.getaddrinfo('evil.example', 443)\n\
           except OSError as error: print(error)\n";
    let ran = run(&home, &flags, &code);
    assert_eq!(ran.status, 0, "{ran:?}");
    let paths: Vec<Value> = upstream.seen().iter().map(|seen| seen["path"].clone()).collect();
    assert_eq!(paths, ["/one", "/two"], "{ran:?}");
    assert!(ran.stdout.contains("not known"), "{ran:?}");
    let told = "silica: the network refused evil.example: the rules of the sandbox do not name the \
                host; allow it with --net evil.example\n";
    assert_eq!(ran.stderr, told);
}

#[test]
fn without_flags_nothing_is_reached_and_private_addresses_need_their_own() {
    let upstream = Upstream::start();
    let tls = upstream.tls_port;
    let home = TestHome::new(PYTHON);
    let code = fetch(&format!("https://{NAME}:{tls}/"));
    let ran = run(&home, &[], &code);
    assert!(ran.stdout.contains("urlopen error"), "{ran:?}");
    // A rule for the name alone does not open the range of its address.
    let mut flags = flags(&upstream);
    flags.remove(0);
    flags.push(format!("--net={NAME}:{tls}/tls"));
    let ran = run(&home, &flags, &code);
    assert!(ran.stdout.contains("rror"), "{ran:?}");
    assert!(ran.stderr.contains(&format!("the network refused {NAME}")), "{ran:?}");
    assert_eq!(upstream.seen(), Vec::<Value>::new());
    for flags in [&["--net=*"][..], &["--net=a.example:22"], &["--net-private=10.0.0.0/8"]] {
        let flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
        assert_eq!(run(&home, &flags, "print(1)").status, 125, "{flags:?}");
    }
}

#[test]
fn code_uses_a_secret_of_a_file_or_a_variable_and_never_sees_it() {
    let upstream = Upstream::start();
    let tls = upstream.tls_port;
    let home = TestHome::new(PYTHON);
    fs::write(home.working_directory().join("key"), format!("{VALUE}\n")).unwrap();
    let code = fetch(&format!("https://{NAME}:{tls}/")) + "print(dict(os.environ))\n";
    for source in ["key", "env:MY_KEY"] {
        let mut command = home.command();
        command.env("MY_KEY", VALUE).args(flags(&upstream));
        command.arg(format!("--secret=API_KEY={source}@{NAME}:{tls}")).args(["-c", &code]);
        let ran = finish(&mut command);
        assert_eq!(ran.status, 0, "{ran:?}");
        assert!(ran.stdout.contains("silica_secret_API_KEY_"), "{ran:?}");
        assert!(!format!("{ran:?}").contains(VALUE), "{ran:?}");
    }
    let seen = upstream.seen();
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|seen| seen["headers"]["x-key"] == VALUE), "{seen:?}");
    for secret in ["API_KEY=missing@a.example", "API_KEY=env:NOT_SET@a.example", "API_KEY=key", "a"]
    {
        let ran = run(&home, &[format!("--secret={secret}")], "print(1)");
        assert_eq!((ran.status, ran.stdout.as_str()), (125, ""), "{secret}: {ran:?}");
    }
}

#[test]
fn a_server_gives_the_network_that_the_flags_ask_for() {
    let upstream = Upstream::start();
    let plain = upstream.plain_port;
    let server = upstream.serve("list", "");
    let remote = |flags: &[&str], code: &str| {
        let mut command = server.home().command();
        command.env("SILICA_KEY", server.admin.key.as_ref().unwrap());
        finish(command.args(["--url", &server.url()]).args(flags).args(["-c", code]))
    };
    let rule = format!("--net={NAME}:{plain}/http");
    let code = fetch(&format!("http://{NAME}:{plain}/far")) + &fetch("http://evil.example/");
    let ran = remote(&[&rule], &code);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert_eq!(upstream.seen().len(), 1, "{ran:?}");
    assert!(ran.stderr.contains("silica: the network refused evil.example"), "{ran:?}");
    let ran = remote(&["--net=open"], "print(1)");
    assert_eq!(ran.status, 125, "{ran:?}");
    assert!(ran.stderr.contains("does not offer"), "{ran:?}");
    let ran = remote(&["--secret=A=env:HOME@a.example"], "print(1)");
    assert!(ran.stderr.contains("silica secret set"), "{ran:?}");
}

#[test]
fn secrets_are_stored_listed_and_deleted() {
    let server = TestServer::new();
    let silica = |arguments: &[&str], stdin: &str| {
        let mut command = Command::new(SILICA);
        command.args(["secret", "--url", &server.url()]).args(arguments);
        command.env("SILICA_KEY", server.admin.key.as_ref().unwrap());
        let mut child = start(command.stdin(Stdio::piped()));
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), stdin.as_bytes()).unwrap();
        collect(child)
    };
    let set = ["set", "far", "--host", "api.example.com", "--env", "API_KEY", "--json"];
    let ran = silica(&set, &format!("{VALUE}\n"));
    assert_eq!(ran.status, 0, "{ran:?}");
    assert_eq!((&ran.json()["name"], &ran.json()["in"]), (&json!("far"), &json!(["header"])));
    assert_eq!(silica(&set, &format!("{VALUE}2")).status, 0, "replaced");
    let listed = silica(&["list"], "");
    assert!(listed.stdout.contains("far"), "{listed:?}");
    assert!(listed.stdout.contains("api.example.com"), "{listed:?}");
    assert!(!listed.stdout.contains(VALUE), "{listed:?}");
    assert_eq!(silica(&["set", "far", "--host", "a.example"], "short").status, 125);
    assert_eq!(silica(&["set", "far", "--host", "a.example"], "").status, 125);
    assert_eq!(silica(&["set", "no/name", "--host", "a.example"], VALUE).status, 2);
    assert_eq!(silica(&["delete", "far"], "").status, 0);
    assert_eq!(silica(&["delete", "far"], "").status, 125);
    assert_eq!(silica(&["list", "--json"], "").stdout, "");
}

#[test]
fn a_key_may_have_a_ceiling_of_its_own() {
    let upstream = Upstream::start();
    let tls = upstream.tls_port;
    let server = upstream.serve("list", "");
    let create = |arguments: &[&str]| {
        let mut command = Command::new(SILICA);
        command.args(["key", "create", "--json", "ci"]).args(arguments);
        finish(command.env("SILICA_HOME", server.home().path()).stdin(Stdio::null()))
    };
    let client = |made: &CommandOutput| {
        assert_eq!(made.status, 0, "{made:?}");
        let key = made.json()["key"].as_str().map(str::to_owned);
        Client { address: server.admin.address, key }
    };
    let rule = |name: &str| json!({"network": {"allow": [format!("{name}:{tls}/tls")]}});
    let refused = |client: &Client, body: &Value| client.post("/v1/sandboxes", body).problem();
    let not_offered = (403, "network_not_offered".to_owned());
    let nothing = client(&create(&["--network", "none"]));
    assert_eq!(refused(&nothing, &rule(NAME)), not_offered);
    let one = client(&create(&["--network-allow", &format!("{NAME}:{tls}/tls")]));
    assert_eq!(refused(&one, &rule(OTHER)), not_offered);
    assert_eq!(refused(&one, &json!({"network": {"mode": "open"}})), not_offered);
    let sandbox = TestSandbox::new(&one, &rule(NAME));
    assert!(sandbox.print(&fetch(&format!("https://{NAME}:{tls}/"))).contains(NAME));
    // A key cannot have more than the operator offers to all.
    let most = client(&create(&["--network", "open"]));
    assert_eq!(refused(&most, &json!({"network": {"mode": "open"}})), not_offered);
    TestSandbox::new(&most, &rule(OTHER));
    for wrong in [&["--network", "list"][..], &["--network", "some"], &["--network-allow", "*"]] {
        assert_eq!(create(wrong).status, 125, "{wrong:?}");
    }
    // The same over HTTP.
    let body = json!({"name": "app", "network": {"mode": "list", "allow": [NAME]}});
    let made = server.admin.post("/v1/keys", &body).expect(201).json();
    assert_eq!(made["network"], json!({"mode": "list", "allow": [format!("{NAME}:443/tls")]}));
    let malformed = json!({"name": "app", "network": {"mode": "list"}});
    assert_eq!(server.admin.post("/v1/keys", &malformed).problem().1, "bad_network");
}
