//! The progress of a template's build on standard error: a bar on a terminal, plain lines elsewhere.

#[cfg(test)]
mod tests;

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use silica_server::Startup;
use silica_templates::{Progress, Step};

/// How often a moving bar is redrawn.
const TICK: Duration = Duration::from_millis(120);
/// The length of a step's bar, in units of progress.
const STEP_UNITS: u64 = 1000;
/// Longest message that is shown, in characters.
const MESSAGE_CHARS_MAX: usize = 200;

/// Shows a bar on standard error if that is a terminal, and plain lines otherwise.
#[derive(Debug)]
pub(crate) struct TerminalProgress {
    shown: Shown,
}

#[derive(Debug)]
enum Shown {
    Bar(ProgressBar),
    Lines,
}

impl TerminalProgress {
    /// Looks at what standard error is.
    pub(crate) fn stderr() -> Self {
        let shown = if std::io::stderr().is_terminal() {
            let total = STEP_UNITS * Step::all().len() as u64;
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            bar.set_style(style());
            bar.enable_steady_tick(TICK);
            Shown::Bar(bar)
        } else {
            Shown::Lines
        };
        Self { shown }
    }
}

impl Progress for TerminalProgress {
    fn started(&mut self, step: Step) {
        match &self.shown {
            Shown::Bar(bar) => {
                bar.set_position(units(step, 0.0));
                bar.set_prefix(step.as_str());
                bar.set_message("");
            }
            Shown::Lines => say(&format!("{step}: started")),
        }
    }

    fn message(&mut self, text: &str) {
        let text = one_line(text);
        match &self.shown {
            Shown::Bar(bar) => bar.set_message(text),
            Shown::Lines => say(&format!("  {text}")),
        }
    }

    fn fraction(&mut self, done: f32) {
        if let Shown::Bar(bar) = &self.shown {
            let within = (done.clamp(0.0, 1.0) * STEP_UNITS as f32) as u64;
            let step_begin = bar.position() / STEP_UNITS * STEP_UNITS;
            // Never up to the next step's begin, which `finished` sets.
            bar.set_position(step_begin + within.min(STEP_UNITS - 1));
        }
    }

    fn finished(&mut self, step: Step, took: Duration) {
        match &self.shown {
            Shown::Bar(bar) if step == Step::Finish => bar.finish_and_clear(),
            Shown::Bar(bar) => bar.set_position(units(step, 1.0)),
            Shown::Lines => say(&format!("{step}: done in {:.1} s", took.as_secs_f64())),
        }
    }
}

/// Shows the progress of a build that a server waits for: on standard error, and to clients that ask
/// whether it is ready.
#[derive(Debug)]
pub(crate) struct StartProgress {
    name: String,
    startup: Startup,
    terminal: TerminalProgress,
}

impl StartProgress {
    /// Begins with a template of this name.
    pub(crate) fn new(name: &str, startup: Startup) -> Self {
        Self { name: name.to_owned(), startup, terminal: TerminalProgress::stderr() }
    }
}

impl Progress for StartProgress {
    fn started(&mut self, step: Step) {
        self.startup.set_doing(format!("building template {}: {step}", self.name));
        self.terminal.started(step);
    }

    fn message(&mut self, text: &str) {
        self.startup.set_doing(format!("building template {}: {}", self.name, one_line(text)));
        self.terminal.message(text);
    }

    fn fraction(&mut self, done: f32) {
        self.terminal.fraction(done);
    }

    fn finished(&mut self, step: Step, took: Duration) {
        self.terminal.finished(step, took);
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template(
        "{spinner} {prefix:<11} {bar:24} {percent:>3}% {elapsed} {wide_msg}",
    )
    .expect("the template is a constant and well formed")
}

/// Returns the bar's position when `step` is `done` of the way.
fn units(step: Step, done: f32) -> u64 {
    let before = Step::all().take_while(|other| *other != step).count() as u64;
    before * STEP_UNITS + (done * STEP_UNITS as f32) as u64
}

/// Makes one printable line of a text that may come from pip or a package.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|character| if character.is_control() { ' ' } else { character })
        .take(MESSAGE_CHARS_MAX)
        .collect()
}

fn say(line: &str) {
    // A closed standard error leaves no place to report its loss.
    let _ = writeln!(std::io::stderr(), "{line}");
}
