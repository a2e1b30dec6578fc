//! Answers about code that is not run.

use schemars::JsonSchema;
use serde::Serialize;
use silica_sessions::Completeness;

/// Names that can follow code
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Completions")]
pub(crate) struct CompletionList {
    /// The names
    pub(crate) matches: Vec<String>,
    /// Where the completed word begins, in characters
    pub(crate) start: usize,
    /// Where it ends
    pub(crate) end: usize,
}

/// What a name is
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Inspection {
    /// Its signature and documentation; null if the name is not known
    pub(crate) text: Option<String>,
}

/// Whether code is complete
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CodeCheck {
    /// Whether it can be run, needs more lines, or is wrong
    #[schemars(extend("enum" = ["complete", "incomplete", "invalid"]))]
    state: &'static str,
    /// White space that the next line begins with
    indent: String,
}

impl From<Completeness> for CodeCheck {
    fn from(checked: Completeness) -> Self {
        let (state, indent) = match checked {
            Completeness::Complete => ("complete", String::new()),
            Completeness::Incomplete { indent } => ("incomplete", indent),
            Completeness::Invalid => ("invalid", String::new()),
        };
        Self { state, indent }
    }
}
