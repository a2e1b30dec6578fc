//! Links in Markdown: relative ones must lead to a file, and to a heading where they name one.

use super::{Problem, SourceFile, Target};

pub(super) fn links(file: &SourceFile, resolve: &dyn Fn(&str) -> Target) -> Vec<Problem> {
    if !file.has_ending("md") {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for (line, text) in prose(&file.text) {
        for target in targets(&text) {
            if let Some(message) = broken(file, &target, resolve) {
                problems.push(Problem::new(&file.path, line, message));
            }
        }
    }
    problems
}

fn broken(file: &SourceFile, target: &str, resolve: &dyn Fn(&str) -> Target) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = match target.split_once('#') {
        Some((path, heading)) => (path, Some(heading)),
        None => (target, None),
    };
    let found = if path.is_empty() {
        Target::Markdown(file.text.clone())
    } else {
        match from_root(&file.path, path) {
            Some(path) => resolve(&path),
            None => Target::Missing,
        }
    };
    match (found, heading) {
        (Target::Missing, _) => Some(format!("the link to `{target}` leads nowhere")),
        (Target::Markdown(text), Some(heading)) if !anchors(&text).any(|one| one == heading) => {
            Some(format!("the link to `{target}` names a heading that is not there"))
        }
        _ => None,
    }
}

/// A link's path from the root of the project; nothing if it leads out of it.
fn from_root(file: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The lines outside fenced code, with inline code removed, by their number.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let outside = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
            lines.push((index + 1, outside));
        }
    }
    lines
}

/// What stands in the parentheses of every `[…](…)`.
fn targets(line: &str) -> Vec<String> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.split(' ').next().unwrap_or_default().to_owned())
        .collect()
}

/// The names under which headings can be linked to, as code forges make them.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    prose_headings(text).into_iter().map(|heading| {
        let kept = |character: char| character.is_alphanumeric() || " -_".contains(character);
        heading
            .to_lowercase()
            .chars()
            .filter(|&one| kept(one))
            .collect::<String>()
            .replace(' ', "-")
    })
}

fn prose_headings(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut headings = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced && line.starts_with('#') {
            headings.push(line.trim_start_matches('#').trim().to_owned());
        }
    }
    headings
}
