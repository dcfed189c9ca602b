//! Text on stdout: names and data, times, and columns.
//!
//! On a terminal, names and data are escaped. In files and pipes they stay unchanged.
//!
//! Not here: how text is escaped (`escape`), messages on stderr (`exit`).

use std::{
    fmt,
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, SystemTime},
};

use lockkeeper::{client::SessionId, locks::QueueEntry, node::Stat};

use crate::{duration::Human, escape::harmless, exit::Failure};

/// Writes all of the text to stdout, and flushes.
pub(crate) fn print(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_ref());
    written
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::output(&error))
}

/// Cuts a line that is wider than this, and marks the cut.
pub(crate) fn cut(line: &str, width: usize) -> String {
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let kept = line.chars().take(width.saturating_sub(1));
    kept.chain(['…']).collect()
}

/// A text of a user in a message: in one line, escaped, and cut to 100 characters.
pub(crate) fn quoted(text: &str) -> String {
    cut(&harmless(text), 100)
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

/// Data in one line: as text if they are UTF-8, else in hexadecimal.
pub(crate) fn data_in_a_line(data: Option<&[u8]>) -> String {
    match data.map(std::str::from_utf8) {
        None => String::new(),
        Some(Ok(text)) => harmless(text.trim_end()),
        Some(Err(_)) => format!("0x{}", hex::encode(data.unwrap_or_default())),
    }
}

/// The last moment of the year 9999. Later ones have no form in RFC 3339.
const LAST: Duration = Duration::from_millis(253_402_300_799_999);

/// A time by the clock of a server or of this machine, in UTC. A server may have any time: one that is too late is [`LAST`].
pub(crate) fn moment(since_1970: Duration) -> impl fmt::Display {
    humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + since_1970.min(LAST))
}

/// Now, by the clock of this machine.
pub(crate) fn now() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
}

/// The time since an event, from the server's timestamp and our clock; zero if our clock is behind the timestamp.
pub(crate) fn ago(since_1970: Duration) -> Duration {
    now().saturating_sub(since_1970)
}

/// The age of a contender's node, as far as it is known.
pub(crate) fn age(standing: &QueueEntry) -> String {
    let age = || Human(ago(standing.stat.created())).to_string();
    standing.is_readable.then(age).unwrap_or("?".to_owned())
}

/// The session that an ephemeral node belongs to. `None` for other nodes.
pub(crate) fn owner(stat: &Stat) -> Option<String> {
    let owner = stat.ephemeral_owner;
    (owner != SessionId::NONE).then(|| owner.to_string())
}

/// A time in milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The most characters of a cell. `write!` panics where a width has more than 16 bits, and other users choose the cells.
const LONGEST_CELL: usize = 10_000;

/// Rows of cells in aligned columns. Each column is as wide as its widest cell. Longer cells than [`LONGEST_CELL`] are cut.
pub(crate) fn table<Row: AsRef<[String]>>(rows: &[Row]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.as_ref().len()), 0);
        for (cell, width) in row.as_ref().iter().zip(&mut widths) {
            *width = cell.chars().count().min(LONGEST_CELL).max(*width);
        }
    }
    let line = |row: &Row| {
        let cells = row.as_ref().iter().zip(&widths);
        let cells = cells.map(|(cell, width)| format!("{:<width$}  ", cut(cell, LONGEST_CELL)));
        cells.collect::<String>().trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[test]
    fn data_are_text_or_hexadecimal() {
        assert_eq!(data_in_a_line(Some(b"a\x1b\n")), "a\\u{1b}");
        assert_eq!(data_in_a_line(Some(&[0xff, 0])), "0xff00");
        assert_eq!(data_in_a_line(None), "");
    }

    /// A server may say any time.
    #[test]
    fn a_time_of_any_year_is_printed() {
        let year_9999 = Duration::from_secs(253_402_300_799);
        let latest = Duration::from_millis(u64::try_from(i64::MAX).unwrap());
        for (time, text) in [
            (Duration::ZERO, "1970-01-01T00:00:00.000Z"),
            (year_9999, "9999-12-31T23:59:59.000Z"),
            (latest, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(moment(time).to_string(), text);
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "bb", "x y"], ["ccc", "", ""], ["é", "d", "z"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        assert_eq!(table(&rows), "a    bb  x y\nccc\né    d   z\n");
    }

    proptest! {
        /// Other users choose names and data, of any length.
        #[test]
        fn no_cell_is_too_long_for_a_table(
            rows in vec(vec((".*", 0..5_usize), 0..4), 0..5),
        ) {
            let long = |(cell, times): &(String, usize)| cell.repeat(times.pow(7));
            let rows: Vec<Vec<_>> = rows.iter().map(|row| row.iter().map(long).collect()).collect();
            let table = table(&rows);
            prop_assert!(table.lines().all(|line| line.chars().count() < 4 * (LONGEST_CELL + 2)));
        }

        #[test]
        fn any_bytes_have_a_text(data in vec(any::<u8>(), 0..200), time: u64) {
            for text in [data_in_a_line(Some(&data)), harmless(&String::from_utf8_lossy(&data))] {
                prop_assert!(!text.contains(char::is_control), "{:?}", text);
            }
            let _ = (moment(Duration::from_millis(time)).to_string(), moment(Duration::MAX));
        }
    }

    #[test]
    fn a_line_is_cut_to_the_width() {
        assert_eq!(cut("größe", 5), "größe");
        assert_eq!(cut("größer", 5), "größ…");
        assert_eq!(cut("x", 0), "…");
    }
}
