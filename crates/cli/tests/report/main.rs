//! The pages that commands write: their content, refused folders, and how a browser shows them.

#![allow(clippy::unwrap_used)]

mod browser;
mod png;

use browser::Browser;
use povmeter_dev_data::expect_data;
use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

fn povmeter(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_povmeter"));
    // The only comparison that needs the recorded block.
    if args.starts_with(&["compare", "pool"]) {
        command.env("POVMETER_DATA", expect_data());
    }
    command.args(args).output().unwrap()
}

/// What the program printed, and the page that it wrote into `folder`.
#[track_caller]
fn report(args: &str, folder: &Path) -> (String, String) {
    let folder_name = folder.to_str().unwrap();
    let args: Vec<_> = args.split(' ').chain(["--report", folder_name]).collect();
    let output = povmeter(&args);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{args:?}: {errors}");
    let page = folder.join("index.html");
    assert_eq!(errors, format!("report: {}\n", page.display()));
    let printed = String::from_utf8(output.stdout).unwrap();
    (printed, fs::read_to_string(page).unwrap())
}

/// The error message of the program, which printed nothing else.
#[track_caller]
fn error(args: &str, folder: &str) -> String {
    let args: Vec<_> = args.split(' ').chain(["--report", folder]).collect();
    let output = povmeter(&args);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{args:?}: {errors}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "");
    assert!(!errors.contains("thread '"), "{errors}");
    errors
}

#[track_caller]
fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}

/// The text of a page, without elements and style.
fn text(html: &str) -> String {
    let body = html.split("<body>").nth(1).unwrap();
    let mut text = String::new();
    for part in body.split('<') {
        text.push(' ');
        text.push_str(part.split_once('>').map_or("", |(_, text)| text).trim());
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn thousands(number: u64) -> String {
    match number / 1_000 {
        0 => number.to_string(),
        more => format!("{},{:03}", thousands(more), number % 1_000),
    }
}

const BLOCK: &str = "block --accounts 300 --transfers 100 --call transfer_all --state memory \
                     --signatures free --json";

#[test]
fn a_block_with_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let (json, _) = report(BLOCK, folder.path());
    let json: Value = serde_json::from_str(&json).unwrap();
    let estimates = json["estimates"].as_array().unwrap();
    let totals: Vec<u64> = estimates
        .iter()
        .map(|size| size["total"].as_u64().unwrap())
        .collect();
    let last = totals[totals.len() - 1];
    let blocks = estimates.iter().map(|size| size["block"].as_u64().unwrap());
    let counts: Vec<u64> = totals
        .iter()
        .zip(blocks)
        .map(|(total, block)| total + block)
        .collect();
    // Collators would stop within the last ten extrinsics.
    let limit = (counts[90] * 100).div_ceil(85);
    let stop = limit * 85 / 100;
    let crossed = counts.iter().position(|count| *count > stop).unwrap();
    assert!((90..101).contains(&crossed), "{crossed}");
    let (_, html) = report(&format!("{BLOCK} --pov-limit {limit}"), folder.path());
    let text = text(&html);
    let proof = &json["proof_bytes"];
    let number = |name: &str| thousands(proof[name].as_u64().unwrap());
    assert_has(
        &text,
        &[
            "100 transfer_all over 300 accounts",
            &format!("the proof has {} B", thousands(last)),
            &format!(
                "and {} B that only the computation of the root",
                number("root_adds_after_last")
            ),
            &format!("85 % of the limit, {} B, of header", thousands(stop)),
            &format!("This block crosses it at extrinsic {crossed}."),
            &format!("collators stop at extrinsic {crossed}"),
            &format!("crossed at extrinsic {crossed}"),
            &format!("proof compact, B {}", number("compact")),
            &format!("nodes in the proof {}", number("nodes")),
            "Executing an extrinsic takes",
            "Estimating after an extrinsic takes",
            "finalize with root",
            "Each of 101 extrinsics",
            "executes again from the compact proof alone holds",
            "processor",
            "cores",
            &format!(
                "povmeter block --accounts 300 --transfers 100 --call transfer_all --state \
                memory --signatures free --json --pov-limit {limit} --report"
            ),
            env!("CARGO_PKG_VERSION"),
        ],
    );
    // Each extrinsic has a row with its numbers.
    let (before, at) = (totals[crossed - 1], totals[crossed]);
    let row = html
        .lines()
        .find(|line| line.contains(&format!("<tr><td class=\"number\">{crossed}</td>")));
    assert_has(
        row.unwrap(),
        &[
            &format!(">{}<", thousands(at)),
            &format!(">{}<", thousands(at - before)),
        ],
    );
    let (_, rows) = html.split_once("Each of 101 extrinsics").unwrap();
    assert_eq!(
        rows.matches("<tr><td class=\"number\">").count(),
        totals.len()
    );
    for chart in ["growth", "execute", "estimate"] {
        let svg = fs::read_to_string(folder.path().join(format!("{chart}.svg"))).unwrap();
        assert_has(
            &svg,
            &[
                "<!-- povmeter ",
                "<title",
                "<desc",
                "prefers-color-scheme: dark",
            ],
        );
    }
    assert!(!html.contains("<script") && !html.contains("src="));
}

#[test]
fn a_block_within_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    // Created if missing, with the folders above it.
    let path = folder.path().join("reports/of today");
    let args = "block --accounts 100 --transfers 10 --state memory --pov-limit 5MiB";
    let (printed, html) = report(args, &path);
    assert_has(
        &printed,
        &["estimate after last", "ok     estimate complete"],
    );
    let text = text(&html);
    assert_has(
        &text,
        &[
            "of the limit of 5,242,880 B (5 MiB).",
            "This block stays below it.",
            "collators stop nowhere",
        ],
    );
    assert!(!text.contains("crossed at"), "{text}");
}

#[test]
fn the_picture_in_the_docs_is_what_the_program_draws() {
    let folder = tempfile::tempdir().unwrap();
    let args = "block --call transfer_all --pov-limit 470KiB --state memory --signatures free";
    let (_, html) = report(args, folder.path());
    assert_has(
        &text(&html),
        &[
            "This block crosses it at extrinsic 529.",
            "A count of reads alone does not cross it before the block is finalized.",
        ],
    );
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pov-growth.svg");
    let [docs, drawn] = [docs, folder.path().join("growth.svg")].map(|file| {
        let svg = fs::read_to_string(file).unwrap();
        // Drop the first line, which has the version.
        svg.split_once('\n').unwrap().1.to_owned()
    });
    assert!(
        docs == drawn,
        "copy growth.svg of `povmeter {args} --report DIR` to docs/pov-growth.svg"
    );
}

#[test]
fn every_comparison_has_a_page() {
    let commands = [
        (
            "compare block --rounds 1 --accounts 100 --transfers 10 --workers 2 --json",
            "Ways to know the size of the proof",
            "ladder",
            &[
                "root-each-tx",
                "povmeter-none",
                "100.0 %",
                "roots equal holds",
            ][..],
        ),
        (
            "compare root --cases 2 --rounds 1 --keys 500 --json",
            "Root updates beside sp-state-machine’s",
            "roots-1",
            &[
                "peer_plain",
                "portable",
                "500 accounts",
                "100 changes",
                "updates agree holds",
            ],
        ),
        (
            "chain --accounts 200 --transfers 10 --blocks 4 --keep 2 --json",
            "Blocks on top of each other",
            "chain-time",
            &["4 blocks", "carried on", "Nodes asked of the store", "verified holds"],
        ),
        (
            "compare overlay --rounds 1 --only get --json",
            "The overlay beside sp-state-machine’s",
            "overlay",
            &["get hit at depth 256", "memory for each changed key"],
        ),
        (
            "compare cache --accounts 500 --blocks 4 --touched 20 --access zipf --writes 50 --bytes 100,200 --json",
            "Caches of trie nodes",
            "cache-zipf",
            &["quick_cache", "fifo-ring", "no stale reads holds", "Zipf"],
        ),
        (
            "compare parallel --transactions 60 --workload random-100,worst --cost-us 0,10 --workers 1,2 --rounds 1 --json",
            "Blocks on several threads",
            "parallel-worst",
            &[
                "60 transactions in a block",
                "A model: a simulation of the scheduler",
                "it is no measurement.",
                "tree-per-key",
                "same_as_sequential holds",
                "each-ahead",
                "targets met",
            ],
        ),
    ];
    for (args, title, chart, parts) in commands {
        assert_page(args, title, chart, parts);
    }
}

#[test]
#[ignore = "needs the real chain data"]
fn a_page_of_pooled_blocks() {
    expect_data();
    assert_page(
        "compare pool --json",
        "A block in the memory of earlier ones",
        "pool",
        &["544 transfers", "bytes of sealing", "same block holds"],
    );
}

/// The page of this command has this title, this chart and these parts.
#[track_caller]
fn assert_page(args: &str, title: &str, chart: &str, parts: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let (printed, html) = report(args, folder.path());
    let _: Value = serde_json::from_str(&printed).unwrap();
    let text = text(&html);
    assert_has(&text, &[title, "Where these numbers come from"]);
    assert_has(&text, parts);
    assert!(
        folder.path().join(format!("{chart}.svg")).is_file(),
        "{chart}"
    );
}

#[test]
fn folders_that_take_no_report() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let small = "block --accounts 100 --transfers 10 --state memory";
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let message = error(small, file.to_str().unwrap());
    assert_has(
        &message,
        &[
            "expected a folder for the report",
            "found a file",
            "help: name another folder with `--report`",
        ],
    );
    let below = file.join("below");
    let message = error(small, below.to_str().unwrap());
    assert_has(
        &message,
        &["that can be written to, found", "help: name another folder"],
    );
    let page = folder.path().join("index.html");
    fs::write(&page, "<html>my own</html>").unwrap();
    let message = error(small, path);
    assert_has(
        &message,
        &[
            "index.html: expected a file of an earlier report",
            "help: move the file away",
        ],
    );
    assert_eq!(fs::read_to_string(&page).unwrap(), "<html>my own</html>");
    fs::remove_file(&page).unwrap();
    // A command that fails leaves no folder behind.
    let made = folder.path().join("made");
    error("block --accounts 1 --state memory", made.to_str().unwrap());
    assert!(!made.exists());
    let deep = made.join("a/b");
    error("block --accounts 1 --state memory", deep.to_str().unwrap());
    assert!(!made.exists());
    // Nor does one that would write the page into the folder of its state.
    for (command, report) in [("block", &deep), ("chain --blocks 1", &made)] {
        let args = format!(
            "{command} --accounts 100 --transfers 1 --db {}",
            made.display()
        );
        let args: Vec<_> = args
            .split(' ')
            .chain(["--report", report.to_str().unwrap()])
            .collect();
        let refused = povmeter(&args);
        assert_eq!(refused.status.code(), Some(2));
        let errors = String::from_utf8(refused.stderr).unwrap();
        let parts = [
            "outside of the state in",
            "help: name a folder beside that of the state",
        ];
        assert_has(&errors, &parts);
        assert!(!made.exists());
    }
    // The page of an earlier report is replaced.
    report(small, folder.path());
    report(small, folder.path());
}

#[test]
fn limits_that_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    for (limit, expected) in [
        (
            "lots",
            "expected a whole number of bytes such as 5242880, 512KiB or 5MiB",
        ),
        ("1.5MiB", "expected a whole number of bytes"),
        ("5Mb5", "expected one of the suffixes"),
        ("0", "expected at least one byte"),
        ("99999999999999999999", "expected less than 2^64 bytes"),
    ] {
        let message = error(&format!("block --pov-limit {limit}"), path);
        assert_has(&message, &[expected, limit, "--pov-limit"]);
    }
}

/// Also without a page. The result is printed before the error.
#[test]
fn a_block_above_the_limit_has_an_exit_code() {
    let words = BLOCK.split(' ').filter(|word| *word != "--json");
    let block: Vec<_> = words.chain(["--pov-limit"]).collect();
    for (limit, code, said) in [
        ("10KiB", 3, "the PoV is larger"),
        ("10MiB", 0, "recorded proof, and would not stop"),
    ] {
        let output = povmeter(&[&block[..], &[limit]].concat());
        assert_eq!(output.status.code(), Some(code));
        assert_has(
            &String::from_utf8(output.stdout).unwrap(),
            &[said, "PoV compressed"],
        );
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            errors.contains("expected a PoV of at most 10240 bytes"),
            code == 3
        );
    }
}

#[test]
fn a_browser_shows_the_page() {
    let Some(browser) = Browser::find() else {
        println!("skipped: no Chromium");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (_, html) = report(&format!("{BLOCK} --pov-limit 64KiB"), folder.path());
    let page = folder.path().join("index.html");

    let shown = text(&browser.dom(&page));
    // The browser parses every text as text, not as markup.
    assert_eq!(shown, text(&html).replace("&#39;", "'"));
    assert_has(
        &shown,
        &["How the block grows", "limit 65,536 B (64 KiB)", "Checks"],
    );

    let [blue, ground, night] = [[0, 0x72, 0xb2], [255; 3], [0x12, 0x17, 0x1d]];
    for (width, dark, background) in [
        (1200, false, ground),
        (1200, true, night),
        (390, false, ground),
        (390, true, night),
    ] {
        let picture = png::read(&browser.screenshot(&page, width, dark));
        assert_eq!((picture.width, picture.height), (width, 1600));
        assert!(picture.colors() > 50, "blank at {width}, dark {dark}");
        let share = picture.share(background);
        assert!(
            (0.3..0.95).contains(&share),
            "{share} of {width}, dark {dark}"
        );
        if !dark {
            assert!(picture.share(blue) > 0.02, "no chart at {width}");
        }
    }
}

#[test]
fn a_phone_shows_the_page_without_scrolling_sideways() {
    let Some(browser) = Browser::find() else {
        println!("skipped: no Chromium");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    report(&format!("{BLOCK} --pov-limit 64KiB"), folder.path());
    // A frame as wide as a small phone, and a script outside the page that unfolds all tables and
    // measures the page.
    let frame = folder.path().join("frame.html");
    let script = "onload = () => {
        const page = document.querySelector('iframe').contentDocument;
        page.querySelectorAll('details').forEach(it => it.open = true);
        const seen = name => [...page.querySelectorAll(name)].filter(it => it.clientWidth > 0).length;
        const {scrollWidth, clientWidth} = page.documentElement;
        document.querySelector('p').textContent = 'fits ' + (scrollWidth <= clientWidth)
            + ', wide ' + seen('svg.wide') + ', narrow ' + seen('svg.narrow');
    }";
    for (width, expected) in [
        (360, "fits true, wide 0, narrow 6"),
        (1000, "fits true, wide 6, narrow 0"),
    ] {
        let html = format!(
            "<body><iframe src=index.html width={width} height=600></iframe><p></p>\
             <script>{script}</script>"
        );
        fs::write(&frame, html).unwrap();
        assert_has(&browser.dom(&frame), &[expected]);
    }
}
