//! Commands of a session.

use std::sync::Arc;
use std::time::{Duration, Instant};

use silica_domain::CommandId;
use silica_engine::{CommandSpec, Stdin};
use silica_store::audit::Activity;

use super::{Command, CommandPhase, CommandRequest, What};
use crate::audit;
use crate::create::check_environment;
use crate::error::SessionError;
use crate::session::{KEPT_MAX, Session};

impl Session {
    /// Starts a command. Whoever asked may go away at any moment; the command then runs all the same.
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
        self.start_something()?;
        if self.review.asks_always() {
            return Err(SessionError::NotApprovable);
        }
        check_environment(&request.environment)?;
        if let Some(timeout) = request.timeout
            && (timeout.is_zero() || Instant::now().checked_add(timeout).is_none())
        {
            let seconds = timeout.as_secs_f64();
            return Err(SessionError::Bad(format!("a timeout of {seconds} seconds cannot be had")));
        }
        let turn = self.admission.queue(self.tenant())?.turn().await;
        let mut environment = self.terms.environment.clone();
        environment.extend(request.environment.clone());
        let mut spec = match &request.what {
            What::Line(line) => self.sandbox.shell_line(line),
            What::Program(arguments) => CommandSpec::program(arguments.clone()),
        };
        spec.environment = environment;
        spec.stdin = if request.stdin { Stdin::Piped } else { Stdin::Closed };
        spec.terminal = request.terminal;
        if let Some(directory) = request.directory.as_ref().or(self.terms.directory.as_ref()) {
            spec.directory.clone_from(directory);
        }
        let (limits, shown) = (&self.terms.limits, request.what.shown());
        let begun =
            audit::begin(&self.store, self.tenant(), self.id(), Activity::Command, &shown, limits);
        let ticket = begun?.await?;
        let process = match self.sandbox.start_command(&spec).await {
            Ok(process) => process,
            Err(error) => {
                let mut finish = silica_store::audit::Finish::new("cannot_start");
                finish.error = Some(error.to_string());
                audit::finish(&self.store, ticket, &finish);
                return Err(error.into());
            }
        };
        drop(turn);
        let id = {
            let mut inner = self.lock();
            inner.next_command += 1;
            CommandId::new(inner.next_command - 1)
        };
        let command = Command::start(&self, id, request, process, limits.output_bytes, ticket);
        self.lock().commands.push_back(Arc::clone(&command));
        Ok(command)
    }

    /// A command that runs or is kept.
    pub fn command(&self, id: CommandId) -> Result<Arc<Command>, SessionError> {
        let found = self.lock().commands.iter().find(|command| command.id == id).cloned();
        found.ok_or_else(|| SessionError::NoCommand(id.to_string()))
    }

    /// The commands that run or are kept, oldest first.
    pub fn commands(&self) -> Vec<Arc<Command>> {
        self.lock().commands.iter().cloned().collect()
    }

    pub(crate) fn command_ended(&self, output_bytes: u64) {
        self.mark_files_changed();
        self.admission.charge(self.tenant(), output_bytes, Duration::ZERO);
        let mut inner = self.lock();
        inner.last_used = Instant::now();
        let done = |command: &Arc<Command>| matches!(command.phase(), CommandPhase::Done(_));
        while inner.commands.iter().filter(|command| done(command)).count() > KEPT_MAX {
            let Some(oldest) = inner.commands.iter().position(done) else { break };
            inner.commands.remove(oldest);
        }
    }
}
