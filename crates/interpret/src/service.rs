//! Answers prompts: checks the request, records it, creates a sandbox while the model answers, runs the loop.
//!
//! Dropping the future of [`PromptService::answer`] stops the model and the code.

mod record;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use silica_policy::PolicyChoice;
use silica_store::{Store, StoreError, Tenant};
use tokio::time::Instant;

use crate::budget::{Ledger, Spending, Spent};
use crate::conversation::{Conversations, History, LockedConversation, Unavailable};
use crate::event::EventSink;
use crate::feedback;
use crate::model::{Message, Model, ModelError, Part, Price, Request, Role};
use crate::preset::{PromptPreset, PromptPresets, Shape};
use crate::request_run::{
    self, Abort, Attempt, Billing, Bounds, Consent, Ending, ModelUsage, RequestRun,
};
use crate::runner::{OutputFile, RequestSandbox, RunResult, SandboxProvider, WrittenFile};

use record::Recording;

/// The longest name of a model.
const MODEL_NAME_BYTES_MAX: usize = 200;

/// The most files of one request.
const FILES_MAX: usize = 100;

/// In the list of allowed models: any model.
pub const ANY_MODEL: &str = "*";

/// What the operator decides.
#[derive(Clone, Debug)]
pub struct InterpretOptions {
    /// The default model.
    pub model: String,
    /// The other models that a request may name; [`ANY_MODEL`] for any.
    pub models_allowed: Vec<String>,
    /// The prices of models.
    pub prices: BTreeMap<String, Price>,
    /// The most tokens of one answer.
    pub answer_tokens_max: u32,
    /// The default preset.
    pub preset: String,
    /// The most characters of a prompt.
    pub prompt_chars_max: usize,
    /// How often a program is sent back to the model for repair.
    pub rounds: u32,
    /// How often the model is asked in the shape `agent`.
    pub steps_max: u32,
    /// The most tokens of one request.
    pub tokens_max: u64,
    /// The longest time of one request.
    pub time_max: Duration,
}

/// A request to answer a prompt. What is `None` is the default of the preset or of the server.
#[derive(Clone, Debug)]
pub struct PromptRequest<P: SandboxProvider> {
    /// The prompt.
    pub prompt: String,
    /// The model.
    pub model: Option<String>,
    /// The name of the preset.
    pub preset: Option<String>,
    /// The policy that checks the code: the name of a preset, or the text of a policy file.
    pub policy: Option<String>,
    /// One program, or step by step.
    pub shape: Option<Shape>,
    /// How often a program is sent back for repair; at most as often as the operator allows.
    pub rounds: Option<u32>,
    /// The conversation.
    pub conversation: ConversationRef,
    /// The sandbox, if one is created for this request.
    pub sandbox: P::Request,
    /// Files that are written to the sandbox first.
    pub files: Vec<(P::Path, Vec<u8>)>,
    /// The timeout of one piece of code.
    pub timeout: Option<Duration>,
    /// Who decides about code that the policy does not allow by itself.
    pub consent: Consent,
}

impl<P: SandboxProvider> PromptRequest<P> {
    /// Creates a request with all defaults.
    pub fn new(prompt: String) -> Self {
        Self {
            prompt,
            model: None,
            preset: None,
            policy: None,
            shape: None,
            rounds: None,
            conversation: ConversationRef::None,
            sandbox: P::Request::default(),
            files: Vec::new(),
            timeout: None,
            consent: Consent::default(),
        }
    }
}

/// The conversation of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ConversationRef {
    /// No conversation; the sandbox ends with the request.
    #[default]
    None,
    /// The request begins a conversation.
    New,
    /// The request continues the conversation of this id.
    Existing(String),
}

/// The answer to a prompt.
#[derive(Clone, Debug)]
pub struct PromptAnswer {
    /// The prompt.
    pub prompt: String,
    /// The model that was asked.
    pub model: String,
    /// One program, or step by step.
    pub shape: Shape,
    /// How the request ended.
    pub ending: Ending,
    /// The last answer of the model, with the code in it.
    pub text: String,
    /// The code that the model wrote, in order, with the result of each.
    pub attempts: Vec<Attempt>,
    /// Requests to the model, their tokens and cost.
    pub usage: ModelUsage,
    /// The files that the code created or changed.
    pub files: Vec<OutputFile>,
    /// The id of the conversation.
    pub conversation: Option<String>,
    /// The id of the sandbox.
    pub sandbox: Option<String>,
}

impl PromptAnswer {
    /// Returns the last attempt.
    pub fn last(&self) -> Option<&Attempt> {
        self.attempts.last()
    }

    /// Returns the result of the last attempt, if it ran.
    pub fn run(&self) -> Option<&RunResult> {
        self.last().and_then(|attempt| attempt.run.as_ref())
    }

    /// Returns whether the last attempt was not allowed to run.
    pub fn blocked(&self) -> bool {
        self.last().is_some_and(|attempt| attempt.blocked)
    }

    /// Returns whether the request ended with an answer.
    pub fn succeeded(&self) -> bool {
        self.ending == Ending::Answered
    }
}

/// Why a request failed. `E` is how sandboxes fail.
#[derive(Debug, thiserror::Error)]
pub enum InterpretError<E: std::error::Error + 'static> {
    /// No model is configured.
    #[error("no model is configured; set model.provider and model.name")]
    NotConfigured,
    /// A value of the request is invalid. The text says which, and what is allowed.
    #[error("{0}")]
    Bad(String),
    /// The prompt is too long.
    #[error("prompt must have at most {most} characters; it has {length}")]
    PromptTooLong {
        /// The length of the prompt.
        length: usize,
        /// The longest allowed.
        most: usize,
    },
    /// The operator does not allow this model.
    #[error("the model {0:?} is not allowed on this server")]
    ModelNotAllowed(String),
    /// The policy cannot be read.
    #[error("invalid policy")]
    Policy(#[source] silica_policy::PolicyError),
    /// There is no such conversation, it belongs to another key, or its sandbox has ended.
    #[error("there is no conversation {0}, or its sandbox has ended")]
    NoConversation(String),
    /// Another request is being carried out in the conversation.
    #[error("conversation {0} is busy with another request; wait for its answer")]
    Busy(String),
    /// The model gave no answer.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The budget of the key is used up.
    #[error(transparent)]
    Spent(#[from] Spent),
    /// The request took too long.
    #[error("the request took longer than {} seconds", .0.as_secs())]
    Time(Duration),
    /// The sandbox could not be created, or failed.
    #[error(transparent)]
    Sandbox(E),
    /// The store failed. Nothing is done that is not recorded.
    #[error("the request could not be recorded")]
    Store(#[from] StoreError),
}

impl<E: std::error::Error + 'static> InterpretError<E> {
    /// Returns its name in the audit log.
    fn name(&self) -> &'static str {
        match self {
            Self::NotConfigured => "not_configured",
            Self::Bad(_) => "bad_request",
            Self::PromptTooLong { .. } => "prompt_too_long",
            Self::ModelNotAllowed(_) => "model_not_allowed",
            Self::Policy(_) => "bad_policy",
            Self::NoConversation(_) => "no_conversation",
            Self::Busy(_) => "conversation_busy",
            Self::Model(error) => error.name(),
            Self::Spent(_) => "budget",
            Self::Time(_) => "time",
            Self::Sandbox(_) => "sandbox",
            Self::Store(_) => "store",
        }
    }

    fn unavailable(id: &str, why: Unavailable) -> Self {
        match why {
            Unavailable::Missing => Self::NoConversation(id.to_owned()),
            Unavailable::Busy => Self::Busy(id.to_owned()),
        }
    }
}

/// Answers prompts.
#[derive(Debug)]
pub struct PromptService<P: SandboxProvider> {
    model: Option<Model>,
    options: InterpretOptions,
    presets: PromptPresets,
    ledger: Ledger,
    sandboxes: P,
    store: Store,
    conversations: Conversations<P::Handle>,
}

/// A request that was checked, with all defaults filled in.
struct Plan<'a> {
    model: &'a Model,
    name: String,
    preset: &'a PromptPreset,
    policy: PolicyChoice,
    shape: Shape,
    bounds: Bounds,
}

/// The conversation that a request continues.
type Continued<P> = LockedConversation<<P as SandboxProvider>::Handle>;

impl<P: SandboxProvider> PromptService<P> {
    /// Creates a service. Without a model every request fails with [`InterpretError::NotConfigured`].
    pub fn new(
        sandboxes: P,
        store: Store,
        model: Option<Model>,
        options: InterpretOptions,
        presets: PromptPresets,
        ledger: Ledger,
    ) -> Arc<Self> {
        let conversations = Conversations::default();
        Arc::new(Self { model, options, presets, ledger, sandboxes, store, conversations })
    }

    /// Returns what the operator decided.
    pub fn options(&self) -> &InterpretOptions {
        &self.options
    }

    /// Returns the presets.
    pub fn presets(&self) -> &PromptPresets {
        &self.presets
    }

    /// Returns what a key has spent today.
    pub fn spent_today(&self, tenant: &Tenant) -> Spending {
        self.ledger.today(tenant)
    }

    /// Answers a prompt. Dropping the future stops the model and the code.
    pub async fn answer(
        &self,
        tenant: &Tenant,
        request: PromptRequest<P>,
        events: &EventSink,
    ) -> Result<PromptAnswer, InterpretError<P::Error>> {
        let refused = |error: &InterpretError<P::Error>| {
            record::refusal(&self.store, tenant, error.name());
        };
        let plan = self.plan(&request).inspect_err(refused)?;
        let continued = match &request.conversation {
            ConversationRef::Existing(id) => {
                let locked = self.conversations.lock_for_request(tenant, id);
                let locked = locked.map_err(|why| InterpretError::unavailable(id, why));
                Some(locked.inspect_err(refused)?)
            }
            ConversationRef::None | ConversationRef::New => None,
        };
        let begun = Recording::begin(
            &self.store,
            tenant,
            &request.prompt,
            &request.conversation,
            &plan.name,
            plan.shape,
        );
        if let Err(spent) = self.ledger.check(tenant) {
            let error = InterpretError::from(spent);
            begun.await?.failed(error.name());
            return Err(error);
        }
        // The sandbox is created while the beginning is recorded and the model answers.
        let files = request.files.clone();
        let sandbox = match &continued {
            None => {
                let template = plan.preset.template.as_deref();
                self.sandboxes.begin(tenant, request.sandbox.clone(), template, files)
            }
            Some(continued) => {
                match self.sandboxes.reopen(continued.sandbox.clone(), files).await {
                    Ok(sandbox) => sandbox,
                    Err(error) => {
                        let error = InterpretError::Sandbox(error);
                        begun.await?.failed(error.name());
                        return Err(error);
                    }
                }
            }
        };
        let recording = begun.await?;
        let answer = self.carry_out(tenant, request, events, plan, sandbox, continued).await;
        match &answer {
            Ok(answer) => recording.finished(answer),
            Err(error) => recording.failed(error.name()),
        }
        answer
    }

    fn plan(&self, request: &PromptRequest<P>) -> Result<Plan<'_>, InterpretError<P::Error>> {
        check_prompt(&request.prompt, self.options.prompt_chars_max)?;
        if request.files.len() > FILES_MAX {
            let count = request.files.len();
            return Err(InterpretError::Bad(format!(
                "files must have at most {FILES_MAX} entries; it has {count}"
            )));
        }
        let model = self.model.as_ref().ok_or(InterpretError::NotConfigured)?;
        let name = self.model_name(request.model.as_deref())?;
        let wanted = request.preset.as_deref().unwrap_or(&self.options.preset);
        let preset = self.presets.get(wanted).ok_or_else(|| {
            let names: Vec<&str> = self.presets.iter().map(|(name, _)| name).collect();
            let wanted: String = wanted.chars().take(80).collect();
            InterpretError::Bad(format!(
                "there is no preset {wanted:?}; preset must be one of {}",
                names.join(", ")
            ))
        })?;
        let policy = match &request.policy {
            Some(text) => PolicyChoice::parse(text).map_err(InterpretError::Policy)?,
            None => preset.policy.clone(),
        };
        let options = &self.options;
        let rounds = request.rounds.or(preset.rounds).unwrap_or(options.rounds);
        let timeout = request.timeout.or(preset.timeout);
        let bounds = Bounds {
            rounds: rounds.min(options.rounds),
            steps: options.steps_max,
            tokens: options.tokens_max,
            deadline: Instant::now() + options.time_max,
            run_max: timeout.unwrap_or_else(|| self.sandboxes.default_timeout()),
        };
        let shape = request.shape.unwrap_or(preset.shape);
        Ok(Plan { model, name, preset, policy, shape, bounds })
    }

    fn model_name(&self, asked: Option<&str>) -> Result<String, InterpretError<P::Error>> {
        let Some(asked) = asked else { return Ok(self.options.model.clone()) };
        let allowed = &self.options.models_allowed;
        let is_valid = asked.len() <= MODEL_NAME_BYTES_MAX
            && !asked.is_empty()
            && !asked.chars().any(char::is_control);
        let is_allowed = asked == self.options.model
            || allowed.iter().any(|name| name == asked || name == ANY_MODEL);
        if is_valid && is_allowed {
            Ok(asked.to_owned())
        } else {
            let shown = asked.chars().take(MODEL_NAME_BYTES_MAX).collect();
            Err(InterpretError::ModelNotAllowed(shown))
        }
    }

    async fn carry_out(
        &self,
        tenant: &Tenant,
        request: PromptRequest<P>,
        events: &EventSink,
        plan: Plan<'_>,
        mut sandbox: P::Sandbox,
        mut continued: Option<Continued<P>>,
    ) -> Result<PromptAnswer, InterpretError<P::Error>> {
        sandbox.check_by(match request.consent {
            Consent::Gate => plan.policy.clone(),
            // The person at the terminal decides about every run, or has agreed to all of them.
            Consent::Everything(_) | Consent::Given => {
                PolicyChoice::Preset(silica_policy::Preset::Open)
            }
        });
        sandbox.fail_early().await.map_err(InterpretError::Sandbox)?;
        let messages = first_messages(&request, continued.as_ref());
        let price = self.options.prices.get(&plan.name).copied();
        let mut run = RequestRun {
            model: plan.model,
            request: self.model_request(&plan, messages),
            policy: plan.policy.policy(),
            runner: &mut sandbox,
            events,
            consent: &request.consent,
            bounds: plan.bounds,
            billing: Billing { ledger: &self.ledger, tenant, price },
            usage: ModelUsage::default(),
            attempts: Vec::new(),
            text: String::new(),
        };
        let ended = match plan.shape {
            Shape::Interpret => run.program().await,
            Shape::Agent => run.agent().await,
        };
        let RequestRun { request: model_request, usage, attempts, text, .. } = run;
        let ending = ended.map_err(|abort| self.error(abort))?;
        let history = history(model_request.messages, &attempts, plan.shape);
        let conversation = match (&mut continued, request.conversation) {
            (Some(continued), _) => {
                *continued.history = history;
                Some(continued.id.clone())
            }
            (None, ConversationRef::New) => {
                let handle = sandbox.keep().await.map_err(InterpretError::Sandbox)?;
                Some(self.conversations.begin(tenant, handle, history))
            }
            (None, ConversationRef::None | ConversationRef::Existing(_)) => None,
        };
        let files = sandbox.collect(written_files(&attempts)).await;
        Ok(PromptAnswer {
            prompt: request.prompt,
            model: plan.name,
            shape: plan.shape,
            ending,
            text,
            attempts,
            usage,
            files,
            conversation,
            sandbox: sandbox.id(),
        })
    }

    fn model_request(&self, plan: &Plan<'_>, messages: Vec<Message>) -> Request {
        let (system, tools) = match plan.shape {
            Shape::Interpret => (plan.preset.prompt.clone(), Vec::new()),
            Shape::Agent => {
                let prompt = &plan.preset.prompt;
                let words = "Here you do not write one program in a fenced block: run code with the \
                             tool execute_python as often as you need, look at what comes out, and \
                             then answer the user in words.";
                (format!("{prompt}\n\n{words}"), vec![request_run::tool()])
            }
        };
        let tokens_max = self.options.answer_tokens_max;
        Request { model: plan.name.clone(), system, messages, tools, tokens_max }
    }

    fn error(&self, abort: Abort<P::Error>) -> InterpretError<P::Error> {
        match abort {
            Abort::Model(error) => error.into(),
            Abort::Spent(spent) => spent.into(),
            Abort::Sandbox(error) => InterpretError::Sandbox(error),
            Abort::Tokens => {
                let most = self.options.tokens_max;
                InterpretError::Bad(format!("the request used more than {most} tokens"))
            }
            Abort::Time => InterpretError::Time(self.options.time_max),
        }
    }
}

fn check_prompt<E: std::error::Error>(
    prompt: &str,
    chars_max: usize,
) -> Result<(), InterpretError<E>> {
    if prompt.trim().is_empty() {
        return Err(InterpretError::Bad("prompt must not be empty".to_owned()));
    }
    let length = prompt.chars().count();
    if length > chars_max {
        return Err(InterpretError::PromptTooLong { length, most: chars_max });
    }
    let is_control =
        |character: char| character.is_control() && !matches!(character, '\n' | '\r' | '\t');
    if prompt.contains(is_control) {
        let message = "prompt must not contain control characters other than newline and tab";
        return Err(InterpretError::Bad(message.to_owned()));
    }
    Ok(())
}

/// Returns the messages of the conversation so far, followed by the prompt.
fn first_messages<P: SandboxProvider>(
    request: &PromptRequest<P>,
    continued: Option<&Continued<P>>,
) -> Vec<Message> {
    let (mut messages, last_output) = match continued {
        Some(continued) => {
            (continued.history.messages.clone(), continued.history.last_output.as_deref())
        }
        None => (Vec::new(), None),
    };
    let text = feedback::prompt(&request.prompt, &request.files, last_output);
    request_run::add_user_parts(&mut messages, vec![Part::Text(text)]);
    messages
}

/// Returns what the model is sent of this request with the next one. A message to the model that it never
/// answered is left out.
fn history(mut messages: Vec<Message>, attempts: &[Attempt], shape: Shape) -> History {
    let last_output = match (shape, attempts.last()) {
        (Shape::Interpret, Some(Attempt { run: Some(run), .. })) => Some(feedback::outcome(run)),
        _ => None,
    };
    if shape == Shape::Interpret {
        while messages.last().is_some_and(|message| message.role == Role::User) {
            messages.pop();
        }
    }
    let mut history = History { messages, last_output };
    history.shorten();
    history
}

/// Returns the files that all attempts together left behind, each with its last size.
fn written_files(attempts: &[Attempt]) -> Vec<WrittenFile> {
    let mut all: Vec<WrittenFile> = Vec::new();
    for run in attempts.iter().filter_map(|attempt| attempt.run.as_ref()) {
        for file in &run.written {
            all.retain(|other| other.path != file.path);
            all.push(file.clone());
        }
        all.retain(|file| !run.removed.contains(&file.path));
    }
    all
}
