//! Creating, finding, restarting and deleting kernels of a session.

use std::collections::BTreeMap;
use std::sync::Arc;

use silica_domain::KernelId;
use silica_engine::{Kernel, Setup};

use super::{KernelHandle, KernelInfo};
use crate::create::check_environment;
use crate::error::SessionError;
use crate::session::{KERNELS_MAX, Session};

impl Session {
    /// Returns how an interpreter of this sandbox is set up.
    pub(crate) fn setup(&self, directory: Option<&str>, more: &BTreeMap<String, String>) -> Setup {
        let mut environment = self.environment();
        environment.extend(more.clone());
        let directory = directory.map(str::to_owned).or_else(|| self.terms.directory.clone());
        Setup { environment, arguments: Vec::new(), directory }
    }

    /// Adds a kernel whose interpreter is ready.
    pub(crate) fn add_kernel(
        self: &Arc<Self>,
        kernel: Kernel,
        setup: Setup,
        cells_begun: u64,
    ) -> Arc<KernelHandle> {
        let id = {
            let mut items = self.lock();
            items.next_kernel += 1;
            KernelId::new(items.next_kernel - 1)
        };
        let handle = KernelHandle::start(self, id, kernel, setup, cells_begun);
        self.lock().kernels.push(Arc::clone(&handle));
        handle
    }

    /// Starts an interpreter and waits until it is ready.
    pub(crate) async fn start_kernel(
        self: &Arc<Self>,
        setup: &Setup,
    ) -> Result<Kernel, SessionError> {
        let permit = self.services.admission.creating(self.tenant()).await;
        let _executing = self.execute();
        let start = async {
            let mut kernel = self.sandbox.start_kernel()?;
            kernel.ready().await?;
            kernel.set_up(setup).await?;
            Ok(kernel)
        };
        permit.spend(start).await
    }

    /// Creates a kernel, in `directory` or else in the sandbox's own.
    pub async fn create_kernel(
        self: &Arc<Self>,
        directory: Option<&str>,
        environment: &BTreeMap<String, String>,
    ) -> Result<KernelInfo, SessionError> {
        self.touch()?;
        if self.kernels().len() >= KERNELS_MAX {
            return Err(SessionError::TooManyKernels(KERNELS_MAX));
        }
        check_environment(environment)?;
        let directory = match directory {
            Some(directory) => Some(self.start_directory(directory).await?),
            None => None,
        };
        let setup = self.setup(directory.as_deref(), environment);
        let kernel = self.start_kernel(&setup).await?;
        self.touch()?;
        Ok(self.add_kernel(kernel, setup, 0).info())
    }

    /// Returns what clients see of its kernels.
    pub fn kernels(&self) -> Vec<KernelInfo> {
        self.lock().kernels.iter().map(|kernel| kernel.info()).collect()
    }

    /// Returns a kernel; `None` is the first one.
    pub(crate) fn kernel(&self, id: Option<KernelId>) -> Result<Arc<KernelHandle>, SessionError> {
        let items = self.lock();
        let found = match id {
            None => items.kernels.first(),
            Some(id) => items.kernels.iter().find(|kernel| kernel.id() == id),
        };
        let missing = || SessionError::NoKernel(id.unwrap_or(KernelId::new(1)).to_string());
        found.cloned().ok_or_else(missing)
    }

    /// Returns what clients see of one kernel.
    pub fn kernel_info(&self, id: KernelId) -> Result<KernelInfo, SessionError> {
        Ok(self.kernel(Some(id))?.info())
    }

    /// Interrupts the running cell of a kernel, if there is one.
    pub fn interrupt_kernel(&self, id: KernelId) -> Result<(), SessionError> {
        self.touch()?;
        self.kernel(Some(id))?.interrupt();
        Ok(())
    }

    /// Replaces the interpreter of a kernel; returns when it is replaced.
    pub async fn restart_kernel(&self, id: KernelId) -> Result<(), SessionError> {
        self.touch()?;
        self.kernel(Some(id))?.restart().await;
        Ok(())
    }

    /// Ends a kernel.
    pub fn delete_kernel(&self, id: KernelId) -> Result<(), SessionError> {
        self.touch()?;
        let kernel = self.kernel(Some(id))?;
        kernel.close();
        self.lock().kernels.retain(|other| other.id() != id);
        Ok(())
    }
}
