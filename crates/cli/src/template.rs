//! `silica template`: build, list, show and remove templates.

pub(crate) mod progress;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Error, Result, bail};
use clap::{Args, Subcommand};
use silica_templates::{
    Home, Spec, SpecError, Template, TemplateName, TemplateSource, build, list, load, remove,
};

use self::progress::TerminalProgress;
use crate::{home, show};

/// Arguments of `silica template`.
#[derive(Debug, Args)]
pub(crate) struct TemplateArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Build a template: a built-in one by name, or your own by the path of its template.toml
    Build {
        /// A name, or the path of a template.toml or of its folder
        template: String,
    },
    /// List the templates that are built, and the built-in ones
    List,
    /// Show the contents of a built template
    Show {
        /// The template's name
        name: String,
        /// Print JSON, with every package
        #[arg(long)]
        json: bool,
    },
    /// Remove a built template
    Remove {
        /// The template's name
        name: String,
    },
}

pub(crate) fn run(arguments: TemplateArgs) -> Result<i32> {
    let home = home::home()?;
    match arguments.action {
        Action::Build { template } => build_one(&home, &template)?,
        Action::List => list_all(&home)?,
        Action::Show { name, json } => show(&home, &name, json)?,
        Action::Remove { name } => {
            if !remove(&home, &TemplateName::new(&name)?)? {
                bail!("there is no template {name}; list all with: silica template list");
            }
            say!("silica: removed template {name}");
        }
    }
    Ok(0)
}

/// Finds a template by name, or by path if the text has a slash or a dot.
fn spec(home: &Home, template: &str) -> Result<Spec> {
    if !template.contains(['/', '.']) {
        let name = TemplateName::new(template)?;
        let here = Path::new(template);
        return match TemplateSource::find(home, &name) {
            Ok(source) => Ok(source.spec()?),
            // One that was built from a folder is built again from the folder.
            Err(_) if here.join("template.toml").is_file() => {
                say!("silica: building from the folder {template}/");
                Ok(TemplateSource::from_path(here).spec()?)
            }
            Err(_) if load(home, &name)?.is_some() => bail!(
                "template {name} was built from a folder; give the path of the folder to build it \
                 again, for example ./{name}/"
            ),
            Err(unknown) => Err(unknown.into()),
        };
    }
    TemplateSource::from_path(Path::new(template)).spec().map_err(|error| match error {
        // The message of `SpecError` names the file template.toml, not the path of the user.
        SpecError::Toml(error) => {
            Error::from(error).context(format!("{template} is not a valid template"))
        }
        error => Error::from(error).context(format!("cannot use {template}")),
    })
}

fn build_one(home: &Home, template: &str) -> Result<()> {
    let spec = spec(home, template)?;
    let mut progress = TerminalProgress::stderr();
    let began = Instant::now();
    let built = build(home, &spec, &home::build_options(), &mut progress)?;
    tell_built(&built, began.elapsed());
    Ok(())
}

/// Says what was built, how large it is and how long it took.
pub(crate) fn tell_built(built: &Template, took: Duration) {
    let manifest = &built.manifest;
    say!(
        "silica: template {} is ready: Python {}, {} packages, {} MB, built in {:.1} s",
        manifest.name,
        manifest.python_version,
        manifest.packages.len(),
        manifest.bytes / 1_000_000,
        took.as_secs_f64(),
    );
}

fn list_all(home: &Home) -> Result<()> {
    let built = list(home)?;
    let row = |name: &str, [python, packages, megabytes, description]: [&str; 4]| {
        show::line(format_args!(
            "{name:<20} {python:<10} {packages:>9} {megabytes:>9}  {description}"
        ))
    };
    row("NAME", ["PYTHON", "PACKAGES", "MB", "DESCRIPTION"])?;
    for listed in &built {
        let name = listed.name.as_str();
        match &listed.build {
            Ok(Template { manifest, .. }) => {
                let packages = manifest.packages.len().to_string();
                let megabytes = (manifest.bytes / 1_000_000).to_string();
                row(
                    name,
                    [&manifest.python_version, &packages, &megabytes, &manifest.description],
                )?;
            }
            Err(error) => show::line(format_args!("{name:<20} damaged: {error}"))?,
        }
    }
    for name in TemplateSource::builtin_names() {
        if !built.iter().any(|listed| listed.name.as_str() == name) {
            show::line(format_args!(
                "{name:<20} not built yet; built on first use, or now by: silica template build {name}"
            ))?;
        }
    }
    Ok(())
}

fn show(home: &Home, name: &str, json: bool) -> Result<()> {
    let Some(template) = load(home, &TemplateName::new(name)?)? else {
        // Fails with a list of all templates if there is none of this name.
        TemplateSource::find(home, &TemplateName::new(name)?)?;
        bail!("template {name} is not built; build it with: silica template build {name}");
    };
    let manifest = &template.manifest;
    if json {
        return show::line(serde_json::to_string_pretty(manifest)?);
    }
    for (name, value) in [
        ("name", manifest.name.clone()),
        ("description", manifest.description.clone()),
        ("python", manifest.python_version.clone()),
        ("folder", template.folder().display().to_string()),
        ("size", format!("{} MB", manifest.bytes / 1_000_000)),
        ("preloaded", manifest.preload.join(", ")),
        ("packages", manifest.packages.join(", ")),
    ] {
        show::line(format_args!("{name:<12} {value}"))?;
    }
    Ok(())
}
