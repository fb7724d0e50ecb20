//! Names of functions, made short enough to be read in a picture.

/// The name without type parameters and inner modules: crate, type, function.
///
/// `<a::b::Type<T> as c::Trait<U>>::run::{{closure}}` becomes `a::Type::run::{{closure}}`.
pub(crate) fn short(name: &str) -> String {
    let name = without_hash(name);
    let flat = flatten(name);
    let parts: Vec<&str> = flat.split("::").filter(|part| !part.is_empty()).collect();
    let named = |part: &&str| !part.starts_with("{{");
    let kept = parts.iter().rposition(named).unwrap_or(0);
    // The function, and the type before it if there is one.
    let has_type = kept > 0 && parts[kept - 1].starts_with(char::is_uppercase);
    let from = kept - usize::from(has_type);
    let mut short = Vec::new();
    if from > 0 {
        short.push(parts[0]);
    }
    short.extend(&parts[from..]);
    short.join("::")
}

/// The crate that a function belongs to; `libc and others` for one without a path.
pub(crate) fn crate_of(name: &str) -> String {
    let flat = flatten(without_hash(name));
    match flat.split_once("::") {
        Some((first, _)) if !first.is_empty() => first.to_owned(),
        _ => "libc and others".to_owned(),
    }
}

/// The name without the hash that compilers put behind it.
pub(crate) fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((rest, hash))
            if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            rest
        }
        _ => name,
    }
}

/// The name with the type in place of each `<type as trait>` at its beginning, and without parameters.
fn flatten(name: &str) -> String {
    if let Some(inner) = name.strip_prefix('<') {
        let end = closing(inner);
        let (quoted, rest) = (&inner[..end], inner.get(end + 1..).unwrap_or_default());
        let quoted = quoted.strip_prefix("impl ").unwrap_or(quoted);
        let (of, as_trait) = split_as(quoted);
        let of = of.trim_start_matches(['&', '*', '(', '[']);
        let of = ["mut ", "const ", "dyn "]
            .iter()
            .fold(of, |of, word| of.strip_prefix(word).unwrap_or(of));
        // For a type parameter, a reference or a tuple, the trait says more.
        let of = match as_trait {
            Some(as_trait) if !of.contains("::") => as_trait,
            _ => of,
        };
        return format!("{}{}", flatten(of), without_parameters(rest));
    }
    without_parameters(name)
}

/// `type as trait`, taken apart; what is in brackets does not count.
fn split_as(quoted: &str) -> (&str, Option<&str>) {
    let mut depth = 0_u32;
    for (at, byte) in quoted.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => depth = depth.saturating_sub(1),
            b' ' if depth == 0 && quoted[at..].starts_with(" as ") => {
                return (&quoted[..at], Some(&quoted[at + 4..]));
            }
            _ => {}
        }
    }
    (quoted, None)
}

/// The offset at which the bracket opened before `text` closes; the length of `text` if it does not.
fn closing(text: &str) -> usize {
    let mut depth = 1_u32;
    let mut before = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            // Not an arrow.
            b'>' if before != b'-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
        before = byte;
    }
    text.len()
}

/// The path without what is in angle brackets.
fn without_parameters(path: &str) -> String {
    let mut rest = path;
    let mut flat = String::new();
    while let Some(at) = rest.find('<') {
        flat.push_str(&rest[..at]);
        rest = rest
            .get(at + 1 + closing(&rest[at + 1..]) + 1..)
            .unwrap_or_default();
    }
    flat.push_str(rest);
    flat
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_keep_crate_type_and_function() {
        let cases = [
            ("povmeter_overlay::overlay::Overlay::set", "povmeter_overlay::Overlay::set"),
            ("sp_io::storage::get_version_1::h0123456789abcdef", "sp_io::get_version_1"),
            (
                "<povmeter_substrate::externalities::Ext<S,A> as sp_externalities::Externalities>::storage",
                "povmeter_substrate::Ext::storage",
            ),
            (
                "<T as sp_runtime::traits::Dispatch<Call>>::dispatch",
                "sp_runtime::Dispatch::dispatch",
            ),
            (
                "pallet_balances::impl_fungible::<impl frame_support::Unbalanced<T> for Pallet>::write",
                "pallet_balances::write",
            ),
            ("std::thread::local::LocalKey<T>::with", "std::LocalKey::with"),
            ("alloc::vec::Vec<T,A>::push::{{closure}}", "alloc::Vec::push::{{closure}}"),
            ("__memcpy_avx_unaligned_erms", "__memcpy_avx_unaligned_erms"),
            ("malloc", "malloc"),
            ("[unknown]", "[unknown]"),
        ];
        for (name, expected) in cases {
            assert_eq!(short(name), expected);
        }
    }

    #[test]
    fn crates_are_those_of_the_type_or_else_of_the_trait() {
        let cases = [
            (
                "povmeter_overlay::overlay::Overlay::set",
                "povmeter_overlay",
            ),
            (
                "<&mut dyn sp_externalities::Ext as sp_io::Storage>::get",
                "sp_externalities",
            ),
            ("<T as codec::Decode>::decode", "codec"),
            ("<[A] as core::cmp::PartialEq>::eq", "core"),
            ("<hashbrown::map::HashMap<povmeter::K,V>>::get", "hashbrown"),
            ("malloc", "libc and others"),
        ];
        for (name, expected) in cases {
            assert_eq!(crate_of(name), expected, "{name}");
        }
    }

    #[test]
    fn odd_names_are_no_trouble() {
        for name in ["", "<", "<<", "a<", "<a as", "::", "<>::", "a::<impl b"] {
            let _ = (short(name), crate_of(name));
        }
    }
}
