//! The memory of a request: its body, counted in the budget of its key from the first byte to the response.

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::Extensions;
use silica_sessions::{Admission, Reservation, Resource};
use silica_store::Tenant;

use super::problem::{Code, Problem};

/// The most bytes of the body of a request that has shown no key.
const WITHOUT_KEY_BYTES_MAX: u64 = 64 * 1024;

/// What one request holds, in its extensions. The guard gives it back when the response is complete.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    hold: Option<Reservation>,
    without_key: u64,
}

impl InFlight {
    /// Returns that of a request.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        // Only a request that passed no guard has none, such as one of a test.
        extensions.get::<Self>().cloned().unwrap_or_default()
    }

    /// Counts the request for a key.
    pub(crate) fn belongs_to(&self, admission: &Admission, tenant: &Tenant) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.hold.get_or_insert_with(|| admission.hold(tenant, Resource::InFlightBytes));
    }

    /// Counts bytes of memory.
    pub(crate) fn grow(&self, bytes: u64) -> Result<(), Problem> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hold) = &mut state.hold {
            return Ok(hold.grow(bytes)?);
        }
        state.without_key = state.without_key.saturating_add(bytes);
        if state.without_key > WITHOUT_KEY_BYTES_MAX {
            let words = "a body of this size needs a valid key";
            return Err(Problem::new(Code::Unauthorized, words));
        }
        Ok(())
    }

    /// Gives a part back.
    pub(crate) fn shrink(&self, bytes: u64) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hold) = &mut state.hold {
            hold.shrink(bytes);
        }
    }

    /// Gives everything back.
    pub(super) fn release(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).hold = None;
    }
}
