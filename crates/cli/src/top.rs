//! `silica top`: shows the sandboxes of a running server, every second.
//!
//! It is an ordinary client of the server. Texts from the server cannot control the terminal: only
//! printable ASCII characters are printed (`view.rs`).

mod frame;
mod keys;
#[cfg(test)]
mod tests;
mod view;

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use crate::client::{Client, ServerArgs};
use frame::Frame;
use keys::Keys;
use view::plain;

/// The path of the request.
const SANDBOXES: &str = "/v1/admin/sandboxes";

/// The time between two requests.
const PAUSE: Duration = Duration::from_secs(1);

/// The time between the first request, which is not shown, and the second: processor usage is a
/// difference.
const FIRST_PAUSE: Duration = Duration::from_millis(300);

/// The most characters of an error of the server that are shown.
const DETAIL_CHARACTERS_MAX: usize = 300;

/// Arguments of `silica top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// An admin key [default: SILICA_KEY]
    #[arg(long)]
    key: Option<String>,
    /// Print this many reports, then stop
    #[arg(short = 'n', value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print one report, as with -n 1; the default if the output is a file or pipe
    #[arg(long, conflicts_with = "count")]
    once: bool,
    /// Print each report as one line of JSON
    #[arg(long)]
    json: bool,
    /// The column to sort by
    #[arg(long, value_enum, default_value = "cpu", value_name = "COLUMN")]
    sort: Sort,
}

/// The order of sandboxes: by processor usage, memory, cells or age, largest first; by expiry,
/// soonest first; or by owner or id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    Cpu,
    Memory,
    Cells,
    Age,
    Expires,
    Owner,
    Id,
}

pub(crate) fn run(arguments: TopArgs) -> Result<i32> {
    let client = Client::from_args(arguments.server, arguments.key)?;
    let on_terminal = io::stdout().is_terminal();
    let looks = match arguments.count {
        Some(count) => Some(count),
        None if arguments.once || !on_terminal => Some(1),
        None => None,
    };
    let form = match (arguments.json, on_terminal && !arguments.once) {
        (true, _) => Form::Json,
        (false, true) => Form::Live,
        (false, false) => Form::Table,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut stop = Stop::new()?;
        let mut keys = (form == Form::Live).then(Keys::listen).flatten();
        let quit = async {
            match &mut keys {
                Some(keys) => keys.quit().await,
                None => std::future::pending().await,
            }
        };
        // Dropping the future of `show` restores the screen.
        tokio::select! {
            shown = show(&client, looks, form, arguments.sort) => shown,
            () = stop.asked() => Ok(0),
            () = quit => Ok(0),
        }
    })
}

/// How reports are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Each replaces the one before on the alternate screen.
    Live,
    Table,
    /// One line each.
    Json,
}

async fn show(client: &Client, looks: Option<u64>, form: Form, sort: Sort) -> Result<i32> {
    let mut last = look(client, None, sort).await?;
    tokio::time::sleep(FIRST_PAUSE).await;
    let mut screen = None;
    let mut number = 0;
    loop {
        let looked = look(client, Some(&last), sort).await;
        let trouble = match (looked, form) {
            (Ok(frame), _) => {
                last = frame;
                None
            }
            // The live view goes on, and shows a server that is restarted.
            (Err(error), Form::Live) => Some(format!("{error:#}")),
            (Err(error), Form::Table | Form::Json) => return Err(error),
        };
        let shown = match form {
            Form::Live => {
                let screen = match &mut screen {
                    Some(screen) => screen,
                    none => none.insert(Screen::enter(client.url())?),
                };
                screen.draw(&last, trouble.as_deref())
            }
            Form::Table => print(&view::table(&last, client.url())),
            Form::Json => print(&format!("{}\n", view::json(&last))),
        };
        match shown {
            Ok(()) => {}
            // The reader of the output has closed the pipe.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(0),
            Err(error) => return Err(error).context("cannot write to standard output"),
        }
        number += 1;
        if looks == Some(number) {
            return Ok(0);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Requests the sandboxes once.
async fn look(client: &Client, before: Option<&Frame>, sort: Sort) -> Result<Frame> {
    let answer = client.get(SANDBOXES).await?;
    if answer.status == 200 {
        let mut frame = Frame::read(&answer.body, before)?;
        frame.sort(sort);
        return Ok(frame);
    }
    let problem = answer.json(200, client).err().map(|error| error.to_string());
    let problem = plain(&problem.unwrap_or_default(), DETAIL_CHARACTERS_MAX);
    match answer.status {
        403 => {
            bail!("silica top needs an admin key; create one with: silica key create NAME --admin")
        }
        _ => bail!("{problem}"),
    }
}

fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// The alternate screen of the terminal, without a cursor; dropping it restores the main screen.
struct Screen {
    url: String,
}

impl Screen {
    fn enter(url: &str) -> io::Result<Self> {
        let screen = Self { url: url.to_owned() };
        print("\x1b[?1049h\x1b[?25l")?;
        Ok(screen)
    }

    fn draw(&self, frame: &Frame, trouble: Option<&str>) -> io::Result<()> {
        let size = rustix::termios::tcgetwinsize(io::stdout())
            .ok()
            .filter(|size| size.ws_row > 0 && size.ws_col > 0);
        let (rows, columns) = size.map_or((24, 80), |size| (size.ws_row, size.ws_col));
        let rows = usize::from(rows);
        // After the last column the cursor does not advance, and erasing the rest of the line would
        // erase the last character.
        let columns = usize::from(columns) - 1;
        let lines = view::screen(frame, &self.url, trouble, rows, columns);
        print(&format!("\x1b[H{}\x1b[J", lines.join("\x1b[K\r\n") + "\x1b[K"))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A closed terminal needs no restoring.
        let _ = print("\x1b[?25h\x1b[?1049l");
    }
}

/// The signals that end the program.
struct Stop([tokio::signal::unix::Signal; 4]);

impl Stop {
    fn new() -> Result<Self> {
        Ok(Self([
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
            signal(SignalKind::quit())?,
        ]))
    }

    async fn asked(&mut self) {
        let [interrupt, terminate, hangup, quit] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
            _ = quit.recv() => {}
        }
    }
}
