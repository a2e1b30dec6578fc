//! Carries out one request: asks the model, checks its code, runs it.
//!
//! The shapes `interpret` and `agent` have a file each; both consist of the two steps in this file. Every loop is
//! bounded in rounds or steps, in tokens and in time.

mod agent;
mod program;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use silica_policy::{Action, CheckedCode, Policy, Report};
use silica_store::Tenant;
use tokio::time::{Instant, timeout_at};

use crate::budget::{Ledger, Spent};
use crate::event::{EventSink, PromptEvent};
use crate::model::{
    Cost, Delta, Listener, Message, Model, ModelAnswer, ModelError, Part, Price, Request, Role,
    Tokens,
};
use crate::runner::{RunError, RunResult, Runner};

pub(crate) use agent::tool;

/// How long after the deadline of a request its running code is waited for.
const RUN_PATIENCE: Duration = Duration::from_secs(5);

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With an answer, or with code that ran to its end.
    Answered,
    /// The policy blocked the code.
    Blocked,
    /// A person denied the code.
    Denied,
    /// The code failed.
    Failed,
    /// The model wrote no Python code.
    NoCode,
    /// The model wrote the same code again.
    Repeated,
    /// The model was asked as often as is allowed.
    Steps,
    /// The request used as many tokens as is allowed.
    Tokens,
    /// The request took as long as is allowed.
    Time,
    /// The budget of the key was used up during the request.
    Budget,
    /// The model failed during the request.
    Model,
    /// The model refused to answer.
    Refused,
}

impl Ending {
    /// Returns its name in JSON and in the audit log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Blocked => "blocked",
            Self::Denied => "denied",
            Self::Failed => "failed",
            Self::NoCode => "no_code",
            Self::Repeated => "repeated",
            Self::Steps => "steps",
            Self::Tokens => "tokens",
            Self::Time => "time",
            Self::Budget => "budget",
            Self::Model => "model_failed",
            Self::Refused => "refused",
        }
    }

    /// Returns what happened, for people; `None` where the result says it.
    pub fn explain(self) -> Option<&'static str> {
        match self {
            Self::Answered | Self::Failed | Self::Blocked => None,
            Self::Denied => Some("the code was not approved"),
            Self::NoCode => Some("the model wrote no Python code"),
            Self::Repeated => Some("the model wrote the same code again"),
            Self::Steps => Some("the model took as many steps as are allowed"),
            Self::Tokens => Some("the request used as many tokens as are allowed"),
            Self::Time => Some("the request took as long as is allowed"),
            Self::Budget => Some("the budget of this key for models is used up"),
            Self::Model => Some("the model failed before it was done"),
            Self::Refused => Some("the model refused to answer this"),
        }
    }
}

/// Code that the model wrote, with the check and the result.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The code.
    pub code: String,
    /// What the policy found.
    pub report: Arc<Report>,
    /// Whether the policy or a person did not allow it to run.
    pub blocked: bool,
    /// The result; `None` if it did not run.
    pub run: Option<RunResult>,
}

/// What one request used of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelUsage {
    /// Requests to the model.
    pub requests: u32,
    /// Tokens of all these requests.
    pub tokens: Tokens,
    /// The cost of the tokens; `None` if the price of the model is not known.
    pub cost: Option<Cost>,
}

/// Asks a person before code runs.
pub trait Approver: Send + Sync {
    /// Returns whether the person allows this code to run.
    fn approve<'a>(
        &'a self,
        code: &'a str,
        report: &'a Report,
    ) -> std::pin::Pin<Box<dyn Future<Output = bool> + Send + 'a>>;
}

/// Who decides about code that the policy does not block.
#[derive(Clone, Default)]
pub enum Consent {
    /// The server: what the policy asks about waits for approval there.
    #[default]
    Gate,
    /// A person is asked before every run.
    Everything(Arc<dyn Approver>),
    /// The user has agreed in advance to everything that the policy does not block.
    Given,
}

impl std::fmt::Debug for Consent {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Gate => "Gate",
            Self::Everything(_) => "Everything",
            Self::Given => "Given",
        })
    }
}

/// The bounds of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// How often a program is sent back to the model.
    pub(crate) rounds: u32,
    /// How often the model is asked in the shape `agent`.
    pub(crate) steps: u32,
    /// Tokens of the whole request.
    pub(crate) tokens: u64,
    /// When the request must be over.
    pub(crate) deadline: Instant,
    /// The timeout of one piece of code.
    pub(crate) run_max: Duration,
}

/// Who pays for tokens, and how much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Billing<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) tenant: &'a Tenant,
    pub(crate) price: Option<Price>,
}

/// Why a request cannot go on. `E` is how the sandbox fails.
#[derive(Debug)]
pub(crate) enum Abort<E> {
    Model(ModelError),
    Spent(Spent),
    Sandbox(E),
    Tokens,
    Time,
}

impl<E> Abort<E> {
    /// Returns how a request ends that has an attempt to show already.
    fn ending(&self) -> Ending {
        match self {
            Self::Model(_) => Ending::Model,
            Self::Spent(_) => Ending::Budget,
            Self::Sandbox(_) => Ending::Failed,
            Self::Tokens => Ending::Tokens,
            Self::Time => Ending::Time,
        }
    }
}

/// A request that is being carried out.
pub(crate) struct RequestRun<'a, R> {
    pub(crate) model: &'a Model,
    pub(crate) request: Request,
    pub(crate) policy: &'a Policy,
    pub(crate) runner: &'a mut R,
    pub(crate) events: &'a EventSink,
    pub(crate) consent: &'a Consent,
    pub(crate) bounds: Bounds,
    pub(crate) billing: Billing<'a>,
    pub(crate) usage: ModelUsage,
    pub(crate) attempts: Vec<Attempt>,
    /// The last answer of the model, with the code in it.
    pub(crate) text: String,
}

impl<R: Runner> RequestRun<'_, R> {
    /// Asks the model once, and adds its answer to the messages.
    async fn ask_model(&mut self) -> Result<ModelAnswer, Abort<R::Error>> {
        self.billing.ledger.check(self.billing.tenant).map_err(Abort::Spent)?;
        if self.usage.tokens.total() >= self.bounds.tokens {
            return Err(Abort::Tokens);
        }
        self.usage.requests += 1;
        self.events.send(PromptEvent::Asking(self.usage.requests)).await;
        let mut meter = Meter::new(self.billing, self.events, &self.request);
        let asked = self.model.ask(&self.request, &mut meter);
        let answer = match timeout_at(self.bounds.deadline, asked).await {
            Err(_) => return Err(Abort::Time),
            Ok(Err(error)) => {
                meter.failed();
                return Err(Abort::Model(error));
            }
            Ok(Ok(answer)) => answer,
        };
        let cost = meter.settle(answer.tokens);
        self.usage.tokens.add(answer.tokens);
        if let Some(cost) = cost {
            self.usage.cost.get_or_insert_default().add(cost);
        }
        self.text = answer.text();
        // Both wire formats refuse an empty message when it is sent back.
        let parts = if answer.parts.is_empty() {
            vec![Part::Text("(no answer)".to_owned())]
        } else {
            answer.parts.clone()
        };
        self.request.messages.push(Message { role: Role::Assistant, parts });
        Ok(answer)
    }

    /// Runs checked code, if policy and person allow it.
    async fn attempt(&mut self, checked: CheckedCode) -> Result<&Attempt, Abort<R::Error>> {
        let code = checked.code().to_string();
        let report = Arc::clone(checked.report());
        self.events.send(PromptEvent::Code(code.clone())).await;
        self.events.send(PromptEvent::Checked(Arc::clone(&report))).await;
        let blocked = !self.allowed(&code, &report).await;
        let mut attempt = Attempt { code, report, blocked, run: None };
        if !blocked {
            let left = self.bounds.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Abort::Time);
            }
            self.events.send(PromptEvent::Running).await;
            let time_max = self.bounds.run_max.min(left);
            let running = self.runner.run(&checked, time_max, self.events);
            // Code has a timeout of its own; this one is for code that waits for approval.
            let latest = self.bounds.deadline + RUN_PATIENCE;
            match timeout_at(latest, running).await.map_err(|_| Abort::Time)? {
                Ok(run) => {
                    self.events.send(PromptEvent::Ran(run.outcome.name())).await;
                    attempt.run = Some(run);
                }
                // The operator's minimum is stricter than the policy of this request.
                Err(RunError::Blocked(report)) => {
                    attempt.report = report;
                    attempt.blocked = true;
                }
                Err(RunError::Sandbox(error)) => return Err(Abort::Sandbox(error)),
            }
        }
        self.attempts.push(attempt);
        Ok(self.attempts.last().expect("one was added just now"))
    }

    /// Returns whether the policy does not block the code and the person, if one is asked, agrees.
    async fn allowed(&self, code: &str, report: &Report) -> bool {
        match (report.verdict, self.consent) {
            (Action::Block, _) => false,
            (Action::Allow | Action::Warn | Action::Ask, Consent::Everything(approver)) => {
                approver.approve(code, report).await
            }
            (Action::Allow | Action::Warn | Action::Ask, Consent::Gate | Consent::Given) => true,
        }
    }

    /// Adds parts to the message that the model is sent next.
    fn add_user_parts(&mut self, parts: Vec<Part>) {
        add_user_parts(&mut self.request.messages, parts);
    }
}

/// Adds parts in the role of the user. Two messages of one role in a row become one, as the wire formats demand.
pub(crate) fn add_user_parts(messages: &mut Vec<Message>, parts: Vec<Part>) {
    match messages.last_mut() {
        Some(last) if last.role == Role::User => last.parts.extend(parts),
        _ => messages.push(Message { role: Role::User, parts }),
    }
}

/// Passes an answer on as events, and charges for it, also if the client leaves in the middle.
struct Meter<'a> {
    billing: Billing<'a>,
    events: &'a EventSink,
    sent_bytes: u64,
    received_bytes: u64,
    settled: bool,
}

/// About how many bytes a token has, where the provider has not counted.
const TOKEN_BYTES: u64 = 4;

impl<'a> Meter<'a> {
    fn new(billing: Billing<'a>, events: &'a EventSink, request: &Request) -> Self {
        let messages: usize = request.messages.iter().map(|message| message.text().len()).sum();
        let sent_bytes = (messages + request.system.len()) as u64;
        Self { billing, events, sent_bytes, received_bytes: 0, settled: false }
    }

    fn settle(mut self, tokens: Tokens) -> Option<Cost> {
        self.settled = true;
        self.pay(tokens)
    }

    /// An error instead of an answer costs nothing; an error in the middle of one costs what was received.
    fn failed(mut self) {
        self.settled = self.received_bytes == 0;
    }

    fn pay(&self, tokens: Tokens) -> Option<Cost> {
        let cost = self.billing.price.map(|price| price.of(tokens));
        self.billing.ledger.spend(self.billing.tenant, tokens, cost.unwrap_or_default());
        cost
    }
}

impl Listener for Meter<'_> {
    async fn receive(&mut self, delta: Delta) {
        let (Delta::Text(text) | Delta::Input(text)) = &delta;
        self.received_bytes += text.len() as u64;
        self.events.send(PromptEvent::Delta(delta)).await;
    }
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.pay(Tokens {
                input: self.sent_bytes / TOKEN_BYTES,
                output: self.received_bytes / TOKEN_BYTES,
            });
        }
    }
}
