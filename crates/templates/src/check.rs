//! Looks a built tree over before it is used: do the modules to load ahead load at all?
//!
//! The tree is not at its guest path yet, so its interpreter runs here with the tree's packages.
//! It gets none of the caller's environment: what it imports is other people's code.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::job::Job;
use super::{Progress, StepError, command, interpreter, tree, venv};

/// How long all imports together may take.
const IMPORT_WALL_MAX: Duration = Duration::from_mins(5);

const IMPORT_CHECK: &str = include_str!("host/import_check.py");

/// The shape of a line from the import check: a module begun, or what it cost.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Report {
    Begun { module: String },
    Cost { seconds: f64, resident_kib: u64, threads: u32 },
}

/// Imports the modules of the preload list from the built tree.
pub(super) fn imports(job: &Job<'_>, progress: &mut dyn Progress) -> Result<(), StepError> {
    let modules = &job.spec.preload;
    let site = job.in_root(&venv::guest_site(job.python.version()));
    let scratch_home = job.scratch().join("home");
    tree::folder(&scratch_home)?;
    let mut command = Command::new(interpreter::on_host(job));
    command.args(["-I", "-S", "-B", "-c", IMPORT_CHECK]).arg(site).args(modules);
    job.apply_plain_environment(&mut command);
    command.envs(&job.spec.environment);
    // matplotlib and others write caches at import; they must not go to the user's home.
    command.env("HOME", &scratch_home).current_dir(&scratch_home);
    let mut importing = String::new();
    let mut count = 0;
    command::run("python", command, IMPORT_WALL_MAX, &mut |line| {
        match serde_json::from_str(line) {
            Ok(Report::Begun { module }) => importing = module,
            Ok(Report::Cost { seconds, resident_kib, threads }) => {
                count += 1;
                progress.fraction(count as f32 / modules.len().max(1) as f32);
                let millis = seconds * 1000.0;
                let mebibytes = resident_kib / 1024;
                progress.message(&format!(
                    "{importing}: {millis:.0} ms, {mebibytes} MiB and {threads} threads so far"
                ));
            }
            // Something a module printed while it was imported.
            Err(_) => {}
        }
    })
    .map_err(|source| StepError::Import { module: importing.clone(), source })
}

/// Returns what is installed, as sorted `name==version`.
pub(super) fn installed(site: &Path) -> Result<Vec<String>, StepError> {
    let mut packages = Vec::new();
    for path in tree::children(site)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if let Some((package, version)) =
            name.strip_suffix(".dist-info").and_then(|name| name.rsplit_once('-'))
        {
            packages.push(format!("{}=={version}", package.to_lowercase().replace('_', "-")));
        }
    }
    packages.sort();
    Ok(packages)
}
