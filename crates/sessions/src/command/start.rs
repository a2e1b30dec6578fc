//! Starting, finding and forgetting commands of a session.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use silica_domain::CommandId;
use silica_engine::{CommandSpec, Stdin};

use super::{Command, CommandInvocation, CommandPhase, CommandRequest, CountedRequest};
use crate::audit;
use crate::create::check_environment;
use crate::error::SessionError;
use crate::fairness::Resource;
use crate::kept::HasOutput;
use crate::session::{KEPT_MAX, Session};

/// A request of at most so many bytes is not counted: a command is not refused because others print much.
const SHORT_REQUEST_BYTES_MAX: u64 = 4096;

impl Session {
    /// Starts a command. It runs even if the caller drops the future.
    pub async fn run_command(
        self: &Arc<Self>,
        request: CommandRequest,
    ) -> Result<Arc<Command>, SessionError> {
        let session = Arc::clone(self);
        let started = tokio::spawn(async move { session.start_command(request).await }).await;
        started.unwrap_or(Err(SessionError::ShuttingDown))
    }

    async fn start_command(
        self: Arc<Self>,
        request: CommandRequest,
    ) -> Result<Arc<Command>, SessionError> {
        self.ensure_open()?;
        if self.services.review.always_needs_approval() {
            return Err(SessionError::NotApprovable);
        }
        check_environment(&request.environment)?;
        if let Some(timeout) = request.timeout
            && (timeout.is_zero() || Instant::now().checked_add(timeout).is_none())
        {
            let message = "timeout_seconds must be more than 0 and must fit a clock";
            return Err(SessionError::Bad(message.to_owned()));
        }
        let directory = match &request.directory {
            Some(directory) => Some(self.start_directory(directory).await?),
            None => self.terms.directory.clone(),
        };
        let permit = self.services.admission.queue(self.tenant())?.permit().await;
        let mut environment = self.environment();
        environment.extend(request.environment.clone());
        let mut spec = match &request.line {
            CommandInvocation::Shell(line) => self.sandbox.shell_line(line),
            CommandInvocation::Program(arguments) => CommandSpec::program(arguments.clone()),
        };
        spec.environment = environment;
        spec.stdin = if request.stdin { Stdin::Piped } else { Stdin::Closed };
        spec.terminal = request.terminal;
        if let Some(directory) = directory {
            spec.directory = directory;
        }
        let limits = &self.terms.limits;
        let mut kept = self.begin_keeping();
        let bytes = request.bytes();
        if bytes > SHORT_REQUEST_BYTES_MAX && !kept.grow(bytes) {
            return Err(self.services.admission.refuse(Resource::KeptBytes).into());
        }
        kept.settle();
        let ticket = audit::begin_command(&self, &request.line, limits)?.await?;
        let executing = self.execute();
        let process = match self.sandbox.start_command(&spec).await {
            Ok(process) => process,
            Err(error) => {
                let mut finish = silica_store::audit::Finish::new("cannot_start");
                finish.error = Some(error.to_string());
                audit::finish(&self, ticket, &finish);
                return Err(error.into());
            }
        };
        drop(permit);
        let id = {
            let mut items = self.lock();
            items.next_command += 1;
            CommandId::new(items.next_command - 1)
        };
        let request = CountedRequest { request, kept };
        let command = Command::start(executing, id, request, process, limits.output_bytes, ticket);
        self.lock().commands.push_back(Arc::clone(&command));
        Ok(command)
    }

    /// Returns a command that runs or is kept.
    pub fn command(&self, id: CommandId) -> Result<Arc<Command>, SessionError> {
        let found = self.lock().commands.iter().find(|command| command.id == id).cloned();
        found.ok_or_else(|| SessionError::NoCommand(id.to_string()))
    }

    /// Returns the commands that run or are kept, oldest first.
    pub fn commands(&self) -> Vec<Arc<Command>> {
        self.lock().commands.iter().cloned().collect()
    }

    /// Charges the owner for a command that has ended, and forgets old ones beyond what is kept.
    pub(crate) fn command_ended(&self, ended: &Arc<Command>, output_bytes: u64) {
        self.mark_files_changed();
        self.may_drop_output(Arc::downgrade(ended) as Weak<dyn HasOutput>);
        self.charge_execution(output_bytes, Duration::ZERO);
        let mut items = self.lock();
        items.last_used = Instant::now();
        let done = |command: &Arc<Command>| matches!(command.phase(), CommandPhase::Done(_));
        while items.commands.iter().filter(|command| done(command)).count() > KEPT_MAX {
            let Some(oldest) = items.commands.iter().position(done) else { break };
            items.commands.remove(oldest);
        }
    }
}
