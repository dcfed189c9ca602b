//! The words of a script line: bare, quoted, or `name=value`.
//!
//! Quoted text knows the escapes of Rust's byte strings and `\u{..}`. Words that nobody takes are a
//! panic, so that a misspelt option cannot make a test meaningless.

use super::names::Names;

/// The words of one request or directive. The parser takes them one by one.
pub(crate) struct Words<'a> {
    pub(crate) names: &'a Names,
    line: &'a str,
    left: Vec<String>,
}

impl<'a> Words<'a> {
    /// Splits a line at blanks outside of quotes.
    pub(crate) fn new(line: &'a str, names: &'a Names) -> Self {
        let (mut left, mut word) = (Vec::new(), String::new());
        let (mut quoted, mut escaped) = (false, false);
        for c in line.chars().chain([' ']) {
            if c == ' ' && !quoted {
                left.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
                continue;
            }
            quoted ^= c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            word.push(c);
        }
        assert!(!quoted, "a quote is open: {line}");
        Self { names, line, left }
    }

    /// The next word, unchanged.
    pub(crate) fn next(&mut self) -> String {
        assert!(!self.left.is_empty(), "a word is missing: {}", self.line);
        self.left.remove(0)
    }

    /// All other words, unchanged.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        std::mem::take(&mut self.left)
    }

    /// Takes the word `flag` if it is there, and returns whether it was.
    pub(crate) fn flag(&mut self, flag: &str) -> bool {
        let at = self.left.iter().position(|word| word == flag);
        at.map(|at| self.left.remove(at)).is_some()
    }

    /// The value of an option, unchanged.
    pub(crate) fn option(&mut self, name: &str) -> Option<String> {
        let name = format!("{name}=");
        let at = self.left.iter().position(|word| word.starts_with(&name))?;
        Some(self.left.remove(at).split_off(name.len()))
    }

    /// The value of an option that is a number.
    pub(crate) fn number<N: TryFrom<i64>>(&mut self, name: &str, default: N) -> N {
        let value = self.option(name);
        value.map_or(default, |value| self.names.number(&value))
    }

    /// Panics if any word is left.
    pub(crate) fn end(self) {
        let left = &self.left;
        assert!(
            left.is_empty(),
            "unused or unknown: {left:?} in {}",
            self.line
        );
    }
}

/// The bytes of the text between quotes.
pub(crate) fn unescape(text: &str) -> Vec<u8> {
    let (mut bytes, mut chars) = (Vec::new(), text.chars());
    while let Some(mut c) = chars.next() {
        if c == '\\' {
            c = match chars.next().expect("an escape") {
                'n' => '\n',
                '0' => '\0',
                'x' => {
                    let digits: String = chars.by_ref().take(2).collect();
                    bytes.push(u8::from_str_radix(&digits, 16).expect("two hex digits"));
                    continue;
                }
                'u' => {
                    let digits: String = chars.by_ref().skip(1).take_while(|c| *c != '}').collect();
                    let number = u32::from_str_radix(&digits, 16).expect("hex digits");
                    char::from_u32(number).expect("a character")
                }
                other => other,
            };
        }
        bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
    bytes
}

/// Bytes as a script shows them: in quotes, or only their count when there are more than 60.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    const MANY: usize = 60;
    if bytes.len() > MANY {
        return format!("{} bytes", bytes.len());
    }
    format!("\"{}\"", bytes.escape_ascii())
}

/// A path or another word as a script shows it: bare where possible.
pub(crate) fn bare(text: &str) -> String {
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() && c != '"') {
        text.to_owned()
    } else {
        format!("\"{}\"", text.escape_default())
    }
}
