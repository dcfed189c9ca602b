//! The words of a script line: bare, quoted, or `name=value`.
//!
//! Quoted text knows the escapes of Rust's byte strings and `\u{..}`. Words that the parser does
//! not use are a panic, so that a misspelt option cannot make a test meaningless.

use bytes::Bytes;

use super::names::Names;

/// The words of one request or directive. The parser takes them one by one.
pub(crate) struct Words<'a> {
    names: &'a Names,
    line: &'a str,
    bare: std::vec::IntoIter<String>,
    options: Vec<(String, String)>,
}

impl<'a> Words<'a> {
    pub(crate) fn new(line: &'a str, names: &'a Names) -> Self {
        let (mut bare, mut options) = (Vec::new(), Vec::new());
        for word in split(line) {
            match word.split_once('=') {
                Some((name, value)) if name.chars().all(char::is_alphabetic) => {
                    options.push((name.to_owned(), value.to_owned()));
                }
                _ => bare.push(word),
            }
        }
        Self {
            names,
            line,
            bare: bare.into_iter(),
            options,
        }
    }

    /// The next bare word, unchanged.
    pub(crate) fn next(&mut self) -> Option<String> {
        self.bare.next()
    }

    /// The next bare word as text, with `$` replaced.
    pub(crate) fn text(&mut self) -> String {
        let word = self.bare.next();
        let word = word.unwrap_or_else(|| panic!("a word is missing: {}", self.line));
        let text = self
            .value(&word)
            .unwrap_or_else(|| panic!("only `raw` can send a null here: {}", self.line));
        String::from_utf8(text).expect("only `raw` can send what is not UTF-8")
    }

    /// The next bare word as bytes; `null` is `None`.
    pub(crate) fn bytes(&mut self) -> Option<Vec<u8>> {
        let word = self.bare.next();
        let word = word.unwrap_or_else(|| panic!("a word is missing: {}", self.line));
        self.value(&word)
    }

    /// Takes the next bare word if it is `flag`, and returns whether it was.
    pub(crate) fn flag(&mut self, flag: &str) -> bool {
        let found = self
            .bare
            .as_slice()
            .first()
            .is_some_and(|word| word == flag);
        if found {
            self.bare.next();
        }
        found
    }

    /// The value of an option, unchanged.
    pub(crate) fn option(&mut self, name: &str) -> Option<String> {
        let at = self.options.iter().position(|(own, _)| own == name)?;
        Some(self.options.remove(at).1)
    }

    /// The value of an option that is a number.
    pub(crate) fn number<N: std::str::FromStr>(&mut self, name: &str) -> Option<N> {
        let value = self.option(name)?;
        let number = value.parse().ok();
        Some(number.unwrap_or_else(|| panic!("{name} is no number: {}", self.line)))
    }

    /// The value of an option as bytes; `null` is `None`.
    pub(crate) fn option_bytes(&mut self, name: &str, default: Option<Vec<u8>>) -> Option<Bytes> {
        let value = match self.option(name) {
            Some(value) => self.value(&value),
            None => default,
        };
        value.map(Bytes::from)
    }

    /// The value of an option that is a list of paths.
    pub(crate) fn paths(&mut self, name: &str) -> Vec<String> {
        let list = self.option(name).unwrap_or_default();
        let paths = list.split(',').filter(|path| !path.is_empty());
        paths.map(|path| self.names.expand(path)).collect()
    }

    /// The bytes that a word stands for.
    pub(crate) fn value(&self, word: &str) -> Option<Vec<u8>> {
        match word {
            "null" => None,
            _ if word.starts_with('"') => Some(unescape(&self.names.expand(word))),
            _ => Some(self.names.expand(word).into_bytes()),
        }
    }

    pub(crate) fn names(&self) -> &'a Names {
        self.names
    }

    /// Panics if any word or option is left.
    pub(crate) fn end(mut self) {
        assert!(
            self.next().is_none() && self.options.is_empty(),
            "unused or unknown words in: {}",
            self.line
        );
    }
}

/// Splits at blanks outside of quotes.
fn split(line: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let (mut quoted, mut escaped) = (false, false);
    for c in line.chars() {
        match c {
            ' ' if !quoted => {
                words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
                continue;
            }
            '"' if !escaped => quoted = !quoted,
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        word.push(c);
    }
    assert!(!quoted, "a quote is open: {line}");
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}

/// The bytes of a text in quotes.
fn unescape(quoted: &str) -> Vec<u8> {
    let inner = quoted
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .expect("quotes on both sides");
    let (mut bytes, mut chars) = (Vec::new(), inner.chars());
    let push = |bytes: &mut Vec<u8>, c: char| {
        bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    };
    while let Some(c) = chars.next() {
        if c != '\\' {
            push(&mut bytes, c);
            continue;
        }
        match chars.next().expect("an escape") {
            'n' => bytes.push(b'\n'),
            '0' => bytes.push(0),
            'x' => {
                let digits: String = chars.by_ref().take(2).collect();
                bytes.push(u8::from_str_radix(&digits, 16).expect("two hex digits"));
            }
            'u' => {
                let digits: String = chars.by_ref().skip(1).take_while(|c| *c != '}').collect();
                let number = u32::from_str_radix(&digits, 16).expect("hex digits");
                push(&mut bytes, char::from_u32(number).expect("a character"));
            }
            other => push(&mut bytes, other),
        }
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
