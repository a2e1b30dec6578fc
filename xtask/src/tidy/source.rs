//! Rust text without its comments and literals, so that a rule about code is not fooled by words.

/// What the scanner is in the middle of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Code,
    LineComment,
    /// With how many `/*` are open.
    BlockComment(usize),
    Text,
    /// With how many `#` it was opened.
    RawText(usize),
}

/// Returns the text with every comment and string blanked out; lines and columns stay.
pub(super) fn code_only(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let (mut inside, mut at) = (Inside::Code, 0);
    while at < characters.len() {
        let rest = &characters[at..];
        let (length, next) = step(inside, rest, at.checked_sub(1).map(|before| characters[before]));
        let visible = inside == Inside::Code && next == Inside::Code && !is_character(rest, length);
        for &character in &rest[..length] {
            code.push(if visible || character == '\n' { character } else { ' ' });
        }
        (inside, at) = (next, at + length);
    }
    code
}

/// How many characters to take from here, and what comes after them.
fn step(inside: Inside, rest: &[char], before: Option<char>) -> (usize, Inside) {
    let pair = (rest[0], rest.get(1).copied());
    match (inside, pair) {
        (Inside::Code, ('/', Some('/'))) => (2, Inside::LineComment),
        (Inside::Code, ('/', Some('*'))) => (2, Inside::BlockComment(1)),
        (Inside::Code, ('"', _)) => (1, Inside::Text),
        (Inside::Code, ('r', Some('"' | '#'))) => raw_start(rest, before),
        (Inside::Code, ('\'', _)) => (character_length(rest), Inside::Code),
        (Inside::LineComment, ('\n', _)) | (Inside::Text, ('"', _)) => (1, Inside::Code),
        (Inside::BlockComment(depth), ('/', Some('*'))) => (2, Inside::BlockComment(depth + 1)),
        (Inside::BlockComment(1), ('*', Some('/'))) => (2, Inside::Code),
        (Inside::BlockComment(depth), ('*', Some('/'))) => (2, Inside::BlockComment(depth - 1)),
        (Inside::Text, ('\\', Some(_))) => (2, Inside::Text),
        (Inside::RawText(hashes), ('"', _)) if closes(rest, hashes) => (1 + hashes, Inside::Code),
        _ => (1, inside),
    }
}

/// `r"` or `r#…"`, but not a name that ends in `r` and not a raw identifier.
fn raw_start(rest: &[char], before: Option<char>) -> (usize, Inside) {
    let hashes = rest[1..].iter().take_while(|&&character| character == '#').count();
    let in_name =
        before.is_some_and(|before| before.is_alphanumeric() && before != 'b' && before != 'c');
    if rest.get(1 + hashes) == Some(&'"') && !in_name {
        (2 + hashes, Inside::RawText(hashes))
    } else {
        (1, Inside::Code)
    }
}

fn closes(rest: &[char], hashes: usize) -> bool {
    rest.len() > hashes && rest[1..=hashes].iter().all(|&character| character == '#')
}

/// The length of a character literal, or 1 for the quote of a lifetime.
fn character_length(rest: &[char]) -> usize {
    if rest.get(1) == Some(&'\\') {
        let end = rest.iter().skip(3).position(|&character| character == '\'');
        return end.map_or(1, |end| end + 4);
    }
    if rest.get(2) == Some(&'\'') { 3 } else { 1 }
}

fn is_character(rest: &[char], length: usize) -> bool {
    rest[0] == '\'' && length > 1
}

/// Tells whether `word` stands in `line` by itself, not as part of a longer name.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    let part_of_name = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(part_of_name) && !after.is_some_and(part_of_name)
    })
}
