//! Shows foreign texts in one line: names from files and metadata, paths, messages.

use std::{borrow::Cow, fmt::Write};

/// Escapes control characters, line breaks included, characters that change the direction of writing, and those that no
/// XML may have, as in `\u{1b}`. So a name from a file can neither steer a terminal nor pretend to be another line, nor
/// break a picture.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            character if is_unsafe(character) => {
                // Writing to a string does not fail.
                let _ = write!(escaped, "\\u{{{:x}}}", u32::from(character));
            }
            character => escaped.push(character),
        }
    }
    escaped.into()
}

fn is_unsafe(character: char) -> bool {
    character.is_control()
        // Line and paragraph separators, and embeddings, overrides and isolates of the direction.
        || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        // Marks of the direction, and what is no character.
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{fffe}' | '\u{ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_escaped() {
        for (text, expected) in [
            ("Polkadot", "Polkadot"),
            ("größer – ☃", "größer – ☃"),
            ("\u{1b}[31mred", "\\u{1b}[31mred"),
            ("a\nok     forged", "a\\nok     forged"),
            ("\r\t\u{7}\u{9b}", "\\r\\t\\u{7}\\u{9b}"),
            ("\u{202e}txt\u{2066}", "\\u{202e}txt\\u{2066}"),
            ("\u{200f}a\u{ffff}", "\\u{200f}a\\u{ffff}"),
        ] {
            assert_eq!(one_line(text), expected);
        }
    }
}
