//! `silica doctor`: reports what this host supports and enforces, what is missing, and a remedy.

mod calls;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use silica_domain::{Containment, Enforcement, Limits, Outcome, Tier};
use silica_engine::jail_host::{is_privileged, survey};
use silica_engine::{
    CreateOptions, Created, Engine, GuestPrefix, GuestSocket, KernelOrigin, Sandbox, Unwatched,
};
use silica_templates::{Home, TemplateName, TemplateSource, load};

use crate::{home, show};

/// Arguments of `silica doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
    /// Print the answer of a sandbox to each system call and the reason as JSON, without checks
    #[arg(long)]
    calls: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Good,
    Limited,
    Missing,
}

impl State {
    fn mark(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Limited => "limited",
            Self::Missing => "MISSING",
        }
    }
}

/// One row of the report.
#[derive(Debug)]
struct Finding {
    name: String,
    state: State,
    detail: String,
    /// What to do about it.
    remedy: Option<String>,
}

impl Finding {
    fn new(name: &str, state: State, detail: impl Into<String>) -> Self {
        Self { name: name.to_owned(), state, detail: detail.into(), remedy: None }
    }

    fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

pub(crate) fn run(arguments: &DoctorArgs) -> Result<i32> {
    if arguments.calls {
        calls::print()?;
        return Ok(0);
    }
    let home = home::home()?;
    let mut findings = vec![kernel(), user_namespaces(), data_directory(&home)];
    findings.extend(control_groups());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (can_run, more) = runtime.block_on(try_sandbox(&home));
    findings.extend(more);
    if arguments.json {
        print_json(&findings, can_run)?;
    } else {
        print_table(&findings, can_run)?;
    }
    Ok(i32::from(!can_run))
}

fn kernel() -> Finding {
    let release = read("/proc/sys/kernel/osrelease");
    let version: Vec<u32> =
        release.split(['.', '-']).map_while(|part| part.parse().ok()).take(2).collect();
    let finding = |state| Finding::new("kernel", state, format!("Linux {release}"));
    match version.as_slice() {
        [major, minor] if (*major, *minor) >= (5, 12) => finding(State::Good),
        _ => finding(State::Missing)
            .with_remedy("Linux 5.12 or newer is required (mount_setattr, overlayfs for users)"),
    }
}

/// Checks the settings by which distributions disable user namespaces.
fn user_namespaces() -> Finding {
    let name = "user namespaces";
    let max = read("/proc/sys/user/max_user_namespaces");
    if max == "0" {
        return Finding::new(name, State::Missing, "user.max_user_namespaces is 0")
            .with_remedy("sysctl -w user.max_user_namespaces=15000");
    }
    let privileged = is_privileged();
    if !privileged && read("/proc/sys/kernel/unprivileged_userns_clone") == "0" {
        return Finding::new(name, State::Missing, "only root may create them on this host")
            .with_remedy("sysctl -w kernel.unprivileged_userns_clone=1, or run as root");
    }
    if !privileged && read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
        return Finding::new(name, State::Limited, "AppArmor restricts them for ordinary users")
            .with_remedy(
                "add an AppArmor profile that allows userns for this binary, or run as root; \
                 see docs/guides/running-without-root.md",
            );
    }
    Finding::new(name, State::Good, format!("up to {max}"))
}

fn data_directory(home: &Home) -> Finding {
    let path = home.path();
    let name = "data directory";
    let existing = path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"));
    if rustix::fs::access(existing, rustix::fs::Access::WRITE_OK).is_err() {
        return Finding::new(name, State::Missing, format!("{} is not writable", path.display()))
            .with_remedy("set SILICA_HOME to a directory that you can write to");
    }
    let free = rustix::fs::statvfs(existing).map_or(0, |stat| stat.f_bavail * stat.f_frsize);
    let detail = format!("{} ({} GB free)", path.display(), free / 1_000_000_000);
    match free {
        0..3_000_000_000 => Finding::new(name, State::Limited, detail)
            .with_remedy("free some space: building code-interpreter takes about 1.5 GB"),
        _ => Finding::new(name, State::Good, detail),
    }
}

fn control_groups() -> Vec<Finding> {
    let survey = survey();
    let mut findings = Vec::new();
    for place in &survey.places {
        let names: Vec<&str> = place.controllers.iter().map(|one| one.name()).collect();
        let detail = format!("{:?} at {}", place.version, place.parent.display()).to_lowercase();
        findings.push(Finding::new(&format!("cgroup {}", names.join("+")), State::Good, detail));
    }
    for (controller, reason) in &survey.missing {
        let finding =
            Finding::new(&format!("cgroup {}", controller.name()), State::Limited, reason);
        findings.push(finding.with_remedy(if is_unified(controller.name()) {
            "run as root, or in a delegated group: systemd-run --user --scope -p Delegate=yes silica …"
        } else {
            "run as root: systemd delegates no part of cgroup v1 to users"
        }));
    }
    findings
}

/// Returns whether a controller is, or could be, in the hierarchy that systemd delegates to users.
fn is_unified(controller: &str) -> bool {
    let groups = read("/proc/self/cgroup");
    let of_v1 = groups.lines().filter_map(|line| line.split(':').nth(1));
    !of_v1.flat_map(|names| names.split(',')).any(|name| name == controller)
}

/// Starts a zone and, if a template is built, runs a cell in a sandbox, which tests everything.
async fn try_sandbox(home: &Home) -> (bool, Vec<Finding>) {
    let engine = match home::engine(home, Tier::Jail, None) {
        Ok(engine) => engine,
        Err(error) => {
            let causes: Vec<String> = error.chain().skip(1).map(ToString::to_string).collect();
            let finding = Finding::new("sandboxes", State::Missing, causes.join(": "));
            return (false, vec![finding.with_remedy(remedy_for(&causes.join(" ")))]);
        }
    };
    let mut findings = measures(engine.containment());
    let proofs = match built_template(home) {
        None => vec![
            Finding::new("sandboxes", State::Good, "can run; no template is built yet")
                .with_remedy(
                    "silica template build code-interpreter (or just: silica run -c 'print(1)')",
                ),
        ],
        Some(name) => prove(&engine, home, &name).await,
    };
    let can_run = proofs.iter().all(|proof| proof.state != State::Missing);
    findings.extend(proofs);
    engine.close().await;
    (can_run, findings)
}

/// Returns the first built-in template that has been built.
fn built_template(home: &Home) -> Option<TemplateName> {
    TemplateSource::builtin_names().find_map(|name| {
        let name = TemplateName::new(name).ok()?;
        load(home, &name).ok().flatten().map(|_| name)
    })
}

async fn prove(engine: &Engine, home: &Home, name: &TemplateName) -> Vec<Finding> {
    match run_print(engine, home, name).await {
        Ok(Proof { millis, network }) => {
            let detail = format!("print(1) ran with the template {name} in {millis:.0} ms");
            vec![Finding::new("sandboxes", State::Good, detail), network]
        }
        Err(error) => {
            let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
            let finding = Finding::new("sandboxes", State::Missing, causes.join(": "));
            vec![finding.with_remedy(remedy_for(&causes.join(" ")))]
        }
    }
}

/// What a sandbox has shown.
struct Proof {
    /// How long it took to run a cell in it.
    millis: f64,
    network: Finding,
}

async fn run_print(engine: &Engine, home: &Home, name: &TemplateName) -> Result<Proof> {
    let template = load(home, name)?.ok_or_else(|| anyhow::anyhow!("the template was removed"))?;
    engine.add_template(template).await?;
    let started = std::time::Instant::now();
    let options =
        CreateOptions { kernel: KernelOrigin::Fresh, ..CreateOptions::new(name.as_str()) };
    let Created { sandbox, mut kernel, .. } = engine.create(&options).await?;
    kernel.ready().await?;
    let (_keep, mut interrupts) = tokio::sync::mpsc::channel(1);
    let report =
        kernel.run("print(1)", &Limits::default(), &mut Unwatched, &mut interrupts).await?;
    anyhow::ensure!(report.outcome == Outcome::Ok, "print(1) ended as {}", report.outcome.name());
    let millis = started.elapsed().as_secs_f64() * 1e3;
    let network = try_network(&sandbox).await;
    sandbox.destroy().await?;
    Ok(Proof { millis, network })
}

/// Opens what a sandbox with a network needs: a listener on a port below 1024, a socket to connect
/// and a range of addresses.
async fn try_network(sandbox: &Sandbox) -> Finding {
    let address = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 443);
    let sockets = [GuestSocket::Listener { address, backlog: 1 }, GuestSocket::Stream];
    let documentation = GuestPrefix::new(Ipv4Addr::new(192, 0, 2, 0), 24);
    match sandbox.open_sockets(&sockets, documentation.as_slice()).await {
        Ok(_) => Finding::new("controlled network", State::Good, "the host can listen inside"),
        Err(error) => {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            let reason = source.unwrap_or_else(|| error.to_string());
            Finding::new("controlled network", State::Limited, reason)
        }
    }
}

fn measures(containment: &Containment) -> Vec<Finding> {
    let finding = |measure: &silica_domain::Measure| {
        let (state, detail) = match &measure.enforcement {
            Enforcement::Full(detail) => (State::Good, detail),
            Enforcement::Partial(detail) | Enforcement::Missing(detail) => (State::Limited, detail),
        };
        Finding::new(&format!("enforced: {}", measure.name), state, detail)
    };
    containment.measures.iter().map(finding).collect()
}

/// Returns the usual remedy for the step that failed.
fn remedy_for(causes: &str) -> &'static str {
    const KNOWN: [(&str, &str); 6] = [
        (
            "zone-groups",
            "the control groups cannot be used as they are set up: start Silica in a group of its \
             own; see docs/guides/running-without-root.md",
        ),
        (
            "zone-fork",
            "user namespaces are not permitted: see the row `user namespaces`, or, inside a \
             container, allow unshare and mount in its seccomp profile",
        ),
        (
            "zone-ids",
            "the id map was rejected: run as root, or as a user without a restricted id map",
        ),
        (
            "zone-root",
            "mounts are not permitted: inside a container, allow mount and do not mask /proc",
        ),
        (
            "enclosure-root",
            "overlayfs is not permitted in user namespaces: Linux 5.12 or newer is required",
        ),
        (
            "enclosure-proc",
            "a new /proc is not permitted: start the outer container without a masked /proc",
        ),
    ];
    let found = KNOWN.iter().find(|(step, _)| causes.contains(step));
    found.map_or("see docs/guides/running-without-root.md", |(_, remedy)| remedy)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn print_table(findings: &[Finding], can_run: bool) -> Result<()> {
    for (index, finding) in findings.iter().enumerate() {
        let mark = finding.state.mark();
        let name = &finding.name;
        show::line(format_args!("{mark:<8} {name:<28} {}", finding.detail))?;
        // A remedy of several consecutive rows is printed once, below the last.
        let again = findings.get(index + 1).is_some_and(|next| next.remedy == finding.remedy);
        if let Some(remedy) = finding.remedy.as_ref().filter(|_| !again) {
            show::line(format_args!("{:<8} {:<28} → {remedy}", "", ""))?;
        }
    }
    let verdict = if can_run { "Sandboxes can run here." } else { "Sandboxes cannot run here." };
    show::line(format_args!("\n{verdict}"))
}

fn print_json(findings: &[Finding], can_run: bool) -> Result<()> {
    let row = |finding: &Finding| {
        json!({
            "name": finding.name,
            "state": finding.state.mark().to_lowercase(),
            "detail": finding.detail,
            "remedy": finding.remedy,
        })
    };
    let rows: Vec<_> = findings.iter().map(row).collect();
    show::line(serde_json::to_string_pretty(&json!({"can_run": can_run, "findings": rows}))?)
}
