//! Prompt in, answer out: what a server or a terminal calls.
//!
//! [`Interpreter::ask`] checks the request, writes it into the audit log, makes a sandbox while the
//! model thinks, and lets the work be done. Whoever drops it stops the model and the code.

mod record;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use silica_engine::{Changes, GuestPath};
use silica_sessions::{PolicyChoice, SandboxRequest, SessionError, Sessions};
use silica_store::{StoreError, Tenant};
use tokio::time::Instant;

use crate::budget::{Ledger, Spending, Spent};
use crate::conversation::{Conversations, Held, History};
use crate::event::Voice;
use crate::feedback;
use crate::model::{Message, Model, ModelError, Part, Price, Request, Role};
use crate::preset::{self, Preset, Presets, Shape};
use crate::runner::{OutputFile, Place, Ran};
use crate::work::{self, Attempt, Bounds, Consent, Ending, Halt, Purse, Usage, Work};

use record::Recording;

/// The longest name of a model.
const MODEL_NAME_BYTES_MAX: usize = 200;

/// Files that come with a request.
const FILES_MAX: usize = 100;

/// In a list of allowed models: any.
pub const ANY_MODEL: &str = "*";

/// What the operator decides.
#[derive(Clone, Debug)]
pub struct InterpretOptions {
    /// The model of those who name none.
    pub model: String,
    /// The models that can be asked for beside it; [`ANY_MODEL`] for any.
    pub models_allowed: Vec<String>,
    /// What models cost.
    pub prices: BTreeMap<String, Price>,
    /// The longest answer, in tokens.
    pub answer_tokens_max: u32,
    /// The preset of those who name none.
    pub preset: String,
    /// The longest prompt, in characters.
    pub prompt_chars_max: usize,
    /// How often code goes back to the model.
    pub rounds: u32,
    /// How often an agent is asked.
    pub steps_max: u32,
    /// Tokens of one request in all.
    pub tokens_max: u64,
    /// How long one request may take.
    pub time_max: Duration,
}

/// A request.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// What is wanted.
    pub prompt: String,
    /// Of which model.
    pub model: Option<String>,
    /// By which preset.
    pub preset: Option<String>,
    /// Checked by which policy: a preset's name, or a policy itself.
    pub policy: Option<String>,
    /// In which shape.
    pub shape: Option<Shape>,
    /// How often code goes back to the model; at most as often as the operator says.
    pub rounds: Option<u32>,
    /// In which conversation.
    pub conversation: Talk,
    /// What the sandbox is to be, if one is made.
    pub create: SandboxRequest,
    /// Files that are to lie in it.
    pub files: Vec<(GuestPath, Vec<u8>)>,
    /// How long one piece of code may run.
    pub timeout: Option<Duration>,
    /// Who decides about code that the check does not simply let through.
    pub consent: Consent,
}

/// Which conversation a request belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Talk {
    /// None: its sandbox ends with it.
    #[default]
    Once,
    /// One that begins with it.
    New,
    /// One that goes on.
    In(String),
}

/// What came of a request.
#[derive(Clone, Debug)]
pub struct Answered {
    /// What was wanted.
    pub prompt: String,
    /// Which model was asked.
    pub model: String,
    /// In which shape it was done.
    pub shape: Shape,
    /// How it ended.
    pub ending: Ending,
    /// What the model said last.
    pub said: String,
    /// The code it wrote, in order, and what became of each.
    pub attempts: Vec<Attempt>,
    /// What was asked of the model.
    pub usage: Usage,
    /// The files that the code made or changed.
    pub files: Vec<OutputFile>,
    /// The conversation, if there is one.
    pub conversation: Option<String>,
    /// The sandbox.
    pub sandbox: Option<String>,
}

impl Answered {
    /// The last code, and what became of it.
    pub fn last(&self) -> Option<&Attempt> {
        self.attempts.last()
    }

    /// What came of the last code that ran.
    pub fn ran(&self) -> Option<&Ran> {
        self.last().and_then(|attempt| attempt.ran.as_ref())
    }

    /// Whether the last code was kept from running.
    pub fn blocked(&self) -> bool {
        self.last().is_some_and(|attempt| attempt.blocked)
    }

    /// Whether what was wanted was done.
    pub fn succeeded(&self) -> bool {
        self.ending == Ending::Answered
    }
}

/// Why a request could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum InterpretError {
    /// There is no model.
    #[error("no model is configured here; set model.provider and model.name")]
    NotConfigured,
    /// A prompt that cannot be one.
    #[error("{0}")]
    Bad(String),
    /// A prompt that is too long.
    #[error("the prompt is {length} characters long; at most {most} are taken")]
    PromptTooLong {
        /// How long it is.
        length: usize,
        /// How long it may be.
        most: usize,
    },
    /// A model that is not offered.
    #[error("the model {0:?} is not offered here")]
    ModelNotAllowed(String),
    /// A policy that is none.
    #[error("the policy is not what it should be")]
    Policy(#[source] silica_policy::PolicyError),
    /// No such conversation, or another's, or one whose sandbox has ended.
    #[error("there is no conversation {0}, or its sandbox has ended")]
    NoConversation(String),
    /// Somebody else is at it.
    #[error("another request is going on in {0}; one at a time")]
    Busy(String),
    /// The model gave no answer.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The key's budget is used up.
    #[error(transparent)]
    Spent(#[from] Spent),
    /// The request used more than one may.
    #[error("the request took longer than {} seconds", .0.as_secs())]
    Time(Duration),
    /// The sandbox could not be had, or died.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Without a record nothing is done.
    #[error("what is to be done could not be recorded")]
    Store(#[from] StoreError),
}

impl InterpretError {
    /// Its name in the audit log.
    pub(crate) fn name(&self) -> &'static str {
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
            Self::Session(_) => "sandbox",
            Self::Store(_) => "store",
        }
    }
}

/// Answers prompts.
#[derive(Debug)]
pub struct Interpreter {
    model: Option<Model>,
    options: InterpretOptions,
    presets: Presets,
    ledger: Ledger,
    sessions: Arc<Sessions>,
    conversations: Conversations,
}

/// A request that was checked.
struct Plan<'a> {
    model: &'a Model,
    name: String,
    preset: &'a Preset,
    policy: PolicyChoice,
    shape: Shape,
    bounds: Bounds,
}

impl Interpreter {
    /// Puts one together. Without a model every request is refused with words that say so.
    pub fn new(
        sessions: Arc<Sessions>,
        model: Option<Model>,
        options: InterpretOptions,
        presets: Presets,
        ledger: Ledger,
    ) -> Arc<Self> {
        let conversations = Conversations::default();
        Arc::new(Self { model, options, presets, ledger, sessions, conversations })
    }

    /// What the operator decided.
    pub fn options(&self) -> &InterpretOptions {
        &self.options
    }

    /// The presets on offer.
    pub fn presets(&self) -> &Presets {
        &self.presets
    }

    /// What a key has spent today.
    pub fn spent_today(&self, tenant: &Tenant) -> Spending {
        self.ledger.today(tenant)
    }

    /// Answers a prompt. Dropping this stops the model and the code.
    pub async fn ask(
        &self,
        tenant: &Tenant,
        ask: Ask,
        voice: &Voice,
    ) -> Result<Answered, InterpretError> {
        let plan = match self.plan(&ask) {
            Ok(plan) => plan,
            Err(error) => {
                record::refusal(&self.sessions, tenant, &error);
                return Err(error);
            }
        };
        let held = match &ask.conversation {
            Talk::In(id) => Some(self.conversations.hold(tenant, id).inspect_err(|error| {
                record::refusal(&self.sessions, tenant, error);
            })?),
            Talk::Once | Talk::New => None,
        };
        let begun = Recording::begin(&self.sessions, tenant, &ask, &plan.name, plan.shape);
        if let Err(spent) = self.ledger.check(tenant) {
            let error = InterpretError::from(spent);
            begun.await?.failed(&error);
            return Err(error);
        }
        // Both at once: the sandbox is made while the beginning is written and the model thinks.
        let place = match &held {
            None => {
                let mut create = ask.create.clone();
                create.template = create.template.or_else(|| plan.preset.template.clone());
                Place::begin(&self.sessions, tenant, create, ask.files.clone())
            }
            Some(held) => {
                let session = Arc::clone(&held.session);
                match Place::existing(&self.sessions, session, ask.files.clone()).await {
                    Ok(place) => place,
                    Err(error) => {
                        let error = InterpretError::from(error);
                        begun.await?.failed(&error);
                        return Err(error);
                    }
                }
            }
        };
        let recording = begun.await?;
        let answered = self.carry_out(tenant, ask, voice, plan, place, held).await;
        match &answered {
            Ok(answered) => recording.finished(answered),
            Err(error) => recording.failed(error),
        }
        answered
    }

    fn plan(&self, ask: &Ask) -> Result<Plan<'_>, InterpretError> {
        check_prompt(&ask.prompt, self.options.prompt_chars_max)?;
        if ask.files.len() > FILES_MAX {
            let words = format!("{} files are too many; at most {FILES_MAX}", ask.files.len());
            return Err(InterpretError::Bad(words));
        }
        let model = self.model.as_ref().ok_or(InterpretError::NotConfigured)?;
        let name = self.model_name(ask.model.as_deref())?;
        let wanted = ask.preset.as_deref().unwrap_or(&self.options.preset);
        let preset = self.presets.get(wanted).ok_or_else(|| {
            let names: Vec<&str> = self.presets.iter().map(|(name, _)| name).collect();
            let wanted: String = wanted.chars().take(80).collect();
            InterpretError::Bad(format!(
                "there is no preset {wanted:?}; there are {}",
                names.join(", ")
            ))
        })?;
        let policy = match &ask.policy {
            Some(text) => preset::policy(text).map_err(InterpretError::Policy)?,
            None => preset.policy.clone(),
        };
        let options = &self.options;
        let rounds = ask.rounds.or(preset.rounds).unwrap_or(options.rounds);
        let default = self.sessions.options().timeout;
        let bounds = Bounds {
            rounds: rounds.min(options.rounds),
            steps: options.steps_max,
            tokens: options.tokens_max,
            deadline: Instant::now() + options.time_max,
            run_max: ask.timeout.or(preset.timeout).unwrap_or(default),
        };
        let shape = ask.shape.unwrap_or(preset.shape);
        Ok(Plan { model, name, preset, policy, shape, bounds })
    }

    fn model_name(&self, asked: Option<&str>) -> Result<String, InterpretError> {
        let Some(asked) = asked else { return Ok(self.options.model.clone()) };
        let allowed = &self.options.models_allowed;
        let plain = asked.len() <= MODEL_NAME_BYTES_MAX
            && !asked.is_empty()
            && !asked.chars().any(char::is_control);
        let offered = asked == self.options.model
            || allowed.iter().any(|name| name == asked || name == ANY_MODEL);
        if plain && offered {
            Ok(asked.to_owned())
        } else {
            let shown = asked.chars().take(MODEL_NAME_BYTES_MAX).collect();
            Err(InterpretError::ModelNotAllowed(shown))
        }
    }

    async fn carry_out(
        &self,
        tenant: &Tenant,
        ask: Ask,
        voice: &Voice,
        plan: Plan<'_>,
        mut place: Place,
        mut held: Option<Held>,
    ) -> Result<Answered, InterpretError> {
        place.check_by(match ask.consent {
            Consent::Gate => plan.policy.clone(),
            // Whoever sits at the terminal decides there.
            Consent::Everything(_) | Consent::Given => {
                PolicyChoice::Preset(silica_policy::Preset::Open)
            }
        });
        place.fail_early().await?;
        let (mut messages, last_output) = match &held {
            Some(held) => (held.history.messages.clone(), held.history.last_output.as_deref()),
            None => (Vec::new(), None),
        };
        let words = feedback::prompt(&ask.prompt, &ask.files, last_output);
        work::say(&mut messages, vec![Part::Text(words)]);
        let purse = Purse {
            ledger: &self.ledger,
            tenant,
            price: self.options.prices.get(&plan.name).copied(),
        };
        let mut work = Work {
            model: plan.model,
            request: self.request(&plan, messages),
            policy: plan.policy.policy(),
            runner: &mut place,
            voice,
            consent: &ask.consent,
            bounds: plan.bounds,
            purse,
            usage: Usage::default(),
            attempts: Vec::new(),
            said: String::new(),
        };
        let ended = match plan.shape {
            Shape::Interpret => work.program().await,
            Shape::Agent => work.agent().await,
        };
        let Work { request, usage, attempts, said, .. } = work;
        let ending = ended.map_err(|halt| self.error(halt))?;
        let history = history(request.messages, &attempts, plan.shape);
        let conversation = match (&mut held, ask.conversation) {
            (Some(held), _) => {
                *held.history = history;
                Some(held.id.clone())
            }
            (None, Talk::New) => {
                Some(self.conversations.begin(tenant, place.keep().await?, history))
            }
            (None, Talk::Once | Talk::In(_)) => None,
        };
        let files = place.collect(&changes(&attempts)).await;
        Ok(Answered {
            prompt: ask.prompt,
            model: plan.name,
            shape: plan.shape,
            ending,
            said,
            attempts,
            usage,
            files,
            conversation,
            sandbox: place.id(),
        })
    }

    fn request(&self, plan: &Plan<'_>, messages: Vec<Message>) -> Request {
        let (system, tools) = match plan.shape {
            Shape::Interpret => (plan.preset.prompt.clone(), Vec::new()),
            Shape::Agent => {
                let prompt = &plan.preset.prompt;
                let words = "Here you do not write one program in a fenced block: run code with the \
                             tool execute_python as often as you need, look at what comes out, and \
                             then answer the user in words.";
                (format!("{prompt}\n\n{words}"), vec![work::tool()])
            }
        };
        let tokens_max = self.options.answer_tokens_max;
        Request { model: plan.name.clone(), system, messages, tools, tokens_max }
    }

    fn error(&self, halt: Halt) -> InterpretError {
        match halt {
            Halt::Model(error) => error.into(),
            Halt::Spent(spent) => spent.into(),
            Halt::Session(error) => error.into(),
            Halt::Tokens => {
                let most = self.options.tokens_max;
                InterpretError::Bad(format!("the request used more than {most} tokens"))
            }
            Halt::Time => InterpretError::Time(self.options.time_max),
        }
    }
}

fn check_prompt(prompt: &str, chars_max: usize) -> Result<(), InterpretError> {
    let bad = |words: &str| Err(InterpretError::Bad(words.to_owned()));
    if prompt.trim().is_empty() {
        return bad("the prompt is empty");
    }
    let length = prompt.chars().count();
    if length > chars_max {
        return Err(InterpretError::PromptTooLong { length, most: chars_max });
    }
    let odd = |character: char| character.is_control() && !matches!(character, '\n' | '\r' | '\t');
    if prompt.contains(odd) {
        return bad("the prompt holds control characters; it must be text");
    }
    Ok(())
}

/// What the model is told of this request when the next one comes. What was said to it last and never
/// answered is left out.
fn history(mut messages: Vec<Message>, attempts: &[Attempt], shape: Shape) -> History {
    let last_output = match (shape, attempts.last()) {
        (Shape::Interpret, Some(Attempt { ran: Some(ran), .. })) => Some(feedback::outcome(ran)),
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

/// What all attempts together did to the files.
fn changes(attempts: &[Attempt]) -> Changes {
    let mut all = Changes::default();
    for ran in attempts.iter().filter_map(|attempt| attempt.ran.as_ref()) {
        for file in ran.files.created.iter().chain(&ran.files.changed) {
            all.created.retain(|other| other.path != file.path);
            all.created.push(file.clone());
        }
        all.created.retain(|file| !ran.files.removed.iter().any(|gone| gone.path == file.path));
    }
    all
}
