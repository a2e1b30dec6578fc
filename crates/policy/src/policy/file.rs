//! The file of a policy: its format, and how one policy extends another.

use serde::Deserialize;

use super::{Policy, PolicyError, Preset, Rule, Shadowing};
use crate::resources::Measure;
use crate::{Action, Kind, Severity};

/// Most rules of one policy.
const RULES_MAX: usize = 256;
/// Most names in all rules of one policy.
const NAMES_MAX: usize = 8_192;
/// Longest text of a rule.
const TEXT_BYTES_MAX: usize = 1_024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    /// What the policy is for; read by people.
    #[serde(default)]
    #[expect(dead_code, reason = "people read it in the file")]
    about: Option<String>,
    extends: Option<String>,
    shadowing: Option<Word<Shadowing>>,
    #[serde(default, rename = "rule")]
    rules: Vec<FileRule>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRule {
    id: String,
    kind: Option<Word<Kind>>,
    severity: Option<Word<Severity>>,
    action: Option<Word<Action>>,
    why: Option<String>,
    instead: Option<String>,
    names: Option<Vec<String>>,
    except: Option<Vec<String>>,
    /// Names and exceptions on top of those of the policy this one extends.
    #[serde(default)]
    also: Vec<String>,
    #[serde(default)]
    also_except: Vec<String>,
    max: Option<f64>,
}

/// One of a fixed list of words.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "String", bound = "T: FromWord")]
struct Word<T>(T);

trait FromWord: Copy + 'static {
    const WORDS: &'static [(&'static str, Self)];
}

impl<T: FromWord> TryFrom<String> for Word<T> {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        let found = T::WORDS.iter().find(|(name, _)| *name == word);
        found.map(|(_, value)| Self(*value)).ok_or_else(|| {
            let known: Vec<_> = T::WORDS.iter().map(|(name, _)| *name).collect();
            format!("`{}` is none of {}", word.escape_debug(), known.join(", "))
        })
    }
}

impl FromWord for Shadowing {
    const WORDS: &'static [(&'static str, Self)] =
        &[("trust", Self::Trust), ("distrust", Self::Distrust)];
}

impl FromWord for Action {
    const WORDS: &'static [(&'static str, Self)] =
        &[("allow", Self::Allow), ("warn", Self::Warn), ("ask", Self::Ask), ("block", Self::Block)];
}

impl FromWord for Severity {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("low", Self::Low),
        ("medium", Self::Medium),
        ("high", Self::High),
        ("critical", Self::Critical),
    ];
}

impl FromWord for Kind {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("import", Self::Import),
        ("call", Self::Call),
        ("attribute", Self::Attribute),
        ("dynamic", Self::Dynamic),
        ("path", Self::Path),
        ("loop", Self::Loop),
        ("resource", Self::Resource),
        ("magic", Self::Magic),
        ("shell", Self::Shell),
        ("syntax", Self::Syntax),
        ("text", Self::Text),
    ];
}

pub(super) fn parse(toml: &str) -> Result<Policy, PolicyError> {
    let file = read(toml)?;
    let Some(base) = &file.extends else {
        let shadowing = file.shadowing.map_or(Shadowing::Distrust, |word| word.0);
        return build(file.name, shadowing, file.rules);
    };
    // A preset extends nothing, so there is only one step.
    let preset = Preset::from_name(base)
        .ok_or_else(|| PolicyError::UnknownBase { name: base.escape_debug().to_string() })?;
    let base = read(preset.source())?;
    let shadowing = file.shadowing.or(base.shadowing).map_or(Shadowing::Distrust, |word| word.0);
    let mut rules = base.rules;
    for rule in file.rules {
        match rules.iter_mut().find(|own| own.id == rule.id) {
            Some(own) => own.change(rule),
            None => rules.push(rule),
        }
    }
    build(file.name, shadowing, rules)
}

fn read(toml: &str) -> Result<File, PolicyError> {
    toml::from_str(toml).map_err(|error| PolicyError::Malformed { message: error.to_string() })
}

fn build(name: String, shadowing: Shadowing, rules: Vec<FileRule>) -> Result<Policy, PolicyError> {
    let names: usize = rules.iter().map(FileRule::size).sum();
    if rules.len() > RULES_MAX || names > NAMES_MAX {
        let message = format!("there must be at most {RULES_MAX} rules and {NAMES_MAX} names");
        return Err(PolicyError::Malformed { message });
    }
    if !is_plain(&name) {
        let message = "`name` must be at most 64 letters, digits, `-` and `_`".to_owned();
        return Err(PolicyError::Malformed { message });
    }
    let mut checked: Vec<Rule> = Vec::new();
    for rule in rules {
        if checked.iter().any(|other| other.id == rule.id) {
            return Err(rule.bad("another rule has the same id"));
        }
        checked.push(rule.check()?);
    }
    Ok(Policy::new(name, shadowing, checked))
}

fn is_plain(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !name.is_empty() && name.len() <= 64 && name.chars().all(fits)
}

impl FileRule {
    /// Replaces the fields that another rule of the same id has, and keeps the others.
    fn change(&mut self, by: Self) {
        self.kind = by.kind.or(self.kind);
        self.severity = by.severity.or(self.severity);
        self.action = by.action.or(self.action);
        self.why = by.why.or(self.why.take());
        self.instead = by.instead.or(self.instead.take());
        self.names = by.names.or(self.names.take());
        self.except = by.except.or(self.except.take());
        self.max = by.max.or(self.max);
        self.also.extend(by.also);
        self.also_except.extend(by.also_except);
    }

    fn size(&self) -> usize {
        let given = |names: &Option<Vec<String>>| names.as_ref().map_or(0, Vec::len);
        given(&self.names) + given(&self.except) + self.also.len() + self.also_except.len()
    }

    fn bad(&self, message: &str) -> PolicyError {
        let rule = self.id.chars().take(64).flat_map(char::escape_debug).collect();
        PolicyError::BadRule { rule, message: message.to_owned() }
    }

    fn check(self) -> Result<Rule, PolicyError> {
        let long = |text: &Option<String>| text.as_ref().is_some_and(|t| t.len() > TEXT_BYTES_MAX);
        if !is_plain(&self.id) {
            return Err(self.bad("an id must be at most 64 letters, digits, `-` and `_`"));
        }
        if long(&self.why) || long(&self.instead) {
            return Err(self.bad("`why` and `instead` must be at most 1024 bytes each"));
        }
        let (Some(kind), Some(action), Some(severity)) = (self.kind, self.action, self.severity)
        else {
            return Err(self.bad("`kind`, `action` and `severity` are required"));
        };
        let Some(why) = self.why.clone() else { return Err(self.bad("`why` is required")) };
        let mut names = self.names.clone().unwrap_or_default();
        names.extend(self.also.iter().cloned());
        let mut except = self.except.clone().unwrap_or_default();
        except.extend(self.also_except.iter().cloned());
        if let Some(problem) = problem(kind.0, &names, self.max) {
            return Err(self.bad(&problem));
        }
        Ok(Rule {
            id: self.id,
            kind: kind.0,
            severity: severity.0,
            action: action.0,
            why,
            instead: self.instead,
            names,
            except,
            max: self.max.unwrap_or(f64::INFINITY),
        })
    }
}

/// Returns what is wrong with the names of a rule.
fn problem(kind: Kind, names: &[String], max: Option<f64>) -> Option<String> {
    let known: &[&str] = match kind {
        Kind::Import | Kind::Call | Kind::Attribute | Kind::Path | Kind::Magic => {
            return names.is_empty().then(|| "`names` is required".to_owned());
        }
        Kind::Loop | Kind::Syntax => &[],
        Kind::Dynamic => &["import", "attribute", "name", "module"],
        Kind::Shell => &["command", "autocall"],
        Kind::Text => &["bidirectional"],
        Kind::Resource => &[
            Measure::Size.name(),
            Measure::Number.name(),
            Measure::Steps.name(),
            Measure::Pause.name(),
        ],
    };
    if kind == Kind::Resource && !max.is_some_and(|max| max >= 0.0) {
        return Some("`max` is required".to_owned());
    }
    let stray = names.iter().find(|name| !known.contains(&name.as_str()))?;
    Some(format!("`{}` is none of {}", stray.escape_debug(), known.join(", ")))
}
