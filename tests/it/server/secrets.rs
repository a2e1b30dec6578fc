//! Secrets that code uses and never sees.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::harness::server::{TestSandbox, TestServer};
use crate::harness::upstream::{NAME, OTHER, Upstream};

const VALUE: &str = "sk-live-7f3a9c51d2e84b60";

/// Code that counts the readable regions of its own memory that contain the value. The pattern has a
/// character in brackets, so that it is not itself what is searched for.
fn search(before: &str) -> String {
    let pattern = format!("{}[{}]{}", &VALUE[..12], &VALUE[12..13], &VALUE[13..]);
    format!(
        "{before}\nimport re\nfound = 0\n\
         for line in open('/proc/self/maps'):\n\
         \x20   match = re.match(r'([0-9a-f]+)-([0-9a-f]+) r', line)\n\
         \x20   if not match or '[v' in line: continue\n\
         \x20   begin, end = (int(part, 16) for part in match.groups())\n\
         \x20   with open('/proc/self/mem', 'rb', 0) as memory:\n\
         \x20       try:\n\
         \x20           memory.seek(begin)\n\
         \x20           data = memory.read(end - begin)\n\
         \x20       except (OSError, ValueError, OverflowError): continue\n\
         \x20   found += re.search(rb'{pattern}', data) is not None\n\
         print(found)\n"
    )
}

/// Whether a file below a directory contains the value.
fn is_in_files(directory: &Path) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let has = |bytes: Vec<u8>| bytes.windows(VALUE.len()).any(|part| part == VALUE.as_bytes());
    entries.into_iter().any(|entry| {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            is_in_files(&entry.path())
        } else {
            kind.is_file() && fs::read(entry.path()).is_ok_and(has)
        }
    })
}

#[test]
fn secrets_are_used_and_never_seen() {
    let upstream = Upstream::start();
    let tls = upstream.tls_port;
    let server = upstream.serve("list", "");
    let owner = server.tenant();
    let body = json!({"value": VALUE, "hosts": [format!("{NAME}:{tls}")], "env": "API_KEY", "prefix": "sk-"});
    let made = owner.put("/v1/secrets/far", body.to_string().as_bytes()).expect(201).json();
    assert_eq!(
        (&made["name"], &made["in"], &made["offered"]),
        (&json!("far"), &json!(["header"]), &json!(false))
    );
    for path in ["/v1/secrets", "/v1/secrets/far"] {
        assert!(!owner.get(path).expect(200).text().contains(VALUE));
    }
    assert_eq!(server.admin.get("/v1/secrets/far").problem(), (404, "secret_not_found".to_owned()));
    let network = json!({"secrets": ["far"], "allow": [format!("{OTHER}:{tls}/tls")]});
    let sandbox = TestSandbox::new(&owner, &json!({"network": network}));
    let placeholder = sandbox.print("import os; print(os.environ['API_KEY'])");
    assert!(placeholder.starts_with("sk-silica_secret_far_"), "{placeholder}");
    let ask = |host: &str, place: &str| {
        sandbox.print(&format!(
            "import os, urllib.request, urllib.error\n\
             key = os.environ['API_KEY']\n\
             request = urllib.request.Request('https://{host}:{tls}/' + ({place} if {place} != key else ''))\n\
             if {place} == key: request.add_header('Authorization', 'Bearer ' + key)\n\
             try: print(urllib.request.urlopen(request, timeout=10).read().decode())\n\
             except urllib.error.HTTPError as error: print(error.code, error.read().decode())\n\
             except OSError as error: print(error)\n"
        ))
    };
    let answer = ask(NAME, "key");
    // The far side got the value; its echo came back with the placeholder.
    assert_eq!(upstream.seen()[0]["headers"]["authorization"], format!("Bearer {VALUE}"));
    assert!(answer.contains(&placeholder) && !answer.contains(VALUE), "{answer}");
    // Not to another host, and not in another place.
    let to_other = ask(OTHER, "key");
    assert!(!to_other.contains(VALUE), "{to_other}");
    let in_path = ask(NAME, "'x' + key");
    assert!(in_path.starts_with("403"), "{in_path}");
    let values = upstream.seen().iter().filter(|seen| seen.to_string().contains(VALUE)).count();
    assert_eq!(values, 1);
    // Nowhere inside: memory, environment, files.
    assert_eq!(sandbox.print(&search("")), "0");
    let control = format!("kept = ''.join([{:?}, {:?}]).encode()", &VALUE[..12], &VALUE[12..]);
    assert_ne!(sandbox.print(&search(&control)), "0", "the search finds what is there");
    assert!(!sandbox.print("import os; print(dict(os.environ))").contains(VALUE));
    assert!(!is_in_files(server.home().path()));
    assert!(!server.log().contains(VALUE));
    owner.delete("/v1/secrets/far").expect(204);
    assert_eq!(owner.get("/v1/secrets/far").problem().0, 404);
}

#[test]
fn malformed_secrets_are_refused() {
    let server = TestServer::new();
    for body in [
        json!({"value": "short", "hosts": ["a.example"]}),
        json!({"value": VALUE, "hosts": []}),
        json!({"value": VALUE, "hosts": ["*"]}),
        json!({"value": VALUE, "hosts": ["a.example"], "in": ["cookie"]}),
        json!({"value": VALUE, "hosts": ["a.example"], "env": "A B"}),
        json!({"value": "line\nbreak-in-it", "hosts": ["a.example"]}),
        json!({"value": VALUE, "hosts": ["a.example"], "inject": {"header": "Host", "value": "{}"}}),
    ] {
        let refused = server.admin.put("/v1/secrets/x", body.to_string().as_bytes());
        assert_eq!(refused.problem(), (400, "bad_network".to_owned()), "{body}");
    }
    let body = json!({"value": VALUE, "hosts": ["a.example"]}).to_string();
    assert_eq!(server.admin.put("/v1/secrets/a%20b", body.as_bytes()).problem().0, 400);
}
