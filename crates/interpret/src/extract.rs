//! Finds the program in the answer of a model.
//!
//! Models fence code with backticks or tildes, of any length, indented, tagged or not, closed or cut
//! off; they put prose around it, split it, or leave the fence out. Blocks of Python are joined in order; blocks
//! of other languages are not run.

#[cfg(test)]
mod tests;

/// The code in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtractedCode {
    /// A Python program.
    Python(String),
    /// Code in another language only; the tag of its block.
    Other(String),
    /// No code.
    Nothing,
}

/// The most paragraphs of an answer without a fence in which code is searched.
const PARAGRAPHS_MAX: usize = 12;

/// The longest answer without a fence in which code is searched between the prose.
const PROSE_BYTES_MAX: usize = 64 * 1024;

/// Tags of blocks that hold Python.
const PYTHON: [&str; 8] =
    ["python", "py", "python3", "py3", "ipython", "ipython3", "python-repl", "pycon"];

/// Tags of blocks that show output or data.
const SHOWN: [&str; 8] = ["text", "txt", "output", "plaintext", "console", "stdout", "json", "csv"];

#[derive(Debug, PartialEq, Eq)]
struct Block {
    tag: String,
    code: String,
}

/// Finds Python in an answer. `parses` returns whether a text is Python; it is called a bounded number of times.
pub fn extract(answer: &str, parses: impl Fn(&str) -> bool) -> ExtractedCode {
    let blocks = blocks(answer);
    let of = |wanted: &dyn Fn(&str) -> bool| -> Vec<&Block> {
        let fits = |block: &&Block| wanted(&block.tag) && !block.code.trim().is_empty();
        blocks.iter().filter(fits).collect()
    };
    let tagged = of(&|tag| PYTHON.contains(&tag));
    if !tagged.is_empty() {
        return ExtractedCode::Python(join(&tagged));
    }
    let untagged = of(&|tag| tag.is_empty());
    if !untagged.is_empty() {
        return ExtractedCode::Python(join(&untagged));
    }
    if let Some(other) = of(&|tag| !SHOWN.contains(&tag)).first() {
        return ExtractedCode::Other(other.tag.clone());
    }
    if !blocks.is_empty() {
        return ExtractedCode::Nothing;
    }
    bare(answer, parses).map_or(ExtractedCode::Nothing, ExtractedCode::Python)
}

fn join(blocks: &[&Block]) -> String {
    let blocks: Vec<String> = blocks.iter().map(|block| typed(&block.code)).collect();
    blocks.join("\n\n").trim_matches(['\n', '\r']).trim_end().to_owned()
}

/// Removes the prompts and the output of an interactive session, if the code is one.
fn typed(code: &str) -> String {
    let is_session = code.trim_start().starts_with(">>>");
    if !is_session {
        return code.to_owned();
    }
    let strip = |line: &str| {
        let rest = line.strip_prefix(">>>").or_else(|| line.strip_prefix("..."))?;
        Some(rest.strip_prefix(' ').unwrap_or(rest).to_owned())
    };
    code.lines().filter_map(strip).collect::<Vec<_>>().join("\n")
}

/// A line that opens or closes a block.
struct Fence<'a> {
    mark: char,
    length: usize,
    indent: usize,
    rest: &'a str,
}

fn fence(line: &str) -> Option<Fence<'_>> {
    let text = line.trim_start();
    let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let length = text.chars().take_while(|character| *character == mark).count();
    let indent = line.len() - text.len();
    (length >= 3).then(|| Fence { mark, length, indent, rest: text[length..].trim() })
}

fn blocks(answer: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = answer.lines();
    while let Some(line) = lines.next() {
        let Some(open) = fence(line) else { continue };
        // A whole block on one line.
        if let Some(inner) = open.rest.strip_suffix("```").filter(|_| open.mark == '`') {
            let (tag, code) = inner.split_once(char::is_whitespace).unwrap_or(("", inner));
            blocks.push(Block { tag: tag_of(tag), code: code.trim().to_owned() });
            continue;
        }
        let mut code = Vec::new();
        for line in lines.by_ref() {
            let closes = |end: &Fence<'_>| {
                end.mark == open.mark && end.length >= open.length && end.rest.is_empty()
            };
            if fence(line).as_ref().is_some_and(closes) {
                break;
            }
            let own = line.len() - line.trim_start().len();
            code.push(&line[own.min(open.indent)..]);
        }
        blocks.push(Block { tag: tag_of(open.rest), code: code.join("\n") });
    }
    blocks
}

/// Returns the language of `python`, `Python title="x"`, `{.python}`, `python:main.py`.
fn tag_of(info: &str) -> String {
    let info = info.trim_start_matches(['{', '.']);
    let end = info.find(|character: char| character.is_whitespace() || "{}:,".contains(character));
    info[..end.unwrap_or(info.len())].to_ascii_lowercase()
}

/// Finds code without a fence: the longest run of paragraphs that is Python, or the whole answer if it begins like
/// code, so that the check reports what is wrong with it.
fn bare(answer: &str, parses: impl Fn(&str) -> bool) -> Option<String> {
    let whole = answer.trim_matches(['\n', '\r']).trim_end();
    if whole.is_empty() || !whole.lines().any(is_codelike) {
        return None;
    }
    if parses(whole) {
        return Some(whole.to_owned());
    }
    if whole.len() <= PROSE_BYTES_MAX
        && let Some(code) = between(whole, &parses)
    {
        return Some(code);
    }
    let telling = ["import ", "from ", "def ", "class ", "print("];
    let first = whole.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    telling.iter().any(|start| first.starts_with(start)).then(|| whole.to_owned())
}

fn between(text: &str, parses: &impl Fn(&str) -> bool) -> Option<String> {
    let text = text.replace("\r\n", "\n");
    let paragraphs: Vec<&str> = text.split("\n\n").collect();
    let count = paragraphs.len();
    if count > PARAGRAPHS_MAX {
        return None;
    }
    for length in (1..count).rev() {
        for start in 0..=count - length {
            let run = paragraphs[start..start + length].join("\n\n");
            if run.lines().any(is_codelike) && parses(&run) {
                return Some(run.trim_matches('\n').to_owned());
            }
        }
    }
    None
}

/// Returns whether a line is a statement, and not a word or a number that happens to be Python.
fn is_codelike(line: &str) -> bool {
    let line = line.trim();
    let calls = line.contains('(') && line.contains(')') && !line.contains(". ");
    let assigns = line.split_once('=').is_some_and(|(target, _)| {
        let target = target.trim_end_matches(['+', '-', '*', '/', ' ']);
        !target.is_empty()
            && target.chars().all(|c| c.is_alphanumeric() || "_., []()'\"".contains(c))
    });
    calls || assigns || line.starts_with("import ") || line.starts_with("from ")
}
