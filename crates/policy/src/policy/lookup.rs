//! Finds the rule for a name in one step, however many rules there are.

use std::collections::HashMap;

use super::Rule;
use crate::resources::Measure;
use crate::{Action, Kind};

/// The end of a prefix: `os.spawn*`.
const STAR: &str = "*";

/// The beginning of an attribute of a module: `module:re`.
const OF_MODULE: &str = "module:";

/// All attributes of modules that begin with one underscore.
const PRIVATE: &str = "module:_*";

/// What can be computed while the code runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dynamic {
    Import,
    Attribute,
    Name,
    /// A module that is used as a value.
    Module,
}

impl Dynamic {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Import => "import",
            Self::Attribute => "attribute",
            Self::Name => "name",
            Self::Module => "module",
        }
    }
}

/// All rules by what they look at. Rules are numbered as in the policy.
#[derive(Debug, Default)]
pub(crate) struct Lookup {
    /// Modules; `None` for an exception.
    imports: HashMap<String, Option<u16>>,
    import_other: Option<u16>,
    calls: HashMap<String, u16>,
    call_prefixes: Vec<(String, u16)>,
    /// Methods of any object: `.to_sql`.
    methods: HashMap<String, u16>,
    attributes: HashMap<String, u16>,
    /// Attributes of modules: `module:re`.
    module_attributes: HashMap<String, u16>,
    private: Option<u16>,
    dynamic: [Option<u16>; 4],
    paths: Vec<u16>,
    magics: HashMap<String, Option<u16>>,
    magic_other: Option<u16>,
    command: Option<u16>,
    autocall: Option<u16>,
    resources: Vec<(Measure, u16)>,
    pub(crate) endless: Option<u16>,
    pub(crate) syntax: Option<u16>,
    pub(crate) bidirectional: Option<u16>,
}

impl Lookup {
    pub(crate) fn new(rules: &[Rule]) -> Self {
        let mut lookup = Self::default();
        // Weaker actions first, so that of two rules with the same name the stronger one remains.
        let mut order: Vec<u16> = (0..rules.len() as u16).collect();
        order.sort_by_key(|index| rules[usize::from(*index)].action);
        for index in order {
            let rule = &rules[usize::from(index)];
            let number = (rule.action != Action::Allow).then_some(index);
            lookup.exceptions(rule);
            lookup.add(rule, number);
        }
        lookup
    }

    /// Exceptions hold unless another rule names the same thing.
    fn exceptions(&mut self, rule: &Rule) {
        let map = match rule.kind {
            Kind::Import => &mut self.imports,
            Kind::Magic => &mut self.magics,
            _ => return,
        };
        for name in &rule.except {
            map.entry(name.clone()).or_insert(None);
        }
    }

    fn add(&mut self, rule: &Rule, number: Option<u16>) {
        match (rule.kind, number) {
            (Kind::Import, _) => {
                add_names(&mut self.imports, &mut self.import_other, rule, number);
            }
            (Kind::Magic, _) => add_names(&mut self.magics, &mut self.magic_other, rule, number),
            (_, None) => {}
            (Kind::Call, Some(number)) => self.add_calls(rule, number),
            (Kind::Attribute, Some(number)) => self.add_attributes(rule, number),
            (Kind::Dynamic, Some(number)) => {
                for what in [Dynamic::Import, Dynamic::Attribute, Dynamic::Name, Dynamic::Module] {
                    if covers(rule, what.name()) {
                        self.dynamic[what as usize] = Some(number);
                    }
                }
            }
            (Kind::Path, Some(number)) => self.paths.push(number),
            (Kind::Loop, Some(number)) => self.endless = Some(number),
            (Kind::Resource, Some(number)) => {
                let measures = Measure::ALL.into_iter();
                let covered = measures.filter(|measure| covers(rule, measure.name()));
                self.resources.extend(covered.map(|measure| (measure, number)));
            }
            (Kind::Shell, Some(number)) => {
                if covers(rule, "command") {
                    self.command = Some(number);
                }
                if covers(rule, "autocall") {
                    self.autocall = Some(number);
                }
            }
            (Kind::Syntax, Some(number)) => self.syntax = Some(number),
            (Kind::Text, Some(number)) => self.bidirectional = Some(number),
        }
    }

    fn add_attributes(&mut self, rule: &Rule, number: u16) {
        for name in &rule.names {
            match name.strip_prefix(OF_MODULE) {
                _ if name == PRIVATE => self.private = Some(number),
                Some(attribute) => {
                    self.module_attributes.insert(attribute.to_owned(), number);
                }
                None => {
                    self.attributes.insert(name.clone(), number);
                }
            }
        }
    }

    fn add_calls(&mut self, rule: &Rule, number: u16) {
        for name in &rule.names {
            if let Some(method) = name.strip_prefix('.') {
                self.methods.insert(method.to_owned(), number);
            } else if let Some(prefix) = name.strip_suffix(STAR) {
                self.call_prefixes.push((prefix.to_owned(), number));
            } else {
                self.calls.insert(name.clone(), number);
            }
        }
    }

    /// Finds the rule for a module, which is the one that names it most exactly.
    pub(crate) fn import(&self, module: &str) -> Option<u16> {
        let mut name = module;
        loop {
            if let Some(found) = self.imports.get(name) {
                return *found;
            }
            match name.rsplit_once('.') {
                Some((parent, _)) => name = parent,
                None => return self.import_other,
            }
        }
    }

    /// Finds the rule for a function. `random._os.system` is `os.system` too.
    pub(crate) fn call(&self, path: &str) -> Option<u16> {
        let mut rest = path;
        loop {
            if let Some(found) = self.call_exactly(rest) {
                return Some(found);
            }
            let (_, shorter) = rest.split_once('.')?;
            // A last name alone would be any method of that name.
            if !shorter.contains('.') {
                return None;
            }
            rest = shorter;
        }
    }

    fn call_exactly(&self, path: &str) -> Option<u16> {
        let path = if path.contains('.') { path.trim_start_matches('_') } else { path };
        let prefixed = || {
            let mut prefixes = self.call_prefixes.iter();
            prefixes.find(|(prefix, _)| path.starts_with(prefix.as_str())).map(|(_, rule)| *rule)
        };
        self.calls.get(path).copied().or_else(prefixed)
    }

    pub(crate) fn method(&self, name: &str) -> Option<u16> {
        self.methods.get(name).copied()
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<u16> {
        self.attributes.get(name).copied()
    }

    /// Finds the rule for an attribute of a module.
    pub(crate) fn module_attribute(&self, name: &str) -> Option<u16> {
        let is_private = name.starts_with('_') && !name.starts_with("__");
        let private = self.private.filter(|_| is_private);
        self.module_attributes.get(name).copied().or(private)
    }

    pub(crate) fn dynamic(&self, what: Dynamic) -> Option<u16> {
        self.dynamic[what as usize]
    }

    pub(crate) fn magic(&self, name: &str) -> Option<u16> {
        self.magics.get(name).copied().unwrap_or(self.magic_other)
    }

    pub(crate) fn command(&self) -> Option<u16> {
        self.command
    }

    pub(crate) fn autocall(&self) -> Option<u16> {
        self.autocall
    }

    /// Finds the strongest rule whose maximum this amount exceeds.
    pub(crate) fn resource(&self, rules: &[Rule], measure: Measure, amount: f64) -> Option<u16> {
        let matching = self.resources.iter().filter(|(own, _)| *own == measure);
        let over = matching.filter(|(_, rule)| amount > rules[usize::from(*rule)].max);
        over.map(|(_, rule)| *rule).next_back()
    }

    /// Finds the strongest rule for a path of a file.
    pub(crate) fn path(&self, rules: &[Rule], path: &str) -> Option<u16> {
        let covers = |rule: &Rule| {
            rule.names.iter().any(|prefix| lies_below(path, prefix))
                && !rule.except.iter().any(|prefix| lies_below(path, prefix))
        };
        self.paths.iter().copied().rfind(|rule| covers(&rules[usize::from(*rule)]))
    }

    pub(crate) fn has_paths(&self) -> bool {
        !self.paths.is_empty()
    }
}

fn add_names(
    map: &mut HashMap<String, Option<u16>>,
    other: &mut Option<u16>,
    rule: &Rule,
    number: Option<u16>,
) {
    for name in &rule.names {
        if name == STAR {
            *other = number;
        } else {
            map.insert(name.clone(), number);
        }
    }
}

/// Whether a rule covers a name. One without names covers everything of its kind.
fn covers(rule: &Rule, name: &str) -> bool {
    rule.names.is_empty() || rule.names.iter().any(|own| own == name)
}

/// Whether a path is below a prefix, by whole names. The prefix `..` matches every path with `..`,
/// and `/` every absolute path. A path with `..` matches no other prefix, since where it leads is
/// unknown.
fn lies_below(path: &str, prefix: &str) -> bool {
    let goes_up = path.split('/').any(|part| part == "..");
    if prefix == ".." || goes_up {
        return prefix == ".." && goes_up;
    }
    if prefix == "/" {
        return path.starts_with('/');
    }
    let rest = path.strip_prefix(prefix.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
