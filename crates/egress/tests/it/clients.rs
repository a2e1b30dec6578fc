//! Real programs in the guest: curl, Python and Node, with and without proxy variables.

use std::path::Path;
use std::process::Command;

use silica_domain::RuleDraft;

use crate::rig::{Plan, Rig, far, rule};

/// Runs a program in the guest's network, with a resolver's configuration as in a sandbox.
fn run(rig: &Rig, directory: &Path, environment: &[(&str, &str)], program: &[&str]) -> String {
    let etc = directory.join("etc");
    std::fs::create_dir_all(&etc).unwrap();
    let written = [
        ("resolv.conf", ""),
        ("nsswitch.conf", "hosts: files dns\n"),
        ("hosts", "127.0.0.1 localhost\n"),
    ];
    for (name, content) in written {
        std::fs::write(etc.join(name), content).unwrap();
    }
    let bind = "for file in resolv.conf nsswitch.conf hosts; do \
                mount --bind \"$ETC/$file\" \"/etc/$file\"; done; exec \"$@\"";
    let network = rig.guest.namespace_path();
    let output = Command::new("nsenter")
        .arg(format!("--net={network}"))
        .args(["unshare", "--mount", "sh", "-c", bind, "sh"])
        .args(program)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
        .env("ETC", &etc)
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program:?}: {text}\n{errors}");
    text
}

const PROXY: [(&str, &str); 2] =
    [("https_proxy", "http://127.0.0.1:3128"), ("http_proxy", "http://127.0.0.1:3128")];

const PYTHON: &str = "import urllib.request as u
print(u.urlopen('http://plain.example.com/a').read().decode())
print(u.urlopen('https://pass.example.com/b').read().decode())
print(u.urlopen('https://read.example.com/c').read().decode())";

const NODE: &str = "(async () => {
    for (const url of ['http://plain.example.com/a', 'https://pass.example.com/b', 'https://read.example.com/c'])
        console.log(await (await fetch(url)).text());
})()";

#[tokio::test(flavor = "multi_thread")]
async fn programs_reach_allowed_hosts() {
    let plain = far::http(far::echo).await;
    let pass = far::https("pass.example.com", &["h2", "http/1.1"], far::echo).await;
    let read = far::https("read.example.com", &["h2", "http/1.1"], far::echo).await;
    let reading = RuleDraft { paths: vec!["/c".into()], ..rule("read.example.com", 443, "tls") };
    let rig = Rig::start(Plan {
        allow: vec![
            rule("plain.example.com", 80, "http"),
            rule("pass.example.com", 443, "tls"),
            reading,
        ],
        hosts: vec![
            ("plain.example.com", plain.address),
            ("pass.example.com", pass.address),
            ("read.example.com", read.address),
        ],
        ..Plan::default()
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let bundle = directory.path().join("bundle.pem");
    let roots = format!("{}{}", rig.authority_pem, far::FarAuthority::shared().pem);
    std::fs::write(&bundle, roots).unwrap();
    let bundle = bundle.to_str().unwrap();
    let trust =
        [("SSL_CERT_FILE", bundle), ("NODE_EXTRA_CA_CERTS", bundle), ("CURL_CA_BUNDLE", bundle)];
    let with_proxy = [&trust[..], &PROXY].concat();
    for environment in [&trust[..], &with_proxy] {
        for program in [&["python3", "-c", PYTHON][..], &["node", "-e", NODE]] {
            let text = run(&rig, directory.path(), environment, program);
            for line in ["GET /a HTTP/1.1", "GET /b HTTP/1.1", "/c HTTP/"] {
                assert!(text.contains(line), "{program:?}: {text}");
            }
        }
        for url in ["https://pass.example.com/b", "https://read.example.com/c"] {
            let curl = [
                "curl",
                "--silent",
                "--show-error",
                "--http2",
                "--write-out",
                "%{http_version}",
                url,
            ];
            let text = run(&rig, directory.path(), environment, &curl);
            assert!(text.contains("HTTP/2.0") && text.ends_with('2'), "{url}: {text}");
        }
    }
}
