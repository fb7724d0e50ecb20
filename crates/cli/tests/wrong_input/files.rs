//! The files that the cases name. Each is called after what is in it.

use flate2::{write::GzEncoder, Compression};
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};
use tempfile::TempDir;

/// A folder with all files.
pub(crate) struct Files(TempDir);

const SMALL: &str = "block --accounts 10 --transfers 1 --json";

impl Files {
    pub(crate) fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        files.texts();
        files.results();
        files.specifications();
        files.blocks();
        files.recordings();
        files.rows();
        files.stores();
        files
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// All files with their length, and all folders.
    pub(crate) fn listing(&self) -> Vec<(PathBuf, u64)> {
        let (mut listing, mut open) = (Vec::new(), vec![self.path().to_owned()]);
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let (path, data) = entry.map(|entry| (entry.path(), entry.metadata())).unwrap();
                let data = data.unwrap();
                // Opening a store touches its lock and its log.
                let length = if data.is_file() && !path.starts_with(self.path().join("store")) {
                    data.len()
                } else {
                    0
                };
                listing.push((path.clone(), length));
                if data.is_dir() && !path.ends_with("store") && !path.ends_with("damaged-store") {
                    open.push(path);
                }
            }
        }
        listing.sort();
        listing
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path().join(name), content).unwrap();
    }

    fn make(&self, command: &str) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_povmeter"))
            .current_dir(self.path())
            .args(command.split(' '))
            .output()
            .unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{command}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn texts(&self) {
        fs::create_dir(self.path().join("folder")).unwrap();
        fs::create_dir(self.path().join("letters")).unwrap();
        self.write("letters/letter.txt", "dear diary");
        self.write("diary.txt", "dear diary\nnothing happened\n");
        self.write("empty.json", "");
        self.write("list.json", "[1]");
        self.write("object.json", "{}");
        self.write("noise.json", [0x80, 0, 7, 0xc3, 0x28, 0xff, 1]);
        let wide = "{\"what\":\"block\"}".encode_utf16();
        let wide: Vec<u8> = wide.flat_map(u16::to_le_bytes).collect();
        self.write("utf-16.json", [&[0xff, 0xfe][..], &wide].concat());
        self.write("utf-16.txt", [&[0xff, 0xfe][..], &wide].concat());
        self.write("latin-1.txt", b"0x01 Gr\xf6\xdfe\n");
        self.write("names-without-keys.txt", "Balances Account\n");
        let packed = gzip(|gzip| gzip.write_all(&[b' '; 1000]).unwrap());
        self.write("cut-off.json.gz", &packed[..packed.len() - 5]);
        let bomb = |bytes: usize| {
            gzip(|gzip| {
                let block = vec![b' '; 1 << 20];
                (0..=bytes >> 20).for_each(|_| gzip.write_all(&block).unwrap());
            })
        };
        self.write("64-mib-and-more.json.gz", bomb(64 << 20));
        self.write("512-mib-and-more.json.gz", bomb(512 << 20));
        self.write("16-mib-and-more.txt.gz", bomb(16 << 20));
    }

    fn results(&self) {
        let result = self.make(&format!("{SMALL} --state memory"));
        self.write("result.json", &result);
        let other = self.make("block --accounts 10 --transfers 2 --json --state memory");
        self.write("two-transfers.json", other);
        // Cut off before the numbers that differ from run to run, so that the error is always the same.
        let (before, _) = result.split_once("\"phases\"").unwrap();
        self.write("cut-off.json", before);
        self.write(
            "schema-9.json",
            result.replacen("\"schema\": 1", "\"schema\": 9", 1),
        );
        self.write(
            "without-root.json",
            result.replacen("\"root\":", "\"roof\":", 1),
        );
        self.write(
            "negative.json",
            result.replacen("\"nodes\": ", "\"nodes\": -", 1),
        );
        self.write(
            "text-for-number.json",
            result.replacen("\"accounts\": 10", "\"accounts\": \"10\"", 1),
        );
    }

    fn specifications(&self) {
        self.write("state.json", r#"{"top": {"0x01": "0x02"}}"#);
        let genesis = self.make("genesis state.json --json");
        self.write("genesis-result.json", genesis);
        for (name, content) in [
            (
                "spec-not-raw.json",
                r#"{"name": "a", "genesis": {"runtimeGenesis": {}}}"#,
            ),
            (
                "spec-without-top.json",
                r#"{"name": "a", "genesis": {"raw": {}}}"#,
            ),
            ("spec-odd-digits.json", r#"{"top": {"0x01": "0x123"}}"#),
            ("spec-no-digits.json", r#"{"top": {"zz": "0x12"}}"#),
            (
                "spec-key-twice.json",
                r#"{"top": {"0x01": "0x02", "0x01": "0x03"}}"#,
            ),
            ("spec-number.json", r#"{"top": {"0x01": 2}}"#),
            (
                "spec-without-child.json",
                r#"{"top": {"0x3a6368696c645f73746f726167653a64656661756c743a61": "0x02"}}"#,
            ),
        ] {
            self.write(name, content);
        }
    }

    fn blocks(&self) {
        let blocks = |state: &str, version: &str, blocks: &str| {
            format!(
                r#"{{"name": "a", "state": "{state}", "state_version": "{version}", "blocks": [{blocks}]}}"#
            )
        };
        let block = |hash: &str, header: &str| {
            format!(r#"{{"number": 1, "hash": "{hash}", "header": "{header}", "body": []}}"#)
        };
        let hash = "00".repeat(32);
        // A header of block 1 with nothing but zeros.
        let header = format!("{hash}04{hash}{hash}00");
        self.write("blocks-none.json", blocks("state.json", "V1", ""));
        self.write(
            "blocks-version-7.json",
            blocks("state.json", "V7", &block(&hash, &header)),
        );
        self.write(
            "blocks-short-hash.json",
            blocks("state.json", "V1", &block("00", &header)),
        );
        self.write(
            "blocks-no-digits.json",
            blocks("state.json", "V1", &block("xy", &header)),
        );
        self.write(
            "blocks-short-header.json",
            blocks("state.json", "V1", &block(&hash, "00")),
        );
        let right = hex::encode(sp_crypto_hashing::blake2_256(
            &hex::decode(&header).unwrap(),
        ));
        self.write(
            "blocks-1.json",
            blocks("state.json", "V1", &block(&right, &header)),
        );
        self.write(
            "blocks-without-state.json",
            blocks("../missing.json", "V1", &block(&right, &header)),
        );
        self.write(
            "blocks-other-hash.json",
            blocks("state.json", "V1", &block(&hash, &header)),
        );
    }

    /// A recording that is whole, and others that are not.
    fn recordings(&self) {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../examples/kusama-1.povmeter"
        );
        let whole = fs::read(path).unwrap();
        self.write("kusama-1.povmeter", &whole);
        self.write("recording-cut-off.povmeter", &whole[..whole.len() / 2]);
        let mut changed = whole.clone();
        changed[whole.len() / 2] ^= 1;
        self.write("recording-changed.povmeter", &changed);
        let mut version = whole.clone();
        // After the letters that begin each recording.
        version[b"povmrec".len()] = 9;
        self.write("recording-version-9.povmeter", &version);
        self.write(
            "recording-and-more.povmeter",
            [&whole[..], b"more"].concat(),
        );
    }

    /// Folders in which a scan finds files that are not its own.
    fn rows(&self) {
        for folder in ["tables", "halves"] {
            fs::create_dir(self.path().join(folder)).unwrap();
        }
        self.write("tables/items-1-of-1.parquet", "dear diary");
        self.write("halves/blocks-2-of-2.jsonl", "");
    }

    fn stores(&self) {
        self.make(&format!("{SMALL} --db store"));
        let verified = self.make("db verify store --json");
        self.write("verify-result.json", verified);
        self.make("db backup store damaged-store");
        for entry in fs::read_dir(self.path().join("damaged-store")).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().is_some_and(|name| name == "metadata") {
                fs::write(path, [0x7f; 64]).unwrap();
            }
        }
    }
}

/// What `fill` writes, compressed.
fn gzip(fill: impl FnOnce(&mut GzEncoder<Vec<u8>>)) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    fill(&mut encoder);
    encoder.finish().unwrap()
}
