//! The peers of Silica, and one interface to all contenders, Silica included.
//!
//! Every peer is driven by a process of its own that receives requests and measures the time
//! itself, so the pipe to this program is not counted. A peer that is not available here is
//! recorded with the reason.

mod containers;
mod driver;
mod install;
pub(crate) mod spawn;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

pub(crate) use install::{Missing, Place};

use crate::interleave::first_line;
use crate::plain::Plain;
use crate::results::PeerState;
use driver::Driver;

/// A contender: something that runs code. A session is named by a number.
pub(crate) trait Contender {
    /// Makes a new place and runs code in it; the time until its output is there.
    fn fresh(&mut self, code: &str) -> Result<Run>;
    /// Makes a place that stays.
    fn open(&mut self) -> Result<u64>;
    /// Runs code in one that stays.
    fn run(&mut self, session: u64, code: &str) -> Result<Run>;
    fn close(&mut self, session: u64) -> Result<()>;
    /// Makes many places at once; the time until all have printed.
    fn crowd(&mut self, count: usize, code: &str) -> Result<Duration>;
    /// The process that belongs to it, with everything below.
    fn process(&self) -> Option<u32>;
    /// Makes, uses and ends places for a while; how many a second.
    fn rate(&mut self, clients: usize, time: Duration, code: &str) -> Result<f64>;
    /// Releases all resources that it still holds, so that they do not affect the next measure.
    fn start_over(&mut self) {}
}

/// The output of code and the time that it took.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Run {
    pub(crate) took: Duration,
    pub(crate) output: String,
}

impl Run {
    /// The time, if the output is what it should be.
    pub(crate) fn printing(self, expected: &str) -> Result<Duration> {
        anyhow::ensure!(self.output.trim() == expected, "it printed {:?}", self.output.trim());
        Ok(self.took)
    }
}

/// A peer that is running.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) sessions: Sessions,
    pub(crate) contender: Box<dyn Contender>,
}

/// Whether a place stays for another piece of code. Where it does not, one is still held open for
/// the sake of its memory, with a few lines of ours inside; how fast those answer says nothing of
/// the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sessions {
    Own,
    /// None at all; this is plain Python with a pipe, the least that a session can cost.
    Floor,
    None,
}

/// What is known of a peer before it is tried.
struct Candidate {
    name: &'static str,
    sessions: Sessions,
    what: &'static str,
    start: fn(&Surroundings<'_>) -> Result<Driver>,
}

/// What peers are started from.
struct Surroundings<'a> {
    place: &'a Place,
    plain: &'a Plain,
}

/// Plain Python, by this name in every table.
pub(crate) const PLAIN: &str = "plain python3";

/// ipykernel, by the name that a promise needs.
pub(crate) const IPYKERNEL: &str = "ipykernel";

const CANDIDATES: [Candidate; 11] = [
    Candidate {
        name: PLAIN,
        sessions: Sessions::Floor,
        what: "a new process, no isolation at all: the measure of the others",
        start: |around| containers::plain(around.place, around.plain),
    },
    Candidate {
        name: "bubblewrap",
        sessions: Sessions::None,
        what: "bwrap with all namespaces, read-only root",
        start: |around| containers::bubblewrap(around.place, around.plain),
    },
    Candidate {
        name: "crun",
        sessions: Sessions::None,
        what: "an OCI container on a plain directory",
        start: |around| containers::crun(around.place, around.plain),
    },
    Candidate {
        name: "podman",
        sessions: Sessions::None,
        what: "podman run --rootfs on the same directory",
        start: |around| containers::podman(around.place, around.plain),
    },
    Candidate {
        name: "gVisor",
        sessions: Sessions::None,
        what: "runsc on the same directory, a kernel of its own in user space",
        start: |around| containers::runsc(around.place, around.plain),
    },
    Candidate {
        name: "sandlock",
        sessions: Sessions::None,
        what: "Landlock and seccomp around a new process, by its Python API",
        start: |around| python(around, "sandlock", &["sandlock"], None),
    },
    Candidate {
        name: IPYKERNEL,
        sessions: Sessions::Own,
        what: "a Jupyter kernel by jupyter_client, no isolation",
        start: |around| python(around, "ipykernel", &["ipykernel", "jupyter_client"], None),
    },
    Candidate {
        name: "Kernel Gateway",
        sessions: Sessions::Own,
        what: "Jupyter kernels over HTTP and WebSocket, no isolation",
        start: |around| {
            let packages = ["ipykernel", "jupyter_kernel_gateway", "websocket-client"];
            python(around, "gateway", &packages, None)
        },
    },
    Candidate {
        name: "eryx",
        sessions: Sessions::Own,
        what: "CPython 3.14 in WebAssembly, in the caller's process; no pandas",
        start: |around| python(around, "eryx", &["pyeryx"], Some((3, 12))),
    },
    Candidate {
        name: "monty",
        sessions: Sessions::Own,
        what: "a small Python of its own in worker processes; a subset of the language, no packages",
        start: |around| python(around, "monty", &["pydantic-monty"], None),
    },
    Candidate {
        name: "Pyodide",
        sessions: Sessions::Own,
        what: "CPython in WebAssembly on node, in a process of its own",
        start: |around| pyodide(around.place),
    },
];

/// Installs and starts all peers that are available here.
pub(crate) fn gather(
    place: &Place,
    plain: &Plain,
    wanted: &dyn Fn(&str) -> bool,
) -> (Vec<Peer>, Vec<PeerState>) {
    let around = Surroundings { place, plain };
    let (mut peers, mut states) = (Vec::new(), Vec::new());
    for candidate in CANDIDATES.iter().filter(|candidate| wanted(candidate.name)) {
        eprintln!("bench: peer {}", candidate.name);
        let mut state = PeerState {
            name: candidate.name.to_owned(),
            what: candidate.what.to_owned(),
            version: String::new(),
            absent: None,
        };
        // Started is not yet working: what it prints is looked at, too.
        let tried = (candidate.start)(&around).and_then(|mut driver| {
            driver.fresh("print(1)")?.printing("1")?;
            Ok(driver)
        });
        match tried {
            Ok(driver) => {
                state.version.clone_from(&driver.version);
                let (name, sessions) = (candidate.name, candidate.sessions);
                peers.push(Peer { name, sessions, contender: Box::new(driver) });
            }
            Err(error) => {
                let reason = first_line(&error);
                eprintln!("bench: peer {} does not run here: {reason}", candidate.name);
                state.absent = Some(reason);
            }
        }
        states.push(state);
    }
    (peers, states)
}

/// A peer that is a Python library, driven by a program of ours in an environment of its own.
fn python(
    around: &Surroundings<'_>,
    name: &str,
    packages: &[&str],
    least: Option<(u32, u32)>,
) -> Result<Driver> {
    let base = match least {
        None => around.plain.interpreter().to_owned(),
        Some(least) => install::python_of_at_least(least)?,
    };
    let environment = around.place.environment(name, &base, around.plain, packages)?;
    let program = around.place.driver("peers.py")?;
    let mut command = Command::new(environment.join("bin/python"));
    command.arg(program).arg(name).envs(around.plain.threads());
    // The interpreter may be a copy that finds its library by this.
    if least.is_none() {
        command.env("LD_LIBRARY_PATH", around.plain.libraries());
        command.env("BENCH_PYTHON", around.plain.interpreter());
        command.env("BENCH_SITE", around.plain.site());
    }
    Driver::start(command)
}

fn pyodide(place: &Place) -> Result<Driver> {
    let modules: PathBuf = place.npm("pyodide")?;
    let program = place.driver("pyodide.mjs")?;
    let mut command = Command::new("node");
    command.arg(program).arg(modules.join("pyodide/pyodide.mjs"));
    Driver::start(command)
}

/// A Python with E2B's SDK in an environment of its own.
pub(crate) fn e2b_python(place: &Place, plain: &Plain) -> Result<PathBuf> {
    let environment =
        place.environment("e2b", plain.interpreter(), plain, &["e2b-code-interpreter"])?;
    Ok(environment.join("bin/python"))
}

/// Whether a program is there.
fn is_on_path(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths)
        .any(|directory: PathBuf| Path::new(&directory).join(program).exists())
}
