//! What the names in a text refer to: modules, functions, strings and numbers.
//!
//! Order and scope are ignored: a name refers to everything that is ever bound to it. That finds
//! too much rather than too little, and needs no model of how the code would run.

use std::collections::{HashMap, HashSet};

use ruff_python_ast::visitor::source_order::{self, SourceOrderVisitor};
use ruff_python_ast::{
    Comprehension, ExceptHandler, Expr, ExprCall, ParameterWithDefault, Pattern, Stmt, WithItem,
};

use crate::fold::{self, VALUES_MAX};

/// How deep an expression is followed to see what it refers to.
const DEPTH_MAX: u32 = 24;
/// How often all assignments are processed, since one may use a name that a later one binds.
const ROUNDS_MAX: usize = 4;
/// How many modules may be imported with a star before the others are left out.
const STARS_MAX: usize = 16;

/// Conventional short names, which earlier cells are assumed to have bound.
const CUSTOMARY: [(&str, &str); 3] =
    [("np", "numpy"), ("pd", "pandas"), ("plt", "matplotlib.pyplot")];

/// What one name refers to.
#[derive(Default)]
struct Meaning {
    paths: Vec<String>,
    texts: Vec<String>,
    number: Option<f64>,
    bindings: u32,
}

/// Every name that a text binds.
#[derive(Default)]
pub(crate) struct Names<'a> {
    known: HashMap<&'a str, Meaning>,
    stars: Vec<String>,
    /// Names that an `import` statement binds to a module.
    modules: HashSet<&'a str>,
    /// The first part of each module that is imported, whole or in part.
    imported: HashSet<&'a str>,
    /// Names bound to more things than are followed.
    tangled: Vec<&'a Expr>,
    /// The names around a piece of code inside another, such as after `%time`.
    outer: Option<&'a Names<'a>>,
}

impl<'a> Names<'a> {
    /// Collects what a text binds.
    pub(crate) fn collect(body: &'a [Stmt], outer: Option<&'a Names<'a>>) -> Self {
        let mut collector = Collector::default();
        collector.names.outer = outer;
        for stmt in body {
            collector.visit_stmt(stmt);
        }
        let Collector { mut names, bindings } = collector;
        for (name, _) in &bindings {
            names.known.entry(name).or_default().bindings += 1;
        }
        for _ in 0..ROUNDS_MAX {
            if !names.round(&bindings) {
                break;
            }
        }
        names
    }

    /// Whether the text itself binds this name.
    pub(crate) fn is_bound(&self, name: &str) -> bool {
        self.known.contains_key(name) || self.outer.is_some_and(|outer| outer.is_bound(name))
    }

    /// Whether an `import` statement binds this name to a module.
    pub(crate) fn is_module(&self, name: &str) -> bool {
        self.modules.contains(name)
            || self.outer.is_some_and(|outer| !self.is_own(name) && outer.is_module(name))
    }

    /// Whether a path begins with a module that the text imports.
    pub(crate) fn is_imported(&self, path: &str) -> bool {
        let top = path.split('.').next().unwrap_or_default();
        self.imported.contains(top) || self.outer.is_some_and(|outer| outer.is_imported(path))
    }

    fn is_own(&self, name: &str) -> bool {
        self.known.contains_key(name)
    }

    /// Returns where names were bound to more things than are followed.
    pub(crate) fn tangled(&self) -> &[&'a Expr] {
        &self.tangled
    }

    /// Returns the strings a name refers to.
    pub(crate) fn texts_of(&self, name: &str) -> &[String] {
        match (self.known.get(name), self.outer) {
            (Some(meaning), _) => &meaning.texts,
            (None, Some(outer)) => outer.texts_of(name),
            (None, None) => &[],
        }
    }

    /// Returns the number a name refers to, if it is bound once.
    pub(crate) fn number_of(&self, name: &str) -> Option<f64> {
        match (self.known.get(name), self.outer) {
            (Some(meaning), _) if meaning.bindings == 1 => meaning.number,
            (None, Some(outer)) => outer.number_of(name),
            _ => None,
        }
    }

    /// Returns the dotted paths an expression can refer to, such as `os.system`.
    pub(crate) fn paths(&self, expr: &Expr) -> Vec<String> {
        self.paths_below(expr, DEPTH_MAX)
    }

    /// Processes all bindings once; returns whether anything was added.
    fn round(&mut self, bindings: &[(&'a str, Option<&'a Expr>)]) -> bool {
        let mut changed = false;
        for (name, value) in bindings {
            let Some(value) = value else { continue };
            let paths = self.paths(value);
            let texts = fold::texts(self, value);
            let number = fold::number(self, value);
            let meaning = self.known.entry(name).or_default();
            let full = add(&mut meaning.paths, paths, &mut changed);
            // Many strings are ordinary, many functions under one name are not.
            add(&mut meaning.texts, texts, &mut changed);
            if meaning.number.is_none() && number.is_some() {
                meaning.number = number;
                changed = true;
            }
            let is_new = || !self.tangled.iter().any(|other| std::ptr::eq(*other, *value));
            if full && self.tangled.len() < VALUES_MAX && is_new() {
                self.tangled.push(value);
            }
        }
        changed
    }

    fn paths_of(&self, name: &str) -> Vec<String> {
        if let Some(meaning) = self.known.get(name) {
            return meaning.paths.clone();
        }
        if let Some(outer) = self.outer {
            return outer.paths_of(name);
        }
        let customary = CUSTOMARY.iter().find(|(short, _)| *short == name);
        let own = customary.map_or(name, |(_, long)| long).to_owned();
        let from_stars = self.stars.iter().map(|module| join(module, name));
        std::iter::once(own).chain(from_stars).collect()
    }

    fn paths_below(&self, expr: &Expr, fuel: u32) -> Vec<String> {
        let Some(fuel) = fuel.checked_sub(1) else { return Vec::new() };
        match expr {
            Expr::Name(name) => self.paths_of(&name.id),
            Expr::Attribute(attribute) => {
                let mut paths = self.paths_below(&attribute.value, fuel);
                for path in &mut paths {
                    *path = join(path, attribute.attr.as_str());
                }
                paths
            }
            Expr::Named(named) => self.paths_below(&named.value, fuel),
            Expr::If(choice) => {
                let mut both = self.paths_below(&choice.body, fuel);
                both.extend(self.paths_below(&choice.orelse, fuel));
                both.truncate(VALUES_MAX);
                both
            }
            Expr::BoolOp(choice) => {
                let few = choice.values.iter().take(VALUES_MAX);
                let mut all: Vec<_> = few.flat_map(|value| self.paths_below(value, fuel)).collect();
                all.truncate(VALUES_MAX);
                all
            }
            Expr::Call(call) => self.called(call, fuel),
            Expr::Subscript(subscript) => {
                let places = self.paths_below(&subscript.value, fuel);
                if places.is_empty() {
                    return places;
                }
                self.entries(&places, &subscript.slice)
            }
            _ => Vec::new(),
        }
    }

    /// Returns the paths of the results of the few calls that only look something up.
    fn called(&self, call: &ExprCall, fuel: u32) -> Vec<String> {
        let arguments = &*call.arguments.args;
        // `attrgetter("a")(b)` is `b.a`.
        if let (Expr::Call(getter), Some(of)) = (&*call.func, arguments.first()) {
            let getters = self.paths_below(&getter.func, fuel);
            let is_getter = getters.iter().any(|path| path.ends_with("attrgetter"));
            return match getter.arguments.args.first() {
                Some(name) if is_getter => self.attributes(of, name, fuel),
                _ => Vec::new(),
            };
        }
        let mut found = Vec::new();
        for function in self.paths_below(&call.func, fuel) {
            found.extend(self.looked_up(&function, arguments, fuel));
        }
        found.truncate(VALUES_MAX);
        found
    }

    fn looked_up(&self, function: &str, arguments: &[Expr], fuel: u32) -> Vec<String> {
        let last = function.rsplit('.').next().unwrap_or(function);
        match (function, last, arguments) {
            ("globals" | "locals" | "vars", _, []) => vec!["globals()".to_owned()],
            ("vars", _, [of]) => {
                let of = self.paths_below(of, fuel);
                of.iter().map(|path| join(path, "__dict__")).collect()
            }
            ("getattr", ..) | (_, "__getattribute__" | "getattr_static", _)
                if arguments.len() >= 2 =>
            {
                self.attributes(&arguments[0], &arguments[1], fuel)
            }
            (_, "__getattribute__", [name]) => {
                let of = function.trim_end_matches(".__getattribute__");
                fold::texts(self, name).iter().map(|name| join(of, name)).collect()
            }
            (_, "__import__" | "import_module", [module, ..]) => fold::texts(self, module)
                .into_iter()
                .flat_map(|module| {
                    let top = module.split('.').next().unwrap_or_default().to_owned();
                    if top == module { vec![module] } else { vec![module, top] }
                })
                .collect(),
            (_, "partial", [function, ..]) => self.paths_below(function, fuel),
            (_, "get" | "__getitem__" | "pop" | "setdefault", [key, ..]) => {
                let place = function.rsplit_once('.').map_or("", |(place, _)| place);
                self.entries(&[place.to_owned()], key)
            }
            _ => Vec::new(),
        }
    }

    fn attributes(&self, of: &Expr, name: &Expr, fuel: u32) -> Vec<String> {
        let names = fold::texts(self, name);
        let of = self.paths_below(of, fuel);
        let pairs = of.iter().flat_map(|of| names.iter().map(move |name| join(of, name)));
        pairs.take(VALUES_MAX).collect()
    }

    /// Returns the paths of an entry of a module's dictionary, or of the list of modules.
    fn entries(&self, places: &[String], key: &Expr) -> Vec<String> {
        let is_dictionary = |place: &str| {
            place == "globals()"
                || place == "sys.modules"
                || place == "__builtins__"
                || place == "builtins"
                || place.ends_with(".__dict__")
        };
        if !places.iter().any(|place| is_dictionary(place)) {
            return Vec::new();
        }
        let keys = fold::texts(self, key);
        let mut found = Vec::new();
        for place in places {
            for key in &keys {
                match place.as_str() {
                    "globals()" => found.extend(self.paths_of(key)),
                    "sys.modules" | "__builtins__" | "builtins" => found.push(key.clone()),
                    _ => found.extend(place.strip_suffix(".__dict__").map(|of| join(of, key))),
                }
            }
        }
        found.truncate(VALUES_MAX);
        found
    }
}

/// Adds values that are not there yet; returns whether one had to be left out.
fn add(to: &mut Vec<String>, values: Vec<String>, changed: &mut bool) -> bool {
    for value in values {
        if to.contains(&value) {
            continue;
        }
        if to.len() == VALUES_MAX {
            return true;
        }
        to.push(value);
        *changed = true;
    }
    false
}

/// Joins a path and a name; a built-in name has no module before it.
fn join(path: &str, name: &str) -> String {
    if path == "builtins" || path == "__builtins__" || path == "__main__" {
        return name.to_owned();
    }
    format!("{path}.{name}")
}

/// Walks a text and notes what binds a name, to what expression if to one.
#[derive(Default)]
struct Collector<'a> {
    names: Names<'a>,
    bindings: Vec<(&'a str, Option<&'a Expr>)>,
}

impl<'a> Collector<'a> {
    fn path(&mut self, name: &'a str, path: String) {
        let meaning = self.names.known.entry(name).or_default();
        meaning.bindings += 1;
        if meaning.paths.len() < VALUES_MAX && !meaning.paths.contains(&path) {
            meaning.paths.push(path);
        }
    }

    fn bind(&mut self, target: &'a Expr, value: Option<&'a Expr>) {
        match target {
            Expr::Name(name) => self.bindings.push((name.id.as_str(), value)),
            Expr::Starred(starred) => self.bind(&starred.value, None),
            Expr::Tuple(tuple) => self.unpack(&tuple.elts, value),
            Expr::List(list) => self.unpack(&list.elts, value),
            _ => {}
        }
    }

    fn unpack(&mut self, targets: &'a [Expr], value: Option<&'a Expr>) {
        let values = value.and_then(elements).filter(|values| values.len() == targets.len());
        for (place, target) in targets.iter().enumerate() {
            self.bind(target, values.map(|values| &values[place]));
        }
    }

    /// Binds the target of a loop to each element, if the loop is over a literal list.
    fn iterate(&mut self, target: &'a Expr, over: &'a Expr) {
        match elements(over) {
            Some(values) if !values.is_empty() => {
                for value in values.iter().take(4 * VALUES_MAX) {
                    self.bind(target, Some(value));
                }
            }
            _ => self.bind(target, None),
        }
    }

    fn import(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(import) => {
                for alias in &import.names {
                    let module = alias.name.as_str();
                    let top = module.split('.').next().unwrap_or_default();
                    self.names.imported.insert(top);
                    if let Some(name) = &alias.asname {
                        self.names.modules.insert(name.as_str());
                        self.path(name.as_str(), module.to_owned());
                    } else {
                        self.names.modules.insert(top);
                        self.path(top, top.to_owned());
                    }
                }
            }
            Stmt::ImportFrom(import) => {
                let module = import.module.as_ref().map_or("", |module| module.as_str());
                self.names.imported.extend(module.split('.').next().filter(|top| !top.is_empty()));
                for alias in &import.names {
                    if alias.name.as_str() == "*" {
                        if self.names.stars.len() < STARS_MAX {
                            self.names.stars.push(module.to_owned());
                        }
                        continue;
                    }
                    let name = alias.asname.as_ref().unwrap_or(&alias.name);
                    self.path(name.as_str(), join(module, alias.name.as_str()));
                }
            }
            _ => {}
        }
    }
}

fn elements(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::Tuple(tuple) => Some(&tuple.elts),
        Expr::List(list) => Some(&list.elts),
        Expr::Set(set) => Some(&set.elts),
        _ => None,
    }
}

impl<'a> SourceOrderVisitor<'a> for Collector<'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(_) | Stmt::ImportFrom(_) => self.import(stmt),
            Stmt::Assign(assign) => {
                for target in &assign.targets {
                    self.bind(target, Some(&assign.value));
                }
            }
            Stmt::AnnAssign(assign) => self.bind(&assign.target, assign.value.as_deref()),
            Stmt::AugAssign(assign) => self.bind(&assign.target, None),
            Stmt::For(each) => self.iterate(&each.target, &each.iter),
            Stmt::FunctionDef(function) => self.bindings.push((function.name.as_str(), None)),
            Stmt::ClassDef(class) => self.bindings.push((class.name.as_str(), None)),
            _ => {}
        }
        source_order::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Named(named) = expr {
            self.bind(&named.target, Some(&named.value));
        }
        source_order::walk_expr(self, expr);
    }

    fn visit_comprehension(&mut self, comprehension: &'a Comprehension) {
        self.iterate(&comprehension.target, &comprehension.iter);
        source_order::walk_comprehension(self, comprehension);
    }

    fn visit_parameter_with_default(&mut self, parameter: &'a ParameterWithDefault) {
        let name = parameter.parameter.name.as_str();
        self.bindings.push((name, parameter.default.as_deref()));
        source_order::walk_parameter_with_default(self, parameter);
    }

    fn visit_with_item(&mut self, item: &'a WithItem) {
        if let Some(target) = &item.optional_vars {
            self.bind(target, None);
        }
        source_order::walk_with_item(self, item);
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(inner) = handler;
        if let Some(name) = &inner.name {
            self.bindings.push((name.as_str(), None));
        }
        source_order::walk_except_handler(self, handler);
    }

    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        let name = match pattern {
            Pattern::MatchAs(inner) => inner.name.as_ref(),
            Pattern::MatchStar(inner) => inner.name.as_ref(),
            Pattern::MatchMapping(inner) => inner.rest.as_ref(),
            _ => None,
        };
        if let Some(name) = name {
            self.bindings.push((name.as_str(), None));
        }
        source_order::walk_pattern(self, pattern);
    }
}

#[cfg(test)]
mod tests;
