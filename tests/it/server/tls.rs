//! The server behind a certificate: who is answered, who is not, and who must not keep others waiting.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use expect_test::expect;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedKey, IsCa, KeyPair, generate_simple_self_signed,
};
use serde_json::{Value, json};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::harness::server::{TestServer, serve_command};
use crate::harness::{CommandOutput, PYTHON, SILICA, TIMEOUT, TestHome, finish};

/// A server with a certificate of its own, and what trusts it.
struct Secured {
    server: TestServer,
    trusting: Arc<ClientConfig>,
}

/// A certificate that says, as those of `openssl req -x509` do, that it may sign others.
fn signing_certificate() -> CertifiedKey<KeyPair> {
    let mut parameters = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let signing_key = KeyPair::generate().unwrap();
    CertifiedKey { cert: parameters.self_signed(&signing_key).unwrap(), signing_key }
}

/// Writes a certificate and its key into the data directory.
fn certify(home: &TestHome) -> (Vec<String>, Arc<ClientConfig>) {
    install(home, generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap())
}

fn install(
    home: &TestHome,
    CertifiedKey { cert, signing_key }: CertifiedKey<KeyPair>,
) -> (Vec<String>, Arc<ClientConfig>) {
    let (certificate, key) = (home.path().join("tls.crt"), home.path().join("tls.key"));
    fs::write(&certificate, cert.pem()).unwrap();
    fs::write(&key, signing_key.serialize_pem()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let trusting = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let settings = [("tls.certificate", certificate), ("tls.key", key)];
    let settings = settings.map(|(name, path)| format!("{name}={}", path.display()));
    (settings.into(), Arc::new(trusting))
}

impl Secured {
    fn new() -> Self {
        let home = TestHome::new(PYTHON);
        let (settings, trusting) = certify(&home);
        Self { server: TestServer::over(home, settings, None), trusting }
    }

    fn socket(&self) -> TcpStream {
        let socket = TcpStream::connect(self.server.admin.address).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket
    }

    fn stream(&self) -> StreamOwned<ClientConnection, TcpStream> {
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::clone(&self.trusting), name).unwrap();
        StreamOwned::new(connection, self.socket())
    }

    /// One request on a connection of its own; the status and the body.
    fn request(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let (mut stream, body) = (self.stream(), body.to_string());
        let close = [("Connection", "close")];
        let head = self.server.admin.head(method, path, &close, body.len());
        stream.write_all((head + &body).as_bytes()).unwrap();
        let mut answer = String::new();
        // A server that closes without a farewell has said everything all the same.
        let _ = stream.read_to_string(&mut answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap())
    }
}

#[test]
fn a_client_that_trusts_the_certificate_is_served() {
    let secured = Secured::new();
    let (status, ran) = secured.request("POST", "/v1/run", &json!({"code": "print(6 * 7)"}));
    assert_eq!((status, &ran["stdout"]), (200, &json!("42\n")), "{ran}");
    // Many on one server, one after the other and beside each other.
    std::thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| assert_eq!(secured.request("GET", "/healthz", &json!({})).0, 200));
        }
    });
}

#[test]
fn a_client_without_tls_is_not_answered() {
    let secured = Secured::new();
    let mut socket = secured.socket();
    socket.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // What comes is an alert of TLS and no word of HTTP.
    let _ = socket.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{:?}", String::from_utf8_lossy(&answer));
    assert_eq!(secured.request("GET", "/healthz", &json!({})).0, 200);
}

#[test]
fn a_client_that_stops_in_the_middle_delays_no_other() {
    let secured = Secured::new();
    // Nothing, the first bytes of a greeting, and a greeting that claims more than it has.
    let beginnings: [&[u8]; 3] = [b"", &[22, 3, 1], &[22, 3, 1, 64, 0, 1, 0, 63, 252, 3, 3]];
    let waiting: Vec<TcpStream> = (0..90)
        .map(|number| {
            let mut socket = secured.socket();
            socket.write_all(beginnings[number % beginnings.len()]).unwrap();
            socket
        })
        .collect();
    // One that has shaken hands and then says half of what it wants.
    let mut half = secured.stream();
    half.write_all(b"GET /healthz HT").unwrap();
    let (status, ran) = secured.request("POST", "/v1/run", &json!({"code": "print(6 * 7)"}));
    assert_eq!((status, &ran["stdout"]), (200, &json!("42\n")), "{ran}");
    drop(waiting);
    half.write_all(b"TP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    let _ = half.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
}

#[test]
fn certificate_that_cannot_be_used_is_reported() {
    let home = TestHome::new(PYTHON);
    let (settings, _) = certify(&home);
    let (certificate, key) = (home.path().join("tls.crt"), home.path().join("tls.key"));
    let good = (fs::read(&certificate).unwrap(), fs::read(&key).unwrap());
    let other = TestHome::new(PYTHON);
    certify(&other);
    let foreign = fs::read(other.path().join("tls.key")).unwrap();
    let cases: [(&[u8], &[u8], &str); 4] = [
        (b"no certificate", &good.1, "tls.crt"),
        (&good.0, b"no key", "tls.key"),
        (&good.0, &foreign, "tls.crt"),
        (&good.0[..good.0.len() / 2], &good.1, "tls.crt"),
    ];
    for (certificate_text, key_text, named) in cases {
        fs::write(&certificate, certificate_text).unwrap();
        fs::write(&key, key_text).unwrap();
        let ran = finish(&mut serve_command(&home, &settings));
        assert_eq!((ran.status, ran.stdout.as_str()), (125, ""), "{ran:?}");
        assert!(ran.stderr.contains(named) && !ran.stderr.contains("panicked"), "{ran:?}");
    }
}

#[test]
fn top_trusts_the_certificate_that_it_is_given() {
    let secured = Secured::new();
    let port = secured.server.admin.address.port();
    let certificate = secured.server.home().path().join("tls.crt");
    let refused = top(&secured.server, "localhost", None);
    assert_eq!((refused.status, refused.stdout.as_str()), (125, ""), "{refused:?}");
    expect![[r"
        silica: the certificate of https://localhost:PORT is not trusted: this machine does not know who signed it; if the server signs its own certificate, pass it with --ca FILE or SILICA_CA
    "]]
    .assert_eq(&refused.stderr.replace(&port.to_string(), "PORT"));
    let looked = top(&secured.server, "localhost", Some(&certificate));
    assert_eq!(looked.status, 0, "{looked:?}");
    assert_eq!(looked.json()["sandboxes"], json!([]), "{looked:?}");
}

/// The variable does for every command what `--ca` does, and a file without a certificate nothing.
#[test]
fn certificate_of_the_environment_is_trusted() {
    let secured = Secured::new();
    let url = format!("https://localhost:{}", secured.server.admin.address.port());
    let certificate = secured.server.home().path().join("tls.crt");
    let silica = |trusted: &Path, arguments: &[&str]| {
        let mut command = Command::new(SILICA);
        command.env_clear().env("SILICA_URL", &url).env("SILICA_CA", trusted).args(arguments);
        finish(command.env("SILICA_KEY", secured.server.admin.key.as_ref().unwrap()))
    };
    let status = silica(&certificate, &["status", "--json"]);
    assert_eq!((status.status, &status.json()["ready"]), (0, &json!(true)), "{status:?}");
    let ran = silica(&certificate, &["run", "--server", "-c", "6 * 7"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "42\n"), "{ran:?}");
    let refused = silica(Path::new("/absent.pem"), &["status"]);
    assert_eq!(refused.status, 125, "{refused:?}");
    assert!(refused.stderr.contains("cannot read /absent.pem"), "{refused:?}");
}

#[test]
fn certificate_that_may_sign_others_is_trusted_if_it_is_the_very_one() {
    let home = TestHome::new(PYTHON);
    let (settings, _) = install(&home, signing_certificate());
    let server = TestServer::over(home, settings, None);
    let certificate = server.home().path().join("tls.crt");
    let looked = top(&server, "localhost", Some(&certificate));
    assert_eq!(looked.status, 0, "{looked:?}");
    let another = server.home().path().join("another.crt");
    fs::write(&another, signing_certificate().cert.pem()).unwrap();
    for (host, trusted, reason) in [
        ("localhost", &another, "that of an authority"),
        ("127.0.0.1", &certificate, "it is for another host name"),
    ] {
        let refused = top(&server, host, Some(trusted));
        assert_eq!((refused.status, refused.stdout.as_str()), (125, ""), "{refused:?}");
        assert!(refused.stderr.contains(reason), "{refused:?}");
    }
}

/// Looks at a server by one of its names, with trust in a certificate.
fn top(server: &TestServer, host: &str, trusted: Option<&Path>) -> CommandOutput {
    let port = server.admin.address.port();
    let mut command = Command::new(SILICA);
    command.env_clear().env("SILICA_URL", format!("https://{host}:{port}"));
    command.env("SILICA_KEY", server.admin.key.as_ref().unwrap()).args(["top", "--json"]);
    if let Some(trusted) = trusted {
        command.arg("--ca").arg(trusted);
    }
    finish(&mut command)
}
