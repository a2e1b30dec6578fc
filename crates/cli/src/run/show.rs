//! How a run is shown live in the terminal.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use silica_domain::{Bundle, Limits, Outcome};
use silica_engine::{CellReport, Watcher};

/// Shows output as it comes, from a thread of its own: a reader that does not read holds up neither
/// the run nor its clocks. What waits is bounded by the output and result limits.
pub(super) struct Terminal {
    to_thread: Option<mpsc::Sender<Shown>>,
    thread: Option<JoinHandle<()>>,
}

enum Shown {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Result(Arc<Bundle>),
}

impl Terminal {
    /// Shows everything live, or nothing.
    pub(super) fn new(live: bool) -> Self {
        if !live {
            return Self { to_thread: None, thread: None };
        }
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::spawn(move || receiver.iter().for_each(show));
        Self { to_thread: Some(sender), thread: Some(thread) }
    }

    /// Waits until everything is shown.
    pub(super) fn finish(&mut self) {
        self.to_thread = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was about showing; the run's report is still right.
            let _ = thread.join();
        }
    }

    fn send(&self, shown: Shown) {
        if let Some(sender) = &self.to_thread {
            // The thread ends only when this does.
            let _ = sender.send(shown);
        }
    }
}

impl Watcher for Terminal {
    fn stdout(&mut self, bytes: &[u8]) {
        self.send(Shown::Stdout(bytes.to_vec()));
    }

    fn stderr(&mut self, bytes: &[u8]) {
        self.send(Shown::Stderr(bytes.to_vec()));
    }

    fn result(&mut self, bundle: &Arc<Bundle>) {
        self.send(Shown::Result(Arc::clone(bundle)));
    }
}

fn show(shown: Shown) {
    match shown {
        Shown::Stdout(bytes) => write(&mut std::io::stdout().lock(), &bytes),
        Shown::Stderr(bytes) => write(&mut std::io::stderr().lock(), &bytes),
        Shown::Result(bundle) => show_result(&bundle),
    }
}

/// A reader that has gone (`silica run … | head`) is no reason to fail.
fn write(stream: &mut impl Write, bytes: &[u8]) {
    if !bytes.is_empty() {
        let _ = stream.write_all(bytes);
        let _ = stream.flush();
    }
}

/// Pictures that are saved, by MIME type and the ending of their file name.
const PICTURES: [(&str, &str); 4] = [
    ("image/png", "png"),
    ("image/jpeg", "jpg"),
    ("image/svg+xml", "svg"),
    ("application/pdf", "pdf"),
];

/// What is printed of a result that has no text of its own.
const READABLE: [&str; 3] = ["text/markdown", "text/latex", "application/json"];

/// Saves a picture beside, or prints the text; a page that says more than its text is saved too.
pub(crate) fn show_result(bundle: &Bundle) {
    for (mime, ending) in PICTURES {
        if let Some(data) = bundle.get(mime) {
            return save(data, ending);
        }
    }
    let plain = bundle.get("text/plain");
    if let Some(text) = plain.filter(|text| !is_bare_name(text)) {
        return print(text);
    }
    if let Some(text) = READABLE.iter().find_map(|mime| bundle.get(mime)) {
        return print(text);
    }
    if let Some(page) = bundle.get("text/html") {
        return save(page, "html");
    }
    match (plain, bundle.payloads.first()) {
        (Some(text), _) => print(text),
        (None, Some(payload)) => {
            say!("silica: a result of type {} is shown only with --json", payload.mime);
        }
        (None, None) => {}
    }
}

/// Whether a text is only the name of an object, as in `<IPython.core.display.Markdown object>`.
fn is_bare_name(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else {
        return false;
    };
    let name = text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
    name.is_some_and(|name| name.ends_with(" object") || name.contains(" at 0x"))
}

fn print(text: &[u8]) {
    let mut line = text.to_vec();
    line.push(b'\n');
    write(&mut std::io::stdout().lock(), &line);
}

fn save(data: &[u8], ending: &str) {
    match write_beside(data, ending) {
        Ok(path) => say!("silica: saved {}", path.display()),
        Err(error) => say!("silica: cannot save a result here: {error}"),
    }
}

/// The most results saved beside each other under our naming.
const SAVED_MAX: u32 = 10_000;

/// Writes to the first free name; never over a file that is there.
fn write_beside(data: &[u8], ending: &str) -> std::io::Result<PathBuf> {
    for number in 1..=SAVED_MAX {
        let path = PathBuf::from(format!("silica-{number}.{ending}"));
        match std::fs::File::options().write(true).create_new(true).open(&path) {
            Ok(mut file) => return file.write_all(data).map(|()| path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(std::io::Error::other("there are too many results here already"))
}

/// What is said when the code has ended: its traceback, and every limit it ran into.
pub(super) fn ending(report: &CellReport, limits: &Limits) {
    if let Some(error) = &report.error
        && report.outcome != Outcome::Interrupted
    {
        for line in &error.traceback {
            say!("{line}");
        }
    }
    let mut said = Vec::new();
    if let Some(text) = report.outcome.explain(limits, super::flag) {
        say!("silica: {text}");
        said.push(text);
    }
    for hit in &report.limits_hit {
        let message = hit.message(super::flag(hit.limit));
        if !said.contains(&message) {
            say!("silica: {message}");
        }
    }
}
