//! Whole numbers on the command line.

use std::ops::RangeInclusive;

/// Parses a whole number in `range`, whose digits may be grouped by `_`. The message says what to write
/// for a number in another form.
pub(crate) fn whole<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = parse(text)?;
        let (least, most) = (*range.start(), *range.end());
        if number < least {
            return Err(format!("expected {least} or more"));
        }
        match T::try_from(number) {
            Ok(number_of_type) if number <= most => Ok(number_of_type),
            _ => Err(format!("expected {most} or less")),
        }
    }
}

fn parse(text: &str) -> Result<u64, String> {
    let digits: String = text.chars().filter(|digit| *digit != '_').collect();
    if !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()) {
        // Only digits are left, so the only possible error is too many of them.
        return digits
            .parse()
            .map_err(|_| "expected less than 2^64".to_owned());
    }
    Err(match meant(text) {
        Some(number) => format!("expected a whole number in digits; write {number}"),
        None => "expected a whole number in digits, such as 1000000".to_owned(),
    })
}

/// The whole number that is written in another form: `1e6`, `10k`, `2.5M`, `1'000`.
fn meant(text: &str) -> Option<u64> {
    let text: String = text
        .chars()
        .filter(|c| !matches!(c, '_' | '\'' | ' '))
        .collect();
    let (number, unit) = match text.chars().last()? {
        'k' | 'K' => (&text[..text.len() - 1], 1e3),
        'm' | 'M' => (&text[..text.len() - 1], 1e6),
        'g' | 'G' => (&text[..text.len() - 1], 1e9),
        _ => (text.as_str(), 1.0),
    };
    if !number.starts_with(|digit: char| digit.is_ascii_digit()) {
        return None;
    }
    let number = number.parse::<f64>().ok()? * unit;
    // Above 2^53 not every whole number can be written in this form.
    let is_whole = number.fract() == 0.0 && (0.0..9e15).contains(&number);
    is_whole.then(|| format!("{number:.0}").parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_in_the_range() {
        let parse = whole::<u32>(2..=1_000);
        assert_eq!(parse("2"), Ok(2));
        assert_eq!(parse("1_000"), Ok(1_000));
        assert_eq!(parse("1").unwrap_err(), "expected 2 or more");
        assert_eq!(parse("1001").unwrap_err(), "expected 1000 or less");
        // More than the type holds.
        assert_eq!(
            whole::<u8>(0..=u64::MAX)("256").unwrap_err(),
            format!("expected {} or less", u64::MAX)
        );
        assert_eq!(
            whole::<u64>(0..=u64::MAX)(&u64::MAX.to_string()),
            Ok(u64::MAX)
        );
        assert_eq!(
            whole::<u64>(0..=u64::MAX)("18446744073709551616").unwrap_err(),
            "expected less than 2^64"
        );
    }

    #[test]
    fn other_forms_are_told_in_digits() {
        let error = |text| whole::<u64>(0..=u64::MAX)(text).unwrap_err();
        for (text, number) in [
            ("1e6", "1000000"),
            ("1E3", "1000"),
            ("10k", "10000"),
            ("2.5M", "2500000"),
            ("1'000", "1000"),
            ("3.0", "3"),
        ] {
            let expected = format!("expected a whole number in digits; write {number}");
            assert_eq!(error(text), expected, "{text}");
        }
        for text in [
            "", "_", "-1", "1.5", "1e-3", "many", "inf", "NaN", "1e300", "k", "0x10", "é",
        ] {
            let expected = "expected a whole number in digits, such as 1000000";
            assert_eq!(error(text), expected, "{text}");
        }
    }
}
