//! The rules for single values of a `template.toml`: paths, modules and variables. Touches no file.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::SpecError;

/// Most modules loaded ahead.
const PRELOAD_MAX: usize = 200;
/// Most environment variables.
const VARIABLES_MAX: usize = 200;
/// Places a template may not put files: mounted over, or ours.
const RESERVED: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/proc",
    "/sys",
    "/dev",
    "/run",
    "/tmp",
    "/var",
    "/home",
    "/workspace",
    "/data/input",
    "/opt/silica",
];

/// Checks that a path stays beside `template.toml`.
pub(super) fn relative<'path>(
    key: &'static str,
    path: &'path Path,
) -> Result<&'path Path, SpecError> {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    if path.components().all(plain) && path.file_name().is_some() {
        Ok(path)
    } else {
        let problem = "is not a path beside template.toml (no `..`, not absolute)";
        Err(refused(key, &path.display(), problem))
    }
}

/// Checks that a path is a place in the guest which a template may fill.
pub(super) fn guest_target(path: &Path) -> Result<PathBuf, SpecError> {
    let refuse = |problem| Err(refused("files.target", &path.display(), problem));
    let mut components = path.components();
    let rooted = components.next() == Some(Component::RootDir);
    let plain = components.all(|part| matches!(part, Component::Normal(_)));
    if !rooted || !plain || path.file_name().is_none() {
        return refuse("is not an absolute path without `..`");
    }
    if RESERVED.iter().any(|place| path.starts_with(place)) {
        return refuse("lies in a place that is mounted over or belongs to Silica");
    }
    Ok(path.components().collect())
}

/// Checks that each is a module's name and nothing that Python would run.
pub(super) fn check_preload(modules: &[String]) -> Result<(), SpecError> {
    if modules.len() > PRELOAD_MAX {
        return Err(refused("preload", &modules.len(), "are more than 200 modules"));
    }
    let identifier = |part: &str| {
        let mut bytes = part.bytes();
        bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
            && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    match modules.iter().find(|name| !name.split('.').all(identifier)) {
        Some(name) => Err(refused("preload", &name, "is not a module name")),
        None => Ok(()),
    }
}

/// Checks the names and values of variables.
pub(super) fn check_environment(variables: &BTreeMap<String, String>) -> Result<(), SpecError> {
    if variables.len() > VARIABLES_MAX {
        return Err(refused("environment", &variables.len(), "are more than 200 variables"));
    }
    for (name, value) in variables {
        let named = !name.is_empty()
            && !name.starts_with(|first: char| first.is_ascii_digit())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !named || value.contains('\0') {
            return Err(refused("environment", &name, "is not a variable's name and value"));
        }
        // These would also steer the interpreter that checks the build on the host.
        if name.starts_with("LD_") || name == "PYTHONHOME" || name == "PYTHONPATH" {
            return Err(refused("environment", &name, "is for Silica to set"));
        }
    }
    Ok(())
}

/// Says that a key's value is not allowed.
pub(super) fn refused(key: &'static str, value: &dyn ToString, problem: &'static str) -> SpecError {
    SpecError::Value { key, value: value.to_string().chars().take(80).collect(), problem }
}
