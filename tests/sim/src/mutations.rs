//! The list of faults in the product that the simulation must find.
//!
//! Not here: putting them in (`bin/mutations`).

/// A fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mutation {
    /// What is wrong then.
    pub name: String,
    /// The seed to begin with: 1 if nothing is said.
    pub first: u64,
    /// Within how many seeds it must be found.
    pub seeds: u64,
    /// How it is put in.
    pub edits: Vec<Edit>,
}

/// One replacement in one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edit {
    /// The file, from the root of the repository.
    pub file: String,
    /// What is there, once.
    pub old: String,
    /// What is to be there.
    pub new: String,
}

impl Edit {
    /// The text with the fault.
    ///
    /// # Errors
    /// What was looked for is not there, or not once.
    pub fn apply(&self, text: &str) -> Result<String, String> {
        match text.matches(&self.old).count() {
            1 => Ok(text.replace(&self.old, &self.new)),
            count => Err(format!(
                "{} has this {count} times: {}",
                self.file, self.old
            )),
        }
    }
}

/// The list.
///
/// # Errors
/// A line that is not understood.
pub fn read() -> Result<Vec<Mutation>, String> {
    parse(include_str!("../mutations.txt"))
}

fn parse(text: &str) -> Result<Vec<Mutation>, String> {
    let mut all: Vec<Mutation> = Vec::new();
    for line in text.lines().skip_while(|line| !line.starts_with("## ")) {
        let (sign, rest) = line.split_once(' ').unwrap_or((line, ""));
        if sign == "##" {
            all.push(Mutation {
                name: rest.to_owned(),
                first: 1,
                ..Mutation::default()
            });
            continue;
        }
        let wrong = || format!("not understood: {line}");
        let mutation = all.last_mut().ok_or_else(wrong)?;
        match sign {
            "" => {}
            "from" => mutation.first = rest.parse().map_err(|_| wrong())?,
            "seeds" => mutation.seeds = rest.parse().map_err(|_| wrong())?,
            "file" => mutation.edits.push(Edit {
                file: rest.to_owned(),
                ..Edit::default()
            }),
            "-" | "+" => {
                let edit = mutation.edits.last_mut().ok_or_else(wrong)?;
                let text = if sign == "-" {
                    &mut edit.old
                } else {
                    &mut edit.new
                };
                if !text.is_empty() {
                    text.push('\n');
                }
                text.push_str(rest);
            }
            _ => return Err(wrong()),
        }
    }
    Ok(all)
}
