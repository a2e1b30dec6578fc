//! A policy: rules parsed from a file, indexed for lookup.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::report::{Raw, Report, report};
use crate::{Action, Kind, Severity, depth, text, walk};

mod file;
mod lookup;

pub(crate) use lookup::{Dynamic, Lookup};

/// The longest policy file.
pub const POLICY_BYTES_MAX: usize = 64 << 10;

/// The policies that are part of the binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Preset {
    /// Calculations with a short list of modules: no files, no reflection.
    Strict,
    /// Data analysis: the scientific libraries and files of the sandbox.
    Data,
    /// Everything runs, and remarkable code is reported.
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

    /// Returns the preset's file, which can be the start of a policy of one's own.
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
    /// It is too long.
    #[error("the policy must be at most {POLICY_BYTES_MAX} bytes, not {bytes}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// It is not TOML of the expected form.
    #[error("invalid policy: {message}")]
    Malformed {
        /// The error of the parser.
        message: String,
    },
    /// It extends an unknown preset.
    #[error("`extends` must be `strict`, `data` or `open`, not `{name}`")]
    UnknownBase {
        /// The unknown name.
        name: String,
    },
    /// A rule lacks a field, or has a value that its kind does not allow.
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
    /// It is the text's own name, unless it is called.
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
    /// The largest amount of a resource that is allowed.
    pub(crate) max: f64,
}

/// A set of rules, checked and ready.
#[derive(Debug)]
pub struct Policy {
    /// Different for every policy of this process.
    number: u64,
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

    /// Parses a policy file.
    pub fn parse(toml: &str) -> Result<Self, PolicyError> {
        if toml.len() > POLICY_BYTES_MAX {
            return Err(PolicyError::TooLong { bytes: toml.len() });
        }
        file::parse(toml)
    }

    pub(crate) fn new(name: String, shadowing: Shadowing, rules: Vec<Rule>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let lookup = Lookup::new(&rules);
        Self { number, name, shadowing, rules, lookup }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the name the file gives.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checks a text. No text makes this panic, overflow the stack or take long.
    pub fn check(&self, code: &str) -> Report {
        if code.len() > text::CODE_BYTES_MAX {
            let why = format!(
                "the code has {} bytes; at most {} are checked",
                code.len(),
                text::CODE_BYTES_MAX
            );
            return report("", vec![whole(&FIXED.size, "size", why)]);
        }
        let mut raw = Vec::new();
        if let Some(cookie) = text::cookie(code) {
            let start = cookie.offset as u32;
            let name = cookie.encoding.to_owned();
            let end = start + name.len() as u32;
            raw.push(Raw { rule: &FIXED.cookie, start, end, name, why: None });
        }
        if let (Some(rule), Some(place)) = (self.lookup.bidirectional, text::bidirectional(code)) {
            let start = place as u32;
            let end = start + 1;
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

/// Returns the finding that a text nests too deep.
pub(crate) fn too_deep() -> Raw<'static> {
    let why = format!(
        "the code nests deeper than {} levels, or a bracket is never closed",
        depth::NESTING_MAX
    );
    whole(&FIXED.depth, "depth", why)
}

/// Returns the finding that the parser failed on a text.
pub(crate) fn unreadable() -> Raw<'static> {
    whole(&FIXED.unreadable, "parser", "the parser failed on this text".to_owned())
}

/// Rules that every policy has. They block texts that were not parsed, of which nothing is known.
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
        "the text declares the encoding {name}, so Python would read other code from a file of it",
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
