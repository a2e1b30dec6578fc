//! Walks the syntax tree of a text and compares every part of it with the rules.

use ruff_python_ast::visitor::source_order::{self, SourceOrderVisitor};
use ruff_python_ast::{
    Expr, ExprContext, IpyEscapeKind, Mod, PatternKeyword, Stmt, StmtFor, StmtImportFrom, StmtWhile,
};
use ruff_text_size::{Ranged, TextRange};

use crate::depth::{self, Bound};
use crate::magic;
use crate::names::Names;
use crate::policy::{Dynamic, Policy, too_deep, unreadable};
use crate::report::Raw;
use crate::resources::{self, Use};

mod calls;
mod loops;
mod parse;

use loops::Loops;

/// Beyond this depth or length a text is checked on a stack of its own. A worker's stack of 2 MiB
/// is enough for a tree of many times this depth, in a debug build too.
const SHALLOW_MAX: usize = 100;
const SHORT_BYTES_MAX: usize = 16 << 10;
/// The size of that stack. The kernel allocates its pages only when they are used.
const STACK_BYTES: usize = 64 << 20;
/// How deep code in a line of code may be nested.
const INNER_MAX: u32 = 3;
/// How many syntax errors are reported; the later ones mostly follow from the first.
const SYNTAX_ERRORS_MAX: usize = 3;

/// Checks a text: the `%%` lines at its beginning, and what is Python of it.
pub(crate) fn check<'p>(policy: &'p Policy, code: &str, raw: &mut Vec<Raw<'p>>) {
    let cell = magic::split(code);
    for magic in &cell.magics {
        let names = Names::default();
        let range = TextRange::at((magic.offset as u32).into(), (magic.length as u32).into());
        Checker::new(policy, &names, raw).magic(magic.name, magic.code, range);
    }
    if let Some(python) = cell.python {
        Part { policy, code: &python, outer: None, at: None, inner: 0 }.check(raw);
    }
}

/// A piece of Python: the text itself, or code in a line of it.
struct Part<'a, 'p> {
    policy: &'p Policy,
    code: &'a str,
    outer: Option<&'a Names<'a>>,
    /// Its range in the text, if it is code in a line.
    at: Option<TextRange>,
    inner: u32,
}

impl<'p> Part<'_, 'p> {
    fn check(&self, raw: &mut Vec<Raw<'p>>) {
        let Some(bound) = depth::bound(self.code) else {
            raw.push(too_deep());
            return;
        };
        if bound.depth > SHALLOW_MAX || self.code.len() > SHORT_BYTES_MAX {
            stacker::grow(STACK_BYTES, || self.read(bound, raw));
        } else {
            self.read(bound, raw);
        }
    }

    fn read(&self, bound: Bound, raw: &mut Vec<Raw<'p>>) {
        let Some(parsed) = parse::parse(self.code, bound) else {
            raw.push(unreadable());
            return;
        };
        let Mod::Module(module) = parsed.syntax() else { return };
        let names = Names::collect(&module.body, self.outer);
        let mut checker = Checker::new(self.policy, &names, raw);
        checker.at = self.at;
        checker.inner = self.inner;
        for error in parsed.errors().iter().take(SYNTAX_ERRORS_MAX) {
            let rule = self.policy.lookup().syntax;
            checker.found_because(rule, error.location, "syntax", error.error.to_string());
        }
        for value in names.tangled() {
            let rule = self.policy.lookup().dynamic(Dynamic::Name);
            checker.found(rule, value.range(), "name");
        }
        checker.visit_body(&module.body);
    }
}

/// Walks one tree.
struct Checker<'a, 'p, 'r> {
    policy: &'p Policy,
    names: &'a Names<'a>,
    raw: &'r mut Vec<Raw<'p>>,
    loops: Loops,
    at: Option<TextRange>,
    inner: u32,
    /// The name whose attribute is read at the moment: `math` in `math.pi`.
    owner: Option<TextRange>,
}

impl<'a, 'p, 'r> Checker<'a, 'p, 'r> {
    fn new(policy: &'p Policy, names: &'a Names<'a>, raw: &'r mut Vec<Raw<'p>>) -> Self {
        Self { policy, names, raw, loops: Loops::default(), at: None, inner: 0, owner: None }
    }

    fn found(&mut self, rule: Option<u16>, range: TextRange, name: &str) {
        self.note(rule, range, name, None);
    }

    fn found_because(&mut self, rule: Option<u16>, range: TextRange, name: &str, why: String) {
        self.note(rule, range, name, Some(why));
    }

    fn note(&mut self, rule: Option<u16>, range: TextRange, name: &str, why: Option<String>) {
        let Some(rule) = rule else { return };
        let range = self.at.unwrap_or(range);
        let start = range.start().to_u32();
        let end = range.end().to_u32();
        let rule = self.policy.rule(rule);
        self.raw.push(Raw { rule, start, end, name: name.to_owned(), why });
    }

    /// Notes a module that is imported, in any way.
    fn import(&mut self, module: &str, range: TextRange) {
        self.found(self.policy.lookup().import(module), range, module);
    }

    fn import_from(&mut self, import: &StmtImportFrom) {
        let dots = ".".repeat(import.level.min(8) as usize);
        let module = import.module.as_ref().map_or("", |module| module.as_str());
        for alias in &import.names {
            let name = alias.name.as_str();
            let whole = match (name, module) {
                ("*", _) => format!("{dots}{module}"),
                (_, "") => format!("{dots}{name}"),
                _ => format!("{dots}{module}.{name}"),
            };
            let rule = self.policy.lookup().import(&whole);
            let shown = if module.is_empty() { &whole } else { module };
            self.found(rule, import.range(), shown);
            if rule.is_none() {
                self.reference(&[whole], alias.range());
                // `from string import _re` reads an attribute as `string._re` does.
                let lookup = self.policy.lookup();
                let rule = lookup.attribute(name).or_else(|| lookup.module_attribute(name));
                self.found(rule, alias.range(), name);
            }
        }
    }

    /// Notes a magic, and checks the code on its line.
    fn magic(&mut self, name: &str, code: &str, range: TextRange) {
        let lookup = self.policy.lookup();
        let rule = if magic::starts_program(name) { lookup.command() } else { lookup.magic(name) };
        self.found(rule, range, &format!("%{name}"));
        if code.is_empty() {
            return;
        }
        if self.inner == INNER_MAX {
            self.raw.push(too_deep());
            return;
        }
        let policy = self.policy;
        let outer = Some(self.names);
        let inner = self.inner + 1;
        let at = Some(self.at.unwrap_or(range));
        Part { policy, code, outer, at, inner }.check(self.raw);
    }

    /// Notes a line that is IPython's.
    fn escape(&mut self, kind: IpyEscapeKind, value: &str, range: TextRange) {
        let word = value.split_whitespace().next().unwrap_or_default();
        match kind {
            IpyEscapeKind::Shell | IpyEscapeKind::ShCap => {
                self.found(self.policy.lookup().command(), range, &format!("!{word}"));
            }
            IpyEscapeKind::Magic | IpyEscapeKind::Magic2 => {
                let (name, code) = magic::line(value);
                self.magic(name, code, range);
            }
            IpyEscapeKind::Quote | IpyEscapeKind::Quote2 | IpyEscapeKind::Paren => {
                self.found(self.policy.lookup().autocall(), range, word);
                self.reference(&[word.to_owned()], range);
            }
            // Help only looks.
            IpyEscapeKind::Help | IpyEscapeKind::Help2 => {}
        }
    }

    fn uses(&mut self, used: Option<Use>, range: TextRange) {
        let Some(Use { measure, amount }) = used else { return };
        let rule = self.policy.lookup().resource(self.policy.rules(), measure, amount);
        self.found(rule, range, measure.name());
    }

    fn while_loop(&mut self, each: &'a StmtWhile) {
        self.visit_expr(&each.test);
        self.loops.enter(loops::always_true(&each.test));
        self.visit_body(&each.body);
        if self.loops.leave() {
            let range = TextRange::new(each.start(), each.test.end());
            self.found(self.policy.lookup().endless, range, "while");
        }
        self.visit_body(&each.orelse);
    }

    fn for_loop(&mut self, each: &'a StmtFor) {
        self.visit_expr(&each.target);
        self.visit_expr(&each.iter);
        self.uses(resources::of_loop(self.names, &each.iter), each.iter.range());
        self.loops.enter(loops::never_ends(self.names, &each.iter));
        self.visit_body(&each.body);
        if self.loops.leave() {
            self.found(self.policy.lookup().endless, each.iter.range(), "for");
        }
        self.visit_body(&each.orelse);
    }

    /// Notes a comprehension that builds a collection, which holds all that it iterates over.
    fn collected(&mut self, expr: &Expr) {
        let generators = match expr {
            Expr::ListComp(inner) => &inner.generators,
            Expr::SetComp(inner) => &inner.generators,
            Expr::DictComp(inner) => &inner.generators,
            _ => return,
        };
        for generator in generators {
            if loops::never_ends(self.names, &generator.iter) {
                let range = generator.iter.range();
                self.found(self.policy.lookup().endless, range, "comprehension");
            }
            self.uses(resources::of_loop(self.names, &generator.iter), generator.iter.range());
        }
    }
}

impl<'a> SourceOrderVisitor<'a> for Checker<'a, '_, '_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::While(each) => return self.while_loop(each),
            Stmt::For(each) => return self.for_loop(each),
            Stmt::FunctionDef(_) | Stmt::ClassDef(_) => {
                self.loops.enter_function();
                source_order::walk_stmt(self, stmt);
                self.loops.leave();
                return;
            }
            Stmt::Import(import) => {
                for alias in &import.names {
                    self.import(alias.name.as_str(), alias.range());
                }
            }
            Stmt::ImportFrom(import) => self.import_from(import),
            Stmt::Break(_) => self.loops.break_out(),
            Stmt::Return(_) | Stmt::Raise(_) => self.loops.leave_function(),
            Stmt::IpyEscapeCommand(escape) => {
                self.escape(escape.kind, &escape.value, escape.range());
            }
            _ => {}
        }
        source_order::walk_stmt(self, stmt);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Name(name) if name.ctx == ExprContext::Load => self.name(expr, &name.id),
            Expr::Attribute(attribute) => self.attribute(expr, attribute),
            Expr::Call(call) => self.call(expr, call),
            Expr::Subscript(subscript) if subscript.ctx == ExprContext::Load => {
                let paths = self.names.paths(expr);
                self.reference(&paths, expr.range());
            }
            Expr::BinOp(binary) => {
                self.uses(resources::of_operator(self.names, binary), expr.range());
            }
            Expr::ListComp(_) | Expr::SetComp(_) | Expr::DictComp(_) => self.collected(expr),
            Expr::Yield(_) | Expr::YieldFrom(_) => self.loops.leave_function(),
            Expr::IpyEscapeCommand(escape) => {
                self.escape(escape.kind, &escape.value, escape.range());
            }
            _ => {}
        }
        source_order::walk_expr(self, expr);
    }

    fn visit_pattern_keyword(&mut self, keyword: &'a PatternKeyword) {
        // `case object(__class__=kind)` reads an attribute.
        let name = keyword.attr.as_str();
        self.found(self.policy.lookup().attribute(name), keyword.attr.range(), name);
        source_order::walk_pattern_keyword(self, keyword);
    }
}
