//! Prints the events of a prompt as they arrive, and its answer; saves the files of the answer.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use silica_interpret::model::Delta;
use silica_interpret::preset::Shape;
use silica_interpret::{ExtractedCode, OutputFile, PromptAnswer, PromptEvent, extract};
use silica_policy::Action;

use super::highlight::Highlighter;
use crate::picture::Protocol;
use crate::run::show::{Streams, show_result, traceback};
use crate::{colour, show};

/// The most files of one answer that are saved.
const SAVED_MAX: usize = 100;

/// The most names that are tried for one file.
const NAMES_MAX: u32 = 1000;

/// Which events are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verbosity {
    Everything,
    /// Only code, which the user confirms before it runs.
    Code,
}

/// Whether the text of the last answer has already been printed to the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Yes,
    No,
}

/// Prints events as they arrive.
pub(super) struct EventPrinter {
    verbosity: Verbosity,
    code: bool,
    colour: bool,
    pictures: Option<Protocol>,
    /// The text of the model's current answer, whose length the model's settings bound.
    said: String,
    /// The last, incomplete line of it, which has not been printed.
    line: String,
    in_fence: bool,
    highlighter: Highlighter,
    streams: Streams,
}

impl EventPrinter {
    /// Returns a printer; `code` is whether it prints code.
    pub(super) fn new(verbosity: Verbosity, code: bool) -> Self {
        Self {
            verbosity,
            code,
            colour: colour::is_wanted(&std::io::stderr()),
            pictures: Protocol::of_terminal(&std::io::stderr()),
            said: String::new(),
            line: String::new(),
            in_fence: false,
            highlighter: Highlighter::default(),
            streams: Streams::new(),
        }
    }

    pub(super) fn print(&mut self, event: &PromptEvent) {
        if self.verbosity == Verbosity::Code && !matches!(event, PromptEvent::Code(_)) {
            return;
        }
        match event {
            PromptEvent::Asking(_) => self.next_answer(),
            PromptEvent::Delta(Delta::Text(text)) if self.code => self.text(text),
            PromptEvent::Code(code) if self.code => self.code(code),
            PromptEvent::Checked(report) if report.verdict == Action::Block => {
                for headline in report.headlines() {
                    say!("silica: {}", show::plain(&headline, 300));
                }
            }
            PromptEvent::Stdout(text) => self.streams.stdout(text.as_bytes()),
            PromptEvent::Stderr(text) => self.streams.stderr(text.as_bytes()),
            PromptEvent::Result(bundle) => {
                if let (Some(protocol), Some(png)) = (self.pictures, bundle.get("image/png")) {
                    write(&mut std::io::stderr().lock(), &protocol.show(png));
                }
                show_result(bundle);
            }
            PromptEvent::Error(error) => traceback(&error.traceback),
            PromptEvent::Repair(_) => say!("silica: the code failed; the model tries again"),
            PromptEvent::Ran(_) => self.streams.finish(),
            PromptEvent::Delta(_)
            | PromptEvent::Code(_)
            | PromptEvent::Checked(_)
            | PromptEvent::Running
            | PromptEvent::Approval(_) => {}
        }
    }

    /// Prints the incomplete line, and returns whether a reader of stdout has seen the last answer.
    pub(super) fn finish(mut self) -> Seen {
        self.rest_of_line();
        let both = std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
        if both && !self.said.trim().is_empty() { Seen::Yes } else { Seen::No }
    }

    fn next_answer(&mut self) {
        self.rest_of_line();
        self.said.clear();
        self.in_fence = false;
    }

    /// Prints text of the model line by line, with code between fences in colour.
    fn text(&mut self, text: &str) {
        self.said.push_str(text);
        self.line.push_str(text);
        while let Some(end) = self.line.find('\n') {
            let line: String = self.line.drain(..=end).collect();
            self.one_line(line.trim_end_matches(['\n', '\r']));
        }
    }

    fn rest_of_line(&mut self) {
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.one_line(&line);
        }
    }

    fn one_line(&mut self, line: &str) {
        let line = harmless(line);
        if line.trim_start().starts_with("```") {
            self.in_fence = !self.in_fence;
            self.highlighter = Highlighter::default();
        }
        if self.in_fence && self.colour {
            say!("{}", self.highlighter.line(&line));
        } else {
            say!("{line}");
        }
    }

    /// Prints code that is about to run, unless the text of the model contained it.
    fn code(&mut self, code: &str) {
        self.rest_of_line();
        if extract(&self.said, |text| text == code) == ExtractedCode::Python(code.to_owned()) {
            return;
        }
        let mut highlighter = Highlighter::default();
        for line in code.lines() {
            let line = harmless(line);
            let line = if self.colour { highlighter.line(&line) } else { line };
            say!("  {line}");
        }
    }
}

/// Removes terminal control characters from a line of the model.
fn harmless(line: &str) -> String {
    line.chars().filter(|&character| character == '\t' || !show::acts(character)).collect()
}

/// Writes text; ignores failures, such as a closed pipe.
fn write(stream: &mut impl Write, text: &str) {
    let _ = stream.write_all(text.as_bytes());
    let _ = stream.flush();
}

/// Prints the answer of a request, and saves its files.
pub(super) fn print_answer(answered: &PromptAnswer, seen: Seen) {
    let in_words = answered.shape == Shape::Agent || answered.attempts.is_empty();
    if in_words && seen == Seen::No {
        let said: Vec<String> = answered.text.lines().map(harmless).collect();
        write(&mut std::io::stdout().lock(), &format!("{}\n", said.join("\n").trim()));
    }
    if let Some(message) = answered.run().and_then(|ran| ran.message.clone()) {
        say!("silica: {message}");
    }
    if let Some(words) = answered.ending.explain() {
        say!("silica: {words}");
    }
    for file in answered.files.iter().take(SAVED_MAX) {
        match &file.content {
            Some(content) => report(file, save(Path::new("."), &file.path, content)),
            None if answered.conversation.is_none() => {
                say!("silica: {} is too large and was not saved", show::plain(&file.path, 200));
            }
            None => say!("silica: wrote {}", show::plain(&file.path, 200)),
        }
    }
}

fn report(file: &OutputFile, saved: std::io::Result<PathBuf>) {
    match saved {
        Ok(path) => say!("silica: saved {}", path.display()),
        Err(error) => say!("silica: cannot save {}: {error}", show::plain(&file.path, 200)),
    }
}

/// Saves a file of the guest under its last name, without control characters and leading dots, and
/// never replaces an existing file.
fn save(directory: &Path, path: &str, content: &[u8]) -> std::io::Result<PathBuf> {
    let last = path.rsplit('/').next().unwrap_or_default();
    let name: String = last.chars().filter(|&character| !show::acts(character)).take(100).collect();
    let name = name.trim_start_matches(['.', '-', ' ']);
    let name = if name.is_empty() { "file" } else { name };
    let (stem, ending) = match name.rsplit_once('.') {
        Some((stem, ending)) if !stem.is_empty() => (stem, format!(".{ending}")),
        _ => (name, String::new()),
    };
    for number in 0..NAMES_MAX {
        let number = if number == 0 { String::new() } else { format!("-{number}") };
        let path = directory.join(format!("{stem}{number}{ending}"));
        match std::fs::File::options().write(true).create_new(true).open(&path) {
            Ok(mut file) => return file.write_all(content).map(|()| path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(std::io::Error::other("too many files of this name exist already"))
}
