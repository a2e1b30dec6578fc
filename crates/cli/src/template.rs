//! `silica template`: build, list, show and remove templates.

use std::path::Path;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use silica_engine::template::{
    Home, Spec, TemplateName, TemplateSource, TerminalProgress, build, list, load, remove,
};

use crate::home;

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
    /// Show what a built template holds
    Show {
        /// The template's name
        name: String,
        /// As JSON, with every package
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
                bail!("there is no template called {name}");
            }
            eprintln!("silica: removed template {name}");
        }
    }
    Ok(0)
}

/// A name is a name; anything with a slash or a dot in it is a path.
fn spec(home: &Home, template: &str) -> Result<Spec> {
    let source = if template.contains(['/', '.']) {
        TemplateSource::from_path(Path::new(template))
    } else {
        TemplateSource::find(home, &TemplateName::new(template)?)?
    };
    Ok(source.spec()?)
}

fn build_one(home: &Home, template: &str) -> Result<()> {
    let spec = spec(home, template)?;
    let mut progress = TerminalProgress::stderr();
    let built = build(home, &spec, &home::build_options(), &mut progress)?;
    let manifest = &built.manifest;
    eprintln!(
        "silica: template {} is ready: Python {}, {} packages, {} MB",
        manifest.name,
        manifest.python_version,
        manifest.packages.len(),
        manifest.bytes / 1_000_000,
    );
    Ok(())
}

fn list_all(home: &Home) -> Result<()> {
    let built = list(home)?;
    println!("{:<20} {:<10} {:>9} {:>9}  DESCRIPTION", "NAME", "PYTHON", "PACKAGES", "MB");
    for listed in &built {
        match &listed.build {
            Ok(template) => {
                let manifest = &template.manifest;
                println!(
                    "{:<20} {:<10} {:>9} {:>9}  {}",
                    manifest.name,
                    manifest.python_version,
                    manifest.packages.len(),
                    manifest.bytes / 1_000_000,
                    manifest.description,
                );
            }
            Err(error) => println!("{:<20} damaged: {error}", listed.name),
        }
    }
    for name in TemplateSource::builtin_names() {
        if !built.iter().any(|listed| listed.name.as_str() == name) {
            println!(
                "{name:<20} not built yet; built on first use, or now by: silica template build {name}"
            );
        }
    }
    Ok(())
}

fn show(home: &Home, name: &str, json: bool) -> Result<()> {
    let Some(template) = load(home, &TemplateName::new(name)?)? else {
        bail!("template {name} is not built; build it with: silica template build {name}");
    };
    let manifest = &template.manifest;
    if json {
        println!("{}", serde_json::to_string_pretty(manifest)?);
        return Ok(());
    }
    println!("name         {}", manifest.name);
    println!("description  {}", manifest.description);
    println!("python       {}", manifest.python_version);
    println!("folder       {}", template.folder().display());
    println!("size         {} MB", manifest.bytes / 1_000_000);
    println!("preloaded    {}", manifest.preload.join(", "));
    println!("packages     {}", manifest.packages.join(", "));
    Ok(())
}
