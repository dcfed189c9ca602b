//! Text of other users, made harmless: names and data cannot move the cursor, change colours or change the writing direction.
//!
//! Not here: what is escaped on a terminal only (`text`). This file uses no other one.

/// A text in one line, with everything escaped that is not visible.
pub(crate) fn harmless(text: &str) -> String {
    let escaped = |c: char| -> String {
        match c {
            '\'' | '"' => c.into(),
            c => c.escape_debug().collect(),
        }
    };
    text.chars().map(escaped).collect()
}

/// A message, which may name nodes of other users, likewise in one line. What is escaped in it already stays as it is.
pub(crate) fn message(text: &str) -> String {
    let parts: Vec<_> = text.split('\\').map(harmless).collect();
    parts.join("\\")
}

/// A text with its lines and tabs kept, and everything else escaped that is not visible. Each line ends with `\n`.
pub(crate) fn harmless_lines(text: &str) -> String {
    let line = |line: &str| {
        let cells: Vec<String> = line.split('\t').map(harmless).collect();
        cells.join("\t") + "\n"
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_escaped() {
        assert_eq!(harmless("it's \"ours\" größe 鍵"), "it's \"ours\" größe 鍵");
        assert_eq!(harmless("a\u{1b}[31mb\n"), "a\\u{1b}[31mb\\n");
        assert_eq!(harmless("a\u{202e}b\\"), "a\\u{202e}b\\\\");
        assert_eq!(message("it's \u{1b}\u{202e}\n"), "it's \\u{1b}\\u{202e}\\n");
        assert_eq!(message("\\u{1b} \\\\"), "\\u{1b} \\\\");
        assert_eq!(harmless_lines("a\tb\r\nc\u{7}"), "a\tb\nc\\u{7}\n");
    }
}
