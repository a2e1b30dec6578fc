//! `silica ask` and `silica chat`: answer prompts in the terminal, by code that a model writes.
//!
//! Both start an engine of their own, as `silica run` does, and use the model that the
//! configuration names. Answers and output go to stdout; code, questions and everything else to
//! stderr.

mod consent;
mod highlight;
mod printer;

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use silica_domain::Tier;
use silica_engine::GuestPath;
use silica_interpret::preset::Shape;
use silica_interpret::{
    Consent, ConversationRef, EVENTS_MAX, EventSink, PromptAnswer, PromptEvent,
};
use silica_server::{Prompt, Prompts};
use silica_sessions::{ReviewOptions, SandboxRequest, Sessions};
use silica_store::{Access, DATABASE_NAME, Store, StoreOptions, Tenant};
use tokio::sync::mpsc;

use crate::config::{self, ServeFlags, Settings};
use crate::{check, home, model, serve, show, units};

use consent::Terminal;
use printer::{EventPrinter, Seen, Verbosity};

/// The largest file that can be sent with a question.
const FILE_BYTES_MAX: u64 = 100 * 1024 * 1024;

/// How long to wait at the end for cells that still run.
const CLOSE_PATIENCE: Duration = Duration::from_millis(100);

/// The owner of the sandboxes.
const TENANT: &str = "terminal";

/// The exit status if there is no answer, or its code was not run.
const EXIT_NO_ANSWER: i32 = 1;

/// Arguments of both commands.
#[derive(Debug, Args)]
struct Common {
    /// A file to copy into the working directory of the code; can be given again
    #[arg(long = "file", value_name = "PATH")]
    files: Vec<PathBuf>,
    /// The model to use instead of the configured one
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The instructions and permissions of the model: data, math, program, or your own preset
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// The policy that checks the code: strict, data, open or the path of a policy file
    #[arg(long, value_name = "NAME|FILE")]
    policy: Option<String>,
    /// Run code without asking for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Show the code as the model writes it, also with --yes
    #[arg(long)]
    show_code: bool,
    /// Set a key of the configuration; can be given again
    #[arg(long, value_name = "KEY=VALUE", value_parser = units::variable)]
    set: Vec<(String, String)>,
}

/// Arguments of `silica ask`.
#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// The question; `-` or nothing for standard input
    question: Option<String>,
    #[command(flatten)]
    common: Common,
    /// Let the model run code in several steps and answer in text
    #[arg(long)]
    agent: bool,
    /// Print one JSON object at the end and nothing before
    #[arg(long)]
    json: bool,
}

/// Arguments of `silica chat`.
#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(arguments: &AskArgs) -> Result<i32> {
    // First: without a model no question can be answered.
    let settings = arguments.common.settings()?;
    model::for_terminal(&settings)?;
    let question = question(arguments.question.as_deref())?;
    let ask = Prompt {
        shape: arguments.agent.then_some(Shape::Agent),
        files: files(&arguments.common.files)?,
        ..arguments.common.prompt(question)?
    };
    in_runtime(&arguments.common, async |local| {
        let verbosity = if arguments.json { Verbosity::Code } else { Verbosity::Everything };
        let (answered, seen) = local.answer(ask, verbosity, &arguments.common).await?;
        if arguments.json {
            show::json(&silica_server::interpretation(&answered))?;
        } else {
            printer::print_answer(&answered, seen);
        }
        Ok(status(&answered))
    })
}

pub(crate) fn chat(arguments: &ChatArgs) -> Result<i32> {
    let mut files = files(&arguments.common.files)?;
    let common = arguments.common.prompt(String::new())?;
    in_runtime(&arguments.common, async |local| {
        say!("silica: type a question, or /files, /history, /quit; Ctrl-D quits too");
        let mut talk = ConversationRef::New;
        let mut asked: Vec<String> = Vec::new();
        while let Some(line) = next_line().await? {
            match line.trim() {
                "" => {}
                "/quit" | "/exit" => break,
                "/files" => local.list_files(&talk),
                "/history" => {
                    for line in &asked {
                        say!("  {}", show::plain(line, 200));
                    }
                }
                command if command.starts_with('/') => {
                    say!("silica: unknown command; the commands are /files, /history and /quit");
                }
                prompt => {
                    asked.push(prompt.to_owned());
                    let ask = Prompt {
                        prompt: prompt.to_owned(),
                        shape: Some(Shape::Agent),
                        conversation: talk.clone(),
                        files: std::mem::take(&mut files),
                        ..common.clone()
                    };
                    match local.answer(ask, Verbosity::Everything, &arguments.common).await {
                        Ok((answered, seen)) => {
                            printer::print_answer(&answered, seen);
                            talk = answered.conversation.map_or(talk, ConversationRef::Existing);
                        }
                        // A failed question does not change the conversation.
                        Err(error) => say!("silica: {error:#}"),
                    }
                }
            }
        }
        Ok(0)
    })
}

impl Common {
    /// Returns whether to show code: always before asking for confirmation.
    fn shows_code(&self) -> bool {
        self.show_code || !self.yes
    }

    /// Returns the part of a request that is equal for all questions.
    fn prompt(&self, prompt: String) -> Result<Prompt> {
        Ok(Prompt {
            model: self.model.clone(),
            preset: self.preset.clone(),
            policy: self.policy.as_deref().map(check::named_or_text).transpose()?,
            // A zygote costs more time than it saves for one user.
            sandbox: SandboxRequest { fresh: true, ..SandboxRequest::default() },
            ..Prompt::new(prompt)
        })
    }

    fn settings(&self) -> Result<Settings> {
        let home = home::home()?;
        let flags = ServeFlags::setting(self.set.clone());
        Ok(Settings::load(&flags, &config::environment()?, home.path())?.settings)
    }
}

/// An engine, sessions and a model in this process, for the user of the terminal.
struct LocalService {
    sessions: Arc<Sessions>,
    prompts: Arc<Prompts>,
    tenant: Tenant,
}

fn in_runtime(
    common: &Common,
    work: impl AsyncFnOnce(&LocalService) -> Result<i32>,
) -> Result<i32> {
    let settings = common.settings()?;
    let model = model::for_terminal(&settings)?;
    if !common.yes && !std::io::stdin().is_terminal() {
        bail!(
            "standard input is not a terminal, so the code cannot be confirmed; use --yes to run \
             it without confirmation"
        );
    }
    let home = home::home()?;
    let template = home::template(&home, settings.sandboxes.template.as_str())?;
    let place = tempfile::tempdir().context("cannot create a temporary directory")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let status = runtime.block_on(async {
        let engine = home::engine(&home, Tier::Jail, None)?;
        engine.add_template(template).await?;
        let options = StoreOptions::new(Access::Server);
        let store = Store::open(&place.path().join(DATABASE_NAME), options)?;
        // `ask` itself asks the user for confirmation, so the sessions need no approvals.
        let options = serve::options(&settings, ReviewOptions::default());
        let sessions = Sessions::start(engine, store.clone(), options).await?;
        let prompts = model::in_terminal(&settings, model, Arc::clone(&sessions), store)?;
        let tenant = Tenant::parse(TENANT)?;
        let local = LocalService { sessions: Arc::clone(&sessions), prompts, tenant };
        let status = tokio::select! {
            status = work(&local) => status,
            _ = tokio::signal::ctrl_c() => Ok(130),
        };
        drop(local);
        sessions.close(CLOSE_PATIENCE).await;
        status
    });
    // A thread may still be reading a line from standard input.
    runtime.shutdown_background();
    status
}

impl LocalService {
    /// Answers a question, and prints its events meanwhile. The code is always printed before the
    /// user is asked to confirm it.
    async fn answer(
        &self,
        mut ask: Prompt,
        verbosity: Verbosity,
        common: &Common,
    ) -> Result<(PromptAnswer, Seen)> {
        let (sender, mut events) = mpsc::channel::<PromptEvent>(EVENTS_MAX);
        let sink = EventSink::new(sender);
        let (terminal, mut questions) = Terminal::new();
        ask.consent =
            if common.yes { Consent::Given } else { Consent::Everything(Arc::new(terminal)) };
        let printing = async {
            let mut printer = EventPrinter::new(verbosity, common.shows_code());
            loop {
                tokio::select! {
                    event = events.recv() => match event {
                        Some(event) => printer.print(&event),
                        None => break printer.finish(),
                    },
                    Some(question) = questions.recv() => {
                        // The events that precede the question are in the channel already.
                        while let Ok(event) = events.try_recv() {
                            printer.print(&event);
                        }
                        question.ask().await;
                    }
                }
            }
        };
        let asking = async {
            let answered = self.prompts.answer(&self.tenant, ask, &sink).await;
            drop(sink);
            answered
        };
        let (answered, seen) = tokio::join!(asking, printing);
        Ok((answered?, seen))
    }

    fn list_files(&self, talk: &ConversationRef) {
        let ConversationRef::Existing(conversation) = talk else {
            say!("silica: there are no files yet; ask a question first");
            return;
        };
        let id = conversation.trim_start_matches("conversation-");
        let listed = self.sessions.find(&self.tenant, id).and_then(|session| {
            Ok(session.read_files()?.list(&GuestPath::parse("/workspace")?, 4)?)
        });
        match listed {
            Err(error) => say!("silica: {error}"),
            Ok(listing) if listing.entries.is_empty() => say!("  no files"),
            Ok(listing) => {
                for entry in listing.entries {
                    say!("  {:>12}  {}", entry.stat.size, show::plain(&entry.path, 200));
                }
            }
        }
    }
}

fn status(answered: &PromptAnswer) -> i32 {
    match answered.run() {
        _ if answered.succeeded() => 0,
        Some(run) if !run.succeeded() => run.outcome.exit_code(),
        _ => EXIT_NO_ANSWER,
    }
}

fn question(given: Option<&str>) -> Result<String> {
    match given {
        Some(text) if text != "-" => Ok(text.to_owned()),
        _ if std::io::stdin().is_terminal() => {
            bail!("no question: give it as an argument, or on standard input")
        }
        _ => std::io::read_to_string(std::io::stdin().lock()).context("cannot read the question"),
    }
}

fn files(paths: &[PathBuf]) -> Result<Vec<(GuestPath, Vec<u8>)>> {
    let read = |path: &PathBuf| {
        let words = || format!("cannot use {}", path.display());
        let size = std::fs::metadata(path).with_context(words)?.len();
        if size > FILE_BYTES_MAX {
            bail!("{} must have at most {FILE_BYTES_MAX} bytes", path.display());
        }
        let name = Path::new(path).file_name().and_then(|name| name.to_str());
        let name = GuestPath::parse(name.with_context(words)?).with_context(words)?;
        Ok((name, std::fs::read(path).with_context(words)?))
    };
    paths.iter().map(read).collect()
}

/// Reads the next line from standard input; `None` at its end.
async fn next_line() -> Result<Option<String>> {
    let read = tokio::task::spawn_blocking(|| {
        if std::io::stdin().is_terminal() {
            prompt!("> ");
            std::io::stderr().flush()?;
        }
        let mut line = String::new();
        let length = std::io::stdin().lock().read_line(&mut line)?;
        Ok::<_, std::io::Error>((length > 0).then_some(line))
    });
    Ok(read.await??)
}
