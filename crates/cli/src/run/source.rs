//! Where the code of `silica run` comes from: a file, a notebook, the command line, or standard
//! input.

use std::io::{IsTerminal, Read};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use clap::Args as _;
use silica_engine::{CODE_BYTES_MAX, CellSetup};

use crate::notebook::{NOTEBOOK_BYTES_MAX, Notebook};

/// Code that is to be run.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) cells: Vec<ProgramCell>,
    /// The cells as a notebook, to be saved with their outputs.
    pub(super) notebook: Option<Notebook>,
    is_notebook: bool,
}

/// One cell of it.
#[derive(Debug)]
pub(super) struct ProgramCell {
    /// Its place in the notebook.
    pub(super) index: usize,
    pub(super) code: String,
    pub(super) setup: CellSetup,
    /// Whether the next cell runs even if this one fails.
    pub(super) may_fail: bool,
}

impl Program {
    /// Returns the cell of a program that is not a notebook.
    pub(super) fn only_cell(&self) -> Result<&ProgramCell> {
        ensure!(!self.is_notebook, "--json is for code; use --save-notebook with a notebook");
        self.cells.first().context("there is nothing to run")
    }

    fn of_code(code: String, filename: Option<String>, argv: Vec<String>) -> Self {
        let notebook = Some(Notebook::of_code(&code));
        let setup = CellSetup { filename, arguments: Some(argv), ..CellSetup::default() };
        let cell = ProgramCell { index: 0, code, setup, may_fail: false };
        Self { cells: vec![cell], notebook, is_notebook: false }
    }
}

/// Options that are easily put behind the file, where they belong to the program.
const OPTIONS: [&str; 8] =
    ["--in", "--out", "--memory", "--timeout", "--template", "--json", "--url", "--save-notebook"];

/// Reads the code. `words` are the file and its arguments, or with `-c` the arguments alone.
pub(super) fn read(code: Option<&str>, words: &[String]) -> Result<Program> {
    if let Some(code) = code {
        let argv = std::iter::once("-c".to_owned()).chain(after_separator(words)).collect();
        return Ok(Program::of_code(checked(code)?, None, argv));
    }
    let (file, rest) = match words.split_first() {
        Some((file, rest)) if file == "--" => {
            rest.split_first().map_or(("-", rest), |(file, rest)| (file.as_str(), rest))
        }
        Some((file, _)) if file.len() > 1 && file.starts_with('-') => {
            bail!("there is no option {file}{}silica run --help lists all", near(file))
        }
        Some((file, rest)) => (file.as_str(), rest),
        None if std::io::stdin().is_terminal() => {
            bail!("nothing to run: give a file, -c CODE, or code on standard input")
        }
        None => ("-", words),
    };
    if let Some(option) = rest.iter().find(|word| OPTIONS.contains(&word.as_str())) {
        say!(
            "silica: {option} after the file is an argument of the program; put options before it"
        );
    }
    let argv = std::iter::once(file.to_owned()).chain(after_separator(rest)).collect();
    if file == "-" {
        if std::io::stdin().is_terminal() {
            say!("silica: reading code from the terminal; end it with Ctrl-D");
        }
        let bytes = bounded(std::io::stdin().lock(), "standard input", CODE_BYTES_MAX)?;
        return Ok(Program::of_code(text(bytes, "standard input")?, None, argv));
    }
    let path = Path::new(file);
    let opened = std::fs::File::open(path).with_context(|| format!("cannot read {file}"))?;
    ensure!(!path.is_dir(), "{file} is a directory; give a Python file or a notebook");
    if path.extension().is_some_and(|ending| ending == "ipynb") {
        return notebook(&bounded(opened, file, NOTEBOOK_BYTES_MAX)?, file, argv);
    }
    let code = text(bounded(opened, file, CODE_BYTES_MAX)?, file)?;
    Ok(Program::of_code(code, Some(file.to_owned()), argv))
}

/// Returns a suggestion for an option that is not there.
fn near(option: &str) -> String {
    let command = super::RunArgs::augment_args(clap::Command::default());
    let known = command.get_arguments().filter_map(clap::Arg::get_long);
    let known = known.map(|name| format!("--{name}"));
    let nearest = known.min_by_key(|name| strsim::damerau_levenshtein(name, option));
    let nearest = nearest.filter(|name| strsim::damerau_levenshtein(name, option) <= 2);
    nearest.map_or_else(|| "; ".to_owned(), |name| format!("; did you mean {name}? "))
}

/// Returns the arguments of a program; `--` in front of them only separates.
fn after_separator(words: &[String]) -> impl Iterator<Item = String> {
    let words = match words.split_first() {
        Some((first, rest)) if first == "--" => rest,
        _ => words,
    };
    words.iter().cloned()
}

fn notebook(bytes: &[u8], name: &str, argv: Vec<String>) -> Result<Program> {
    let mut notebook = Notebook::parse(bytes, name)?;
    notebook.clear();
    let mut argv = Some(argv);
    let mut cells = Vec::new();
    for cell in notebook.code_cells() {
        let bytes = cell.code.len();
        ensure!(
            bytes <= CODE_BYTES_MAX,
            "cell {} of {name} is {bytes} bytes long; at most {CODE_BYTES_MAX} are run at once",
            cell.index + 1
        );
        let setup = CellSetup { arguments: argv.take(), ..CellSetup::default() };
        let (index, code, may_fail) = (cell.index, cell.code, cell.may_fail);
        cells.push(ProgramCell { index, code, setup, may_fail });
    }
    Ok(Program { cells, notebook: Some(notebook), is_notebook: true })
}

fn text(bytes: Vec<u8>, origin: &str) -> Result<String> {
    let code = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        anyhow::anyhow!("{origin} is not UTF-8 text: byte {at} cannot be read; save it as UTF-8")
    })?;
    checked(&code)
}

fn bounded(reader: impl Read, origin: &str, bytes_max: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader
        .take(bytes_max as u64 + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {origin}"))?;
    if bytes.len() > bytes_max {
        bail!(
            "{origin} is longer than {bytes_max} bytes, the most code that is run at once; \
             pass data with --in"
        );
    }
    Ok(bytes)
}

fn checked(code: &str) -> Result<String> {
    // Python itself skips the mark that some editors put before UTF-8.
    let code = code.strip_prefix('\u{feff}').unwrap_or(code);
    if code.len() > CODE_BYTES_MAX {
        bail!("the code is {} bytes long; at most {CODE_BYTES_MAX} are run at once", code.len());
    }
    Ok(code.to_owned())
}
