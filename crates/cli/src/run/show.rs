//! How a run is shown live in the terminal.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use silica_domain::{Bundle, CellError};
use silica_engine::Watcher;

use crate::colour;
use crate::notebook::CellOutputs;
use crate::picture::Protocol;
use crate::show::guest_text::{GuestText, quoted, write};
use crate::show::plain as plain_text;
use crate::workspace::CellSummary;

/// Whether pictures are saved that the terminal has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Saving {
    Always,
    /// Only what the terminal cannot show.
    Unshown,
}

/// The most characters of a result's type in a message.
const MIME_CHARS_MAX: usize = 100;

/// Shows output as it comes, from a thread of its own: a reader that does not read holds up neither
/// the run nor its clocks. What waits is bounded by the output and result limits. Keeps what it
/// showed, for a notebook.
pub(crate) struct Screen {
    to_thread: Option<mpsc::Sender<Shown>>,
    thread: Option<JoinHandle<()>>,
    outputs: CellOutputs,
    /// Whether the last line on stdout has ended.
    pub(crate) at_line_start: bool,
}

enum Shown {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Result(Arc<Bundle>),
}

impl Screen {
    /// Shows everything live; pictures by a protocol of the terminal, if it has one.
    pub(crate) fn new(protocol: Option<Protocol>, saving: Saving) -> Self {
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut streams = Streams::new();
            for shown in receiver {
                streams.show(shown, protocol, saving);
            }
            streams.finish();
        });
        let outputs = CellOutputs::default();
        Self { to_thread: Some(sender), thread: Some(thread), outputs, at_line_start: true }
    }

    /// Waits until everything is shown; returns what it was.
    pub(crate) fn finish(&mut self) -> CellOutputs {
        self.to_thread = None;
        if let Some(thread) = self.thread.take() {
            // A panic there was about showing; the run's report is still right.
            let _ = thread.join();
        }
        std::mem::take(&mut self.outputs)
    }

    fn send(&self, shown: Shown) {
        if let Some(sender) = &self.to_thread {
            // The thread ends only when this does.
            let _ = sender.send(shown);
        }
    }
}

impl Watcher for Screen {
    fn stdout(&mut self, bytes: &[u8]) {
        self.outputs.stream("stdout", bytes);
        self.at_line_start = bytes.last().map_or(self.at_line_start, |&last| last == b'\n');
        self.send(Shown::Stdout(bytes.to_vec()));
    }

    fn stderr(&mut self, bytes: &[u8]) {
        self.outputs.stream("stderr", bytes);
        self.send(Shown::Stderr(bytes.to_vec()));
    }

    fn error(&mut self, error: &CellError) {
        self.outputs.error(error);
    }

    fn result(&mut self, bundle: &Arc<Bundle>) {
        self.outputs.result(bundle);
        self.at_line_start = true;
        self.send(Shown::Result(Arc::clone(bundle)));
    }
}

/// The two streams of the code on their way to ours. A terminal gets text and colours, a pipe or a file every byte.
pub(crate) struct Streams {
    stdout: Option<GuestText>,
    stderr: Option<GuestText>,
}

impl Streams {
    pub(crate) fn new() -> Self {
        Self {
            stdout: GuestText::for_terminal(&std::io::stdout()),
            stderr: GuestText::for_terminal(&std::io::stderr()),
        }
    }

    fn show(&mut self, shown: Shown, protocol: Option<Protocol>, saving: Saving) {
        match shown {
            Shown::Stdout(bytes) => self.stdout(&bytes),
            Shown::Stderr(bytes) => self.stderr(&bytes),
            Shown::Result(bundle) => {
                let sequence = protocol.zip(bundle.get("image/png"));
                let sequence = sequence.map(|(protocol, png)| protocol.show(png));
                let sequence = sequence.unwrap_or_default();
                // Ours, and not the guest's: the picture in it is in base 64.
                write(&mut std::io::stdout().lock(), None, sequence.as_bytes());
                if sequence.is_empty() || saving == Saving::Always {
                    show_result(&bundle);
                }
            }
        }
    }

    pub(crate) fn stdout(&mut self, bytes: &[u8]) {
        write(&mut std::io::stdout().lock(), self.stdout.as_mut(), bytes);
    }

    pub(crate) fn stderr(&mut self, bytes: &[u8]) {
        write(&mut std::io::stderr().lock(), self.stderr.as_mut(), bytes);
    }

    /// Ends the colours of the code, so that what follows is shown without them.
    pub(crate) fn finish(&mut self) {
        let stdout = self.stdout.as_mut().map_or("", GuestText::finish);
        write(&mut std::io::stdout().lock(), None, stdout.as_bytes());
        let stderr = self.stderr.as_mut().map_or("", GuestText::finish);
        write(&mut std::io::stderr().lock(), None, stderr.as_bytes());
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
            let mime = plain_text(&payload.mime, MIME_CHARS_MAX);
            say!("silica: a result of type {mime} is shown only with --json");
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
    let mut filter = GuestText::for_terminal(&std::io::stdout());
    let mut stdout = std::io::stdout().lock();
    write(&mut stdout, filter.as_mut(), &line);
    write(&mut stdout, None, filter.as_mut().map_or("", GuestText::finish).as_bytes());
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

/// Prints a traceback, in which the names of exceptions and files are the code's own.
pub(crate) fn traceback(lines: &[String]) {
    let coloured = colour::is_wanted(&std::io::stderr());
    for (index, line) in lines.iter().enumerate() {
        let line = quoted(line, &std::io::stderr());
        // The last line names the exception.
        if coloured && index + 1 == lines.len() {
            say!("{}{line}{}", colour::RED, colour::PLAIN);
        } else {
            say!("{line}");
        }
    }
}

/// Says how the code has ended: its traceback, and every limit it ran into.
pub(crate) fn ending(summary: CellSummary) -> CellSummary {
    if let Some(error) = &summary.error {
        traceback(&error.traceback);
    }
    for note in &summary.notes {
        say!("silica: {note}");
    }
    summary
}
