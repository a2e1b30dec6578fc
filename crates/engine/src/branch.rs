//! Branching a live sandbox: an image of its interpreter, copies of its files, and interpreters
//! that become the image in them.
//!
//! Tests: `tests/it/engine/branching.rs`.

use std::sync::Arc;

use futures_util::future::{try_join, try_join_all};
use silica_domain::{BranchOptions, LeftBehind};

use crate::engine::{Engine, EngineError};
use crate::image::{BranchError, Carried, Image, ImageWriting};
use crate::kernel::{Kernel, KernelError};
use crate::sandbox::{Created, Sandbox};

/// The step at which an interpreter refuses an image that needs memory of another zygote.
const OTHER_ZYGOTE: &str = "become-zygote";

/// The most copies that one branching makes.
pub const TWINS_MAX: usize = 32;

/// A branching under way: the image is being written, and the files are copied. The original can
/// run cells again.
#[derive(Debug)]
pub struct Branch {
    writing: ImageWriting,
    /// The first of the copies, in which nothing runs yet.
    first: Sandbox,
    left_behind: Vec<LeftBehind>,
}

/// A state of a sandbox that is kept: an image of its interpreter, and its files in a sandbox in
/// which nothing runs.
#[derive(Debug)]
pub struct Frozen {
    image: Arc<Image>,
    holder: Sandbox,
    left_behind: Vec<LeftBehind>,
}

impl Frozen {
    /// Returns how much memory it takes, its files apart.
    pub fn image_bytes(&self) -> u64 {
        self.image.bytes()
    }

    /// Returns how many bytes its files take.
    pub fn file_bytes(&self) -> u64 {
        self.holder.files().space().0
    }

    /// Returns what the sandbox had and this has not.
    pub fn left_behind(&self) -> &[LeftBehind] {
        &self.left_behind
    }
}

/// The copies of a sandbox.
#[derive(Debug)]
pub struct Branched {
    /// Sandboxes, each with an interpreter that is ready.
    pub twins: Vec<Created>,
    /// What the original has and they have not.
    pub left_behind: Vec<LeftBehind>,
}

impl Engine {
    /// Begins to branch a sandbox, between two cells. Returns when its files are copied and a fork
    /// of its interpreter writes the image.
    pub async fn begin_branch(
        &self,
        sandbox: &Sandbox,
        kernel: &mut Kernel,
        options: &BranchOptions,
        carried: Carried,
    ) -> Result<Branch, BranchError> {
        let writing = kernel.write_image(options, carried).await?;
        let (first, left_behind) = self.make_copy(sandbox).await?;
        Ok(Branch { writing, first, left_behind })
    }

    /// Waits for the image and makes `count` copies, at least one. If one fails, all are ended.
    pub async fn finish_branch(
        &self,
        branch: Branch,
        count: usize,
    ) -> Result<Branched, BranchError> {
        let Branch { writing, first, mut left_behind } = branch;
        let more = (1..count.clamp(1, TWINS_MAX)).map(|_| self.make_copy(&first));
        let (image, more) = try_join(writing.finish(), try_join_all(more)).await?;
        left_behind.splice(0..0, image.left_behind().iter().cloned());
        let sandboxes = std::iter::once(first).chain(more.into_iter().map(|(copy, _)| copy));
        let twins = try_join_all(sandboxes.map(|sandbox| wake(sandbox, &image))).await?;
        if let Some(twin) = twins.first() {
            left_behind.extend(twin.kernel.left_behind().iter().cloned());
        }
        Ok(Branched { twins, left_behind })
    }

    /// Waits for the image, and keeps it with the files.
    pub async fn freeze(&self, branch: Branch) -> Result<Frozen, BranchError> {
        let Branch { writing, first, mut left_behind } = branch;
        let image = writing.finish().await?;
        left_behind.splice(0..0, image.left_behind().iter().cloned());
        Ok(Frozen { image, holder: first, left_behind })
    }

    /// Makes a sandbox that goes on from a kept state.
    pub async fn thaw(&self, frozen: &Frozen) -> Result<Created, BranchError> {
        let (sandbox, _) = self.make_copy(&frozen.holder).await?;
        wake(sandbox, &frozen.image).await
    }

    /// Sets a sandbox back to a kept state of it: its files, and a new interpreter that becomes the
    /// image. The one before must have ended, and nothing may write files meanwhile.
    pub async fn restore(&self, sandbox: &Sandbox, frozen: &Frozen) -> Result<Kernel, BranchError> {
        let from = Arc::clone(frozen.holder.files());
        let to = Arc::clone(sandbox.files());
        let restored = tokio::task::spawn_blocking(move || {
            to.clear()?;
            from.duplicate(&to)
        });
        match restored.await {
            Ok(restored) => drop(restored.map_err(BranchError::Files)?),
            Err(ended) => std::panic::resume_unwind(ended.into_panic()),
        }
        let mut kernel = sandbox.wake(&frozen.image).map_err(BranchError::Kernel)?;
        awake(&mut kernel).await?;
        Ok(kernel)
    }

    /// Makes a sandbox like another, with a copy of its files and without an interpreter. Returns
    /// what of the files could not be copied, too. Nothing may run in the other one meanwhile, or
    /// the copy is of files that change.
    async fn make_copy(&self, of: &Sandbox) -> Result<(Sandbox, Vec<LeftBehind>), BranchError> {
        let sandbox = |error: EngineError| BranchError::Sandbox(Box::new(error));
        let copy = self.make_empty(of.plan()).await.map_err(sandbox)?;
        let from = Arc::clone(of.files());
        let to = Arc::clone(copy.files());
        let copied = tokio::task::spawn_blocking(move || from.duplicate(&to)).await;
        let left_behind = match copied {
            Ok(left_behind) => left_behind.map_err(BranchError::Files)?,
            Err(ended) => std::panic::resume_unwind(ended.into_panic()),
        };
        Ok((copy, left_behind))
    }
}

/// Starts an interpreter that becomes the image, and waits for its first word.
async fn wake(sandbox: Sandbox, image: &Arc<Image>) -> Result<Created, BranchError> {
    let mut kernel = sandbox.wake(image).map_err(BranchError::Kernel)?;
    awake(&mut kernel).await?;
    Ok(Created { sandbox, kernel, snapshot: None })
}

/// Waits for the first word of an interpreter that becomes an image.
async fn awake(kernel: &mut Kernel) -> Result<(), BranchError> {
    kernel.ready().await.map_err(|error| match error {
        KernelError::Refused { step, .. } if step == OTHER_ZYGOTE => BranchError::OtherZygote,
        error => BranchError::Kernel(error),
    })
}
