//! Text on stdout: escaping for terminals, and columns.
//!
//! Names and data come from other users. On a terminal they are escaped, so that they cannot move the cursor, change
//! colours or change the writing direction. In files and pipes they stay unchanged.

use std::{
    fmt::{self, Write as _},
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, SystemTime},
};

use crate::exit::Failure;

/// Writes all of the text to stdout, and flushes.
pub(crate) fn print(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_ref());
    written
        .and_then(|()| stdout.flush())
        .map_err(Failure::Output)
}

/// Whether stdout is a terminal.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// A name for stdout: escaped on a terminal, unchanged elsewhere.
pub(crate) fn name(name: &str) -> String {
    if is_terminal() {
        harmless(name)
    } else {
        name.to_owned()
    }
}

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

/// A text with its lines and tabs kept, and everything else escaped that is not visible. Each line ends with `\n`.
pub(crate) fn harmless_lines(text: &str) -> String {
    let line = |line: &str| {
        let cells: Vec<String> = line.split('\t').map(harmless).collect();
        cells.join("\t") + "\n"
    };
    text.lines().map(line).collect()
}

/// Data in one line: as text if they are UTF-8, else in hexadecimal.
pub(crate) fn data_in_a_line(data: Option<&[u8]>) -> String {
    match data.map(std::str::from_utf8) {
        None => String::new(),
        Some(Ok(text)) => harmless(text.trim_end()),
        Some(Err(_)) => format!("0x{}", hex(data.unwrap_or_default())),
    }
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A time by the clock of a server or of this machine, in UTC.
pub(crate) fn moment(since_1970: Duration) -> impl fmt::Display {
    humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + since_1970)
}

/// Now, by the clock of this machine.
pub(crate) fn now() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
}

/// The time since an event, from the server's timestamp and our clock; zero if our clock is behind the timestamp.
pub(crate) fn ago(since_1970: Duration) -> Duration {
    now().saturating_sub(since_1970)
}

/// Rows of cells in aligned columns. Each column is as wide as its widest cell.
pub(crate) fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:<width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_escaped() {
        assert_eq!(harmless("it's \"ours\" größe 鍵"), "it's \"ours\" größe 鍵");
        assert_eq!(harmless("a\u{1b}[31mb\n"), "a\\u{1b}[31mb\\n");
        assert_eq!(harmless("a\u{202e}b\\"), "a\\u{202e}b\\\\");
        assert_eq!(data_in_a_line(Some(&[0xff, 0])), "0xff00");
        assert_eq!(data_in_a_line(None), "");
        assert_eq!(harmless_lines("a\tb\r\nc\u{7}"), "a\tb\nc\\u{7}\n");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "bb", "x y"], ["ccc", "", ""], ["é", "d", "z"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), "a    bb  x y\nccc\né    d   z\n");
    }
}
