//! Kernels of a session.

use std::collections::BTreeMap;
use std::sync::Arc;

use silica_domain::KernelId;
use silica_engine::{FileError, FileKind, GuestPath, Kernel, Setup};

use super::{KernelHandle, KernelInfo};
use crate::create::check_environment;
use crate::error::SessionError;
use crate::session::{KERNELS_MAX, Session};

impl Session {
    pub(crate) fn setup(&self, directory: Option<&str>, more: &BTreeMap<String, String>) -> Setup {
        let mut environment = self.terms.environment.clone();
        environment.extend(more.clone());
        let directory = directory.map(str::to_owned).or_else(|| self.terms.directory.clone());
        Setup { environment, arguments: Vec::new(), directory }
    }

    pub(crate) fn add_kernel(self: &Arc<Self>, kernel: Kernel, setup: Setup) -> Arc<KernelHandle> {
        let id = {
            let mut inner = self.lock();
            inner.next_kernel += 1;
            KernelId::new(inner.next_kernel - 1)
        };
        let handle = KernelHandle::start(self, id, kernel, setup);
        self.lock().kernels.push(Arc::clone(&handle));
        handle
    }

    /// Starts an interpreter and waits until it is ready.
    pub(crate) async fn start_kernel(&self, setup: &Setup) -> Result<Kernel, SessionError> {
        let turn = self.admission.making(self.tenant()).await;
        let start = async {
            let mut kernel = self.sandbox.start_kernel()?;
            kernel.ready().await?;
            kernel.set_up(setup).await?;
            Ok(kernel)
        };
        turn.spend(start).await
    }

    /// Adds a kernel.
    pub async fn create_kernel(
        self: &Arc<Self>,
        directory: Option<&str>,
        environment: &BTreeMap<String, String>,
    ) -> Result<KernelInfo, SessionError> {
        self.use_it()?;
        if self.kernels().len() >= KERNELS_MAX {
            return Err(SessionError::TooManyKernels(KERNELS_MAX));
        }
        check_environment(environment)?;
        if let Some(directory) = directory {
            self.check_directory(directory).await?;
        }
        let setup = self.setup(directory, environment);
        let kernel = self.start_kernel(&setup).await?;
        self.use_it()?;
        Ok(self.add_kernel(kernel, setup).info())
    }

    /// An interpreter cannot say that there is no such directory, so this is found out before.
    async fn check_directory(&self, directory: &str) -> Result<(), SessionError> {
        let (path, files) = (GuestPath::parse(directory)?, Arc::clone(self.sandbox.files()));
        let looked = tokio::task::spawn_blocking(move || match files.stat(&path)?.kind {
            FileKind::Directory => Ok(()),
            _ => Err(FileError::NotDirectory(path.to_string())),
        });
        Ok(looked.await.unwrap_or_else(|_| Err(FileError::Missing(directory.to_owned())))?)
    }

    /// Its kernels.
    pub fn kernels(&self) -> Vec<KernelInfo> {
        self.lock().kernels.iter().map(|kernel| kernel.info()).collect()
    }

    pub(crate) fn kernel(&self, id: Option<KernelId>) -> Result<Arc<KernelHandle>, SessionError> {
        let inner = self.lock();
        let found = match id {
            None => inner.kernels.first(),
            Some(id) => inner.kernels.iter().find(|kernel| kernel.id() == id),
        };
        let missing = || SessionError::NoKernel(id.unwrap_or(KernelId::new(1)).to_string());
        found.cloned().ok_or_else(missing)
    }

    /// What is known of one kernel.
    pub fn kernel_info(&self, id: KernelId) -> Result<KernelInfo, SessionError> {
        Ok(self.kernel(Some(id))?.info())
    }

    /// Interrupts whatever a kernel runs.
    pub fn interrupt_kernel(&self, id: KernelId) -> Result<(), SessionError> {
        self.use_it()?;
        self.kernel(Some(id))?.interrupt();
        Ok(())
    }

    /// Has a new interpreter take the place of a kernel's; returns when it has.
    pub async fn restart_kernel(&self, id: KernelId) -> Result<(), SessionError> {
        self.use_it()?;
        self.kernel(Some(id))?.restart().await;
        Ok(())
    }

    /// Ends a kernel.
    pub fn delete_kernel(&self, id: KernelId) -> Result<(), SessionError> {
        self.use_it()?;
        let kernel = self.kernel(Some(id))?;
        kernel.close();
        self.lock().kernels.retain(|other| other.id() != id);
        Ok(())
    }
}
