//! The jail as a tier: one zone, whose master makes an enclosure for each sandbox.
//!
//! This folder alone imports `silica_jail`. [`host`] shows `cli` what it needs of it.

mod command;
mod containment;
mod enclosure;
pub mod host;
mod inputs;
mod watches;
mod zone;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use silica_domain::{Containment, Limits};
use silica_jail::client::{self, UseOfHost, ZoneError, ZoneOptions};
use silica_jail::protocol::{
    self, Program, Source, SystemDirectory, TemplateLayers, ZoneFailure, ZoneRequest,
};
use silica_templates::Template;

use super::{EnclosureSpec, GuestProgram, NewEnclosure, StepFailure, TierDriver, TierError};
use crate::guest;
use zone::{ZoneHandle, borrowed};

/// Where copies of private inputs are kept for a moment, below the run directory.
const INPUT_COPIES: &str = "inputs";

/// What a jail is started with. No default: every field says something about containment.
#[derive(Clone, Debug)]
pub struct JailOptions {
    /// The program whose process becomes the zone, and its arguments.
    pub zone_program: (PathBuf, Vec<String>),
    /// Which of the host's mechanisms to use.
    pub use_of_host: UseOfHost,
    /// When zygotes are replaced.
    pub zygotes: ZygotePolicy,
}

/// When zygotes are replaced. Siblings share address layout and hash seed; this bounds how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZygotePolicy {
    /// After this many forks.
    pub forks_max: u64,
    pub age_max: Duration,
}

impl Default for ZygotePolicy {
    fn default() -> Self {
        Self { forks_max: 10_000, age_max: Duration::from_mins(10) }
    }
}

/// A running jail.
#[derive(Debug)]
pub(crate) struct Jail {
    zone: ZoneHandle,
    containment: Containment,
    zygotes: ZygotePolicy,
    /// Where private inputs are copied to.
    scratch: PathBuf,
}

impl Jail {
    /// Clears up after zones that died and starts one. Must be called within a Tokio runtime.
    pub(crate) fn start(options: JailOptions, run_directory: PathBuf) -> Result<Self, TierError> {
        let scratch = run_directory.join(INPUT_COPIES);
        // Before the zone exists, and so before this process makes copies of its own.
        inputs::sweep(&scratch);
        let zone = ZoneHandle::start(ZoneOptions {
            program: options.zone_program,
            run_directory,
            use_of_host: options.use_of_host,
        })?;
        let containment = containment::report(zone.facts());
        Ok(Self { zone, containment, zygotes: options.zygotes, scratch })
    }

    async fn add_layers(&self, template: &Template, guest: &guest::Layer) -> Result<(), TierError> {
        let mut fds = Vec::new();
        let layers = TemplateLayers {
            name: template.manifest.name.clone(),
            guest: layer(&guest.path, &mut fds)?,
            root: layer(&template.root(), &mut fds)?,
            system: template
                .manifest
                .system_dirs
                .iter()
                .map(|path| {
                    let source = layer(path, &mut fds)?;
                    Ok(SystemDirectory { path: path.display().to_string(), source })
                })
                .collect::<Result<_, TierError>>()?,
        };
        let added = self.zone.call(ZoneRequest::AddTemplate(layers), &borrowed(&fds)).await;
        added.map(drop)
    }
}

impl TierDriver for Jail {
    fn containment(&self) -> &Containment {
        &self.containment
    }

    fn process_id(&self) -> u32 {
        self.zone.process_id()
    }

    fn guest_files(&self) -> &'static [(&'static str, &'static [u8])] {
        // The zygote loads the gate from beside the guest's code.
        &[("gate.so", silica_jail::GATE_LIBRARY)]
    }

    fn add_template<'a>(
        &'a self,
        template: &'a Template,
        guest: &'a guest::Layer,
    ) -> BoxFuture<'a, Result<(), TierError>> {
        self.add_layers(template, guest).boxed()
    }

    fn keep_warm(
        &self,
        template: &str,
        program: GuestProgram,
    ) -> BoxFuture<'_, Result<(), TierError>> {
        let request = ZoneRequest::StartZygote {
            template: template.to_owned(),
            program: program.into(),
            forks_max: self.zygotes.forks_max,
            age_ms_max: self.zygotes.age_max.as_millis() as u64,
        };
        async move { self.zone.call(request, &[]).await.map(drop) }.boxed()
    }

    fn warmed<'a>(&'a self, template: &'a str) -> BoxFuture<'a, Result<(), String>> {
        self.zone.zygote_ready(template).boxed()
    }

    fn create(&self, spec: &EnclosureSpec) -> Result<NewEnclosure, TierError> {
        enclosure::create(&self.zone, spec, &self.scratch)
    }

    fn is_gone(&self) -> bool {
        self.zone.is_gone()
    }

    fn gone(&self) -> BoxFuture<'_, ()> {
        self.zone.gone().boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        // The zone ends when its socket does, with everything in it.
        self.zone.hang_up();
        self.zone.ended().boxed()
    }
}

/// Gives a directory to the zone: as a mount where this process may make one, else by its path.
fn layer(path: &Path, fds: &mut Vec<OwnedFd>) -> Result<Source, TierError> {
    let failed = |error| TierError::Mount(path.to_owned(), error);
    let path = path.canonicalize().map_err(failed)?;
    match client::detach(&path, true).map_err(failed)? {
        Some(tree) => {
            fds.push(tree);
            Ok(Source::Mount)
        }
        None => Ok(Source::Path(path)),
    }
}

/// Returns the limits that are fixed when an enclosure is made.
fn jail_spec(template: &str, limits: &Limits) -> protocol::EnclosureSpec {
    protocol::EnclosureSpec {
        template: template.to_owned(),
        memory_bytes: limits.memory_bytes,
        cpu_millis: limits.cpu_millis,
        processes: limits.processes,
        open_files: limits.open_files,
        disk_bytes: limits.disk_bytes,
        file_bytes: limits.file_bytes,
        // For RLIMIT_CPU, which takes whole seconds and is used where no control group counts.
        // `Limits::fixes_the_same` rounds in the same way.
        cpu_seconds: limits.cpu.as_secs().max(1),
    }
}

impl From<GuestProgram> for Program {
    fn from(program: GuestProgram) -> Self {
        let GuestProgram { arguments, environment } = program;
        Self { arguments, environment }
    }
}

impl From<ZoneFailure> for StepFailure {
    fn from(failure: ZoneFailure) -> Self {
        let ZoneFailure { step, message, errno } = failure;
        Self { step, message, errno }
    }
}

impl From<ZoneFailure> for TierError {
    fn from(failure: ZoneFailure) -> Self {
        Self::Step(failure.into())
    }
}

impl From<ZoneError> for TierError {
    fn from(error: ZoneError) -> Self {
        match error {
            ZoneError::Setup(failure) => failure.into(),
            ZoneError::Gone => Self::Gone,
            ZoneError::TooLong => Self::TooLong,
            error => Self::Broken(Box::new(error)),
        }
    }
}
