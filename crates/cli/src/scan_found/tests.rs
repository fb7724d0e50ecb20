//! Tests of the rows that an earlier run left.

#![allow(clippy::unwrap_used)]

use super::*;
use sp_core::H256;
use std::fs;

const SHARD: Shard = Shard { index: 2, of: 3 };

/// A row of a block whose items have 7 bytes.
fn row(block: u64) -> String {
    row_with(block, 7, "")
}

/// A row of a block with its bytes, and the name of a failed check or an empty text.
fn row_with(block: u64, recorded: u64, failed: &str) -> String {
    let hash = hash(block);
    format!(
        "{{\"block\":{block},\"hash\":\"{hash}\",\"recorded\":{recorded},\"failed\":[{failed}]}}\n"
    )
}

fn item(block: u64, bytes: u64) -> String {
    format!("{{\"block\":{block},\"bytes\":{bytes}}}\n")
}

fn hash(block: u64) -> HexHash {
    H256::from_low_u64_be(block).into()
}

#[test]
fn an_interrupted_scan_goes_on_after_its_last_whole_block() {
    let folder = tempfile::tempdir().unwrap();
    let path = |kind: &str| folder.path().join(format!("{kind}-2-of-3.jsonl"));
    let part = 10..20;
    let write = |kind: &str, text: String| fs::write(path(kind), text).unwrap();
    let read = |kind: &str| fs::read_to_string(path(kind)).unwrap();
    let open = || FoundRows::open(folder.path(), SHARD, &part)?.cut();
    assert_eq!(open().unwrap().next(), 10);
    // Killed within the row of block 12, whose items are there.
    let whole = row(10) + &row(11);
    write("blocks", format!("{whole}{{\"block\":12,"));
    let items = item(10, 3) + &item(10, 4) + &item(11, 7);
    write("items", format!("{items}{}{}", item(12, 1), item(12, 2)));
    assert_eq!(open().unwrap().next(), 12);
    assert_eq!(
        (read("blocks"), read("items")),
        (whole.clone(), items.clone())
    );
    // Killed within an item.
    write("items", format!("{items}{{\"blo"));
    assert_eq!(open().unwrap().next(), 12);
    assert_eq!(read("items"), items);
    // Other rows are not touched.
    let refused = |text: String| {
        write("blocks", text.clone());
        let error = open().map(|_| ()).unwrap_err();
        assert_eq!(read("blocks"), text);
        error
    };
    for text in [row(11), row(10) + &row(10)] {
        let error = refused(text);
        assert!(matches!(error, CliError::OtherRows { .. }), "{error}");
    }
    let error = refused("something else\n".to_owned() + &row(10));
    assert!(matches!(error, CliError::NoRow { .. }), "{error}");
    let whole: String = (10..=part.end).map(row).collect();
    for (text, beyond) in [(row(9), 9), (whole, part.end)] {
        let error = refused(text);
        let is_beyond = matches!(error, CliError::RowsBeyond { found, .. } if found == beyond);
        assert!(is_beyond, "{error}");
    }
}

#[test]
fn a_scan_goes_on_before_the_first_block_whose_items_do_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let path = |kind: &str| folder.path().join(format!("{kind}-2-of-3.jsonl"));
    let failed = row_with(12, 7, "\"estimate complete\"");
    let blocks = [row(10), row_with(11, 0, ""), failed, row(13)];
    let [ten, twelve, thirteen] = [10, 12, 13].map(|block| item(block, 3) + &item(block, 4));
    let all = [&*ten, &twelve, &thirteen].concat();
    let cases = [
        (all.clone(), None),
        // Without rows, without those of a block, and without one of a block.
        (String::new(), Some((10, "found none;"))),
        ([&*ten, &thirteen].concat(), Some((12, "found none;"))),
        ([&*ten, &twelve].concat(), Some((13, "found none;"))),
        (
            [&*ten, &item(12, 4), &thirteen].concat(),
            Some((12, "found rows of 4 bytes;")),
        ),
        // A row twice, another size, a row of a block without items, a last row that is not whole.
        (
            [&*item(10, 3), &all].concat(),
            Some((10, "found rows of 10 bytes;")),
        ),
        (
            all.replace("3,\"bytes\":4", "3,\"bytes\":5"),
            Some((13, "found rows of 8 bytes;")),
        ),
        (
            [&*ten, &item(11, 1), &twelve].concat(),
            Some((11, "found rows of 1 byte;")),
        ),
        (
            all.trim_end().to_owned(),
            Some((13, "found rows of 3 bytes;")),
        ),
        // Out of order.
        (
            [&*twelve, &ten, &thirteen].concat(),
            Some((10, "found none;")),
        ),
        (
            [&*ten, &twelve, &ten, &thirteen].concat(),
            Some((
                12,
                "found rows of 7 bytes and rows of earlier blocks among them;",
            )),
        ),
        // Rows behind those of an unfinished block are cut off with it.
        (format!("{all}{}{ten}", item(14, 9)), None),
    ];
    for (items, expected) in cases {
        fs::write(path("blocks"), blocks.concat()).unwrap();
        fs::write(path("items"), &items).unwrap();
        let found = FoundRows::open(folder.path(), SHARD, &(10..20)).unwrap();
        assert_eq!(found.last(), Some((13, &hash(13))));
        let note = found.misfit().map(ToString::to_string).unwrap_or_default();
        let (next, why) = expected.unwrap_or((14, ""));
        assert!(note.contains(why), "{note}");
        assert_eq!(note.is_empty(), expected.is_none(), "{note}");
        if expected.is_some() {
            let from = format!("scanning again from block {next}");
            assert!(note.ends_with(&from), "{note}");
        }
        // Not before it is asked for.
        assert_eq!(fs::read_to_string(path("items")).unwrap(), items);
        let rows = found.cut().unwrap();
        assert_eq!(rows.next(), next, "{items}");
        let failed: &[u64] = if next > 12 { &[12] } else { &[] };
        assert_eq!(rows.failed_before(), failed);
        drop(rows);
        let kept = usize::try_from(next - 10).unwrap();
        let kept = blocks[..kept].concat();
        assert_eq!(fs::read_to_string(path("blocks")).unwrap(), kept);
        let of_kept = [(10, &ten), (12, &twelve), (13, &thirteen)];
        let of_kept = of_kept.iter().filter(|(block, _)| *block < next);
        let of_kept: String = of_kept.map(|(_, items)| items.as_str()).collect();
        assert_eq!(
            fs::read_to_string(path("items")).unwrap(),
            of_kept,
            "{items}"
        );
    }
}

#[test]
fn a_scan_goes_on_before_a_damaged_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = |kind: &str| folder.path().join(format!("{kind}-2-of-3.jsonl"));
    let blocks = [10, 11, 12, 13].map(row);
    let items = [10, 11, 12, 13].map(|block| item(block, 3) + &item(block, 4));
    let damaged = |rows: &[String; 4], at: usize| {
        let mut rows = rows.clone();
        rows[at] = rows[at].replace('{', "\0");
        rows.concat()
    };
    let open = || FoundRows::open(folder.path(), SHARD, &(10..20));
    for at in 0..4 {
        for (in_blocks, why) in [
            (true, "found a line that is none"),
            (false, "found none and a line that is no row"),
        ] {
            let (in_files, other) = match in_blocks {
                true => ((damaged(&blocks, at), items.concat()), "blocks"),
                false => ((blocks.concat(), damaged(&items, at)), "items"),
            };
            fs::write(path("blocks"), &in_files.0).unwrap();
            fs::write(path("items"), &in_files.1).unwrap();
            let read = || ["blocks", "items"].map(|kind| fs::read_to_string(path(kind)).unwrap());
            let Ok(found) = open() else {
                // Nothing shows that a scan wrote the file.
                let error = open().map(|_| ()).unwrap_err();
                let is_named =
                    matches!(&error, CliError::NoRow { path: named } if *named == path(other));
                assert!(at == 0 && is_named, "{error}");
                assert_eq!(read(), [in_files.0, in_files.1]);
                continue;
            };
            let from = format!("{why}; scanning again from block {}", 10 + at);
            let note = found.misfit().unwrap().to_string();
            assert!(note.ends_with(&from), "{note}");
            assert_eq!(found.cut().unwrap().next(), 10 + at as u64);
            assert_eq!(read(), [blocks[..at].concat(), items[..at].concat()]);
        }
    }
    // Rows of another part after a damaged line stay.
    let text = row(10) + "damaged\n" + &row(20);
    fs::write(path("blocks"), &text).unwrap();
    let error = open().map(|_| ()).unwrap_err();
    let is_beyond = matches!(error, CliError::RowsBeyond { found: 20, .. });
    assert!(is_beyond, "{error}");
    assert_eq!(fs::read_to_string(path("blocks")).unwrap(), text);
}

#[test]
fn items_of_a_block_whose_attribution_failed_need_not_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = |kind: &str| folder.path().join(format!("{kind}-2-of-3.jsonl"));
    let open = || FoundRows::open(folder.path(), SHARD, &(10..20)).unwrap();
    fs::write(path("blocks"), row_with(10, 7, "\"attribution adds up\"")).unwrap();
    fs::write(path("items"), item(10, 6)).unwrap();
    assert_eq!(open().misfit(), None);
    fs::write(path("items"), "").unwrap();
    assert!(open().misfit().is_some());
    // A damaged line after its items may be one of them.
    let blocks = row(10) + &row_with(11, 7, "\"attribution adds up\"") + &row(12);
    fs::write(path("blocks"), blocks).unwrap();
    let items = item(10, 7) + &item(11, 3);
    fs::write(path("items"), format!("{items}damaged\n{}", item(12, 7))).unwrap();
    let note = open().misfit().unwrap().to_string();
    let found = "found rows of 3 bytes before a line that is no row; scanning again from block 11";
    assert!(note.ends_with(found), "{note}");
    assert_eq!(open().cut().unwrap().next(), 11);
    assert_eq!(fs::read_to_string(path("items")).unwrap(), item(10, 7));
}

#[test]
fn a_file_of_one_unfinished_line_is_kept_unless_it_begins_a_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = |kind: &str| folder.path().join(format!("{kind}-2-of-3.jsonl"));
    let open = || FoundRows::open(folder.path(), SHARD, &(10..20))?.cut();
    for kind in ["blocks", "items"] {
        for (text, is_kept) in [
            ("something else", true),
            ("{\"blocks\":", true),
            ("\0", true),
            ("{", false),
            ("{\"block\":", false),
            ("{\"block\":10,\"ha", false),
        ] {
            fs::write(path(kind), text).unwrap();
            let opened = open().map(|_| ());
            match is_kept {
                true => {
                    let error = opened.unwrap_err();
                    let is_named =
                        matches!(&error, CliError::NoRow { path: named } if *named == path(kind));
                    assert!(is_named, "{error}");
                    assert_eq!(fs::read_to_string(path(kind)).unwrap(), text);
                }
                false => {
                    opened.unwrap();
                    assert_eq!(fs::read_to_string(path(kind)).unwrap_or_default(), "");
                }
            }
        }
        // A row that fits shows that a scan wrote the file.
        fs::write(path("blocks"), row(10)).unwrap();
        fs::write(path("items"), item(10, 7)).unwrap();
        let whole = fs::read_to_string(path(kind)).unwrap();
        fs::write(path(kind), format!("{whole}\0")).unwrap();
        open().unwrap();
        assert_eq!(fs::read_to_string(path(kind)).unwrap(), whole);
        fs::remove_file(path("blocks")).unwrap();
        fs::remove_file(path("items")).unwrap();
    }
}

#[test]
fn rows_of_others_stay_when_a_block_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let path = |kind: &str| folder.path().join(format!("{kind}-2-of-3.jsonl"));
    fs::write(path("blocks"), row(10)).unwrap();
    for items in [item(10, 6) + "something else\n", item(10, 6) + &item(20, 1)] {
        fs::write(path("items"), &items).unwrap();
        let error = FoundRows::open(folder.path(), SHARD, &(10..20)).map(|_| ());
        let error = error.unwrap_err();
        let is_of_items = matches!(
            &error,
            CliError::NoRow { path: found } | CliError::RowsBeyond { path: found, .. }
                if *found == path("items")
        );
        assert!(is_of_items, "{error}");
        assert_eq!(fs::read_to_string(path("blocks")).unwrap(), row(10));
        assert_eq!(fs::read_to_string(path("items")).unwrap(), items);
    }
}

#[test]
fn rows_that_are_found_name_their_last_block_and_the_failed_ones() {
    let folder = tempfile::tempdir().unwrap();
    let open = || FoundRows::open(folder.path(), SHARD, &(10..20)).unwrap();
    assert_eq!(open().last(), None);
    let check = "\"estimate complete\"";
    // No items have no rows.
    let rows = [(10, check), (11, ""), (12, check)];
    let rows = rows
        .map(|(block, check)| row_with(block, 0, check))
        .concat();
    // The row of block 13 is not whole.
    let rows = rows + row_with(13, 0, check).trim_end();
    fs::write(folder.path().join("blocks-2-of-3.jsonl"), rows).unwrap();
    let found = open();
    assert_eq!(found.last(), Some((12, &hash(12))));
    assert_eq!(found.misfit(), None);
    let found = found.cut().unwrap();
    assert_eq!(found.next(), 13);
    assert_eq!(found.failed_before(), [10, 12]);
}

/// Writes whole rows of these blocks, with a failed check in each fifth.
fn write_blocks(folder: &Path, range: Range<u64>) {
    let check = |block| {
        if block % 5 == 0 {
            "\"estimate complete\""
        } else {
            ""
        }
    };
    let blocks: String = range
        .clone()
        .map(|block| row_with(block, 7, check(block)))
        .collect();
    let items: String = range
        .map(|block| item(block, 3) + &item(block, 4))
        .collect();
    fs::write(folder.join("blocks-2-of-3.jsonl"), blocks).unwrap();
    fs::write(folder.join("items-2-of-3.jsonl"), items).unwrap();
}

#[test]
fn a_scan_goes_on_where_the_chain_was_reorganized() {
    let other = HexHash::from(H256::repeat_byte(9));
    let part = 10..20_000;
    for (blocks, first_other, kept) in [
        (10..30, 29, Some(29)),
        (10..30, 17, Some(17)),
        (10..30, 11, Some(11)),
        (10..30, 30, Some(30)),
        // All rows are of another chain.
        (10..30, 10, None),
        // The deepest reorganization, and one that is deeper.
        (10..5_000, 5_000 - 1_023, Some(5_000 - 1_023)),
        (10..5_000, 5_000 - 1_024, None),
    ] {
        let folder = tempfile::tempdir().unwrap();
        write_blocks(folder.path(), blocks.clone());
        let mut found = FoundRows::open(folder.path(), SHARD, &part).unwrap();
        let mut asked = 0;
        let goes_back = found.keep_rows_of(|block| {
            asked += 1;
            Ok(if block < first_other {
                hash(block)
            } else {
                other.clone()
            })
        });
        assert_eq!(goes_back.unwrap(), kept.is_some());
        assert!(asked <= 11, "{asked}");
        let kept = kept.unwrap_or(blocks.end);
        assert_eq!(found.next(), kept);
        let rows = found.cut().unwrap();
        let failed: Vec<u64> = (10..kept).filter(|block| block % 5 == 0).collect();
        assert_eq!((rows.next(), rows.failed_before()), (kept, &failed[..]));
        // The next block is a child of the last one.
        rows.expect_parent(&hash(kept - 1)).unwrap();
        let error = rows.expect_parent(&other).unwrap_err();
        let is_next = matches!(error, CliError::OtherParent { block, .. } if block == kept);
        assert!(is_next, "{error}");
        drop(rows);
        let read = |folder: &Path| {
            ["blocks", "items"].map(|kind| {
                fs::read_to_string(folder.join(format!("{kind}-2-of-3.jsonl"))).unwrap()
            })
        };
        let expected = tempfile::tempdir().unwrap();
        write_blocks(expected.path(), 10..kept);
        assert!(read(folder.path()) == read(expected.path()));
    }
}

#[test]
fn a_misfit_before_a_reorganization_stays_one() {
    let folder = tempfile::tempdir().unwrap();
    write_blocks(folder.path(), 10..15);
    fs::write(folder.path().join("items-2-of-3.jsonl"), item(10, 7)).unwrap();
    let mut found = FoundRows::open(folder.path(), SHARD, &(10..20)).unwrap();
    let other = HexHash::from(H256::repeat_byte(9));
    let goes_back = found.keep_rows_of(|block| {
        Ok(if block < 13 {
            hash(block)
        } else {
            other.clone()
        })
    });
    assert!(goes_back.unwrap());
    let rows = found.cut().unwrap();
    assert_eq!(rows.next(), 11);
    rows.expect_parent(&hash(10)).unwrap();
    // Without a row there is nothing to compare with.
    let empty = tempfile::tempdir().unwrap();
    let mut found = FoundRows::open(empty.path(), SHARD, &(10..20)).unwrap();
    assert!(!found.keep_rows_of(|_| Ok(other.clone())).unwrap());
    found.cut().unwrap().expect_parent(&other).unwrap();
}

#[test]
fn one_scan_at_a_time_has_the_rows_of_a_part() {
    let folder = tempfile::tempdir().unwrap();
    let open = |shard| FoundRows::open(folder.path(), shard, &(10..20))?.cut();
    let first = open(SHARD).unwrap();
    let blocks = folder.path().join("blocks-2-of-3.jsonl");
    let unfinished = row(10).trim_end().to_owned();
    fs::write(&blocks, &unfinished).unwrap();
    let second = open(SHARD).map(|_| ()).unwrap_err();
    assert!(
        matches!(&second, CliError::RowsInUse { path } if *path == blocks),
        "{second}"
    );
    // The row that the first scan is about to finish.
    assert_eq!(fs::read_to_string(&blocks).unwrap(), unfinished);
    open(Shard { index: 1, of: 3 }).unwrap();
    drop(first);
    open(SHARD).unwrap();
}
