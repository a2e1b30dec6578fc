//! What names refer to.

use ruff_python_ast::{Expr, Mod, Stmt};
use ruff_python_parser::{Mode, ParseOptions, parse_unchecked};

use super::Names;

/// The paths of the last line, which is an expression.
fn paths(code: &str) -> Vec<String> {
    let parsed = parse_unchecked(code, ParseOptions::from(Mode::Ipython));
    let Mod::Module(module) = parsed.syntax() else { panic!("a module") };
    let names = Names::collect(&module.body, None);
    let Some(Stmt::Expr(last)) = module.body.last() else { panic!("no expression") };
    let expr: &Expr = &last.value;
    names.paths(expr)
}

#[track_caller]
fn assert_paths(code: &str, expected: &[&str]) {
    assert_eq!(paths(code), expected, "{code}");
}

#[test]
fn imports_under_other_names_are_followed() {
    assert_paths("import os as x\nx.system", &["os.system"]);
    assert_paths("from os import system as s\ns", &["os.system"]);
    assert_paths("import os.path\nos.system", &["os.system"]);
    assert_paths("from os import *\nsystem", &["system", "os.system"]);
    assert_paths("import ｏｓ\nｏｓ.system", &["os.system"]);
}

#[test]
fn assignments_are_followed_in_any_order() {
    assert_paths("import os\na = os\nb = a.system\nb", &["os.system"]);
    assert_paths("c = b\nb = a\na = eval\nc", &["eval"]);
    assert_paths("a, b = eval, print\na", &["eval"]);
    assert_paths("for f in [print, eval]: pass\nf", &["print", "eval"]);
    assert_paths("def g(f=eval): pass\nf", &["eval"]);
    assert_paths("(x := eval)", &["eval"]);
    assert_paths("eval if a else exec", &["eval", "exec"]);
}

#[test]
fn lookups_by_known_names_are_followed() {
    assert_paths("import os\ngetattr(os, 'sys' + 'tem')", &["os.system"]);
    assert_paths("__import__('o' 's').system", &["os.system"]);
    assert_paths("import importlib as i\ni.import_module('os').system", &["os.system"]);
    assert_paths("globals()['ev' + 'al']", &["eval"]);
    assert_paths("__builtins__['eval']", &["eval"]);
    assert_paths("__builtins__.eval", &["eval"]);
    assert_paths("import builtins as b\nb.eval", &["eval"]);
    assert_paths("import sys\nsys.modules['os'].system", &["os.system"]);
    assert_paths("import sys\nsys.modules.get('os').system", &["os.system"]);
    assert_paths("import os\nvars(os)['system']", &["os.system"]);
    assert_paths("import os\nos.__dict__['metsys'[::-1]]", &["os.system"]);
    assert_paths("import os, operator\noperator.attrgetter('system')(os)", &["os.system"]);
    assert_paths("n = f\"{'ev'}{'al'}\"\nglobals()[n]", &["eval"]);
    assert_paths("globals()[''.join(['e', chr(118), 'AL'.lower()])]", &["eval"]);
}

#[test]
fn what_is_not_known_stands_for_nothing() {
    assert_paths("x = f()\nx.system", &[]);
    assert_paths("def eval(x): pass\neval", &[]);
    assert_paths("globals()[name()]", &[]);
    assert_paths("'abc'.join", &[]);
}
