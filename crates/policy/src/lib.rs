//! Checks Python code against a policy before it runs.
//!
//! This is a filter: it reports early to people and models what is not allowed, and it decides
//! which code a person has to approve first. It is not the security boundary. Python can always be
//! written so that reading it shows nothing; the jail decides what code can do, whatever is found
//! here.
//!
//! Nothing here does any I/O, blocks, or keeps state from one text to the next.

mod checked;
mod choice;
mod depth;
mod fold;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod magic;
mod names;
mod policy;
mod report;
mod resources;
mod text;
mod walk;

use serde::Serialize;

pub use checked::CheckedCode;
pub use choice::PolicyChoice;
pub use policy::{POLICY_BYTES_MAX, Policy, PolicyError, Preset};
pub use report::{Finding, Report};
pub use text::CODE_BYTES_MAX;

/// What is done about a finding; the strongest of all findings decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// The code runs, and the finding is not reported.
    Allow,
    /// The code runs, and the finding is reported.
    Warn,
    /// The code runs once a person has approved it.
    Ask,
    /// The code does not run.
    Block,
}

impl Action {
    /// Every action, weakest first.
    pub const ALL: [Self; 4] = [Self::Allow, Self::Warn, Self::Ask, Self::Block];

    /// Returns the word a policy file uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Warn => "warn",
            Self::Ask => "ask",
            Self::Block => "block",
        }
    }

    /// Finds the action with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name() == name)
    }
}

/// How harmful a finding would be if it were intended to do harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A matter of style or of care.
    Low,
    /// It will probably not work, or not end.
    Medium,
    /// It uses something that the code was not given.
    High,
    /// There is no honest reason to write it.
    Critical,
}

impl Severity {
    /// Every severity, least first.
    pub const ALL: [Self; 4] = [Self::Low, Self::Medium, Self::High, Self::Critical];

    /// Returns the word a policy file uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        }
    }
}

/// What a rule looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Modules that are imported, however that is written.
    Import,
    /// Functions that are called, or referred to under any name.
    Call,
    /// Names of attributes of any object.
    Attribute,
    /// Imports and attributes whose names are computed while the code runs.
    Dynamic,
    /// Paths given to functions that open files.
    Path,
    /// Loops that have no way out.
    Loop,
    /// Sizes, powers and pauses beyond what a sandbox has.
    Resource,
    /// `%` and `%%` lines.
    Magic,
    /// `!` lines, and lines that IPython turns into calls.
    Shell,
    /// Text that is not Python.
    Syntax,
    /// Text that is displayed in another order than it runs, too long, or nested too deep.
    Text,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 11] = [
        Self::Import,
        Self::Call,
        Self::Attribute,
        Self::Dynamic,
        Self::Path,
        Self::Loop,
        Self::Resource,
        Self::Magic,
        Self::Shell,
        Self::Syntax,
        Self::Text,
    ];

    /// Returns the word a policy file uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Import => "import",
            Self::Call => "call",
            Self::Attribute => "attribute",
            Self::Dynamic => "dynamic",
            Self::Path => "path",
            Self::Loop => "loop",
            Self::Resource => "resource",
            Self::Magic => "magic",
            Self::Shell => "shell",
            Self::Syntax => "syntax",
            Self::Text => "text",
        }
    }
}
