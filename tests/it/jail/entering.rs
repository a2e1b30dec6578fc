//! Several processes in one enclosure, asked for by the jail's own verbs.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use silica_engine::ZygotePolicy;
use silica_jail::client::{Incoming, Zone, ZoneOptions, detach};
use silica_jail::protocol::{
    EnclosureSpec, Origin, ProcessExit, Program, Source, SystemDirectory, TemplateLayers,
    ZoneEvent, ZoneFailure, ZoneReply, ZoneRequest,
};
use silica_templates::{Home, Manifest, TemplateName, load};

use crate::harness::{EVERYTHING, PYTHON, SILICA, TIMEOUT, TestHome, start_engine};

/// A zone spoken to directly; what comes while something else is waited for is kept.
struct Talk {
    zone: Zone,
    manifest: Manifest,
    packet: Vec<u8>,
    events: Vec<ZoneEvent>,
    next: u64,
}

impl Talk {
    fn start(home: &TestHome) -> Self {
        let guest = write_guest(home);
        let name = TemplateName::new(PYTHON).unwrap();
        let template = load(&Home::new(home.path()), &name).unwrap().unwrap();
        let zone = Zone::start(&ZoneOptions {
            program: (PathBuf::from(SILICA), vec!["__zone".to_owned()]),
            run_directory: home.path().join("run"),
            use_of_host: EVERYTHING,
        });
        let manifest = template.manifest.clone();
        let packet = Zone::packet();
        let mut talk =
            Self { zone: zone.unwrap(), manifest, packet, events: Vec::new(), next: 1000 };
        let mut fds = Vec::new();
        let system = talk.manifest.system_dirs.clone();
        let system = system.iter().map(|path| SystemDirectory {
            path: path.display().to_string(),
            source: Source::Path(path.clone()),
        });
        let mut layers = TemplateLayers {
            name: PYTHON.to_owned(),
            guest: layer(&guest, &mut fds),
            root: layer(&template.root(), &mut fds),
            system: system.collect(),
        };
        for directory in &mut layers.system {
            directory.source = layer(Path::new(&directory.path), &mut fds);
        }
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        talk.ask(ZoneRequest::AddTemplate(layers), &fds).unwrap();
        talk
    }

    /// A program of the guest's code.
    fn python(&self, script: &str) -> Program {
        let join = |paths: &[PathBuf]| {
            paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(":")
        };
        let interpreter = self.manifest.interpreter.display().to_string();
        let script = format!("/opt/silica/guest/silica_guest/{script}");
        let environment = [
            ("SILICA_SITE", join(&self.manifest.site)),
            ("SILICA_PREFIX", self.manifest.prefix.display().to_string()),
            ("LD_LIBRARY_PATH", join(&self.manifest.library_path)),
            ("LANG", "C.UTF-8".to_owned()),
        ];
        Program {
            arguments: [&interpreter, "-I", "-S", "-B", &script].map(str::to_owned).to_vec(),
            environment: environment.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        }
    }

    fn send(&mut self, request: ZoneRequest, fds: &[BorrowedFd<'_>]) -> u64 {
        self.next += 1;
        self.zone.request(self.next, request, fds).unwrap();
        self.next
    }

    fn ask(
        &mut self,
        request: ZoneRequest,
        fds: &[BorrowedFd<'_>],
    ) -> Result<ZoneReply, ZoneFailure> {
        let asked = self.send(request, fds);
        loop {
            match self.zone.receive(&mut self.packet).unwrap() {
                Incoming::Reply { number, result, .. } if number == asked => return result,
                Incoming::Reply { .. } => {}
                Incoming::Event(event) => self.events.push(event),
            }
        }
    }

    /// Waits for an event.
    fn event(&mut self, wanted: impl Fn(&ZoneEvent) -> bool) {
        while !self.events.iter().any(&wanted) {
            if let Incoming::Event(event) = self.zone.receive(&mut self.packet).unwrap() {
                self.events.push(event);
            }
        }
    }

    fn enclosure(&mut self, enclosure: u64) {
        let spec = EnclosureSpec {
            template: PYTHON.to_owned(),
            memory_bytes: 512 << 20,
            cpu_millis: 1000,
            processes: 64,
            open_files: 256,
            disk_bytes: 64 << 20,
            file_bytes: 64 << 20,
            cpu_seconds: 60,
        };
        let request =
            ZoneRequest::CreateEnclosure { enclosure, spec, inputs: Vec::new(), fail_at: 0 };
        let made = self.ask(request, &[]);
        assert!(matches!(made, Ok(ZoneReply::Enclosure { .. })), "{made:?}");
    }

    fn kernel(&mut self, enclosure: u64, kernel: u64, origin: Origin, fail_at: u32) -> Speaker {
        let (ours, control) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(TIMEOUT)).unwrap();
        let (stdout, guest_stdout) = std::io::pipe().unwrap();
        let fds = [control.as_fd(), guest_stdout.as_fd(), guest_stdout.as_fd()];
        let entered = self.ask(ZoneRequest::Enter { enclosure, kernel, origin, fail_at }, &fds);
        assert_eq!(entered, Ok(ZoneReply::Entered));
        Speaker { control: ours, stdout }
    }
}

/// The host's ends of a kernel.
struct Speaker {
    control: UnixStream,
    stdout: std::io::PipeReader,
}

impl Speaker {
    fn hear(&mut self) -> Value {
        let mut lengths = [0; 8];
        self.control.read_exact(&mut lengths).unwrap();
        let length = |at: usize| u32::from_le_bytes(lengths[at..at + 4].try_into().unwrap());
        let mut frame = vec![0; (length(0) + length(4)) as usize];
        self.control.read_exact(&mut frame).unwrap();
        serde_json::from_slice(&frame[..length(0) as usize]).unwrap()
    }

    /// Runs a cell and returns what it printed, which must be something.
    fn run(&mut self, code: &str) -> String {
        let head = json!({"type": "run", "cell": 1, "results_max": 9, "result_bytes_max": 9999});
        let head = head.to_string();
        let mut frame = (head.len() as u32).to_le_bytes().to_vec();
        frame.extend((code.len() as u32).to_le_bytes());
        frame.extend(head.bytes().chain(code.bytes()));
        self.control.write_all(&frame).unwrap();
        let done = loop {
            let frame = self.hear();
            if frame["type"] == "done" {
                break frame;
            }
        };
        assert_eq!(done["status"], "ok", "{code}: {done}");
        let mut printed = vec![0; 4096];
        let length = self.stdout.read(&mut printed).unwrap();
        String::from_utf8_lossy(&printed[..length]).trim_end().to_owned()
    }
}

/// The guest's layer, written by an engine for this data directory alone.
fn write_guest(home: &TestHome) -> PathBuf {
    let directory = home.path().join("guest");
    std::fs::remove_file(&directory).unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let policy = ZygotePolicy::default();
        start_engine(home.path(), PYTHON, policy, EVERYTHING).await.close().await;
    });
    let layers: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(layers.len(), 1);
    layers.into_iter().next().unwrap()
}

fn layer(path: &Path, fds: &mut Vec<OwnedFd>) -> Source {
    let path = path.canonicalize().unwrap();
    match detach(&path, true).unwrap() {
        Some(tree) => {
            fds.push(tree);
            Source::Mount
        }
        None => Source::Path(path),
    }
}

#[test]
fn one_enclosure_holds_several_kernels_of_both_kinds() {
    let home = TestHome::new(PYTHON);
    let mut talk = Talk::start(&home);
    let zygote = ZoneRequest::StartZygote {
        template: PYTHON.to_owned(),
        program: talk.python("zygote.py"),
        forks_max: 1000,
        age_ms_max: 600_000,
    };
    talk.ask(zygote, &[]).unwrap();
    talk.event(|event| matches!(event, ZoneEvent::ZygoteReady { .. }));
    talk.enclosure(1);
    let fresh = Origin::Program(talk.python("fresh.py"));
    let origins = [Origin::Zygote, fresh.clone(), Origin::Zygote, fresh.clone(), Origin::Zygote];
    let mut kernels = Vec::new();
    for (number, origin) in (10..).zip(origins) {
        let mut kernel = talk.kernel(1, number, origin, 0);
        assert_eq!(kernel.hear()["type"], "hello");
        kernels.push(kernel);
    }
    for (number, kernel) in kernels.iter_mut().enumerate() {
        // What those before it wrote is there; their processes are seen, and not what they hold.
        let code = format!(
            "import os\nprint(len(os.listdir('/tmp')), 'mine' in globals(), \
             sum(name.isdigit() for name in os.listdir('/proc')))\n\
             mine = open('/tmp/{number}', 'w')"
        );
        assert_eq!(kernel.run(&code), format!("{number} False 6"));
    }
    // One that fails to enter does so alone, at whichever step.
    for step in silica_gate::Step::ALL {
        for origin in [Origin::Zygote, fresh.clone()] {
            let mut refused = talk.kernel(1, 50, origin, step as u32);
            let word = refused.hear();
            assert_eq!((&word["type"], &word["step"]), (&"refused".into(), &step.name().into()));
            talk.event(|event| matches!(event, ZoneEvent::KernelExited { kernel: 50, .. }));
            talk.events.clear();
        }
    }
    for (number, kernel) in kernels.iter_mut().enumerate() {
        assert_eq!(kernel.run("print(mine.name)"), format!("/tmp/{number}"));
    }
    // One is killed, the others stay.
    talk.ask(ZoneRequest::Signal { kernel: 12, signal: 9 }, &[]).unwrap();
    talk.event(|event| {
        *event == ZoneEvent::KernelExited { kernel: 12, exit: ProcessExit::Signal(9) }
    });
    kernels.remove(2);
    for kernel in &mut kernels {
        assert_eq!(kernel.run("print(len(os.listdir('/tmp')))"), "5");
    }
    assert_eq!(talk.ask(ZoneRequest::Destroy { enclosure: 1 }, &[]), Ok(ZoneReply::Done));
    for kernel in &mut kernels {
        assert_eq!(kernel.control.read(&mut [0]).unwrap(), 0);
    }
    let (one, _other) = UnixStream::pair().unwrap();
    let late = ZoneRequest::Enter { enclosure: 1, kernel: 99, origin: Origin::Zygote, fail_at: 0 };
    let late = talk.ask(late, &[one.as_fd(); 3]);
    assert_eq!(late.unwrap_err().step, "enter-enclosure");
}
