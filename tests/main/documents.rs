//! The documents are true: what docs/expiry.md shows is what the server answers.

use std::path::Path;

use crate::sim::Sim;

/// The words of a reply as redis-cli shows it: numbers, texts, nothing.
fn shown_words(line: &str) -> Vec<String> {
    let mut rest = line.trim();
    // The numbers of elements.
    while let Some((number, behind)) = rest.split_once(") ")
        && number.bytes().all(|byte| byte.is_ascii_digit())
    {
        rest = behind.trim_start();
    }
    if let Some(number) = rest.strip_prefix("(integer) ") {
        return vec![number.to_owned()];
    }
    vec![rest.trim_matches('"').to_owned()]
}

/// The same of a reply as the simulation gives it.
fn reply_words(reply: &str) -> Vec<String> {
    let words = reply
        .split(' ')
        .filter_map(|word| match word.as_bytes().first() {
            Some(b'*') => None,
            Some(b'$') if word == "$-1" => Some("(nil)".to_owned()),
            Some(b'$') => None,
            Some(b':' | b'+') => Some(word[1..].to_owned()),
            _ => Some(word.to_owned()),
        });
    words.collect()
}

#[test]
fn the_examples_of_expiry_are_what_the_server_answers() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/expiry.md");
    let text = std::fs::read_to_string(path).expect("the document");
    let mut examples = 0;
    for block in text.split("```text\n").skip(1) {
        let block = block.split("```").next().expect("a block");
        // Each block is about a server of its own.
        let mut sim = Sim::new();
        let mut lines = block.lines().peekable();
        while let Some(line) = lines.next() {
            if let Some(time) = line.strip_prefix("# ") {
                let ms = time.split(' ').next().and_then(|ms| ms.parse().ok());
                sim.advance(ms.expect("a number of ms"));
                continue;
            }
            let request = line.strip_prefix("> ").expect("a request");
            let mut expected = Vec::new();
            while let Some(shown) = lines.next_if(|l| !l.starts_with("> ") && !l.starts_with("# "))
            {
                expected.extend(shown_words(shown));
            }
            let reply = sim.run(request);
            assert_eq!(reply_words(&reply), expected, "{request}");
            examples += 1;
        }
    }
    assert!(examples >= 25, "{examples}");
}
