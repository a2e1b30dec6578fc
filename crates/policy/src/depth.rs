//! Limits how deep a text may nest, before it is parsed.
//!
//! The parser grows its own stack, but the tree it makes is walked and freed by recursion, and a
//! megabyte of `-` is a tree a million levels deep. So tokens are counted first. The count is never
//! less than the depth of the tree: every level of an expression has a token of its own, and only a
//! comma or the end of a line starts again.

use ruff_python_ast::token::TokenKind;
use ruff_python_parser::{Mode, lexer};

/// The deepest nesting that is parsed. CPython fails at about 2 990 levels, so no code that could
/// run is refused.
pub(crate) const NESTING_MAX: usize = 3_000;

/// An upper bound by the tokens of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    /// How deep it nests at most.
    pub(crate) depth: usize,
    /// Whether a bracket or a string with values is left open.
    pub(crate) unclosed: bool,
}

/// Returns how deep the text nests at most; `None` if that is more than `NESTING_MAX`.
pub(crate) fn bound(code: &str) -> Option<Bound> {
    let mut lexer = lexer::lex(code, Mode::Ipython);
    let mut count = Count::new();
    loop {
        let kind = lexer.next_token();
        count.take(kind);
        if count.frames.len() + count.blocks > NESTING_MAX || count.deepest > NESTING_MAX {
            return None;
        }
        if kind == TokenKind::EndOfFile {
            count.end_line();
            let bound = Bound { depth: count.deepest, unclosed: count.unclosed };
            return (bound.depth <= NESTING_MAX).then_some(bound);
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Opener {
    Line,
    Bracket,
    Text,
    /// The parameters of a lambda, which may hold commas without ending what it is part of.
    Lambda,
}

/// One bracket, string with values or list of parameters that is still open.
struct Frame {
    opener: Opener,
    /// Tokens that nest, since the last comma.
    chain: usize,
    /// Deepest of what was opened and closed since the last comma.
    inner: usize,
    /// Deepest of what lies before the last comma.
    before: usize,
}

impl Frame {
    fn new(opener: Opener) -> Self {
        Self { opener, chain: 0, inner: 0, before: 0 }
    }

    fn depth(&self) -> usize {
        self.before.max(self.chain + self.inner)
    }
}

struct Count {
    frames: Vec<Frame>,
    /// How many frames each opener has, so that closing what was never opened costs nothing.
    open: [usize; 4],
    blocks: usize,
    deepest: usize,
    unclosed: bool,
}

impl Count {
    fn new() -> Self {
        Self {
            frames: vec![Frame::new(Opener::Line)],
            open: [1, 0, 0, 0],
            blocks: 0,
            deepest: 0,
            unclosed: false,
        }
    }

    fn take(&mut self, kind: TokenKind) {
        match kind {
            TokenKind::Indent => self.blocks += 1,
            TokenKind::Dedent => self.blocks = self.blocks.saturating_sub(1),
            TokenKind::Newline => self.end_line(),
            TokenKind::Comma | TokenKind::Semi => self.comma(),
            TokenKind::Lpar | TokenKind::Lsqb | TokenKind::Lbrace => self.open(Opener::Bracket),
            TokenKind::Rpar | TokenKind::Rsqb | TokenKind::Rbrace => self.close(Opener::Bracket),
            TokenKind::FStringStart | TokenKind::TStringStart => self.open(Opener::Text),
            TokenKind::FStringEnd | TokenKind::TStringEnd => self.close(Opener::Text),
            TokenKind::Lambda => self.open(Opener::Lambda),
            TokenKind::Colon if self.top().opener == Opener::Lambda => self.close(Opener::Lambda),
            kind if nests(kind) => self.top().chain += 1,
            _ => {}
        }
    }

    fn top(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("the line's own frame is never closed")
    }

    fn open(&mut self, opener: Opener) {
        self.top().chain += 1;
        self.frames.push(Frame::new(opener));
        self.open[opener as usize] += 1;
    }

    /// Closes the last frame of this opener, and all frames that are still open in it. If there is
    /// none, the text is malformed and nothing is closed: the count may be too high, never too low.
    fn close(&mut self, opener: Opener) {
        if self.open[opener as usize] == 0 {
            return;
        }
        if let Some(place) = self.frames.iter().rposition(|frame| frame.opener == opener) {
            self.fold(place.max(1));
        }
    }

    fn fold(&mut self, place: usize) {
        while self.frames.len() > place {
            let Some(frame) = self.frames.pop() else { return };
            self.open[frame.opener as usize] -= 1;
            let depth = frame.depth();
            let top = self.top();
            top.inner = top.inner.max(depth + 1);
        }
        let total = self.blocks + self.frames.len() + self.top().depth();
        self.deepest = self.deepest.max(total);
    }

    fn comma(&mut self) {
        let top = self.top();
        top.before = top.depth();
        top.chain = 0;
        top.inner = 0;
    }

    fn end_line(&mut self) {
        self.unclosed |= self.frames.len() > 1;
        self.fold(1);
        let total = self.blocks + self.top().depth();
        self.deepest = self.deepest.max(total);
        self.frames.clear();
        self.frames.push(Frame::new(Opener::Line));
        self.open = [1, 0, 0, 0];
    }
}

/// Whether a token may add a level.
fn nests(kind: TokenKind) -> bool {
    !matches!(
        kind,
        TokenKind::Name
            | TokenKind::Int
            | TokenKind::Float
            | TokenKind::Complex
            | TokenKind::String
            | TokenKind::FStringMiddle
            | TokenKind::TStringMiddle
            | TokenKind::IpyEscapeCommand
            | TokenKind::Comment
            | TokenKind::NonLogicalNewline
            | TokenKind::EndOfFile
            | TokenKind::True
            | TokenKind::False
            | TokenKind::None
            | TokenKind::Colon
            | TokenKind::Ellipsis
            | TokenKind::Unknown
    )
}

#[cfg(test)]
mod tests;
