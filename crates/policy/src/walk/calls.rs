//! Names, attributes and calls.

use ruff_python_ast::{Expr, ExprAttribute, ExprCall, ExprContext};
use ruff_text_size::{Ranged, TextRange};

use super::Checker;
use crate::policy::{Dynamic, Shadowing};
use crate::{fold, resources};

/// How many arguments are searched for a path.
const ARGUMENTS_MAX: usize = 4;

/// Functions that open or change files by a path, by their last name.
const FILE_FUNCTIONS: [&str; 41] = [
    "open",
    "Path",
    "PurePath",
    "PosixPath",
    "load",
    "loadtxt",
    "genfromtxt",
    "fromfile",
    "tofile",
    "save",
    "savez",
    "savetxt",
    "savefig",
    "imread",
    "imsave",
    "imwrite",
    "listdir",
    "scandir",
    "walk",
    "glob",
    "iglob",
    "remove",
    "unlink",
    "rmdir",
    "makedirs",
    "mkdir",
    "rename",
    "symlink",
    "copyfile",
    "copytree",
    "move",
    "rmtree",
    "chdir",
    "chmod",
    "stat",
    "connect",
    "ZipFile",
    "exists",
    "memmap",
    "write_text",
    "isfile",
];
/// Functions that look an attribute up by name, and the position of that argument.
const LOOKUPS: [(&str, usize); 7] = [
    ("getattr", 1),
    ("setattr", 1),
    ("delattr", 1),
    ("hasattr", 1),
    ("attrgetter", 0),
    ("methodcaller", 0),
    ("getattr_static", 1),
];

impl Checker<'_, '_, '_> {
    /// Notes functions that are referred to, whether they are called there or not.
    pub(super) fn reference(&mut self, paths: &[String], range: TextRange) {
        for path in paths {
            self.found(self.policy.lookup().call(path), range, path);
        }
    }

    pub(super) fn name(&mut self, expr: &Expr, id: &str) {
        let paths = self.names.paths(expr);
        self.reference(&paths, expr.range());
        // `__builtins__` and its like are names and attributes; `os` as a name is an import's
        // affair.
        if id.starts_with("__") {
            self.found(self.policy.lookup().attribute(id), expr.range(), id);
        }
        if self.names.is_module(id) && self.owner != Some(expr.range()) {
            let rule = self.policy.lookup().dynamic(Dynamic::Module);
            self.found(rule, expr.range(), Dynamic::Module.name());
        }
        if self.policy.shadowing() == Shadowing::Distrust && self.names.is_bound(id) {
            self.built_in(&paths, id, expr.range());
        }
    }

    /// Notes the built-in function that a bound name may still refer to.
    fn built_in(&mut self, paths: &[String], id: &str, range: TextRange) {
        if !paths.iter().any(|path| path == id) {
            self.found(self.policy.lookup().call(id), range, id);
        }
    }

    pub(super) fn attribute(&mut self, expr: &Expr, attribute: &ExprAttribute) {
        let name = attribute.attr.as_str();
        let rule = self.policy.lookup().attribute(name);
        self.found(rule, attribute.attr.range(), name);
        let paths = self.names.paths(expr);
        if rule.is_none() && paths.iter().any(|path| self.names.is_imported(path)) {
            let rule = self.policy.lookup().module_attribute(name);
            self.found(rule, attribute.attr.range(), name);
        }
        if attribute.ctx == ExprContext::Load {
            self.reference(&paths, expr.range());
        }
        self.owner = attribute.value.is_name_expr().then(|| attribute.value.range());
    }

    pub(super) fn call(&mut self, expr: &Expr, call: &ExprCall) {
        let functions = self.names.paths(&call.func);
        let last = match &*call.func {
            Expr::Name(name) => {
                let bound = self.names.is_bound(&name.id);
                if bound && self.policy.shadowing() == Shadowing::Trust {
                    self.built_in(&functions, &name.id, call.func.range());
                }
                name.id.as_str()
            }
            Expr::Attribute(attribute) => {
                let name = attribute.attr.as_str();
                self.found(self.policy.lookup().method(name), attribute.attr.range(), name);
                name
            }
            Expr::Call(_) => {
                let found = self.names.paths(expr);
                self.reference(&found, expr.range());
                return;
            }
            _ => return,
        };
        if functions.iter().any(|path| ends_program(path)) {
            self.loops.leave_function();
        }
        self.import_call(&functions, call);
        self.look_up(&functions, call);
        self.format(last, call);
        self.file(&functions, last, call);
        self.uses(resources::of_call(self.names, &functions, call), expr.range());
        if !functions.is_empty() {
            let found = self.names.paths(expr);
            self.reference(&found, expr.range());
        }
    }

    /// `__import__("os")` imports as `import os` does.
    fn import_call(&mut self, functions: &[String], call: &ExprCall) {
        let imports = |path: &String| matches!(last_name(path), "__import__" | "import_module");
        if !functions.iter().any(imports) {
            return;
        }
        let keyword = || call.arguments.find_keyword("name").map(|keyword| &keyword.value);
        let Some(module) = call.arguments.args.first().or_else(keyword) else { return };
        let modules = fold::texts(self.names, module);
        if modules.is_empty() {
            let rule = self.policy.lookup().dynamic(Dynamic::Import);
            self.found(rule, call.range(), Dynamic::Import.name());
        }
        for module in modules {
            self.import(&module, call.range());
        }
    }

    /// `getattr(x, "__class__")` reads an attribute as `x.__class__` does.
    fn look_up(&mut self, functions: &[String], call: &ExprCall) {
        let place = functions.iter().find_map(|path| match last_name(path) {
            "__getattribute__" => Some(call.arguments.args.len().saturating_sub(1)),
            name => LOOKUPS.iter().find(|(known, _)| *known == name).map(|(_, place)| *place),
        });
        let Some(name) = place.and_then(|place| call.arguments.args.get(place)) else { return };
        let names = fold::texts(self.names, name);
        if names.is_empty() {
            let rule = self.policy.lookup().dynamic(Dynamic::Attribute);
            self.found(rule, name.range(), Dynamic::Attribute.name());
        }
        for part in names.iter().flat_map(|name| name.split('.')) {
            self.found(self.policy.lookup().attribute(part), name.range(), part);
            self.found(self.policy.lookup().method(part), name.range(), part);
        }
    }

    /// `"{0.__class__}".format(x)` reads attributes too.
    fn format(&mut self, last: &str, call: &ExprCall) {
        let Expr::Attribute(method) = &*call.func else { return };
        if last != "format" && last != "format_map" {
            return;
        }
        for text in fold::texts(self.names, &method.value) {
            if !text.contains("__") {
                continue;
            }
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            for word in text.split(|c| !is_word(c)).filter(|word| word.starts_with("__")) {
                let rule = self.policy.lookup().attribute(word);
                self.found(rule, method.value.range(), word);
            }
        }
    }

    fn file(&mut self, functions: &[String], last: &str, call: &ExprCall) {
        let is_file = |name: &str| {
            FILE_FUNCTIONS.contains(&name) || name.starts_with("read_") || name.starts_with("to_")
        };
        let joins = functions.iter().any(|path| path == "os.path.join");
        let aliased = functions.iter().any(|path| is_file(last_name(path)));
        if !self.policy.lookup().has_paths() || !(joins || aliased || is_file(last)) {
            return;
        }
        let keywords = call.arguments.keywords.iter().map(|keyword| &keyword.value);
        for argument in call.arguments.args.iter().chain(keywords).take(ARGUMENTS_MAX) {
            for path in fold::texts(self.names, argument) {
                let rule = self.policy.lookup().path(self.policy.rules(), &path);
                self.found(rule, argument.range(), &path);
            }
        }
    }
}

fn last_name(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

fn ends_program(path: &str) -> bool {
    matches!(path, "exit" | "quit" | "sys.exit" | "os._exit" | "os.abort")
}
