//! A server of the outside world for sandboxes with a network: real TLS and plain HTTP on loopback.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use serde_json::Value;
use tempfile::TempDir;

use super::server::{TestServer, serve_command};
use super::{PYTHON, TestHome};

/// The name that rules and requests use.
pub(crate) const NAME: &str = "api.far.example";
/// Another name of the same server.
pub(crate) const OTHER: &str = "other.far.example";

/// Answers with what it was sent, on one port with TLS and on one without, and logs each request as
/// a line of JSON. A path of `/stream` sends a line every 50 ms.
const PROGRAM: &str = r#"
import http.server, json, ssl, sys, threading, time
log = open(sys.argv[3], "a", buffering=1)
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        length = int(self.headers.get("content-length") or 0)
        seen = {"path": self.path, "method": self.command, "headers": {k.lower(): v for k, v in self.headers.items()}, "body": self.rfile.read(length).decode()}
        print(json.dumps(seen), file=log)
        if self.path == "/stream":
            self.send_response(200); self.send_header("connection", "close"); self.end_headers()
            while True:
                self.wfile.write(b"tick\n"); self.wfile.flush(); time.sleep(0.05)
        body = json.dumps(seen).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_POST = do_PUT = do_DELETE = do_GET
    def log_message(self, *words): pass
servers = []
for tls in (True, False):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[1], sys.argv[2])
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    servers.append(server.server_address[1])
print(*servers, flush=True)
sys.stdin.read()
"#;

/// A running server of the outside world.
pub(crate) struct Upstream {
    child: Child,
    pub(crate) tls_port: u16,
    pub(crate) plain_port: u16,
    directory: TempDir,
}

impl Upstream {
    pub(crate) fn start() -> Self {
        let directory = TempDir::new().unwrap();
        let at = |name: &str| directory.path().join(name);
        write_certificates(directory.path());
        fs::write(at("server.py"), PROGRAM).unwrap();
        let mut child = Command::new("python3")
            .arg(at("server.py"))
            .args([at("leaf.pem"), at("leaf.key"), at("seen.jsonl")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ports: Vec<u16> = line.split_whitespace().map(|port| port.parse().unwrap()).collect();
        Self { child, tls_port: ports[0], plain_port: ports[1], directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The file of the authority that its certificate is from.
    pub(crate) fn authority(&self) -> PathBuf {
        self.path("authority.pem")
    }

    /// Starts a server whose sandboxes may reach this one, with further settings of `[network]`.
    pub(crate) fn serve(&self, mode: &str, further: &str) -> TestServer {
        let roots = self.authority();
        let text = format!(
            "[network]\nmode_max = \"{mode}\"\nprivate_allowed = [\"127.0.0.0/8\"]\n\
             extra_roots = \"{}\"\n{further}\n\
             [network.hosts]\n\"{NAME}\" = \"127.0.0.1\"\n\"{OTHER}\" = \"127.0.0.1\"\n",
            roots.display()
        );
        let file = self.path("silica.toml");
        fs::write(&file, text).unwrap();
        let home = TestHome::new(PYTHON);
        let mut command = serve_command(&home, &[]);
        command.arg("--config").arg(file);
        TestServer::start(command, home, Vec::new(), None)
    }

    /// The requests that it has seen.
    pub(crate) fn seen(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path("seen.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes an authority, and a certificate of it for both names.
fn write_certificates(directory: &Path) {
    let key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "Far Authority");
    fs::write(directory.join("authority.pem"), authority.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(authority, key);
    let leaf_key = KeyPair::generate().unwrap();
    let mut leaf = CertificateParams::new(vec![NAME.to_owned(), OTHER.to_owned()]).unwrap();
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    fs::write(directory.join("leaf.pem"), leaf.signed_by(&leaf_key, &issuer).unwrap().pem())
        .unwrap();
    fs::write(directory.join("leaf.key"), leaf_key.serialize_pem()).unwrap();
}
