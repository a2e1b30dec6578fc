//! Keeps the process running, and serves what it reports and asks.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use silica_domain::NetworkApproval;
use tokio::process::{Child, Command};

use super::{Attached, Link, Shared, borrowed, lock};
use crate::events::{HostAnswer, NetworkQuestion, ProcessChange};
use crate::packet::{self, PacketSocket};
use crate::sockets::SocketSpec;
use crate::wire::{AnswerShape, ConfigureOrder, Order, Report, SecretText};

/// How long a process may take until it is ready.
const READY_PATIENCE: Duration = Duration::from_secs(10);

/// The pause before a process that died is started again; it doubles with each death in a row.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long a process must have run for its death not to count as one in a row.
const STEADY: Duration = Duration::from_secs(30);

/// How often a sandbox is tried to be attached again.
const REATTACH_ATTEMPTS: u32 = 3;

/// How long a process that was hung up on may take to end.
const END_PATIENCE: Duration = Duration::from_secs(2);

/// Runs processes one after the other, as long as there are sandboxes for them.
pub(super) async fn supervise(shared: Arc<Shared>) {
    let mut pause = PAUSE_FIRST;
    loop {
        let started = tokio::time::Instant::now();
        match start(&shared).await {
            Ok((link, child)) => {
                publish(&shared, &link).await;
                serve(&shared, &link).await;
                withdraw(&shared, &link);
                end(child).await;
                shared.events.process_changed(ProcessChange::Died);
            }
            Err(error) => fail(&shared, &error),
        }
        if rest(&shared) {
            return;
        }
        pause = if started.elapsed() > STEADY { PAUSE_FIRST } else { (pause * 2).min(PAUSE_MAX) };
        tokio::time::sleep(pause).await;
    }
}

/// Starts a process and configures it.
async fn start(shared: &Shared) -> io::Result<(Arc<Link>, Child)> {
    let (ours, theirs) = packet::pair()?;
    let program = &shared.options.program;
    let child = Command::new(&program.path)
        .args(&program.arguments)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        // Ctrl-C in a terminal is for the server, which ends the process by closing the socket.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let socket = PacketSocket::new(ours)?;
    let authority = &shared.options.authority;
    let order = Order::Configure(Box::new(ConfigureOrder {
        authority_name: authority.name().to_owned(),
        authority_key_pem: SecretText(authority.key_pem().to_owned()),
        settings: (&shared.options.settings).into(),
    }));
    let ready = async {
        socket.send(&order, &[]).await?;
        match socket.receive::<Report>().await? {
            Some((Report::Ready, _)) => Ok(()),
            Some((Report::Failed(message), _)) => Err(io::Error::other(message)),
            _ => Err(io::Error::other("the process ended before it was ready")),
        }
    };
    tokio::time::timeout(READY_PATIENCE, ready).await??;
    let link = Link {
        number: shared.number(),
        socket,
        process: child.id().unwrap_or_default(),
        pending: std::sync::Mutex::default(),
        questions: std::sync::Mutex::default(),
    };
    Ok((Arc::new(link), child))
}

/// Makes the process known, and attaches the sandboxes that a dead one had.
async fn publish(shared: &Arc<Shared>, link: &Arc<Link>) {
    let attached: Vec<Arc<Attached>> = {
        let mut state = lock(&shared.state);
        state.link = Some(Arc::clone(link));
        state.failure = None;
        state.attached.values().cloned().collect()
    };
    shared.events.process_changed(ProcessChange::Started(link.process));
    shared.changed.notify_waiters();
    for attached in attached {
        tokio::spawn(attach_again(Arc::clone(shared), Arc::clone(link), attached));
    }
    // Lets these tasks take their turn before the reader waits.
    tokio::task::yield_now().await;
}

async fn attach_again(shared: Arc<Shared>, link: Arc<Link>, attached: Arc<Attached>) {
    for attempt in 1..=REATTACH_ATTEMPTS {
        if attached.ending.load(Ordering::Relaxed) {
            return;
        }
        let error = match shared.attach(&link, &attached).await {
            Ok(()) => return,
            Err(error) => error,
        };
        if shared.running().is_none_or(|running| !Arc::ptr_eq(&running, &link)) {
            // The next process attaches it.
            return;
        }
        tracing::warn!(sandbox = attached.sandbox, attempt, %error, "cannot attach again");
        tokio::time::sleep(PAUSE_FIRST * attempt).await;
    }
    let sandbox = attached.sandbox.clone();
    shared.events.process_changed(ProcessChange::Lost { sandbox });
}

/// Forgets a process that has ended, and fails what was pending with it.
fn withdraw(shared: &Shared, link: &Link) {
    lock(&shared.state).link = None;
    lock(&link.pending).clear();
    for (_, question) in lock(&link.questions).drain() {
        question.abort();
    }
}

fn fail(shared: &Shared, error: &io::Error) {
    tracing::error!(%error, "cannot start the egress process");
    lock(&shared.state).failure = Some(error.to_string());
    shared.changed.notify_waiters();
}

/// Tells whether no sandbox needs a process; the next one that does starts it.
fn rest(shared: &Shared) -> bool {
    let mut state = lock(&shared.state);
    let unused = state.attached.is_empty();
    state.supervised = !unused;
    unused
}

async fn end(mut child: Child) {
    if tokio::time::timeout(END_PATIENCE, child.wait()).await.is_err() {
        // It closed its socket and lives: nothing it does is of use any more.
        let _ = child.kill().await;
    }
}

/// Handles reports until the process ends.
async fn serve(shared: &Arc<Shared>, link: &Arc<Link>) {
    loop {
        match link.socket.receive::<Report>().await {
            Ok(Some((report, _))) => handle(shared, link, report),
            Ok(None) => return,
            Err(error) => {
                tracing::error!(%error, "cannot read from the egress process");
                return;
            }
        }
    }
}

fn handle(shared: &Arc<Shared>, link: &Arc<Link>, report: Report) {
    let find = |sandbox: u64| lock(&shared.state).attached.get(&sandbox).cloned();
    match report {
        Report::Done { request }
        | Report::Refused { request, .. }
        | Report::Connections { request, .. }
        | Report::Usage { request, .. } => {
            if let Some(waiting) = lock(&link.pending).remove(&request) {
                // The caller may have left.
                let _ = waiting.send(report);
            }
        }
        Report::NeedSockets { request, sandbox, specs } => {
            let attached = find(sandbox);
            tokio::spawn(send_sockets(Arc::clone(link), attached, request, specs));
        }
        Report::Named { sandbox, name, place } => {
            if let Some(attached) = find(sandbox) {
                lock(&attached.current).names.push((name, place));
            }
        }
        Report::Used { sandbox, usage } => {
            if let Some(attached) = find(sandbox) {
                lock(&attached.current).used = usage;
            }
        }
        Report::Finished { sandbox, record } => {
            if let Some(attached) = find(sandbox) {
                shared.events.finished(&attached.sandbox, &attached.key, *record);
            }
        }
        Report::Denied { sandbox, denial } => {
            if let Some(attached) = find(sandbox) {
                shared.events.denied(&attached.sandbox, &attached.key, denial);
            }
        }
        Report::Tokens { sandbox, tokens } => {
            if let Some(attached) = find(sandbox) {
                shared.events.model_tokens(&attached.sandbox, &attached.key, tokens);
            }
        }
        Report::Ask { question, text } => {
            let task = tokio::spawn(ask(Arc::clone(shared), Arc::clone(link), question, text));
            lock(&link.questions).insert(question, task.abort_handle());
        }
        Report::AskOver { question } => {
            if let Some(task) = lock(&link.questions).remove(&question) {
                task.abort();
            }
        }
        Report::Ready | Report::Failed(_) => {}
    }
}

async fn send_sockets(
    link: Arc<Link>,
    attached: Option<Arc<Attached>>,
    request: u64,
    specs: Vec<SocketSpec>,
) {
    let opened: Result<Vec<OwnedFd>, String> = match attached {
        Some(attached) => attached.sockets.open(specs).await.map_err(|error| error.to_string()),
        None => Err("the sandbox has ended".to_owned()),
    };
    let (sockets, error) = match opened {
        Ok(sockets) => (sockets, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let order = Order::Sockets { request, error };
    // A process that has died needs no sockets.
    let _ = link.socket.send(&order, &borrowed(&sockets)).await;
}

/// Asks a person, and passes on first that it was asked and then what was decided.
async fn ask(shared: Arc<Shared>, link: Arc<Link>, question: u64, text: NetworkQuestion) {
    let tell = async |answer: AnswerShape| {
        // A process that has died has no connection to hold.
        let _ = link.socket.send(&Order::Answer { question, answer }, &[]).await;
    };
    let subject = text.clone();
    match shared.events.ask(text).await {
        Ok(pending) => {
            tell(AnswerShape::Pending(pending.approval)).await;
            let patience = shared.options.settings.ask_timeout;
            // The process counts the same time and refuses by itself.
            if let Ok(answer) = tokio::time::timeout(patience, pending.answer).await {
                if matches!(answer, HostAnswer::AllowForSandbox | HostAnswer::AllowForKey) {
                    keep_approval(&shared, &subject);
                }
                tell(AnswerShape::Decided(answer)).await;
            }
        }
        Err(refused) => tell(AnswerShape::Refused(refused.0)).await,
    }
    lock(&link.questions).remove(&question);
}

/// Keeps an approval for a process that is started later.
fn keep_approval(shared: &Shared, question: &NetworkQuestion) {
    let Ok(name) = question.host.parse() else {
        return;
    };
    let attached = lock(&shared.state)
        .attached
        .values()
        .find(|attached| attached.sandbox == question.sandbox)
        .cloned();
    if let Some(attached) = attached {
        let approval = NetworkApproval { name, port: question.port };
        lock(&attached.current).policy.approve(approval);
    }
}
