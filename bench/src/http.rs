//! The server over HTTP/1.1 keep-alive on loopback: round trips, streams, uploads, crowds, a soak.
//!
//! It starts the real binary, `silica serve`, beside this process, so two processes share the machine
//! as they do in life. The client is a blocking socket and nothing else.

mod client;
mod interpret;
mod jupyter;

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::Arguments;
use crate::measure::{Promise, Row, Samples};
use client::Client;

/// Clients of the throughput measure.
const CLIENTS: usize = 16;

/// Sandboxes of the idle measure.
const IDLE: usize = 200;

/// How long the idle server is watched.
const IDLE_WATCH: Duration = Duration::from_secs(20);

const STREAM_BYTES: usize = 50_000_000;
const UPLOAD_BYTES: usize = 1 << 30;

/// A running server.
pub(crate) struct Served {
    process: Child,
    address: String,
    key: String,
    _home: tempfile::TempDir,
}

impl Served {
    /// Starts one with a data directory of its own and the templates of another.
    pub(crate) fn start(arguments: &Arguments, home: &std::path::Path) -> Result<Self> {
        Self::start_with(arguments, home, &[])
    }

    /// The same with further settings.
    fn start_with(
        arguments: &Arguments,
        home: &std::path::Path,
        settings: &[String],
    ) -> Result<Self> {
        let own = tempfile::tempdir()?;
        for shared in ["templates", "guest", "cache"] {
            std::os::unix::fs::symlink(home.join(shared), own.path().join(shared))?;
        }
        let silica = match &arguments.silica {
            Some(path) => path.clone(),
            None => std::env::current_exe()?.with_file_name("silica"),
        };
        let template = format!("sandboxes.template={}", arguments.template);
        let mut process = Command::new(&silica)
            .args(["serve", "--listen", "127.0.0.1:0", "--print", "json"])
            .args(["--warm", &format!("{}=8", arguments.template)])
            .args(["--set", &template, "--set", "log.level=warn"])
            .args(["--set", "quota.requests_per_second=100000"])
            .args(["--set", "quota.request_burst=100000"])
            .args(["--set", "quota.sandboxes=1000", "--set", "quota.cells_queued=1000"])
            .args(settings.iter().flat_map(|setting| ["--set", setting]))
            .env("SILICA_HOME", own.path())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", silica.display()))?;
        let mut line = String::new();
        let stdout = process.stdout.take().context("stdout is piped")?;
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)?;
        let said: Value = serde_json::from_str(&line).context("the server did not start")?;
        let address = said["url"].as_str().unwrap_or_default().replace("http://", "");
        let key = said["key"].as_str().unwrap_or_default().to_owned();
        Ok(Self { process, address, key, _home: own })
    }

    /// Where it is, and its first key as E2B's clients want to see it.
    pub(crate) fn url_and_key(&self) -> (String, String) {
        (format!("http://{}", self.address), self.key.replace("silica_", "e2b_"))
    }

    fn client(&self) -> Result<Client> {
        Client::connect(&self.address, &self.key)
    }

    fn memory(&self) -> f64 {
        let path = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(path).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes: f64 =
            line.and_then(|line| line.trim().split(' ').next()?.parse().ok()).unwrap_or(f64::NAN);
        kilobytes / 1e3
    }

    /// Processor seconds of the server and everything below it.
    fn processor_seconds(&self) -> f64 {
        let pids =
            std::iter::once(self.process.id()).chain(crate::jobs::descendants(self.process.id()));
        let ticks: u64 = pids
            .map(|pid| {
                let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                let rest = stat.rsplit(')').next().unwrap_or_default().to_owned();
                let mut fields = rest.split_whitespace().skip(11);
                let mut next =
                    || fields.next().and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
                next() + next()
            })
            .sum();
        ticks as f64 / 100.0
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.process.id() as i32) {
            // It may have ended by itself.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.process.wait();
    }
}

fn create(client: &mut Client, body: &Value) -> Result<String> {
    let made = client.json("POST", "/v1/sandboxes", body)?;
    Ok(made["id"].as_str().context("no id")?.to_owned())
}

fn print_one(client: &mut Client, sandbox: &str) -> Result<()> {
    let path = format!("/v1/sandboxes/{sandbox}/cells");
    let cell = client.json("POST", &path, &json!({"code": "print(1)"}))?;
    ensure!(cell["stdout"] == "1\n", "{cell}");
    Ok(())
}

fn whole(client: &mut Client) -> Result<()> {
    let sandbox = create(client, &json!({}))?;
    print_one(client, &sandbox)?;
    client.request("DELETE", &format!("/v1/sandboxes/{sandbox}"), &[])?;
    Ok(())
}

/// Every measure of the server.
pub(crate) fn run_all(arguments: &Arguments, home: &std::path::Path) -> Result<Vec<Row>> {
    let wanted =
        |name: &str| arguments.only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    let mut rows = Vec::new();
    let served = Served::start(arguments, home)?;
    if wanted("http-cell") {
        rows.extend(round_trips(arguments, &served, home)?);
    }
    if wanted("http-create") {
        rows.extend(creating(arguments, &served)?);
    }
    if wanted("http-interpret") {
        rows.extend(interpret::run(arguments, home)?);
    }
    if wanted("http-stream") {
        rows.extend(streaming(&served)?);
    }
    if wanted("http-upload") {
        rows.extend(uploading(&served)?);
    }
    if wanted("http-idle") {
        rows.extend(idling(arguments, &served)?);
    }
    if arguments.soak > 0 {
        rows.extend(soaking(arguments, &served)?);
    }
    Ok(rows)
}

fn round_trips(arguments: &Arguments, served: &Served, home: &std::path::Path) -> Result<Vec<Row>> {
    let mut jupyter = jupyter::Jupyter::start(home)?;
    let mut client = served.client()?;
    let sandbox = create(&mut client, &json!({}))?;
    let (mut ours, mut theirs) = (Samples::default(), Samples::default());
    for _ in 0..20 {
        print_one(&mut client, &sandbox)?;
        jupyter.print_one()?;
    }
    for _ in 0..arguments.samples * 5 {
        let started = Instant::now();
        print_one(&mut client, &sandbox)?;
        ours.push(started.elapsed());
        theirs.push(jupyter.print_one()?);
    }
    let p99 = Promise { value: ours.quantile(0.99), bar: 5.0, unit: "ms" };
    Ok(vec![
        Row::time("http: print(1) in a live kernel, p50", ours.clone(), 1.0),
        Row::number("http: print(1) in a live kernel, p99", p99, String::new()),
        Row::ratio("http: print(1) against ipykernel", ours, theirs, 0.1),
    ])
}

fn creating(arguments: &Arguments, served: &Served) -> Result<Vec<Row>> {
    let mut client = served.client()?;
    let mut ours = Samples::default();
    for _ in 0..arguments.samples {
        // The pool fills up again in between, as it does when people create one now and then.
        std::thread::sleep(Duration::from_millis(50));
        let started = Instant::now();
        whole(&mut client)?;
        ours.push(started.elapsed());
    }
    let each = arguments.samples.max(20);
    let started = Instant::now();
    let done: Result<Vec<()>> = std::thread::scope(|scope| {
        let work = || {
            let mut client = served.client()?;
            (0..each).try_for_each(|_| whole(&mut client))
        };
        let threads: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a client panicked")).collect()
    });
    done?;
    let rate = (CLIENTS * each) as f64 / started.elapsed().as_secs_f64();
    // Promises are bars not to be exceeded, so the rate is shown as time per sandbox.
    let per = Promise { value: 1e3 / rate, bar: 1e3 / 250.0, unit: "ms" };
    let note = format!("{rate:.0} a second with {CLIENTS} clients");
    Ok(vec![
        Row::time("http: create + print(1) + delete", ours, 4.0),
        Row::number("http: the same, time per sandbox of 16 clients", per, note),
    ])
}

fn streaming(served: &Served) -> Result<Vec<Row>> {
    let mut client = served.client()?;
    let sandbox = create(&mut client, &json!({}))?;
    let before = served.memory();
    let code = format!(
        "import sys\nline = 'x' * 999 + '\\n'\nfor _ in range({}): sys.stdout.write(line)",
        STREAM_BYTES / 1000
    );
    let path = format!("/v1/sandboxes/{sandbox}/cells");
    let started = Instant::now();
    let mut most = before;
    let mut received = 0;
    client.stream(&path, &json!({"code": code}), |chunk| {
        if received / 5_000_000 != (received + chunk.len()) / 5_000_000 {
            most = most.max(served.memory());
        }
        received += chunk.len();
    })?;
    let seconds = started.elapsed().as_secs_f64();
    ensure!(received >= STREAM_BYTES, "only {received} bytes arrived");
    let rate = STREAM_BYTES as f64 / 1e6 / seconds;
    let grown = Promise { value: most - before, bar: 20.0, unit: "MB" };
    let per = Promise { value: 1e3 / rate, bar: 10.0, unit: "ms/MB" };
    Ok(vec![
        Row::number("http: 50 MB of stdout, server grows by", grown, String::new()),
        Row::number("http: 50 MB of stdout, time per MB", per, format!("{rate:.0} MB/s")),
    ])
}

fn uploading(served: &Served) -> Result<Vec<Row>> {
    let mut client = served.client()?;
    let limits = json!({"limits": {"memory_bytes": 3_u64 << 30, "disk_bytes": 3_u64 << 29, "file_bytes": 3_u64 << 29, "cpu_seconds": 600}});
    let sandbox = create(&mut client, &limits)?;
    let line = b"12345,67890,abcdefgh\n".repeat(50_000);
    let chunks = UPLOAD_BYTES / line.len();
    let before = served.memory();
    let mut most = before;
    let path = format!("/v1/sandboxes/{sandbox}/files/content?path=big.csv");
    let started = Instant::now();
    let length = 6 + chunks * line.len();
    client.upload(&path, length, |socket| {
        socket.write_all(b"a,b,c\n")?;
        for chunk in 0..chunks {
            socket.write_all(&line)?;
            if chunk % 64 == 0 {
                most = most.max(served.memory());
            }
        }
        Ok(())
    })?;
    let rate = length as f64 / 1e6 / started.elapsed().as_secs_f64();
    let code = "import pandas as pd\nprint(sum(int(part.a.sum()) for part in pd.read_csv('big.csv', chunksize=500_000)))";
    let path = format!("/v1/sandboxes/{sandbox}/cells");
    let cell = client.json("POST", &path, &json!({"code": code, "timeout_seconds": 600}))?;
    let expected = format!("{}\n", 12_345_u64 * 50_000 * chunks as u64);
    ensure!(cell["stdout"] == expected.as_str(), "{cell}");
    let grown = Promise { value: most.max(served.memory()) - before, bar: 50.0, unit: "MB" };
    let per = Promise { value: 1e3 / rate, bar: 5.0, unit: "ms/MB" };
    client.request("DELETE", &format!("/v1/sandboxes/{sandbox}"), &[])?;
    Ok(vec![
        Row::number("http: 1 GB uploaded and summed, server grows by", grown, String::new()),
        Row::number("http: 1 GB uploaded, time per MB", per, format!("{rate:.0} MB/s")),
    ])
}

fn idling(arguments: &Arguments, served: &Served) -> Result<Vec<Row>> {
    let mut client = served.client()?;
    let latency = |client: &mut Client, sandbox: &str| -> Result<Samples> {
        let mut samples = Samples::default();
        for _ in 0..arguments.samples * 2 {
            let started = Instant::now();
            print_one(client, sandbox)?;
            samples.push(started.elapsed());
        }
        Ok(samples)
    };
    let alone = create(&mut client, &json!({}))?;
    let before = latency(&mut client, &alone)?;
    let mut crowd = Vec::new();
    for _ in 0..IDLE {
        let sandbox = create(&mut client, &json!({}))?;
        print_one(&mut client, &sandbox)?;
        crowd.push(sandbox);
    }
    let last = create(&mut client, &json!({}))?;
    let after = latency(&mut client, &last)?;
    std::thread::sleep(Duration::from_secs(2));
    let (used, started) = (served.processor_seconds(), Instant::now());
    std::thread::sleep(IDLE_WATCH);
    let share = (served.processor_seconds() - used) / started.elapsed().as_secs_f64() * 100.0;
    for sandbox in crowd.iter().chain([&alone, &last]) {
        client.request("DELETE", &format!("/v1/sandboxes/{sandbox}"), &[])?;
    }
    let idle = Promise { value: share, bar: 1.0, unit: "% of a core" };
    Ok(vec![
        Row::number("http: 200 idle sandboxes use", idle, String::new()),
        Row::ratio("http: print(1) in the 201st against the first", after, before, 1.2),
    ])
}

/// Creates, runs and deletes at half the best rate for as long as was asked.
fn soaking(arguments: &Arguments, served: &Served) -> Result<Vec<Row>> {
    const WORKERS: usize = 4;
    let pause = Duration::from_secs_f64(WORKERS as f64 / arguments.soak_rate);
    let until = Instant::now() + Duration::from_secs(arguments.soak);
    let run = |until: Instant| -> Result<u64> {
        std::thread::scope(|scope| {
            let work = || -> Result<u64> {
                let (mut client, mut count) = (served.client()?, 0);
                while Instant::now() < until {
                    let next = Instant::now() + pause;
                    whole(&mut client)?;
                    count += 1;
                    std::thread::sleep(next.saturating_duration_since(Instant::now()));
                }
                Ok(count)
            };
            let threads: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(|thread| thread.join().expect("a client panicked")).sum()
        })
    };
    run(Instant::now() + Duration::from_secs(30).min(Duration::from_secs(arguments.soak / 4)))?;
    let before = served.memory();
    let count = run(until)?;
    let grown = Promise { value: served.memory() - before, bar: 10.0, unit: "MB" };
    let note = format!("{count} made and ended in {} s, no error", arguments.soak);
    Ok(vec![Row::number("http: soak, server grows by", grown, note)])
}
