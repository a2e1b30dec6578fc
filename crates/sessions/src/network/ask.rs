//! Connections of a session that wait for a person.

use std::sync::Arc;

use futures_util::FutureExt;
use silica_egress::{AskRefused, HostAnswer, NetworkQuestion, PendingAnswer};
use silica_store::approvals::Scope;

use super::state::Question;
use crate::approval::{ConnectionAnswer, ConnectionQuestion};
use crate::session::Session;

/// Asks a person about a host and port, or returns where the answer to an earlier question is.
pub(super) async fn ask(
    session: Arc<Session>,
    asked: NetworkQuestion,
) -> Result<PendingAnswer, AskRefused> {
    let question = match session.network.question(&asked.host, asked.port) {
        Some(question) => question,
        None => new_question(&session, &asked).await?,
    };
    let approval = question.approval.to_string();
    let mut receiver = question.answer;
    let answer = async move {
        // The sender is dropped when the approval has expired without a word.
        let answer = receiver.wait_for(Option::is_some).await.ok().and_then(|answer| *answer);
        match answer {
            Some(ConnectionAnswer::Allowed(Scope::Once)) => {
                // The next connection asks again.
                session.network.remove_question(&asked.host, asked.port);
                HostAnswer::AllowOnce
            }
            Some(ConnectionAnswer::Allowed(Scope::Sandbox)) => HostAnswer::AllowForSandbox,
            Some(ConnectionAnswer::Allowed(Scope::Key)) => HostAnswer::AllowForKey,
            Some(ConnectionAnswer::Denied) | None => HostAnswer::Deny,
        }
    };
    Ok(PendingAnswer { approval, answer: answer.boxed() })
}

async fn new_question(
    session: &Arc<Session>,
    asked: &NetworkQuestion,
) -> Result<Question, AskRefused> {
    // One at a time, so that two connections to one host make one approval.
    let _changing = session.network.changing.lock().await;
    if let Some(question) = session.network.question(&asked.host, asked.port) {
        return Ok(question);
    }
    if !session.network.has_room_for_question() {
        return Err(AskRefused("the sandbox has asked about too many hosts".to_owned()));
    }
    let question = ConnectionQuestion {
        host: asked.host.clone(),
        port: asked.port,
        cells: session.running_cells(),
        request: asked
            .method
            .as_ref()
            .map(|method| format!("{method} {}", asked.path.as_deref().unwrap_or_default())),
    };
    let review = &session.services.review;
    let waits = review.ask_connection(session.tenant(), session.id(), &question).await;
    let (record, answer) = waits.map_err(|error| AskRefused(error.to_string()))?;
    let question = Question { approval: record.id, answer };
    if !session.network.set_question(&asked.host, asked.port, question.clone()) {
        return Err(AskRefused("the sandbox has asked about too many hosts".to_owned()));
    }
    Ok(question)
}
