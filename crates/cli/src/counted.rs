//! Numbers with what they count.

/// Returns the number and what it counts, which is `one` in the singular: "1 request", "2 requests".
pub(crate) fn counted(number: u64, one: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        more => format!("{more} {one}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        let found = [0, 1, 2].map(|number| counted(number, "request"));
        assert_eq!(found, ["0 requests", "1 request", "2 requests"]);
    }
}
