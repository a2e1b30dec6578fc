//! The process' end of the socket to the server: reports, and requests for sockets and answers.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::world::lock;
use crate::events::NetworkQuestion;
use crate::packet::PacketSocket;
use crate::sockets::SocketSpec;
use crate::wire::{AnswerShape, Report};

/// How many reports may wait before new connections are refused.
const REPORTS_MAX: usize = 8192;

/// How long sockets may take.
const SOCKETS_PATIENCE: Duration = Duration::from_secs(2);

/// The most answers to one question: that it is pending, and the decision.
const ANSWERS_MAX: usize = 2;

type Sockets = Result<Vec<OwnedFd>, String>;

pub(super) struct Parent {
    reports: mpsc::UnboundedSender<Report>,
    waiting: Arc<AtomicU64>,
    requests: AtomicU64,
    sockets: Mutex<HashMap<u64, oneshot::Sender<Sockets>>>,
    questions: Mutex<HashMap<u64, mpsc::Sender<AnswerShape>>>,
}

impl Parent {
    pub(super) fn new(socket: &Arc<PacketSocket>) -> Arc<Self> {
        // Not bounded by itself: `is_behind` keeps guests from making more reports.
        let (reports, mut outgoing) = mpsc::unbounded_channel::<Report>();
        let waiting = Arc::new(AtomicU64::new(0));
        let socket = Arc::clone(socket);
        let sent = Arc::clone(&waiting);
        tokio::spawn(async move {
            while let Some(report) = outgoing.recv().await {
                sent.fetch_sub(1, Ordering::Relaxed);
                if socket.send(&report, &[]).await.is_err() {
                    // The parent has gone; the receiving side ends the process.
                    return;
                }
            }
        });
        Arc::new(Self {
            reports,
            waiting,
            requests: AtomicU64::new(1),
            sockets: Mutex::default(),
            questions: Mutex::default(),
        })
    }

    pub(super) fn report(&self, report: Report) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // It fails only while the process ends.
        let _ = self.reports.send(report);
    }

    /// Tells whether so many reports wait that no more work is taken.
    pub(super) fn is_behind(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > REPORTS_MAX as u64
    }

    /// Gets sockets from inside a sandbox.
    pub(super) async fn sockets(&self, sandbox: u64, specs: Vec<SocketSpec>) -> Sockets {
        let request = self.requests.fetch_add(1, Ordering::Relaxed);
        let wanted = specs.len();
        let (sender, receiver) = oneshot::channel();
        lock(&self.sockets).insert(request, sender);
        self.report(Report::NeedSockets { request, sandbox, specs });
        let came = tokio::time::timeout(SOCKETS_PATIENCE, receiver).await;
        lock(&self.sockets).remove(&request);
        match came {
            Ok(Ok(Ok(sockets))) if sockets.len() == wanted => Ok(sockets),
            Ok(Ok(Ok(_))) => Err("another number of sockets came".to_owned()),
            Ok(Ok(Err(error))) => Err(error),
            Ok(Err(_)) | Err(_) => Err("no sockets came in time".to_owned()),
        }
    }

    pub(super) fn sockets_came(&self, request: u64, sockets: Sockets) {
        let waiting = lock(&self.sockets).remove(&request);
        if let Some(waiting) = waiting {
            // The task may have ended with its sandbox.
            let _ = waiting.send(sockets);
        }
    }

    /// Asks a person. The answers come on the receiver until [`Self::ask_over`].
    pub(super) fn ask(&self, text: NetworkQuestion) -> (u64, mpsc::Receiver<AnswerShape>) {
        let question = self.requests.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = mpsc::channel(ANSWERS_MAX);
        lock(&self.questions).insert(question, sender);
        self.report(Report::Ask { question, text });
        (question, receiver)
    }

    pub(super) fn ask_over(&self, question: u64) {
        lock(&self.questions).remove(&question);
        self.report(Report::AskOver { question });
    }

    pub(super) fn answer_came(&self, question: u64, answer: AnswerShape) {
        let waiting = lock(&self.questions).get(&question).cloned();
        if let Some(waiting) = waiting {
            // No more than `ANSWERS_MAX` come.
            let _ = waiting.try_send(answer);
        }
    }
}
