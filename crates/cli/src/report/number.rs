//! Numbers as people read them.

/// Formats a number with a comma between thousands.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number that may be below zero as [`count`] does.
pub(super) fn signed(number: i64) -> String {
    let sign = if number < 0 { "−" } else { "" };
    format!("{sign}{}", count(number.unsigned_abs()))
}

/// Formats a number with `places` decimals and a comma between thousands.
pub(super) fn decimal(number: f64, places: usize) -> String {
    if !number.is_finite() {
        return "–".to_owned();
    }
    let text = format!("{:.places$}", number.abs());
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let sign = if number < 0.0 && text.contains(|c| ('1'..='9').contains(&c)) {
        "−"
    } else {
        ""
    };
    // Numbers that exceed a u64 go without commas.
    let whole = whole.parse().map_or_else(|_| whole.to_owned(), count);
    format!("{sign}{whole}{fraction}")
}

/// Formats a number with about three significant digits.
pub(super) fn short(number: f64) -> String {
    let size = number.abs();
    let places = match size {
        _ if size == 0.0 => 0,
        _ if size < 0.0995 => 3,
        _ if size < 9.95 => 2,
        _ if size < 99.5 => 1,
        _ => 0,
    };
    decimal(number, places)
}

/// The number, or a dash.
pub(super) fn count_or_none(number: Option<u64>) -> String {
    number.map_or_else(|| "–".to_owned(), count)
}

/// Formats a number of bytes.
pub(super) fn bytes(number: u64) -> String {
    format!("{} B", count(number))
}

/// Formats a limit in bytes, and in a larger unit if it is a whole number of that unit.
pub(super) fn limit(number: u64) -> String {
    let exact = bytes(number);
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units
        .into_iter()
        .find(|(_, shift)| number > 0 && number.trailing_zeros() >= *shift);
    match unit {
        Some((name, shift)) => format!("{exact} ({} {name})", count(number >> shift)),
        None => exact,
    }
}

/// A number as a position in a chart. Exact below 2^53.
pub(super) fn place(number: u64) -> f64 {
    number as f64
}

/// The value that `share` of the `values` do not exceed; zero if there are none.
pub(super) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted: Vec<f64> = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let wanted = share * sorted.len() as f64;
    let below = (1..sorted.len()).filter(|rank| (*rank as f64) < wanted);
    sorted.get(below.count()).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_have_commas() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (330_620, "330,620"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(count(number), text);
            assert_eq!(signed(number.cast_signed()), text);
        }
        assert_eq!(signed(-1_150), "−1,150");
        assert_eq!(decimal(1234.567, 1), "1,234.6");
        assert_eq!(decimal(-0.04, 1), "0.0");
        assert_eq!(decimal(-1234.0, 0), "−1,234");
        assert_eq!(decimal(f64::NAN, 1), "–");
    }

    #[test]
    fn limits_have_their_unit() {
        assert_eq!(limit(327_680), "327,680 B (320 KiB)");
        assert_eq!(limit(5_242_880), "5,242,880 B (5 MiB)");
        assert_eq!(limit(327_681), "327,681 B");
        assert_eq!(limit(0), "0 B");
    }

    #[test]
    fn three_digits_matter() {
        for (number, text) in [
            (0.0, "0"),
            (0.034, "0.034"),
            (0.83, "0.83"),
            (6.149, "6.15"),
            (14.52, "14.5"),
            (677.9, "678"),
            (18_022.4, "18,022"),
        ] {
            assert_eq!(short(number), text);
        }
    }

    #[test]
    fn quantiles() {
        let values = [4.0, 1.0, 3.0, 2.0];
        for (share, value) in [(0.0, 1.0), (0.5, 2.0), (0.51, 3.0), (0.75, 3.0), (1.0, 4.0)] {
            assert!((quantile(&values, share) - value).abs() < 1e-9, "{share}");
        }
        assert!(quantile(&[], 0.5).abs() < 1e-9);
    }
}
