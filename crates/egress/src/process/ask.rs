//! Decisions of the policy, with a person asked where it says so.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use silica_domain::{
    DnsName, EffectivePolicy, Grant, NetworkApproval, NetworkHost, NetworkVerdict,
};
use tokio::sync::watch;
use tokio::time::Instant;

use super::refusal::Refusal;
use super::sandbox::Sandbox;
use super::world::lock;
use crate::events::{HostAnswer, NetworkQuestion};
use crate::wire::AnswerShape;

/// The most questions of one sandbox that wait at once.
const QUESTIONS_MAX: usize = 20;

/// The questions of one sandbox that wait, by host and port. The value changes when one is over.
#[derive(Default)]
pub(super) struct Questions(Mutex<HashMap<(DnsName, u16), watch::Receiver<()>>>);

/// Leave to connect.
pub(super) struct Leave {
    pub(super) grant: Grant,
    /// Whether a person gave it for this connection alone.
    pub(super) once: bool,
}

/// The parts of a request that a rule or a person looks at.
#[derive(Clone, Copy)]
pub(super) struct RequestLine<'request> {
    pub(super) method: &'request str,
    pub(super) path: &'request str,
}

/// Decides on a connection or a request, and waits for a person if the policy asks one.
pub(super) async fn decide(
    sandbox: &Arc<Sandbox>,
    host: &NetworkHost,
    port: u16,
    request: Option<RequestLine<'_>>,
) -> Result<Leave, Refusal> {
    let deadline = Instant::now() + sandbox.world.settings.ask_timeout;
    loop {
        let policy = sandbox.policy();
        let verdict = match request {
            Some(line) => policy.decide_request(host, port, line.method, line.path),
            None => policy.decide_connection(host, port),
        };
        let name = match (verdict, host) {
            (NetworkVerdict::Allowed(grant), _) => return Ok(Leave { grant, once: false }),
            (NetworkVerdict::Denied(denial), _) => return Err(denial.into()),
            (NetworkVerdict::Ask, NetworkHost::Name(name)) => name,
            (NetworkVerdict::Ask, NetworkHost::Address(_)) => {
                return Err(Refusal::forbidden(
                    "host_not_allowed",
                    "addresses are not asked about",
                ));
            }
        };
        match turn(sandbox, name, port)? {
            Turn::Wait(mut over) => {
                // Another connection has asked; what it changed decides.
                if tokio::time::timeout_at(deadline, over.changed()).await.is_err() {
                    return Err(undecided(None));
                }
            }
            Turn::Ask(over) => {
                let answer = ask(sandbox, name, port, request, deadline).await;
                drop(over);
                if let Some(leave) = answer? {
                    return Ok(leave);
                }
            }
        }
    }
}

/// Whether this connection asks, or waits for the one that does.
enum Turn {
    Ask(Asking),
    Wait(watch::Receiver<()>),
}

/// Ends a question, also when the connection that asked is dropped.
struct Asking {
    sandbox: Arc<Sandbox>,
    subject: (DnsName, u16),
    _over: watch::Sender<()>,
}

impl Drop for Asking {
    fn drop(&mut self) {
        lock(&self.sandbox.questions.0).remove(&self.subject);
    }
}

fn turn(sandbox: &Arc<Sandbox>, name: &DnsName, port: u16) -> Result<Turn, Refusal> {
    let mut questions = lock(&sandbox.questions.0);
    let subject = (name.clone(), port);
    if let Some(over) = questions.get(&subject) {
        return Ok(Turn::Wait(over.clone()));
    }
    if questions.len() >= QUESTIONS_MAX {
        return Err(Refusal::limit("questions"));
    }
    let (sender, receiver) = watch::channel(());
    questions.insert(subject.clone(), receiver);
    Ok(Turn::Ask(Asking { sandbox: Arc::clone(sandbox), subject, _over: sender }))
}

fn undecided(approval: Option<String>) -> Refusal {
    let message = match &approval {
        Some(id) => format!("no person has decided on approval {id} yet; try again later"),
        None => "no person has decided yet; try again later".to_owned(),
    };
    Refusal { approval, ..Refusal::forbidden("not_decided", message) }
}

/// Tells the parent that a question is over, also when its task is dropped.
struct QuestionGuard<'sandbox>(&'sandbox Sandbox, u64);

impl Drop for QuestionGuard<'_> {
    fn drop(&mut self) {
        self.0.world.parent.ask_over(self.1);
    }
}

/// Asks a person. `None` means that the policy now says more.
async fn ask(
    sandbox: &Arc<Sandbox>,
    name: &DnsName,
    port: u16,
    request: Option<RequestLine<'_>>,
    deadline: Instant,
) -> Result<Option<Leave>, Refusal> {
    let (number, mut answers) = sandbox.world.parent.ask(NetworkQuestion {
        sandbox: sandbox.id.clone(),
        key: sandbox.key.clone(),
        host: name.to_string(),
        port,
        method: request.map(|line| line.method.to_owned()),
        path: request.map(|line| line.path.to_owned()),
    });
    let _guard = QuestionGuard(sandbox, number);
    let mut approval = None;
    loop {
        let heard = tokio::time::timeout_at(deadline, answers.recv()).await;
        let Ok(Some(answer)) = heard else {
            return Err(undecided(approval));
        };
        let decided = match answer {
            AnswerShape::Pending(id) => {
                approval = Some(id);
                continue;
            }
            AnswerShape::Refused(message) => {
                return Err(Refusal::forbidden("not_asked", message));
            }
            AnswerShape::Decided(decided) => decided,
        };
        return match decided {
            HostAnswer::AllowOnce => once(sandbox, name, port, request).map(Some),
            HostAnswer::AllowForSandbox | HostAnswer::AllowForKey => {
                sandbox.approve(NetworkApproval { name: name.clone(), port });
                Ok(None)
            }
            HostAnswer::Deny => {
                let message = "a person did not allow it";
                Err(Refusal { approval, ..Refusal::forbidden("not_approved", message) })
            }
        };
    }
}

/// Returns the leave of a person for one connection, within what the operator's rules say.
pub(super) fn once(
    sandbox: &Sandbox,
    name: &DnsName,
    port: u16,
    request: Option<RequestLine<'_>>,
) -> Result<Leave, Refusal> {
    let mut policy = EffectivePolicy::clone(&sandbox.policy());
    policy.approve(NetworkApproval { name: name.clone(), port });
    let host = NetworkHost::Name(name.clone());
    let verdict = match request {
        Some(line) => policy.decide_request(&host, port, line.method, line.path),
        None => policy.decide_connection(&host, port),
    };
    match verdict {
        NetworkVerdict::Allowed(grant) => Ok(Leave { grant, once: true }),
        NetworkVerdict::Denied(denial) => Err(denial.into()),
        NetworkVerdict::Ask => Err(undecided(None)),
    }
}
