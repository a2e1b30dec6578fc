//! `silica logs`: shows the log file of the server on this machine.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use crate::{home, log_file, show};

/// How often a followed log is looked at.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// The longest line that is shown.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// The most lines that are shown of the past.
const LINES_MAX: usize = 100_000;

/// Arguments of `silica logs`.
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Show this many of the last lines
    #[arg(short = 'n', long = "lines", value_name = "NUMBER", default_value = "100")]
    lines: usize,
    /// Show new lines as they come, until Ctrl-C
    #[arg(short, long)]
    follow: bool,
}

pub(crate) fn run(arguments: &LogsArgs) -> Result<i32> {
    let home = home::home()?;
    let path = log_file::path(home.path());
    if !path.exists() && !arguments.follow {
        say!("silica: there is no log yet; silica serve writes it to {}", path.display());
        return Ok(0);
    }
    let mut reader = LogReader::default();
    for line in last_lines(home.path(), arguments.lines.min(LINES_MAX), &mut reader)? {
        show::line(show::plain(&line, usize::MAX))?;
    }
    if !arguments.follow {
        return Ok(0);
    }
    loop {
        std::thread::sleep(LOOK_PAUSE);
        for line in reader.new_lines(&path)? {
            show::line(show::plain(&line, usize::MAX))?;
        }
    }
}

/// Returns the last lines, those of full files too.
fn last_lines(home: &Path, count: usize, reader: &mut LogReader) -> Result<Vec<String>> {
    let mut lines = VecDeque::from(reader.new_lines(&log_file::path(home))?);
    let mut number = 1;
    while lines.len() < count && log_file::full_path(home, number).exists() {
        let older = LogReader::default().new_lines(&log_file::full_path(home, number))?;
        older.into_iter().rev().for_each(|line| lines.push_front(line));
        number += 1;
    }
    let skipped = lines.len().saturating_sub(count);
    Ok(lines.into_iter().skip(skipped).collect())
}

/// Reads what a file has gained, and begins anew when another file takes the name.
#[derive(Debug, Default)]
struct LogReader {
    open: Option<(u64, BufReader<File>)>,
    /// A line whose end has not been written yet.
    rest: String,
}

impl LogReader {
    fn new_lines(&mut self, path: &Path) -> Result<Vec<String>> {
        let mut lines = self.read()?;
        let inode = std::fs::metadata(path).ok().map(|metadata| metadata.ino());
        if inode.is_some() && inode != self.open.as_ref().map(|(inode, _)| *inode) {
            let failed = || format!("cannot read {}", path.display());
            let file = File::open(path).with_context(failed)?;
            let inode = file.metadata().with_context(failed)?.ino();
            self.open = Some((inode, BufReader::new(file)));
            lines.extend(self.read()?);
        }
        Ok(lines)
    }

    fn read(&mut self) -> Result<Vec<String>> {
        let Some((_, reader)) = &mut self.open else { return Ok(Vec::new()) };
        let mut lines = Vec::new();
        loop {
            let mut bytes = Vec::new();
            let length = reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes)?;
            self.rest.push_str(&String::from_utf8_lossy(&bytes));
            if length == 0 {
                return Ok(lines);
            }
            if bytes.ends_with(b"\n") || self.rest.len() as u64 >= LINE_BYTES_MAX {
                lines.push(std::mem::take(&mut self.rest).trim_end_matches('\n').to_owned());
            }
        }
    }
}
