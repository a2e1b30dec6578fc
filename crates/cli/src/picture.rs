//! Shows pictures in terminals that support it.

#[cfg(test)]
mod tests;

use std::io::IsTerminal;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;

/// The largest picture that is shown; larger ones are only saved.
const PICTURE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The most bytes of a picture in one escape sequence, by kitty's graphics protocol.
const CHUNK_BYTES: usize = 4096;

/// Whether pictures are shown in the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Pictures {
    /// Where the terminal is known to show pictures
    Auto,
    /// Nowhere; they are saved
    Never,
}

impl Pictures {
    /// Returns the protocol to show pictures with on standard output, if any.
    pub(crate) fn protocol(self) -> Option<Protocol> {
        match self {
            Self::Auto => Protocol::of_terminal(&std::io::stdout()),
            Self::Never => None,
        }
    }
}

/// The graphics protocol of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Kitty,
    Iterm,
}

impl Protocol {
    /// Detects the protocol of the terminal that a stream is, from its environment variables.
    pub(crate) fn of_terminal(stream: &impl IsTerminal) -> Option<Self> {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        // A multiplexer keeps the variables of the terminal around it, and shows the sequences as
        // text.
        let is_inside = !(variable("TMUX").is_empty() && variable("STY").is_empty());
        if !stream.is_terminal() || is_inside {
            return None;
        }
        Self::named(&variable("TERM"), &variable("TERM_PROGRAM"), &variable("KITTY_WINDOW_ID"))
    }

    fn named(terminal: &str, program: &str, kitty: &str) -> Option<Self> {
        if terminal == "dumb" {
            return None;
        }
        if !kitty.is_empty() || terminal.contains("kitty") || program == "ghostty" {
            return Some(Self::Kitty);
        }
        matches!(program, "iTerm.app" | "WezTerm").then_some(Self::Iterm)
    }

    /// Returns the escape sequence that shows a PNG; an empty text if it is too large.
    pub(crate) fn show(self, png: &[u8]) -> String {
        if png.len() > PICTURE_BYTES_MAX {
            return String::new();
        }
        let data = STANDARD.encode(png);
        match self {
            Self::Iterm => {
                format!("\x1b]1337;File=inline=1;size={}:{data}\x07\n", png.len())
            }
            Self::Kitty => kitty(&data),
        }
    }
}

fn kitty(data: &str) -> String {
    let chunks: Vec<&[u8]> = data.as_bytes().chunks(CHUNK_BYTES).collect();
    let mut shown = String::new();
    for (index, chunk) in chunks.iter().enumerate() {
        let more = u8::from(index + 1 < chunks.len());
        let head = if index == 0 { "a=T,f=100," } else { "" };
        let chunk = String::from_utf8_lossy(chunk);
        shown.extend(["\x1b_G", head, &format!("m={more};"), &chunk, "\x1b\\"]);
    }
    shown + "\n"
}
