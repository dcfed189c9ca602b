//! The log of `lockkeeper serve`, on stderr: what the command says of itself, and the events of the server.
//!
//! Each event is one line: text as all messages of the program, or JSON. The program's own messages have no time in text, since
//! people read them as they come. Not here: the messages of the other commands (`exit`).

use std::{
    fmt::{self, Write as _},
    io::{self, Write as _},
};

use clap::ValueEnum;
use serde_json::{Map, Value};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span,
};

use crate::text;

/// The target of the command's own messages.
pub(crate) const OWN: &str = "lockkeeper";

/// The least important events of a log.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Least {
    /// Nothing at all
    Off,
    /// Why the server ends
    Error,
    /// Also dangers, and clients that break limits
    Warn,
    /// Also the start: the usual level
    Info,
    /// Also sessions that begin and end, and connections with mistakes
    Debug,
}

/// How the lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// An object in each line
    Json,
}

/// Sends all events of this process to stderr from now on.
pub(crate) fn start(least: Least, format: Format) {
    let most = match least {
        Least::Off => LevelFilter::OFF,
        Least::Error => LevelFilter::ERROR,
        Least::Warn => LevelFilter::WARN,
        Least::Info => LevelFilter::INFO,
        Least::Debug => LevelFilter::DEBUG,
    };
    // It fails only if there is a log already.
    let _ = tracing::subscriber::set_global_default(Log { most, format });
}

#[derive(Debug)]
struct Log {
    most: LevelFilter,
    format: Format,
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.most
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.most)
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let line = match self.format {
            Format::Text => fields.text(event.metadata()),
            Format::Json => fields.json(event.metadata()),
        };
        // A closed stderr must not end the server. One write, so that lines of several threads do not mix.
        let _ = io::stderr().write_all(line.as_bytes());
    }

    // The server has no spans.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// The message of an event, and its other fields in order.
#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, Value)>,
}

impl Fields {
    fn text(self, metadata: &Metadata<'_>) -> String {
        let message = text::harmless(&self.message);
        if metadata.target() == OWN {
            return format!("lockkeeper: {message}\n");
        }
        let (time, level) = (text::moment(text::now()), level(*metadata.level()));
        let mut line = format!("lockkeeper: {time} {level:<5} {message}");
        for (name, value) in self.others {
            let value = value.as_str().map_or(value.to_string(), text::harmless);
            // Writing to a string does not fail.
            let _ = write!(line, " {name}={value}");
        }
        line + "\n"
    }

    fn json(self, metadata: &Metadata<'_>) -> String {
        let own = [
            ("time", text::moment(text::now()).to_string()),
            ("level", level(*metadata.level())),
            ("target", metadata.target().to_owned()),
            ("message", self.message),
        ];
        let own = own.map(|(name, value)| (name, Value::from(value)));
        // A field of the server must not hide one of these.
        let all = self.others.into_iter().chain(own);
        let object: Map<_, _> = all.map(|(name, value)| (name.to_owned(), value)).collect();
        format!("{}\n", Value::Object(object))
    }
}

impl Visit for Fields {
    /// Numbers and texts print as they stand in JSON. What does not is a text, too.
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        if field.name() == "message" {
            self.message = text;
        } else {
            let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
            self.others.push((field.name(), value));
        }
    }
}

fn level(level: Level) -> String {
    level.as_str().to_ascii_lowercase()
}
