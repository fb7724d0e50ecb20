//! Makes a case smaller.

use super::{Case, ParentState, TrieEntries};

/// Returns the smallest case found by leaving out parts of `case`, for which `holds` still returns
/// true.
///
/// Costs a call of `holds` for each part tried: some thousands for a case of usual size.
pub fn shrink(case: &Case, mut holds: impl FnMut(&Case) -> bool) -> Case {
    let mut smallest = case.clone();
    loop {
        let before = parts(&smallest);
        let mut chunk = smallest.ops.len().div_ceil(2);
        while chunk > 0 {
            let mut at = 0;
            while at < smallest.ops.len() {
                let mut tried = smallest.clone();
                let end = (at + chunk).min(tried.ops.len());
                tried.ops.drain(at..end);
                if holds(&tried) {
                    smallest = tried;
                } else {
                    at += chunk;
                }
            }
            chunk /= 2;
        }
        drop_pairs(&mut smallest, &mut holds);
        drop_entries(&mut smallest, &mut holds);
        if parts(&smallest) == before {
            return smallest;
        }
    }
}

fn parts(case: &Case) -> usize {
    let parent = &case.parent;
    let in_children = parent.children.values().map(TrieEntries::len);
    case.ops.len() + parent.top.len() + parent.rewritten.len() + in_children.sum::<usize>()
}

/// Leaves out two calls at a time, such as those that open and close a transaction.
fn drop_pairs(smallest: &mut Case, holds: &mut impl FnMut(&Case) -> bool) {
    let mut first = 0;
    while first < smallest.ops.len() {
        let second = (first + 1..smallest.ops.len()).find(|second| {
            let mut tried = smallest.clone();
            tried.ops.remove(*second);
            tried.ops.remove(first);
            holds(&tried)
        });
        match second {
            Some(second) => {
                smallest.ops.remove(second);
                smallest.ops.remove(first);
            }
            None => first += 1,
        }
    }
}

fn drop_entries(smallest: &mut Case, holds: &mut impl FnMut(&Case) -> bool) {
    drop_keys(smallest, holds, |parent| Some(&mut parent.top));
    drop_keys(smallest, holds, |parent| Some(&mut parent.rewritten));
    for child in smallest.parent.children.keys().cloned().collect::<Vec<_>>() {
        let mut tried = smallest.clone();
        tried.parent.children.remove(&child);
        if holds(&tried) {
            *smallest = tried;
            continue;
        }
        drop_keys(smallest, holds, |parent| parent.children.get_mut(&child));
    }
}

/// Leaves out entries of the trie that `trie` finds, but never the last entry of a child.
fn drop_keys(
    smallest: &mut Case,
    holds: &mut impl FnMut(&Case) -> bool,
    trie: impl Fn(&mut ParentState) -> Option<&mut TrieEntries>,
) {
    let keys: Vec<_> = trie(&mut smallest.parent)
        .into_iter()
        .flat_map(|entries| entries.keys().cloned())
        .collect();
    for key in keys {
        let mut tried = smallest.clone();
        if let Some(entries) = trie(&mut tried.parent) {
            entries.remove(&key);
        }
        let no_empty_child = tried
            .parent
            .children
            .values()
            .all(|child| !child.is_empty());
        if no_empty_child && holds(&tried) {
            *smallest = tried;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Flavour, Op};

    #[test]
    fn what_matters_is_left() {
        let case = Case::random(3, Flavour::DeleteHeavy);
        let deletes = |case: &Case| {
            let ops = case.ops.iter();
            ops.filter(|op| matches!(op, Op::Remove { .. })).count() >= 2
        };
        assert!(deletes(&case) && case.ops.len() > 2 && !case.parent.top.is_empty());
        let small = shrink(&case, deletes);
        assert_eq!(small.ops.len(), 2);
        assert_eq!(parts(&small), 2);
    }
}
