//! One request at work: asking the model, checking and running its code, and how it ended.
//!
//! The two shapes, `interpret` and `agent`, are in the files below; both are made of the two steps
//! here. Every loop is bounded in rounds or steps, in tokens and in time.

mod agent;
mod program;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use silica_policy::{Action, Policy, Report};
use silica_sessions::SessionError;
use silica_store::Tenant;
use tokio::time::{Instant, timeout_at};

use crate::budget::{Ledger, Spent};
use crate::event::{Event, Voice};
use crate::model::{
    Answer, Cost, Delta, Listener, Message, Model, ModelError, Part, Price, Request, Role, Tokens,
};
use crate::runner::{Ran, Runner};

pub(crate) use agent::tool;

/// How long code that is stopped at the end of a request may take to stop.
const RUN_PATIENCE: Duration = Duration::from_secs(5);

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With an answer.
    Answered,
    /// The check did not let the code run.
    Blocked,
    /// A person did not let the code run.
    Denied,
    /// The code failed.
    Failed,
    /// The model wrote no code that can be run.
    NoCode,
    /// The model wrote the same again.
    Repeated,
    /// The model took as many steps as it may.
    Steps,
    /// The request used as many tokens as it may.
    Tokens,
    /// The request took as long as it may.
    Time,
    /// The key's budget ran out on the way.
    Budget,
    /// The model failed on the way.
    Model,
    /// The model does not want to.
    Refused,
}

impl Ending {
    /// Its name in JSON and in the audit log.
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

    /// What happened, for people; `None` where the result says it all.
    pub fn explain(self) -> Option<&'static str> {
        match self {
            Self::Answered | Self::Failed | Self::Blocked => None,
            Self::Denied => Some("the code was not approved"),
            Self::NoCode => Some("the model wrote no Python code"),
            Self::Repeated => Some("the model wrote the same code again"),
            Self::Steps => Some("the model took as many steps as it may"),
            Self::Tokens => Some("the request used as many tokens as it may"),
            Self::Time => Some("the request took as long as it may"),
            Self::Budget => Some("the budget of this key for models ran out"),
            Self::Model => Some("the model failed before it was done"),
            Self::Refused => Some("the model does not want to answer this"),
        }
    }
}

/// Code that a model wrote, and what became of it.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The code.
    pub code: String,
    /// What the check said.
    pub report: Arc<Report>,
    /// Whether it was kept from running, by the check or by a person.
    pub blocked: bool,
    /// What came of it, if it ran.
    pub ran: Option<Ran>,
}

/// What was asked of models for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// How often.
    pub requests: u32,
    /// What was read and written.
    pub tokens: Tokens,
    /// What it cost, if the model's price is known.
    pub cost: Option<Cost>,
}

/// A person who is asked before code runs.
pub trait Approver: Send + Sync {
    /// Asks whether this code may run.
    fn approve<'a>(
        &'a self,
        code: &'a str,
        report: &'a Report,
    ) -> std::pin::Pin<Box<dyn Future<Output = bool> + Send + 'a>>;
}

/// Who decides about code that the check does not simply let through.
#[derive(Clone, Default)]
pub enum Consent {
    /// The gate of the sessions: what the policy asks about waits there for a person.
    #[default]
    Gate,
    /// Somebody is asked before every run.
    Everything(Arc<dyn Approver>),
    /// What the policy would ask about is run. For users who have said so.
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

/// How far a request may go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// How often code goes back to the model.
    pub(crate) rounds: u32,
    /// How often an agent may be asked.
    pub(crate) steps: u32,
    /// Tokens in all.
    pub(crate) tokens: u64,
    /// When it must be over.
    pub(crate) deadline: Instant,
    /// How long one piece of code may run.
    pub(crate) run_max: Duration,
}

/// Who pays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purse<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) tenant: &'a Tenant,
    pub(crate) price: Option<Price>,
}

/// Why a request cannot go on.
#[derive(Debug)]
pub(crate) enum Halt {
    Model(ModelError),
    Spent(Spent),
    Session(SessionError),
    Tokens,
    Time,
}

impl Halt {
    /// How a request ends that has something to show already.
    fn ending(&self) -> Ending {
        match self {
            Self::Model(_) => Ending::Model,
            Self::Spent(_) => Ending::Budget,
            Self::Session(_) => Ending::Failed,
            Self::Tokens => Ending::Tokens,
            Self::Time => Ending::Time,
        }
    }
}

/// One request at work.
pub(crate) struct Work<'a, R> {
    pub(crate) model: &'a Model,
    pub(crate) request: Request,
    pub(crate) policy: &'a Policy,
    pub(crate) runner: &'a mut R,
    pub(crate) voice: &'a Voice,
    pub(crate) consent: &'a Consent,
    pub(crate) bounds: Bounds,
    pub(crate) purse: Purse<'a>,
    pub(crate) usage: Usage,
    pub(crate) attempts: Vec<Attempt>,
    /// What the model said last, code and all.
    pub(crate) said: String,
}

impl<R: Runner> Work<'_, R> {
    /// Asks the model once, and adds its answer to what was said.
    async fn ask(&mut self) -> Result<Answer, Halt> {
        self.purse.ledger.check(self.purse.tenant).map_err(Halt::Spent)?;
        if self.usage.tokens.total() >= self.bounds.tokens {
            return Err(Halt::Tokens);
        }
        self.usage.requests += 1;
        self.voice.tell(Event::Asking(self.usage.requests)).await;
        let mut meter = Meter::new(self.purse, self.voice, &self.request);
        let asked = self.model.ask(&self.request, &mut meter);
        let answer = match timeout_at(self.bounds.deadline, asked).await {
            Err(_) => return Err(Halt::Time),
            Ok(Err(error)) => {
                meter.failed();
                return Err(Halt::Model(error));
            }
            Ok(Ok(answer)) => answer,
        };
        let cost = meter.settle(answer.tokens);
        self.usage.tokens.add(answer.tokens);
        if let Some(cost) = cost {
            self.usage.cost.get_or_insert_default().add(cost);
        }
        self.said = answer.text();
        // An empty message is refused by both formats when it is sent back.
        let parts = if answer.parts.is_empty() {
            vec![Part::Text("(no answer)".to_owned())]
        } else {
            answer.parts.clone()
        };
        self.request.messages.push(Message { role: Role::Assistant, parts });
        Ok(answer)
    }

    /// Checks code and runs it.
    async fn attempt(&mut self, code: String) -> Result<&Attempt, Halt> {
        self.voice.tell(Event::Code(code.clone())).await;
        let report = Arc::new(self.policy.check(&code));
        self.voice.tell(Event::Checked(Arc::clone(&report))).await;
        let blocked = !self.allowed(&code, &report).await;
        let mut attempt = Attempt { code, report, blocked, ran: None };
        if !blocked {
            let left = self.bounds.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Halt::Time);
            }
            self.voice.tell(Event::Running).await;
            let time_max = self.bounds.run_max.min(left);
            let ran = self.runner.run(&attempt.code, time_max, self.voice);
            // Code has a clock of its own; this one is for what waits for a person.
            let latest = self.bounds.deadline + RUN_PATIENCE;
            match timeout_at(latest, ran).await.map_err(|_| Halt::Time)? {
                Ok(ran) => {
                    self.voice.tell(Event::Ran(ran.outcome.name())).await;
                    attempt.ran = Some(ran);
                }
                // What the operator asks of all code is stricter than this request's policy.
                Err(SessionError::Blocked(checked)) => {
                    attempt.report = checked.report;
                    attempt.blocked = true;
                }
                Err(error) => return Err(Halt::Session(error)),
            }
        }
        self.attempts.push(attempt);
        Ok(self.attempts.last().expect("one was added just now"))
    }

    async fn allowed(&self, code: &str, report: &Report) -> bool {
        match (report.verdict, self.consent) {
            (Action::Block, _) => false,
            (Action::Allow | Action::Warn | Action::Ask, Consent::Everything(approver)) => {
                approver.approve(code, report).await
            }
            (Action::Allow | Action::Warn | Action::Ask, Consent::Gate | Consent::Given) => true,
        }
    }

    /// Says something to the model, in the user's place.
    fn say(&mut self, parts: Vec<Part>) {
        say(&mut self.request.messages, parts);
    }
}

/// Adds words of the user; two messages of the same side in a row become one.
pub(crate) fn say(messages: &mut Vec<Message>, parts: Vec<Part>) {
    match messages.last_mut() {
        Some(last) if last.role == Role::User => last.parts.extend(parts),
        _ => messages.push(Message { role: Role::User, parts }),
    }
}

/// Passes an answer on, and sees to it that it is paid for, also by those who leave in the middle.
struct Meter<'a> {
    purse: Purse<'a>,
    voice: &'a Voice,
    sent_bytes: u64,
    heard_bytes: u64,
    settled: bool,
}

/// How many bytes are about a token, where nobody counts.
const TOKEN_BYTES: u64 = 4;

impl<'a> Meter<'a> {
    fn new(purse: Purse<'a>, voice: &'a Voice, request: &Request) -> Self {
        let said: usize = request.messages.iter().map(|message| message.text().len()).sum();
        let sent_bytes = (said + request.system.len()) as u64;
        Self { purse, voice, sent_bytes, heard_bytes: 0, settled: false }
    }

    fn settle(mut self, tokens: Tokens) -> Option<Cost> {
        self.settled = true;
        self.pay(tokens)
    }

    /// An error that came instead of an answer costs nothing; one in the middle of it does.
    fn failed(mut self) {
        self.settled = self.heard_bytes == 0;
    }

    fn pay(&self, tokens: Tokens) -> Option<Cost> {
        let cost = self.purse.price.map(|price| price.of(tokens));
        self.purse.ledger.spend(self.purse.tenant, tokens, cost.unwrap_or_default());
        cost
    }
}

impl Listener for Meter<'_> {
    async fn hear(&mut self, delta: Delta) {
        let (Delta::Text(text) | Delta::Input(text)) = &delta;
        self.heard_bytes += text.len() as u64;
        self.voice.tell(Event::Delta(delta)).await;
    }
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        if !self.settled {
            let (input, output) = (self.sent_bytes / TOKEN_BYTES, self.heard_bytes / TOKEN_BYTES);
            self.pay(Tokens { input, output });
        }
    }
}
