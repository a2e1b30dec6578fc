//! What happens to a cell whose client disconnects.

use std::sync::Arc;

use silica_sessions::Cell;

/// Interrupts a cell when it is dropped before the cell has ended, unless it was disarmed.
#[derive(Debug)]
pub(crate) struct InterruptOnDrop(Option<Arc<Cell>>);

impl InterruptOnDrop {
    /// Arms the guard for a cell.
    pub(crate) fn armed(cell: &Arc<Cell>) -> Self {
        Self(Some(Arc::clone(cell)))
    }

    /// Returns a guard that does nothing.
    pub(crate) fn disarmed() -> Self {
        Self(None)
    }

    /// Lets the cell run on.
    pub(crate) fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        if let Some(cell) = &self.0 {
            // Fails only if the cell has ended, which needs no interrupt.
            let _ = cell.interrupt();
        }
    }
}
