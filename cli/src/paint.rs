//! Colour, calm and only where it is wanted.

use std::io::IsTerminal;

use crate::args::Color;

/// Paints text, or leaves it as it is.
#[derive(Clone, Copy, Debug)]
pub struct Paint {
    on: bool,
}

/// What a piece of text is to the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// A title.
    Title,
    /// A GPU.
    Gpu,
    /// A NIC.
    Nic,
    /// Good news: near.
    Near,
    /// Something to look at.
    Warning,
    /// What matters least.
    Quiet,
}

impl Paint {
    /// Follows the flag; `auto` means a terminal that wants colour.
    pub fn new(color: Color) -> Self {
        let on = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
                let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
                std::io::stdout().is_terminal() && !set("NO_COLOR") && !dumb
            }
        };
        Self { on }
    }

    /// The text in its tone.
    pub fn tone(self, tone: Tone, text: &str) -> String {
        if !self.on || text.is_empty() {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Title => "1",
            Tone::Gpu => "32",
            Tone::Nic => "36",
            Tone::Near => "1;32",
            Tone::Warning => "33",
            Tone::Quiet => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}
