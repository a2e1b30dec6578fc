//! The loops of a request, with a scripted model and a runner that pretends.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use silica_domain::{CellError, Outcome};
use silica_policy::{CheckedCode, Policy, Preset, Report};
use silica_store::Tenant;
use tokio::time::Instant;

use super::{Abort, Approver, Billing, Bounds, Consent, Ending, ModelUsage, RequestRun, tool};
use crate::budget::{DailyBudget, Ledger};
use crate::event::EventSink;
use crate::model::{Cost, Message, Model, ModelError, Part, Request, Role, Scripted};
use crate::runner::{RunError, RunResult, Runner};

/// Pretends: `raise` fails, `loop` times out, everything else prints `ok`.
#[derive(Debug, Default)]
struct Pretender {
    ran: Vec<String>,
}

impl Runner for Pretender {
    type Error = std::io::Error;

    async fn run(
        &mut self,
        code: &CheckedCode,
        _: Duration,
        _: &EventSink,
    ) -> Result<RunResult, RunError<Self::Error>> {
        let code = &**code.code();
        self.ran.push(code.to_owned());
        let outcome = match code {
            code if code.contains("raise") => Outcome::Raised,
            code if code.contains("loop") => Outcome::TimedOut,
            _ => Outcome::Ok,
        };
        let error = (outcome == Outcome::Raised).then(|| CellError {
            name: "ValueError".to_owned(),
            value: "bad".to_owned(),
            traceback: vec!["ValueError: bad".to_owned()],
        });
        Ok(RunResult {
            outcome,
            message: None,
            stdout: "ok\n".to_owned(),
            stderr: String::new(),
            results: Vec::new(),
            error,
            written: Vec::new(),
            removed: Vec::new(),
            duration: Duration::ZERO,
            lost: None,
        })
    }
}

struct Case {
    script: String,
    consent: Consent,
    rounds: u32,
    steps: u32,
    tokens: u64,
    budget: DailyBudget,
}

/// What a test looks at.
#[derive(Debug)]
struct Seen {
    ended: Result<Ending, Abort<std::io::Error>>,
    ran: Vec<String>,
    requests: u32,
    messages: Vec<Message>,
    said: String,
}

impl Case {
    fn new(turns: &[&str]) -> Self {
        let turn = |text: &&str| {
            format!("[[turn]]\ntext = {text:?}\ninput_tokens = 10\noutput_tokens = 5\n")
        };
        let script: String = turns.iter().map(turn).collect();
        Self::scripted(if script.is_empty() { "turn = []" } else { &script })
    }

    /// Turns that call the tool.
    fn calling(turns: &[&str], last: &str) -> Self {
        let turn = |code: &&str| format!("[[turn]]\ncode = {code:?}\n");
        let turns: String = turns.iter().map(turn).collect();
        Self::scripted(&format!("{turns}[[turn]]\ntext = {last:?}\n"))
    }

    fn scripted(script: &str) -> Self {
        let budget = DailyBudget::default();
        let (script, consent) = (script.to_owned(), Consent::Gate);
        Self { script, consent, rounds: 2, steps: 5, tokens: 1000, budget }
    }

    async fn run(self, agent: bool) -> Seen {
        let model = Model::Scripted(Scripted::parse(&self.script).expect("a script"));
        let ledger = Ledger::in_memory(self.budget);
        let tenant = Tenant::parse("tenant").expect("a name");
        let events = EventSink::discard();
        let mut runner = Pretender::default();
        let request = Request {
            model: "m".to_owned(),
            system: "s".to_owned(),
            messages: vec![Message::user("do it")],
            tools: if agent { vec![tool()] } else { Vec::new() },
            tokens_max: 100,
        };
        let mut run = RequestRun {
            model: &model,
            request,
            policy: Policy::preset(Preset::Data),
            runner: &mut runner,
            events: &events,
            consent: &self.consent,
            bounds: Bounds {
                rounds: self.rounds,
                steps: self.steps,
                tokens: self.tokens,
                deadline: Instant::now() + Duration::from_hours(1),
                run_max: Duration::from_secs(1),
            },
            billing: Billing { ledger: &ledger, tenant: &tenant, price: "1/1".parse().ok() },
            usage: ModelUsage::default(),
            attempts: Vec::new(),
            text: String::new(),
        };
        let ended = if agent { run.agent().await } else { run.program().await };
        let RequestRun { request, usage, text: said, .. } = run;
        Seen { ended, ran: runner.ran, requests: usage.requests, messages: request.messages, said }
    }
}

async fn program(turns: &[&str]) -> Seen {
    Case::new(turns).run(false).await
}

fn ending(seen: &Seen) -> Ending {
    *seen.ended.as_ref().expect("an ending")
}

const GOOD: &str = "```python\nprint(1)\n```";
const BAD: &str = "```python\nraise ValueError('bad')\n```";

#[tokio::test]
async fn a_good_program_is_run_once() {
    let seen = program(&[GOOD]).await;
    assert_eq!((ending(&seen), seen.requests), (Ending::Answered, 1));
    assert_eq!(seen.ran, ["print(1)"]);
}

#[tokio::test]
async fn a_failure_goes_back_with_its_traceback() {
    let seen = program(&[BAD, GOOD]).await;
    assert_eq!((ending(&seen), seen.requests), (Ending::Answered, 2));
    let message = seen.messages[2].text();
    assert!(message.contains("ValueError: bad"), "{message}");
    assert!(message.contains("]\nok\n[end output "), "{message}");
}

#[tokio::test]
async fn what_the_check_finds_goes_back_and_never_runs() {
    let seen = program(&["```python\nimport subprocess\n```", GOOD]).await;
    assert_eq!((ending(&seen), seen.ran), (Ending::Answered, vec!["print(1)".to_owned()]));
    assert!(seen.messages[2].text().contains("subprocess"), "{:?}", seen.messages);
}

#[tokio::test]
async fn rounds_run_out() {
    let other = "```python\nraise ValueError('worse')\n```";
    let third = "```python\nraise ValueError('worst')\n```";
    let seen = program(&[BAD, other, third, GOOD]).await;
    assert_eq!((ending(&seen), seen.requests), (Ending::Failed, 3));
    let blocked = ["import subprocess", "import subprocess\nx = 1", "import subprocess\nx = 2"];
    let blocked = blocked.map(|code| format!("```python\n{code}\n```"));
    let seen = program(&blocked.each_ref().map(String::as_str)).await;
    assert_eq!((ending(&seen), seen.ran.len()), (Ending::Blocked, 0));
    let mut case = Case::new(&[BAD, GOOD]);
    case.rounds = 0;
    assert_eq!(ending(&case.run(false).await), Ending::Failed);
}

#[tokio::test]
async fn a_model_that_repeats_itself_is_stopped() {
    let again = "Again:\n```python\n# now it works\nraise ValueError('bad')   \n\n```";
    let seen = program(&[BAD, again, GOOD]).await;
    assert_eq!((ending(&seen), seen.requests, seen.ran.len()), (Ending::Repeated, 2, 1));
}

#[tokio::test]
async fn code_that_never_ends_is_reported_and_repaired() {
    let seen = program(&["```python\nloop()\n```", GOOD]).await;
    assert_eq!(ending(&seen), Ending::Answered);
    assert!(seen.messages[2].text().contains("timed_out"));
}

#[tokio::test]
async fn no_code_and_other_languages_are_asked_about() {
    let seen = program(&["I would rather not.", "```ruby\nputs 1\n```", GOOD]).await;
    assert_eq!(ending(&seen), Ending::Answered);
    assert!(seen.messages[2].text().contains("no Python program"));
    assert!(seen.messages[4].text().contains("\"ruby\""));
    let seen = program(&["", " ", "No."]).await;
    assert_eq!((ending(&seen), seen.said.as_str()), (Ending::NoCode, "No."));
}

#[tokio::test]
async fn failing_at_once_is_an_error_and_later_an_ending() {
    let seen = program(&[]).await;
    assert!(matches!(seen.ended, Err(Abort::Model(ModelError::ScriptEnded))), "{seen:?}");
    let seen = program(&[BAD]).await;
    assert_eq!(ending(&seen), Ending::Model);
}

#[tokio::test]
async fn tokens_and_budgets_stop_it() {
    let mut case = Case::new(&[BAD, GOOD]);
    case.tokens = 15;
    assert_eq!(ending(&case.run(false).await), Ending::Tokens);
    let mut case = Case::new(&[BAD, GOOD]);
    case.budget = DailyBudget { tokens: Some(15), cost: None };
    assert_eq!(ending(&case.run(false).await), Ending::Budget);
    let mut case = Case::new(&[GOOD]);
    case.budget = DailyBudget { tokens: None, cost: Some(Cost::default()) };
    assert!(matches!(case.run(false).await.ended, Err(Abort::Spent(_))));
}

/// Gives every question the same answer, and remembers the questions.
struct Person {
    says: bool,
    asked: Mutex<Vec<String>>,
}

impl Approver for Person {
    fn approve<'a>(
        &'a self,
        code: &'a str,
        _: &'a Report,
    ) -> std::pin::Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        self.asked.lock().expect("no panic").push(code.to_owned());
        Box::pin(async { self.says })
    }
}

#[tokio::test]
async fn a_person_is_asked_before_anything_runs() {
    for (says, expected) in [(true, Ending::Answered), (false, Ending::Denied)] {
        let person = Arc::new(Person { says, asked: Mutex::default() });
        let mut case = Case::new(&["```python\nimport subprocess\n```", GOOD]);
        case.consent = Consent::Everything(person.clone());
        let seen = case.run(false).await;
        assert_eq!((ending(&seen), seen.ran.len()), (expected, usize::from(says)));
        // The person is not asked about what the policy blocks.
        assert_eq!(*person.asked.lock().expect("no panic"), ["print(1)"]);
    }
}

#[tokio::test]
async fn an_agent_takes_steps_until_it_answers() {
    let seen = Case::calling(&["x = 1", "print(x)"], "It is 1.").run(true).await;
    assert_eq!((ending(&seen), seen.said.as_str()), (Ending::Answered, "It is 1."));
    assert_eq!(seen.ran, ["x = 1", "print(x)"]);
    let reply = &seen.messages[2].parts[0];
    assert!(matches!(reply, Part::Reply(reply) if reply.text.contains("ok") && !reply.failed));
}

#[tokio::test]
async fn an_agent_without_end_is_stopped_and_every_call_has_its_reply() {
    let turns: Vec<String> = (0..9).map(|step| format!("print({step})")).collect();
    let turns: Vec<&str> = turns.iter().map(String::as_str).collect();
    let seen = Case::calling(&turns, "never").run(true).await;
    assert_eq!((ending(&seen), seen.ran.len()), (Ending::Steps, 4));
    let last = seen.messages.last().expect("messages");
    assert_eq!(last.role, Role::User);
    assert!(matches!(&last.parts[0], Part::Reply(reply) if reply.failed));
    let seen = Case::calling(&["print(1)"; 9], "never").run(true).await;
    assert_eq!((ending(&seen), seen.ran.len()), (Ending::Repeated, 3));
}

#[tokio::test]
async fn an_agents_code_is_checked_too() {
    let seen = Case::calling(&["import subprocess", "print(1)"], "Done.").run(true).await;
    assert_eq!((ending(&seen), seen.ran), (Ending::Answered, vec!["print(1)".to_owned()]));
    let reply = &seen.messages[2].parts[0];
    assert!(
        matches!(reply, Part::Reply(reply) if reply.failed && reply.text.contains("subprocess"))
    );
}
