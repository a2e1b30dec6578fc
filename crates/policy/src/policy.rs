//! A policy: rules read from a file, ready to be looked up.

use std::sync::LazyLock;

use crate::report::{Raw, Report, report};
use crate::{Action, Kind, Severity, depth, text, walk};

mod file;
mod lookup;

pub(crate) use lookup::{Dynamic, Lookup};

/// Longest policy file that is read.
pub const POLICY_BYTES_MAX: usize = 64 << 10;

/// The policies that are part of the binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Preset {
    /// Calculations with a short list of modules: no files, no reflection.
    Strict,
    /// Data analysis: the scientific libraries and files of the sandbox.
    Data,
    /// Everything runs, and what is remarkable is told.
    Open,
}

impl Preset {
    /// Every preset, strictest first.
    pub const ALL: [Self; 3] = [Self::Strict, Self::Data, Self::Open];

    /// Returns the preset's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Data => "data",
            Self::Open => "open",
        }
    }

    /// Finds the preset with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// Returns the preset's file, to read or to begin one's own with.
    pub fn source(self) -> &'static str {
        match self {
            Self::Strict => include_str!("../presets/strict.toml"),
            Self::Data => include_str!("../presets/data.toml"),
            Self::Open => include_str!("../presets/open.toml"),
        }
    }
}

/// Why a policy file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// It is longer than is read.
    #[error("the policy has {bytes} bytes, and {POLICY_BYTES_MAX} are the most")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// It is not TOML of this shape.
    #[error("the policy cannot be read: {message}")]
    Malformed {
        /// What the reader said.
        message: String,
    },
    /// It builds on a policy that is not there.
    #[error("`extends` names `{name}`; there are `strict`, `data` and `open`")]
    UnknownBase {
        /// What it names.
        name: String,
    },
    /// A rule leaves out something, or says what its kind does not know.
    #[error("rule `{rule}`: {message}")]
    BadRule {
        /// The rule's id.
        rule: String,
        /// What is wrong with it.
        message: String,
    },
}

/// Whether a name that the text binds itself can still be the built-in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shadowing {
    /// It is the text's own, unless it is called.
    Trust,
    /// It may be either.
    Distrust,
}

/// One rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    pub(crate) severity: Severity,
    pub(crate) action: Action,
    pub(crate) why: String,
    pub(crate) instead: Option<String>,
    pub(crate) names: Vec<String>,
    pub(crate) except: Vec<String>,
    /// Beyond which amount a resource is too much.
    pub(crate) max: f64,
}

/// A set of rules, checked and ready.
#[derive(Debug)]
pub struct Policy {
    name: String,
    shadowing: Shadowing,
    rules: Vec<Rule>,
    lookup: Lookup,
}

impl Policy {
    /// Returns one of the policies that are part of the binary.
    pub fn preset(preset: Preset) -> &'static Self {
        static STRICT: LazyLock<Policy> = LazyLock::new(|| built_in(Preset::Strict));
        static DATA: LazyLock<Policy> = LazyLock::new(|| built_in(Preset::Data));
        static OPEN: LazyLock<Policy> = LazyLock::new(|| built_in(Preset::Open));
        match preset {
            Preset::Strict => &STRICT,
            Preset::Data => &DATA,
            Preset::Open => &OPEN,
        }
    }

    /// Reads a policy file.
    pub fn parse(toml: &str) -> Result<Self, PolicyError> {
        if toml.len() > POLICY_BYTES_MAX {
            return Err(PolicyError::TooLong { bytes: toml.len() });
        }
        file::parse(toml)
    }

    pub(crate) fn new(name: String, shadowing: Shadowing, rules: Vec<Rule>) -> Self {
        let lookup = Lookup::new(&rules);
        Self { name, shadowing, rules, lookup }
    }

    /// Returns the name the file gives.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads a text and says what this policy makes of it. Any text will do: no text makes this
    /// panic, overflow the stack or take long.
    pub fn check(&self, code: &str) -> Report {
        if code.len() > text::CODE_BYTES_MAX {
            let why = format!("{} bytes are more than is read", code.len());
            return report("", vec![whole(&FIXED.size, "size", why)]);
        }
        let mut raw = Vec::new();
        if let Some(cookie) = text::cookie(code) {
            let (start, name) = (cookie.offset as u32, cookie.encoding.to_owned());
            let end = start + name.len() as u32;
            raw.push(Raw { rule: &FIXED.cookie, start, end, name, why: None });
        }
        if let (Some(rule), Some(place)) = (self.lookup.bidirectional, text::bidirectional(code)) {
            let (start, end) = (place as u32, place as u32 + 1);
            let name = "bidirectional".to_owned();
            raw.push(Raw { rule: self.rule(rule), start, end, name, why: None });
        }
        walk::check(self, code, &mut raw);
        report(code, raw)
    }

    pub(crate) fn rule(&self, index: u16) -> &Rule {
        &self.rules[usize::from(index)]
    }

    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    pub(crate) fn lookup(&self) -> &Lookup {
        &self.lookup
    }

    pub(crate) fn shadowing(&self) -> Shadowing {
        self.shadowing
    }
}

fn built_in(preset: Preset) -> Policy {
    Policy::parse(preset.source()).expect("the presets are read by a test")
}

fn whole<'p>(rule: &'p Rule, name: &str, why: String) -> Raw<'p> {
    Raw { rule, start: 0, end: 0, name: name.to_owned(), why: Some(why) }
}

/// Makes the finding that a text nests deeper than is read.
pub(crate) fn too_deep() -> Raw<'static> {
    let why = format!(
        "the code nests deeper than {} levels, or a bracket is never closed",
        depth::NESTING_MAX
    );
    whole(&FIXED.depth, "depth", why)
}

/// Makes the finding that the parser gave up on a text.
pub(crate) fn unreadable() -> Raw<'static> {
    whole(&FIXED.unreadable, "parser", "the parser gave up on this text".to_owned())
}

/// Rules of every policy: what they speak about was not read, so nobody can say what is in it.
struct Fixed {
    size: Rule,
    depth: Rule,
    cookie: Rule,
    unreadable: Rule,
}

static FIXED: LazyLock<Fixed> = LazyLock::new(|| Fixed {
    size: fixed("text-size", "", "Divide it, or put the data into a file"),
    depth: fixed("text-depth", "", "Use intermediate variables or a loop"),
    unreadable: fixed("text-unreadable", "", "Write complete Python code"),
    cookie: fixed(
        "text-encoding",
        "the text declares the encoding {name}, so a file of it would be read as other code",
        "Write UTF-8 and leave the declaration out",
    ),
});

fn fixed(id: &str, why: &str, instead: &str) -> Rule {
    Rule {
        id: id.to_owned(),
        kind: Kind::Text,
        severity: Severity::High,
        action: Action::Block,
        why: why.to_owned(),
        instead: Some(instead.to_owned()),
        names: Vec::new(),
        except: Vec::new(),
        max: 0.0,
    }
}

#[cfg(test)]
mod tests;
