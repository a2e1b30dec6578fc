//! Puts a template's extra files into the tree. `spec` has checked every source and target.

use super::job::Job;
use super::{StepError, tree};

/// Copies every extra file to its place.
pub(super) fn install(job: &Job<'_>) -> Result<(), StepError> {
    for file in &job.spec.files {
        let place = job.in_root(&file.target);
        if let Some(parent) = place.parent() {
            tree::folder(parent)?;
        }
        tree::copy_file(&file.source, &place)?;
    }
    Ok(())
}
