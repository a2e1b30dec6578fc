//! Templates whose zygote holds a given amount of memory, by a module made for that.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use silica_templates::Home;

use crate::measures::Bench;
use crate::silica::Library;

/// Writes a wheel of one package with one module for each amount. What they hold are ordinary
/// objects: tuples of a number and a text, as a parsed table would be.
const WHEEL: &str = r#"
import base64, hashlib, sys, zipfile
folder, amounts = sys.argv[1], [int(text) for text in sys.argv[2:]]
files = {"silica_ballast/__init__.py": '"""Holds memory, for measuring what that costs."""\n'}
for amount in amounts:
    files[f"silica_ballast/mb{amount}.py"] = (
        f"KEPT = [(number, str(number) * 4) for number in range({amount} * 1_000_000 // 172)]\n"
    )
info = "silica_ballast-1.0.dist-info"
files[f"{info}/METADATA"] = "Metadata-Version: 2.1\nName: silica-ballast\nVersion: 1.0\n"
files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
def line(name, text):
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(text.encode())}\n"
record = "".join(line(name, text) for name, text in files.items()) + f"{info}/RECORD,,\n"
with zipfile.ZipFile(f"{folder}/silica_ballast-1.0-py3-none-any.whl", "w") as wheel:
    for name, text in [*files.items(), (f"{info}/RECORD", record)]:
        wheel.writestr(name, text)
"#;

/// Builds a template that holds so many megabytes, once; returns its name.
pub(super) fn template(bench: &Bench, megabytes: usize) -> Result<String> {
    let name = format!("ballast-{megabytes}");
    let home = Home::new(&bench.silica.home);
    let folder = bench.silica.home.join("templates.d").join(&name);
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("template.toml"), describe(bench, &name, megabytes)?)?;
    let wheels = bench.place.path().join("wheels");
    std::fs::create_dir_all(&wheels)?;
    write_wheel(bench, &wheels)?;
    Library::template_with(&home, &name, &[("PIP_FIND_LINKS", &wheels)])?;
    Ok(name)
}

/// Uses the IPython version of the template of all other measures.
fn describe(bench: &Bench, name: &str, megabytes: usize) -> Result<String> {
    let usual = Library::template(&Home::new(&bench.silica.home), &bench.silica.template)?;
    let ipython = usual.manifest.packages.iter().find(|package| package.starts_with("ipython=="));
    let ipython = ipython.context("the template has no IPython")?;
    Ok(format!(
        "name = \"{name}\"\n\
         description = \"Holds {megabytes} MB, for measuring what that costs\"\n\
         packages = [\"{ipython}\", \"silica-ballast==1.0\"]\n\
         preload = [\"IPython.core.interactiveshell\", \"silica_ballast.mb{megabytes}\"]\n"
    ))
}

fn write_wheel(bench: &Bench, wheels: &Path) -> Result<()> {
    let amounts = super::HEAPS.map(|amount| amount.to_string());
    let output = Command::new(bench.plain.interpreter())
        .args(["-c", WHEEL])
        .arg(wheels)
        .args(amounts)
        .env("LD_LIBRARY_PATH", bench.plain.libraries())
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
