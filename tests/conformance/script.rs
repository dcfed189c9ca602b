//! Parses the lines of a script and compares a script with what happened.
//!
//! Not here: the description of the language (`cases/README.md`).

/// One line of a script that does something, and its list of operations.
pub(crate) struct Step {
    /// The letter of the connection.
    pub(crate) who: char,
    pub(crate) what: What,
    pub(crate) text: String,
    /// The operations of a list.
    pub(crate) more: Vec<String>,
    /// The lines as written in the script, for the transcript.
    pub(crate) source: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// `a> REQUEST`
    Request,
    /// `a& REQUEST`
    Queue,
    /// `a?`
    Await,
    /// `a! ORDER`
    Order,
}

pub(crate) fn parse(script: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut in_step = false;
    for line in lines(script) {
        if let Some(operation) = line.strip_prefix("+ ") {
            // After an `a<` line it is a result, not an operation.
            if let Some(step) = steps.last_mut().filter(|_| in_step) {
                step.more.push(operation.to_owned());
                step.source.push(line.to_owned());
            }
            continue;
        }
        let mut chars = line.chars();
        let (who, sign) = (chars.next(), chars.next());
        let what = match sign {
            Some('>') => What::Request,
            Some('&') => What::Queue,
            Some('?') => What::Await,
            Some('!') => What::Order,
            Some('<') => {
                in_step = false;
                continue;
            }
            _ => panic!("not a line of a script: {line}"),
        };
        in_step = true;
        steps.push(Step {
            who: who.expect("a letter"),
            what,
            text: chars.as_str().trim().to_owned(),
            more: Vec::new(),
            source: vec![line.to_owned()],
        });
    }
    steps
}

/// An error with the whole transcript unless it equals the script.
pub(crate) fn compare(who: [&str; 2], script: &str, happened: &[String]) -> Result<(), String> {
    let expected: Vec<_> = lines(script).collect();
    if expected == happened {
        return Ok(());
    }
    let same = expected
        .iter()
        .zip(happened)
        .take_while(|(one, other)| one == other)
        .count();
    let show = |line: Option<&str>| line.unwrap_or("(the end)").to_owned();
    Err(format!(
        "line {}: {}\n    {}\n{}\n    {}\n\nAll that happened:\n    {}\n",
        same + 1,
        who[0],
        show(expected.get(same).copied()),
        who[1],
        show(happened.get(same).map(String::as_str)),
        happened.join("\n    "),
    ))
}

/// The lines of a script without comments and blank lines.
fn lines(script: &str) -> impl Iterator<Item = &str> {
    let lines = script.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}
