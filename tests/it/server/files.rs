//! Files: the whole surface, paths that lead elsewhere, things that are no files, full disks.

use serde_json::{Value, json};

use crate::harness::http::Response;
use crate::harness::server::{TestSandbox, TestServer};
use crate::harness::{TIMEOUT, eventually};

fn path(sandbox: &TestSandbox, what: &str, path: &str) -> String {
    sandbox.at(&format!("/files{what}?path={path}"))
}

fn put(sandbox: &TestSandbox, name: &str, bytes: &[u8]) -> Response {
    sandbox.client.put(&path(sandbox, "/content", name), bytes)
}

fn get(sandbox: &TestSandbox, name: &str) -> Response {
    sandbox.client.get(&path(sandbox, "/content", name))
}

#[test]
fn a_directory_that_a_client_makes_is_a_change_from_outside() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    // The first cell of a sandbox looks at its files anyway.
    sandbox.run("1");
    let line = "until [ -d d ]; do sleep 0.01; done; echo x > d/file; echo written; sleep 600";
    let body = json!({"command": line, "background": true});
    let command = sandbox.post("/commands", &body).expect(202).json();
    let id = command["id"].as_str().unwrap();
    let mut events = sandbox.client.events(&sandbox.at(&format!("/commands/{id}/events")));
    sandbox.post("/files/directory", &json!({"path": "d"})).expect(201);
    assert_eq!(events.until("stdout").data["text"], "written\n");
    let cell = sandbox.run("1");
    assert_eq!(cell["files"]["created"], json!([]), "it was made before the cell began");
}

#[test]
fn files_are_written_read_listed_moved_and_removed() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let entry = put(&sandbox, "a/b/c.txt", b"hello").expect(201).json();
    assert_eq!((&entry["path"], &entry["name"]), (&json!("/workspace/a/b/c.txt"), &json!("c.txt")));
    assert_eq!(
        (&entry["kind"], &entry["size"], &entry["mode"]),
        (&json!("file"), &json!(5), &json!("644"))
    );
    put(&sandbox, "a/b/c.txt", b"again").expect(200);
    assert_eq!(get(&sandbox, "/workspace/a/b/c.txt").expect(200).body, b"again");
    assert_eq!(sandbox.print("print(open('a/b/c.txt').read())"), "again");
    sandbox
        .client
        .put(&sandbox.at("/files/content?path=run.sh&mode=755"), b"#!/bin/sh\necho ran")
        .expect(201);
    let ran = sandbox.post("/commands", &json!({"command": "./run.sh"})).expect(200).json();
    assert_eq!(ran["stdout"], "ran\n");
    put(&sandbox, "/tmp/t", b"").expect(201);
    put(&sandbox, "/home/user/h%20%C3%BC", b"").expect(201);
    assert_eq!(sandbox.print("import os; print(os.listdir('/home/user'))"), "['h ü']");

    let names = |query: &str| -> Vec<String> {
        let listed = sandbox.get(&format!("/files?path={query}")).expect(200).json();
        let entries = listed["entries"].as_array().unwrap().clone();
        entries.iter().map(|entry| entry["path"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("/workspace"), ["/workspace/a", "/workspace/run.sh"]);
    assert_eq!(names("a&depth=2"), ["/workspace/a/b", "/workspace/a/b/c.txt"]);
    sandbox.post("/files/directory", &json!({"path": "d/e"})).expect(201);
    sandbox.post("/files/directory", &json!({"path": "d/e"})).expect(200);
    let moved = json!({"from": "a/b/c.txt", "to": "d/c.txt"});
    assert_eq!(
        sandbox.post("/files/move", &moved).expect(200).json()["path"],
        "/workspace/d/c.txt"
    );
    put(&sandbox, "a/b/c.txt", b"third").expect(201);
    assert_eq!(sandbox.post("/files/move", &moved).problem(), (409, "conflict".to_owned()));
    let mut over = moved;
    over["overwrite"] = true.into();
    sandbox.post("/files/move", &over).expect(200);
    assert_eq!(get(&sandbox, "d/c.txt").body, b"third");
    let stat = sandbox.get("/files/stat?path=d").expect(200).json();
    assert_eq!(stat["kind"], "directory");
    assert_eq!(get(&sandbox, "./d/./c.txt").body, b"third");
    assert_eq!(names("."), names("/workspace"));
    sandbox.client.delete(&path(&sandbox, "", "d")).expect(204);
    for (what, code, status) in [
        (get(&sandbox, "d/c.txt"), "file_not_found", 404),
        (sandbox.client.delete(&path(&sandbox, "", "d")), "file_not_found", 404),
        (get(&sandbox, "a"), "not_a_file", 422),
        (put(&sandbox, "a", b"x"), "not_a_file", 422),
        (put(&sandbox, "run.sh/x", b"x"), "not_a_directory", 422),
        (sandbox.get("/files?path=run.sh"), "not_a_directory", 422),
        (sandbox.get("/files/archive?path=run.sh"), "not_a_directory", 422),
        (sandbox.client.delete(&path(&sandbox, "", "/workspace")), "bad_path", 400),
        (sandbox.client.delete(&path(&sandbox, "", ".")), "bad_path", 400),
        (sandbox.post("/files/move", &json!({"from": "a", "to": "a/b/x"})), "conflict", 409),
    ] {
        assert_eq!(what.problem(), (status, code.to_owned()), "{}", what.text());
    }
}

#[test]
fn ranges_are_what_the_standard_says() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    put(&sandbox, "f", b"0123456789").expect(201);
    put(&sandbox, "empty", b"").expect(201);
    let ask = |name: &str, range: &str| {
        sandbox.client.request("GET", &path(&sandbox, "/content", name), &[("Range", range)], b"")
    };
    for (range, body, told) in [
        ("bytes=0-0", "0", "bytes 0-0/10"),
        ("bytes=2-4", "234", "bytes 2-4/10"),
        ("bytes=7-", "789", "bytes 7-9/10"),
        ("bytes=-3", "789", "bytes 7-9/10"),
        ("bytes=-99", "0123456789", "bytes 0-9/10"),
        ("bytes=5-99", "56789", "bytes 5-9/10"),
        ("bytes=0-18446744073709551615", "0123456789", "bytes 0-9/10"),
    ] {
        let answer = ask("f", range).expect(206);
        assert_eq!(
            (answer.text().as_str(), answer.header("content-range")),
            (body, Some(told)),
            "{range}"
        );
    }
    let many = vec!["0-0"; 1000].join(",");
    for range in [
        "bytes=5-2",
        "bytes=0-0,2-2",
        &format!("bytes={many}"),
        "lines=1-2",
        "bytes",
        "bytes=-",
        "bytes=a-b",
        "bytes=-1x",
        "bytes=99999999999999999999999-",
        "bytes=--1",
    ] {
        let answer = ask("f", range).expect(200);
        assert_eq!(answer.body, b"0123456789", "{range}");
        assert_eq!(answer.header("content-range"), None);
    }
    for (name, range, size) in
        [("f", "bytes=10-", 10), ("f", "bytes=18446744073709551615-", 10), ("f", "bytes=-0", 10)]
    {
        let answer = ask(name, range);
        assert_eq!(answer.problem(), (416, "bad_range".to_owned()), "{name} {range}");
        assert_eq!(answer.header("content-range"), Some(&*format!("bytes */{size}")), "{range}");
    }
    for range in ["bytes=0-", "bytes=0-0", "bytes=-1", "bytes=5-"] {
        assert_eq!(ask("empty", range).expect(200).body, b"", "{range}");
    }
    let head = sandbox.client.request("HEAD", &path(&sandbox, "/content", "f"), &[], b"");
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, Some("10"), 0));
    for name in ["content-disposition", "x-content-type-options"] {
        assert!(head.header(name).is_some(), "{name}");
    }
}

#[test]
fn archives_go_both_ways() {
    let server = TestServer::new();
    let (from, to) = (server.sandbox(), server.sandbox());
    from.run("import os\nos.makedirs('d/empty')\nopen('d/a', 'w').write('a')\nopen('d/b', 'wb').write(bytes(300_000))\n\
              os.symlink('/etc/passwd', 'd/link'); os.mkfifo('d/fifo')");
    let archive = from.get("/files/archive?path=d").expect(200);
    assert_eq!(archive.header("content-type"), Some("application/x-tar"));
    let unpacked = to.client.put(&path(&to, "/archive", "into"), &archive.body).expect(200).json();
    assert_eq!(unpacked["files"], 2, "{unpacked}");
    let code = "import os; print(sorted(os.listdir('into')), open('into/a').read(), os.path.getsize('into/b'))";
    assert_eq!(to.print(code), "['a', 'b', 'empty'] a 300000");
    for (bytes, what) in [
        (b"this is no archive".as_slice(), "text"),
        (&archive.body[..archive.body.len() / 2 + 100], "half"),
        (&[0xff; 2048], "noise"),
    ] {
        let refused = to.client.put(&path(&to, "/archive", "other"), bytes);
        assert_eq!(refused.problem(), (400, "bad_request".to_owned()), "{what}");
    }
}

#[test]
fn strange_trees_are_told_and_not_half_sent() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    sandbox.run(
        "import os\nopen(b'\\xff', 'w').close(); open('new\\nline', 'w').write('n'); os.mkdir('closed', 0)\n\
         open('closed file', 'w').close(); os.chmod('closed file', 0)",
    );
    let listed = sandbox.get("/files?path=/workspace").expect(200).json();
    let usable = |entry: &&Value| entry["usable"] == true;
    assert_eq!(listed["entries"].as_array().unwrap().len(), 4, "{listed}");
    assert_eq!(listed["entries"].as_array().unwrap().iter().filter(usable).count(), 4, "{listed}");
    assert_eq!(get(&sandbox, "new%0Aline").expect(200).body, b"n");
    assert_eq!(get(&sandbox, "closed%20file").problem(), (422, "refused".to_owned()));
    assert_eq!(get(&sandbox, "closed/x").problem(), (422, "refused".to_owned()));
    sandbox.run("import os\nfor _ in range(1000): os.mkdir('deep'); os.chdir('deep')");
    sandbox.get("/files?path=deep&depth=1000000").expect(200);
    let archive = sandbox.get("/files/archive?path=deep");
    assert_eq!(archive.problem(), (413, "too_large".to_owned()));
    sandbox.client.delete(&path(&sandbox, "", "deep")).expect(204);
    assert_eq!(sandbox.print("print(1)"), "1");
}

#[test]
fn archive_cannot_write_outside() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let make = "import io, tarfile\ndef add(t, name, **more):\n i = tarfile.TarInfo(name); i.size = 1\n \
                for k, v in more.items(): setattr(i, k, v)\n t.addfile(i, io.BytesIO(b'x'))\n\
                t = tarfile.open('/tmp/evil.tar', 'w')\n";
    for entries in [
        "add(t, '../outside')",
        "add(t, '/workspace/outside')",
        "add(t, 'a/../../outside')",
        "add(t, 'l', type=tarfile.SYMTYPE, linkname='..', size=0); add(t, 'l/outside')",
        "add(t, 'h', type=tarfile.LNKTYPE, linkname='../secret', size=0)",
        "add(t, 'dev', type=tarfile.CHRTYPE, size=0); add(t, 'dev/outside')",
    ] {
        sandbox.run("import shutil, os\nshutil.rmtree('in', True); open('secret', 'w').write('s')");
        assert_eq!(sandbox.run(&format!("{make}{entries}\nt.close()"))["outcome"], "ok");
        let tar = get(&sandbox, "/tmp/evil.tar").expect(200).body;
        let answer = sandbox.client.put(&path(&sandbox, "/archive", "in"), &tar);
        assert!(answer.status < 500, "{entries}: {}", answer.text());
        let look = "import os; print(os.path.exists('outside') or os.path.exists('/tmp/outside'), os.stat('secret').st_nlink)";
        assert_eq!(sandbox.print(look), "False 1", "{entries}");
    }
}

/// Paths, as they stand in a query, that lead out of the writable places or nowhere.
const ELSEWHERE: &[&str] = &[
    "../../etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "..",
    "./..",
    "a/../../b",
    "//etc/passwd",
    "/workspace/../etc/passwd",
    "/workspace/./../etc/passwd",
    "/workspace//x",
    "",
    "%00",
    "a%00b",
    "%2e%2e%5c%2e%2e%5cetc",
    "%252e%252e%252fetc%252fpasswd",
    "%c0%ae%c0%ae/etc/passwd",
    "%ff",
    "file:///etc/passwd",
    "~/x",
];

/// Plain paths outside the writable directories.
const OUTSIDE: &[&str] = &[
    "/etc/passwd",
    "/proc/self/environ",
    "/proc/1/root/etc/passwd",
    "/dev/fd/3",
    "/dev/null",
    "/data/input",
    "/",
    "/workspacex/a",
    "/tmpx",
    "/home/other",
    "/dev/shm/x",
];

/// A process in the sandbox reads them, so the host's own files are not there. Nothing changes them.
#[test]
fn what_lies_outside_is_read_as_the_guest_reads_it() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let host = server.home().path().join("silica.db");
    let host = host.to_str().unwrap().to_owned();
    for form in OUTSIDE {
        for what in ["", "/stat", "/content"] {
            let answer = sandbox.client.get(&path(&sandbox, what, form));
            assert!(matches!(answer.status, 200 | 404 | 422), "{what} {form}: {}", answer.text());
        }
        for (method, what) in [("GET", "/archive"), ("DELETE", ""), ("PUT", "/content")] {
            let answer = sandbox.client.request(method, &path(&sandbox, what, form), &[], b"");
            assert_eq!(answer.problem(), (400, "bad_path".to_owned()), "{method} {what} {form}");
        }
    }
    let gone = sandbox.client.get(&path(&sandbox, "/content", &host));
    assert_eq!(gone.problem(), (404, "file_not_found".to_owned()));
    let passwd = sandbox.print("print(open('/etc/passwd').read(), end='')");
    assert_eq!(get(&sandbox, "/etc/passwd").expect(200).text().trim_end(), passwd.trim_end());
    let part = [("Range", "bytes=0-3")];
    let part =
        sandbox.client.request("GET", &path(&sandbox, "/content", "/etc/passwd"), &part, b"");
    assert_eq!(part.expect(206).body, &passwd.as_bytes()[..4]);
    let root = sandbox.get("/files?path=/").expect(200).json();
    let names = root["entries"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap());
    let names: Vec<&str> = names.collect();
    let theirs = sandbox.print("import os; print(*sorted(os.listdir('/')))");
    assert_eq!(names.join(" "), theirs);
    assert_eq!(sandbox.get("/files/stat?path=/etc").expect(200).json()["kind"], "directory");
    let directory = sandbox.client.get(&path(&sandbox, "/content", "/etc"));
    assert_eq!(directory.problem(), (422, "not_a_file".to_owned()));
    let link = sandbox.post("/files/link", &json!({"path": "/etc/passwd"})).expect(200).json();
    let url = link["url"].as_str().unwrap().to_owned();
    let address = format!("http://{}", server.admin.address);
    let linked = server.admin.with_key(None).get(url.strip_prefix(&address).unwrap());
    assert_eq!(linked.expect(200).text().trim_end(), passwd.trim_end());
}

#[test]
fn paths_that_lead_elsewhere_are_refused() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    let long = "a".repeat(256);
    let longer = "a/".repeat(3000);
    let forms = ELSEWHERE.iter().copied().chain([long.as_str(), longer.as_str()]);
    for form in forms {
        for (method, what, body) in [
            ("GET", "", b"".as_slice()),
            ("GET", "/stat", b""),
            ("GET", "/content", b""),
            ("GET", "/archive", b""),
            ("DELETE", "", b""),
        ] {
            let answer = sandbox.client.request(method, &path(&sandbox, what, form), &[], body);
            let (status, _) = answer.problem();
            assert!(status == 400 || status == 404, "{method} {what} {form}: {}", answer.text());
        }
    }
    // As a path of JSON and of an upload, those that are no plain names.
    for form in [
        "../x",
        "/etc/x",
        "a/../../x",
        "/proc/self/fd/1",
        "a\0b",
        "",
        "./..",
        "/workspace/..",
        "/dev/fd/3",
    ] {
        let encoded = form.replace('\0', "%00");
        for answer in [
            sandbox.client.put(&path(&sandbox, "/content", &encoded), b"x"),
            sandbox.client.put(&path(&sandbox, "/archive", &encoded), &[0; 1024]),
            sandbox.post("/files/directory", &json!({"path": form})),
            sandbox.post("/files/move", &json!({"from": form, "to": "x"})),
            sandbox.post("/files/move", &json!({"from": "x", "to": form})),
            sandbox.post("/files/link", &json!({"path": form, "method": "PUT"})),
            server
                .admin
                .post("/v1/run", &json!({"code": "1", "files": [{"path": form, "content": ""}]})),
            server.admin.post("/v1/run", &json!({"code": "1", "outputs": [form]})),
        ] {
            assert_eq!(answer.problem(), (400, "bad_path".to_owned()), "{form:?}");
        }
    }
    assert_eq!(sandbox.print("import os; print(os.listdir('.'))"), "[]");
}

#[test]
fn what_is_no_file_is_refused() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    sandbox.run(
        "import os, socket\nos.mkfifo('fifo')\nsocket.socket(socket.AF_UNIX).bind('socket')\n\
         os.symlink('/etc/passwd', 'link'); os.symlink('/', 'root'); os.symlink('/proc/self/environ', 'magic')\n\
         os.makedirs('dir'); open('dir/f', 'w').write('f'); os.symlink('dir', 'dirlink'); os.symlink('link', 'loop')\n\
         os.symlink('nowhere', 'dangling')",
    );
    for name in [
        "fifo",
        "socket",
        "link",
        "magic",
        "loop",
        "dangling",
        "root/etc/passwd",
        "dirlink/f",
        "root/proc/self/environ",
    ] {
        assert_eq!(get(&sandbox, name).problem(), (422, "refused".to_owned()), "{name}");
    }
    for name in ["root/tmp/x", "dirlink/x"] {
        assert_eq!(put(&sandbox, name, b"x").problem(), (422, "refused".to_owned()), "{name}");
        let directory = sandbox.post("/files/directory", &json!({"path": name}));
        assert_eq!(directory.problem(), (422, "refused".to_owned()), "{name}");
        let removed = sandbox.client.delete(&path(&sandbox, "", name));
        assert_eq!(removed.problem(), (422, "refused".to_owned()), "{name}");
    }
    let run = json!({"code": "import os; os.symlink('/etc/passwd', 'o'); os.mkfifo('p')", "outputs": ["o", "p"]});
    let ran = server.admin.post("/v1/run", &run).expect(200).json();
    for output in ran["outputs"].as_array().unwrap() {
        assert!(output["error"].is_string() && output.get("content_base64").is_none(), "{output}");
    }
    let kinds = sandbox.get("/files?path=/workspace").expect(200).json();
    let kind = |name: &str| -> Value {
        let entries = kinds["entries"].as_array().unwrap();
        entries.iter().find(|entry| entry["name"] == name).unwrap()["kind"].clone()
    };
    assert_eq!(
        (kind("fifo"), kind("link"), kind("dir")),
        (json!("other"), json!("symlink"), json!("directory"))
    );
    // Removing a link removes the link.
    sandbox.client.delete(&path(&sandbox, "", "dirlink")).expect(204);
    assert_eq!(get(&sandbox, "dir/f").expect(200).body, b"f");
}

#[test]
fn links_do_what_they_say_and_no_more() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    put(&sandbox, "a", b"hello").expect(201);
    let nobody = server.admin.with_key(None);
    let link = |body: &Value| -> String {
        let link = sandbox.post("/files/link", body).expect(200).json();
        let url = link["url"].as_str().unwrap().to_owned();
        let rest = url.strip_prefix(&format!("http://{}", server.admin.address));
        rest.unwrap().to_owned()
    };
    let invalid = (403, "link_invalid".to_owned());
    let read = link(&json!({"path": "a"}));
    assert_eq!(nobody.get(&read).expect(200).body, b"hello");
    let part = nobody.request("GET", &read, &[("Range", "bytes=1-2")], b"").expect(206);
    assert_eq!(part.body, b"el");
    assert_eq!(nobody.put(&read, b"x").problem(), invalid);
    let write = link(&json!({"path": "b", "method": "PUT"}));
    nobody.put(&write, b"written").expect(201);
    assert_eq!(get(&sandbox, "b").body, b"written");
    assert_eq!(nobody.get(&write).problem(), invalid);
    // One character changed, in the body and in the seal, and other nonsense.
    let token = read.strip_prefix("/v1/links/").unwrap();
    let (body, seal) = token.split_once('.').unwrap();
    let flip = |text: &str| {
        let other = if text.starts_with('A') { "B" } else { "A" };
        format!("{other}{}", &text[1..])
    };
    for forged in [
        format!("{}.{seal}", flip(body)),
        format!("{body}.{}", flip(seal)),
        format!("{body}."),
        format!(".{seal}"),
        body.to_owned(),
        format!("{token}."),
        format!("{body}.{seal}{seal}"),
        ".".to_owned(),
    ] {
        assert_eq!(nobody.get(&format!("/v1/links/{forged}")).problem(), invalid, "{forged}");
    }
    let short = link(&json!({"path": "a", "expires_seconds": 0.001}));
    assert!(eventually(TIMEOUT, || nobody.get(&short).status == 403));
    assert_eq!(nobody.get(&short).problem(), invalid);
    let strange = link(&json!({"path": "x\";filename=\"evil.html\r\n.txt"}));
    put(&sandbox, "x%22%3Bfilename%3D%22evil.html%0D%0A.txt", b"x").expect(201);
    let answer = nobody.get(&strange).expect(200);
    let disposition = answer.header("content-disposition").unwrap();
    assert!(
        disposition.starts_with("attachment") && disposition.matches('"').count() <= 2,
        "{disposition}"
    );
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    sandbox.client.delete(&sandbox.path).expect(204);
    assert!((400..500).contains(&nobody.get(&read).problem().0));
    assert!((400..500).contains(&nobody.put(&write, b"x").problem().0));
}

#[test]
fn revoked_keys_links_are_worth_nothing() {
    let server = TestServer::new();
    let (tenant, id) = server.new_key();
    let sandbox = TestSandbox::new(&tenant, &json!({}));
    put(&sandbox, "a", b"hello").expect(201);
    let link = sandbox.post("/files/link", &json!({"path": "a"})).expect(200).json();
    let url = link["url"].as_str().unwrap().to_owned();
    let path = &url[url.find("/v1").unwrap()..];
    server.admin.delete(&format!("/v1/keys/{id}")).expect(204);
    let nobody = server.admin.with_key(None);
    assert_eq!(nobody.get(path).problem(), (403, "link_invalid".to_owned()));
}

#[test]
fn odd_names_and_deep_trees_are_handled() {
    let server = TestServer::new();
    let sandbox = server.sandbox();
    sandbox.run(
        "import os\n\
         os.makedirs('odd'); open(b'odd/\\xff\\xfe', 'w').write('odd')\n\
         os.makedirs('many')\n\
         for i in range(3000): open(f'many/{i:0255}', 'w').close()\n\
         os.makedirs('deep'); os.chdir('deep')\n\
         for i in range(300): os.mkdir('n' * 255); os.chdir('n' * 255)\n\
         os.chdir('/workspace')",
    );
    let listed = sandbox.get("/files?path=odd").expect(200).json();
    let path = listed["entries"][0]["path"].as_str().unwrap();
    assert_eq!(path, "/workspace/odd/\u{efff}\u{effe}");
    // U+EFFF and U+EFFE in UTF-8.
    let path = "/files/content?path=odd/%EE%BF%BF%EE%BF%BE";
    assert_eq!(sandbox.get(path).expect(200).text(), "odd");
    sandbox.client.put(&sandbox.at(path), b"new").expect(200);
    assert_eq!(sandbox.print("print(open(b'odd/\\xff\\xfe').read())"), "new");
    let archive = sandbox.get("/files/archive?path=odd").expect(200).body;
    assert!(archive.starts_with(b"\xff\xfe\0"));
    sandbox.client.delete(&sandbox.at("/files?path=odd/%EE%BF%BF%EE%BF%BE")).expect(204);
    assert_eq!(sandbox.print("print(os.listdir('odd'))"), "[]");
    let archive = sandbox.get("/files/archive?path=many").expect(200).body;
    assert!(archive.len() > 3000 * 1024, "{}", archive.len());
    // Refused as a whole, and not broken off after a part.
    let (status, _) = sandbox.get("/files/archive?path=deep").problem();
    assert!((400..500).contains(&status), "{status}");
    sandbox.client.delete(&sandbox.at("/files?path=deep")).expect(204);
    assert_eq!(sandbox.print("print(sorted(os.listdir()))"), "['many', 'odd']");
}
