//! Splits a script into steps, and compares a script with what happened.
//!
//! Not here: the description of the language (`cases/README.md`).

/// The lines that do something, each with the operations of its list.
pub(crate) fn steps(script: &str) -> Vec<Vec<&str>> {
    let mut steps: Vec<Vec<_>> = Vec::new();
    let mut is_answer = false;
    for line in lines(script) {
        // After an `a<` line, it is a result, not an operation.
        let is_list = line.starts_with("+ ");
        is_answer = line.chars().nth(1) == Some('<') || is_answer && is_list;
        match steps.last_mut() {
            _ if is_answer => {}
            Some(step) if is_list => step.push(line),
            _ => steps.push(vec![line]),
        }
    }
    steps
}

/// An error with the whole transcript unless it equals the script.
pub(crate) fn compare(who: [&str; 2], script: &str, happened: &[String]) -> Result<(), String> {
    let expected: Vec<_> = lines(script).collect();
    if expected == happened {
        return Ok(());
    }
    let pairs = expected.iter().zip(happened);
    let same = pairs.take_while(|(one, other)| one == other).count();
    let [one, other] = who;
    Err(format!(
        "line {}: {one}\n    {}\n{other}\n    {}\n\nAll that happened:\n    {}\n",
        same + 1,
        expected.get(same).unwrap_or(&"(the end)"),
        happened.get(same).map_or("(the end)", |line| line),
        happened.join("\n    "),
    ))
}

/// The lines of a script without comments and blank lines.
fn lines(script: &str) -> impl Iterator<Item = &str> {
    let lines = script.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}
