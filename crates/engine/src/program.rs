//! The programs that run in a sandbox, their arguments and their environment. Nothing of the host's
//! environment is passed on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use silica_templates::Template;

use crate::command::CommandDefaults;
use crate::guest;
use crate::tier::GuestProgram;

/// What every process in a sandbox starts with, before the template's own variables.
const BASE_ENVIRONMENT: [(&str, &str); 7] = [
    ("HOME", "/home/user"),
    ("USER", "user"),
    ("LANG", "C.UTF-8"),
    ("PATH", "/opt/silica/venv/bin:/usr/local/bin:/usr/bin:/bin"),
    ("TERM", "dumb"),
    ("PYTHONHASHSEED", "random"),
    // The allocator in pyarrow, which pandas uses for text, otherwise maps 1 GiB at its first use.
    // Where no group limits memory, RLIMIT_DATA counts that as used, and nothing works any more.
    ("MIMALLOC_ARENA_EAGER_COMMIT", "0"),
];

fn variables(template: &Template) -> BTreeMap<String, String> {
    let manifest = &template.manifest;
    let mut variables: BTreeMap<String, String> = BASE_ENVIRONMENT
        .iter()
        .map(|&(name, value)| (name.to_owned(), value.to_owned()))
        .chain(manifest.environment.clone())
        .collect();
    if !manifest.library_path.is_empty() {
        variables.insert("LD_LIBRARY_PATH".to_owned(), joined(&manifest.library_path));
    }
    variables
}

fn joined(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(":")
}

/// Returns the variables of an interpreter. The guest's code removes those that only it needs.
fn kernel_environment(template: &Template) -> Vec<(String, String)> {
    let manifest = &template.manifest;
    let mut variables = variables(template);
    variables.insert("SILICA_SITE".to_owned(), joined(&manifest.site));
    variables.insert("SILICA_PREFIX".to_owned(), manifest.prefix.display().to_string());
    variables.into_iter().collect()
}

/// Returns what commands start from. bash is in the template's own tree, or in a directory of the
/// host that is mounted at the same path inside.
pub(crate) fn command_defaults(template: &Template) -> CommandDefaults {
    let bash = Path::new("/bin/bash");
    let shown = |path: PathBuf| {
        template.manifest.system_dirs.iter().any(|directory| path.starts_with(directory))
    };
    let has_bash =
        template.root().join("bin/bash").exists() || bash.canonicalize().is_ok_and(shown);
    let reader = python(template, "reader.py");
    CommandDefaults { environment: variables(template), has_bash, reader }
}

/// Returns the command line of an interpreter: isolated from the environment and the user's files,
/// and without `site`, whose work the guest's own code does faster.
fn python(template: &Template, script: &str) -> Vec<String> {
    let interpreter = template.manifest.interpreter.display().to_string();
    let script = format!("{}/{script}", guest::PACKAGE);
    let flags = ["-I", "-S", "-B"].map(str::to_owned);
    std::iter::once(interpreter).chain(flags).chain([script]).collect()
}

/// Returns the program of an interpreter that shares nothing with any other.
pub(crate) fn fresh(template: &Template) -> GuestProgram {
    GuestProgram {
        arguments: python(template, "fresh.py"),
        environment: kernel_environment(template),
    }
}

/// Returns the program that imports the template's modules ahead and then serves as the origin of
/// interpreters.
pub(crate) fn warm(template: &Template) -> GuestProgram {
    let mut environment = kernel_environment(template);
    let preload = template.manifest.preload.join(",");
    environment.push(("SILICA_PRELOAD".to_owned(), preload));
    // Symbols are looked up once here and not again, with a page copied each time, in every fork.
    environment.push(("LD_BIND_NOW".to_owned(), "1".to_owned()));
    GuestProgram { arguments: python(template, "zygote.py"), environment }
}
