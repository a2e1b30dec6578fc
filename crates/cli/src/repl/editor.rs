//! The line editor: keys, history and completion.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use tokio::runtime::Runtime;

use super::input::is_whole;
use super::{SharedWorkspace, Workspace};

/// The most entries of the history.
const HISTORY_MAX: usize = 1000;

/// How a tab indents at the start of a line.
const INDENT: &str = "    ";

/// Reads code from the terminal.
pub(super) struct Editing {
    editor: Editor<PythonHelper, FileHistory>,
    history: Option<PathBuf>,
}

impl Editing {
    /// Reads the history, if there is a file for it.
    pub(super) fn new(
        runtime: Arc<Runtime>,
        workspace: SharedWorkspace,
        history: Option<&Path>,
    ) -> Result<Self> {
        let config = Config::builder()
            .max_history_size(HISTORY_MAX)?
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .auto_add_history(false)
            .build();
        let mut editor = Editor::with_config(config).context("cannot use the terminal")?;
        editor.set_helper(Some(PythonHelper { runtime, workspace, typed: Mutex::default() }));
        if let Some(path) = history {
            // There is none at the first start, and a damaged one is no reason to refuse.
            let _ = editor.load_history(path);
        }
        Ok(Self { editor, history: history.map(Path::to_owned) })
    }

    /// Reads one cell, which may have several lines.
    pub(super) fn read(&mut self, prompt: &str) -> Result<String, ReadlineError> {
        let code = self.editor.readline(prompt)?;
        if !code.trim().is_empty() {
            self.remember(&code);
        }
        Ok(code)
    }

    fn remember(&mut self, code: &str) {
        if let Some(helper) = self.editor.helper() {
            helper.remember_names(code);
        }
        // A history that cannot be written is missed later, and no reason to stop now.
        let _ = self.editor.add_history_entry(code.trim_end());
        if let Some(path) = &self.history {
            let _ = self.editor.save_history(path);
        }
    }
}

/// Completes names and decides when a cell is whole.
struct PythonHelper {
    runtime: Arc<Runtime>,
    workspace: SharedWorkspace,
    /// Names that were typed, for a server, which completes nothing.
    typed: Mutex<Vec<String>>,
}

/// The most names that are remembered.
const TYPED_MAX: usize = 1000;

impl PythonHelper {
    fn remember_names(&self, code: &str) {
        let mut typed = self.typed.lock().unwrap_or_else(PoisonError::into_inner);
        let words = code.split(|character: char| !is_word(character));
        for word in words.filter(|word| word.chars().count() > 1) {
            if typed.len() < TYPED_MAX && !typed.iter().any(|known| known == word) {
                typed.push(word.to_owned());
            }
        }
    }

    /// Returns where the word before the cursor starts, in bytes, and what it may be.
    fn candidates(&self, before: &str) -> (usize, Vec<String>) {
        // Taken while no cell runs; the lock is free then.
        let Ok(mut workspace) = self.workspace.try_lock() else {
            return (before.len(), Vec::new());
        };
        if let Workspace::Local(local) = &mut *workspace {
            // Without an answer there is nothing to complete; the next cell says what is wrong.
            let found = self.runtime.block_on(local.complete(before)).unwrap_or_default();
            let start = before.char_indices().nth(found.start).map_or(before.len(), |(at, _)| at);
            return (start, found.matches);
        }
        let start = before
            .rfind(|character| !is_word(character))
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        let typed = self.typed.lock().unwrap_or_else(PoisonError::into_inner);
        let word = &before[start..];
        let matches = typed.iter().filter(|known| !word.is_empty() && known.starts_with(word));
        (start, matches.cloned().collect())
    }
}

fn is_word(character: char) -> bool {
    character == '_' || character.is_alphanumeric()
}

impl Completer for PythonHelper {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = line.get(..position).unwrap_or(line);
        let current = before.rsplit('\n').next().unwrap_or_default();
        if current.trim().is_empty() {
            let indent = Pair { display: String::new(), replacement: INDENT.to_owned() };
            return Ok((position, vec![indent]));
        }
        let (start, matches) = self.candidates(before);
        let pair = |name: String| Pair { display: name.clone(), replacement: name };
        Ok((start, matches.into_iter().map(pair).collect()))
    }
}

impl Helper for PythonHelper {}

impl Highlighter for PythonHelper {}

impl Hinter for PythonHelper {
    type Hint = String;
}

impl Validator for PythonHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if is_whole(context.input()) {
            ValidationResult::Valid(None)
        } else {
            ValidationResult::Incomplete
        })
    }
}
