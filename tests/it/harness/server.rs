//! A running server over a data directory of its own, and sandboxes that its clients create.

use std::io::BufReader;
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::http::{Client, Response};
use super::{PYTHON, SILICA, TIMEOUT, TestHome, eventually, first_line, signal};

/// A running server and a client with its first key, which is an admin key.
pub(crate) struct TestServer {
    child: Child,
    pub(crate) admin: Client,
    log: Arc<Mutex<String>>,
    settings: Vec<String>,
    _stdout: BufReader<ChildStdout>,
    // Last, because the process must be gone when its directory is cleared.
    home: Option<TestHome>,
}

/// `silica serve` over a data directory, not started yet.
pub(crate) fn serve_command(home: &TestHome, settings: &[String]) -> Command {
    let mut command = Command::new(SILICA);
    command
        .args(["serve", "--listen", "127.0.0.1:0", "--print", "json", "--warm", "python=1"])
        .args(["--set", "sandboxes.template=python"])
        .env("SILICA_HOME", home.path())
        .current_dir(home.working_directory())
        .stdin(Stdio::null());
    for setting in settings {
        command.args(["--set", setting]);
    }
    command
}

impl TestServer {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// A server with settings of the form `KEY=VALUE`.
    pub(crate) fn with(settings: &[&str]) -> Self {
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        Self::over(TestHome::new(PYTHON), settings, None)
    }

    pub(crate) fn over(home: TestHome, settings: Vec<String>, key: Option<String>) -> Self {
        let command = serve_command(&home, &settings);
        Self::start(command, home, settings, key)
    }

    pub(crate) fn start(
        mut command: Command,
        home: TestHome,
        settings: Vec<String>,
        key: Option<String>,
    ) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let log = collect_log(&mut child);
        let (line, stdout) = first_line(&mut child);
        let said: Value = serde_json::from_str(&line)
            .unwrap_or_else(|error| panic!("{error}: {line:?}, {}", log.lock().unwrap()));
        let (_, address) = said["url"].as_str().unwrap().split_once("://").unwrap();
        let address: SocketAddr = address.parse().unwrap();
        let key = said["key"].as_str().map(str::to_owned).or(key);
        let admin = Client { address, key };
        Self { child, admin, log, settings, _stdout: stdout, home: Some(home) }
    }

    /// `http://` and the address.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.admin.address)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn home(&self) -> &TestHome {
        self.home.as_ref().unwrap()
    }

    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits for the process to end by itself and returns its status.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        let ended = eventually(TIMEOUT, || self.child.try_wait().unwrap().is_some());
        assert!(ended, "it does not end: {}", self.log());
        self.child.wait().unwrap().code()
    }

    pub(crate) fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn terminate(mut self) {
        signal(self.pid(), Signal::TERM);
        self.wait();
    }

    /// The data directory, for another server; this one must have ended.
    pub(crate) fn take_home(&mut self) -> TestHome {
        self.home.take().unwrap()
    }

    /// Kills it with SIGKILL and starts another over the same data.
    pub(crate) fn kill_and_restart(mut self) -> Self {
        self.kill();
        let home = self.take_home();
        Self::over(home, self.settings.clone(), self.admin.key.clone())
    }

    /// A client with a new key that is not an admin key.
    pub(crate) fn tenant(&self) -> Client {
        self.new_key().0
    }

    /// A client with a new key that is not an admin key, and the id of the key.
    pub(crate) fn new_key(&self) -> (Client, String) {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let name = format!("tenant {}", NEXT.fetch_add(1, Ordering::Relaxed));
        let key = self.admin.post("/v1/keys", &json!({"name": name})).expect(201).json();
        let client = self.admin.with_key(key["key"].as_str());
        (client, key["id"].as_str().unwrap().to_owned())
    }

    pub(crate) fn sandbox(&self) -> TestSandbox {
        TestSandbox::new(&self.admin, &json!({}))
    }

    /// Asserts that the server runs code.
    #[track_caller]
    pub(crate) fn assert_works(&self) {
        let ran = self.admin.post("/v1/run", &json!({"code": "print(6 * 7)"}));
        assert_eq!(ran.expect(200).json()["stdout"], "42\n", "{}", self.log());
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("the server said:\n{}", self.log());
        } else {
            assert!(!self.log().contains("panicked"), "{}", self.log());
        }
    }
}

fn collect_log(child: &mut Child) -> Arc<Mutex<String>> {
    let log = Arc::new(Mutex::new(String::new()));
    let (kept, mut stderr) = (Arc::clone(&log), child.stderr.take().unwrap());
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(length @ 1..) = std::io::Read::read(&mut stderr, &mut bytes) {
            kept.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..length]));
        }
    });
    log
}

/// A sandbox of a server and the client that created it.
#[derive(Clone, Debug)]
pub(crate) struct TestSandbox {
    pub(crate) client: Client,
    pub(crate) id: String,
    pub(crate) path: String,
}

impl TestSandbox {
    pub(crate) fn new(client: &Client, options: &Value) -> Self {
        let made = client.post("/v1/sandboxes", options).expect(201).json();
        let id = made["id"].as_str().unwrap().to_owned();
        Self { client: client.clone(), path: format!("/v1/sandboxes/{id}"), id }
    }

    pub(crate) fn at(&self, rest: &str) -> String {
        format!("{}{rest}", self.path)
    }

    pub(crate) fn get(&self, rest: &str) -> Response {
        self.client.get(&self.at(rest))
    }

    pub(crate) fn post(&self, rest: &str, body: &Value) -> Response {
        self.client.post(&self.at(rest), body)
    }

    /// Runs a cell to its end.
    #[track_caller]
    pub(crate) fn cell(&self, body: &Value) -> Value {
        self.post("/cells", body).expect(200).json()
    }

    /// Runs code to its end.
    #[track_caller]
    pub(crate) fn run(&self, code: &str) -> Value {
        self.cell(&json!({"code": code}))
    }

    /// What code that runs well prints.
    #[track_caller]
    pub(crate) fn print(&self, code: &str) -> String {
        let cell = self.run(code);
        assert_eq!(cell["outcome"], "ok", "{cell}");
        cell["stdout"].as_str().unwrap().trim_end().to_owned()
    }

    /// Starts a cell and returns its id.
    #[track_caller]
    pub(crate) fn start(&self, body: &Value) -> String {
        let mut body = body.clone();
        body["background"] = true.into();
        let cell = self.post("/cells", &body).expect(202).json();
        cell["id"].as_str().unwrap().to_owned()
    }

    /// Starts code that prints `up` first, and returns when it has.
    pub(crate) fn start_until_up(&self, code: &str) -> String {
        let cell = self.start(&json!({"code": code}));
        let mut events = self.client.events(&self.at(&format!("/cells/{cell}/events")));
        events.until("stdout");
        cell
    }

    /// Waits for a cell to end and returns it.
    pub(crate) fn ended(&self, cell: &str) -> Value {
        let cell = self.get(&format!("/cells/{cell}?wait=60")).expect(200).json();
        assert_eq!(cell["state"], "done", "{cell}");
        cell
    }

    /// The state, and why the sandbox has ended.
    pub(crate) fn state(&self) -> (String, Option<String>) {
        let sandbox = self.get("").expect(200).json();
        let reason = sandbox["end_reason"].as_str().map(str::to_owned);
        (sandbox["state"].as_str().unwrap().to_owned(), reason)
    }

    /// Waits until the sandbox has ended, and asserts why.
    pub(crate) fn assert_ends(&self, reason: &str) {
        let ended = eventually(TIMEOUT, || self.state().0 != "running");
        assert!(ended, "{:?}", self.state());
        assert_eq!(self.state(), ("ended".to_owned(), Some(reason.to_owned())));
    }
}
