//! Licences: whether the SPDX expression of each crate can be met by the licences that are allowed.

use super::Findings;
use super::config::{Level, Licences};
use super::graph::{Graph, Package};

/// The deepest nesting of parentheses that is read.
const DEPTH_MAX: usize = 8;

pub(super) fn check(licences: &Licences, graph: &Graph, findings: &mut Findings) {
    for package in graph.packages() {
        if let Some(message) = check_one(licences, package) {
            findings.add(Level::Deny, message);
        }
    }
}

fn check_one(licences: &Licences, package: &Package) -> Option<String> {
    let Package { name, version, .. } = package;
    let Some(expression) = &package.license else {
        return Some(format!("{name} {version} names no licence"));
    };
    let exceptions: Vec<&String> = licences
        .exceptions
        .iter()
        .filter(|exception| exception.spec.matches(package))
        .flat_map(|exception| &exception.allow)
        .collect();
    let is_allowed =
        |term: &str| licences.allow.iter().chain(exceptions.iter().copied()).any(|one| one == term);
    match is_met(expression, &is_allowed) {
        Some(true) => None,
        Some(false) => {
            Some(format!("{name} {version} has the licence {expression}, which is not allowed"))
        }
        None => Some(format!("{name} {version} has a licence that cannot be read: {expression}")),
    }
}

/// Tells whether an expression can be met; nothing if it is none.
pub(super) fn is_met(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> Option<bool> {
    // Older crates write `MIT/Apache-2.0` for a choice.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, is_allowed };
    let met = reader.choice(DEPTH_MAX)?;
    reader.words.is_empty().then_some(met)
}

/// A recursive-descent reader of expressions: `OR` binds weakest, then `AND`, then `WITH`.
struct Reader<'a> {
    words: &'a [&'a str],
    is_allowed: &'a dyn Fn(&str) -> bool,
}

impl Reader<'_> {
    fn choice(&mut self, depth: usize) -> Option<bool> {
        let mut met = self.all(depth)?;
        while self.takes("OR") {
            met |= self.all(depth)?;
        }
        Some(met)
    }

    fn all(&mut self, depth: usize) -> Option<bool> {
        let mut met = self.term(depth)?;
        while self.takes("AND") {
            met &= self.term(depth)?;
        }
        Some(met)
    }

    fn term(&mut self, depth: usize) -> Option<bool> {
        if self.takes("(") {
            let met = self.choice(depth.checked_sub(1)?)?;
            return self.takes(")").then_some(met);
        }
        let licence = self.identifier()?;
        if self.takes("WITH") {
            let exception = self.identifier()?;
            return Some((self.is_allowed)(&format!("{licence} WITH {exception}")));
        }
        Some((self.is_allowed)(&licence))
    }

    fn identifier(&mut self) -> Option<String> {
        let (&word, rest) = self.words.split_first()?;
        let is_identifier = !["OR", "AND", "WITH", "(", ")"].contains(&word);
        self.words = rest;
        is_identifier.then(|| word.to_owned())
    }

    fn takes(&mut self, wanted: &str) -> bool {
        match self.words.split_first() {
            Some((&word, rest)) if word == wanted => {
                self.words = rest;
                true
            }
            _ => false,
        }
    }
}
