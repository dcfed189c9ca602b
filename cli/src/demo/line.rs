//! Lines of coloured text with at most 80 columns.
//!
//! A column is a character: every character that the demo prints is one column wide. `anstream` removes the colours in
//! files and pipes, and when `NO_COLOR` is set.

use std::fmt::{self, Write as _};

use anstyle::Style;

/// The most columns that a line may have.
pub(super) const WIDTH: usize = 80;

/// A line under construction. Text beyond [`WIDTH`] is cut off.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    text: String,
    width: usize,
}

impl Line {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// How many columns are left.
    pub(super) fn left(&self) -> usize {
        WIDTH.saturating_sub(self.width)
    }

    /// Adds text in a style.
    pub(super) fn add(&mut self, style: Style, text: impl fmt::Display) -> &mut Self {
        let text = text.to_string();
        let text: String = text.chars().take(self.left()).collect();
        self.width += text.chars().count();
        // Writing to a string does not fail.
        let _ = write!(self.text, "{style}{text}{style:#}");
        self
    }

    /// Adds text without a style.
    pub(super) fn plain(&mut self, text: impl fmt::Display) -> &mut Self {
        self.add(Style::new(), text)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text.trim_end())
    }
}

/// Breaks a text at spaces into lines of at most `width` columns. Longer words are cut.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let word: String = word.chars().take(width).collect();
        let length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(&word);
        used += length;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use anstyle::AnsiColor;

    use super::*;

    #[test]
    fn a_line_is_cut_at_80_columns_without_counting_colours() {
        let mut line = Line::new();
        line.add(AnsiColor::Red.on_default(), "x".repeat(60));
        assert_eq!(line.left(), 20);
        line.add(AnsiColor::Blue.on_default(), "█".repeat(60));
        assert_eq!(line.left(), 0);
        let text = anstream::adapter::strip_str(&line.to_string()).to_string();
        assert_eq!(text.chars().count(), WIDTH);
    }

    #[test]
    fn text_is_broken_at_spaces() {
        assert_eq!(wrap("the lock is free", 8), ["the lock", "is free"]);
        assert_eq!(wrap("incomprehensible", 5), ["incom"]);
        assert_eq!(wrap("", 5), [""]);
    }
}
