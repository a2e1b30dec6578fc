//! The nouns of Silica: limits, outcomes, results, containment. No I/O, no async, no serde.
//!
//! Each boundary (wire, HTTP, command line, store) owns its own shape and converts from and to these.

mod containment;
mod limits;
mod outcome;
mod result;

pub use containment::{Containment, Enforcement, Measure};
pub use limits::{Limit, LimitError, Limits, LimitsMax};
pub use outcome::{LimitHit, Outcome};
pub use result::{Bundle, CellError, Payload};
