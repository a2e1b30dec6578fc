//! Keeps what the process reports, and answers its questions.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use silica_egress::{
    AskRefused, ConnectionRecord, DenialRecord, EgressEvents, HostAnswer, ModelTokens,
    NetworkQuestion, PendingAnswer, ProcessChange,
};

/// How long a test waits for a report.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) finished: Mutex<Vec<ConnectionRecord>>,
    pub(crate) denied: Mutex<Vec<DenialRecord>>,
    pub(crate) tokens: Mutex<Vec<ModelTokens>>,
    pub(crate) changes: Mutex<Vec<ProcessChange>>,
    pub(crate) questions: Mutex<Vec<NetworkQuestion>>,
    /// The answer to the next questions; none for a person who does not answer.
    pub(crate) answer: Mutex<Option<HostAnswer>>,
}

impl Recorder {
    /// Waits until something of a list is as wanted.
    pub(crate) async fn wait<T: Clone>(
        &self,
        list: &Mutex<Vec<T>>,
        wanted: impl Fn(&T) -> bool,
    ) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = list.lock().unwrap().iter().find(|item| wanted(item)).cloned();
            if let Some(found) = found {
                return found;
            }
            assert!(Instant::now() < deadline, "it was not reported");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) async fn denial(&self, host: &str) -> DenialRecord {
        self.wait(&self.denied, |denial| denial.host == host).await
    }

    pub(crate) async fn connection(&self, host: &str) -> ConnectionRecord {
        self.wait(&self.finished, |record| record.host == host).await
    }
}

impl EgressEvents for Recorder {
    fn finished(&self, _sandbox: &str, _key: &str, record: ConnectionRecord) {
        self.finished.lock().unwrap().push(record);
    }

    fn denied(&self, _sandbox: &str, _key: &str, denial: DenialRecord) {
        self.denied.lock().unwrap().push(denial);
    }

    fn model_tokens(&self, _sandbox: &str, _key: &str, tokens: ModelTokens) {
        self.tokens.lock().unwrap().push(tokens);
    }

    fn process_changed(&self, change: ProcessChange) {
        self.changes.lock().unwrap().push(change);
    }

    fn ask(
        &self,
        question: NetworkQuestion,
    ) -> BoxFuture<'static, Result<PendingAnswer, AskRefused>> {
        self.questions.lock().unwrap().push(question);
        let answer: BoxFuture<'static, HostAnswer> = match *self.answer.lock().unwrap() {
            Some(answer) => Box::pin(std::future::ready(answer)),
            None => Box::pin(std::future::pending()),
        };
        let pending = PendingAnswer { approval: "approval-1".to_owned(), answer };
        Box::pin(std::future::ready(Ok(pending)))
    }
}
