//! The cases: commands as typed, grouped by what is wrong in them.

/// A command that must be refused.
pub(crate) struct Case {
    /// As typed into a shell, variables before the program's name. `''` is an empty argument.
    pub(crate) command: &'static str,
    /// Whether it needs a program that runs wasm.
    wasm: bool,
}

impl Case {
    /// Whether this program can run it.
    pub(crate) fn is_here(&self) -> bool {
        !self.wasm || cfg!(feature = "wasm")
    }

    /// The command with the program's name.
    pub(crate) fn shown(&self) -> String {
        let variables: String = self
            .words()
            .take_while(|word| is_variable(word))
            .fold(String::new(), |shown, word| shown + word + " ");
        let rest = self
            .command
            .strip_prefix(&*variables)
            .unwrap_or(self.command);
        format!("{variables}povmeter {rest}").trim_end().to_owned()
    }

    pub(crate) fn args(&self) -> impl Iterator<Item = &'static str> {
        let args = self.words().skip_while(|word| is_variable(word));
        args.map(|arg| if arg == "''" { "" } else { arg })
    }

    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let variables = self.words().take_while(|word| is_variable(word));
        variables.map(|word| word.split_once('=').unwrap())
    }

    fn words(&self) -> impl Iterator<Item = &'static str> {
        self.command.split_whitespace()
    }
}

fn is_variable(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty()
        && name
            .chars()
            .all(|letter| letter.is_ascii_uppercase() || letter == '_')
}

const fn case(command: &'static str) -> Case {
    Case {
        command,
        wasm: false,
    }
}

/// A case whose error only a program with the feature `wasm` has.
const fn wasm(command: &'static str) -> Case {
    Case {
        command,
        wasm: true,
    }
}

pub(crate) const SECTIONS: [(&str, &[Case]); 12] = [
    ("Commands and options", &COMMANDS),
    ("Numbers", &NUMBERS),
    ("Options that contradict each other", &COMBINATIONS),
    ("More than fits into memory", &MEMORY),
    ("Chain specifications and states", &SPECIFICATIONS),
    ("Results to compare", &RESULTS),
    ("Blocks, sizes and names", &BLOCKS),
    ("Running chains", &CHAINS),
    ("Recordings", &RECORDINGS),
    ("Files to write", &OUTPUTS),
    ("Stores", &STORES),
    ("Variables", &VARIABLES),
];

const COMMANDS: [Case; 19] = [
    case("build"),
    case("blok"),
    case("compare blocks"),
    case("block --acounts 5"),
    case("block --json=yes"),
    case("block extra"),
    case("block --accounts"),
    case("block --accounts 5 --accounts 6"),
    case("block --call transfer"),
    case("block --signatures ed25519"),
    case("block --state disk"),
    case("block --runtime evm"),
    case("block --state-version 2"),
    case("compare block --cache hot"),
    case("compare cache --access random"),
    case("compare parallel --workload random"),
    case("completions sh"),
    case("diff result.json"),
    case("genesis"),
];

const NUMBERS: [Case; 52] = [
    case("compare parallel --transactions 0"),
    case("compare parallel --workers 0"),
    case("compare parallel --cost-us 1h"),
    case("compare parallel --rounds 0"),
    case("block --accounts 1e6"),
    case("block --accounts 10k"),
    case("block --accounts 1.5"),
    case("block --accounts -5"),
    case("block --accounts=-5"),
    case("block --accounts ''"),
    case("block --accounts many"),
    case("block --accounts 4294967296"),
    case("block --accounts 1"),
    case("block --call transfer_all --accounts 10"),
    case("block --transfers 0x10"),
    case("block --seed 18446744073709551616"),
    case("block --workers 0"),
    case("block --workers 4294967295"),
    case("block --top 1e3"),
    case("block --report new --pov-limit lots"),
    case("block --report new --pov-limit 1.5MiB"),
    case("block --report new --pov-limit 5M"),
    case("block --report new --pov-limit 0"),
    case("block --report new --pov-limit 99999999999999999999"),
    case("chain --blocks 0"),
    case("chain --blocks 100001"),
    case("chain --keep 1"),
    case("chain --carry 1048577"),
    case("compare block --rounds 0"),
    case("compare block --workers 1"),
    case("compare block --workers 2,x"),
    case("compare block --rounds 1e2"),
    case("compare root --cases 0"),
    case("compare root --keys 5"),
    case("compare root --keys 100,"),
    case("compare root --keys 1000000000000000000"),
    case("compare root --split-from -1"),
    case("compare estimator --keys 10000,9999"),
    case("compare estimator --cases 1e300"),
    case("compare overlay --rounds 100001"),
    case("compare cache --accounts 0"),
    case("compare cache --blocks 1"),
    case("compare cache --touched 0"),
    case("compare cache --writes 101"),
    case("compare cache --bytes 0"),
    case("compare validation --transfers 15"),
    case("compare validation --accounts 1"),
    wasm("compare validation --accounts 2 --usual-accounts 2 --transfers 16"),
    case("db prune store --keep 0"),
    case("db prune store --keep 1e2"),
    case("diff result.json result.json --fail-above=-1"),
    case("diff result.json result.json --fail-above NaN"),
];

const COMBINATIONS: [Case; 15] = [
    case("block --state memory --db new"),
    case("block --no-attribute --top 3"),
    case("block --chain-spec state.json --accounts 5"),
    case("block --chain-spec state.json --workers 2"),
    case("block --folded new --flamegraph new"),
    case("block --folded ./new --flamegraph new"),
    case("block --names diary.txt --folded diary.txt"),
    case("block --report new --flamegraph new/growth.svg"),
    wasm("block --runtime wasm --state-version 0"),
    case("replay blocks-other-hash.json --peer --lockstep"),
    case("replay blocks-other-hash.json --every-node --peer"),
    case("replay blocks-other-hash.json --peer --sizes estimate"),
    case("chain --call transfer_all"),
    case("db prune store"),
    case("db prune store --keep 2 --to 0xab"),
];

const MEMORY: [Case; 8] = [
    case("block --accounts 4294967295"),
    case("block --transfers 4294967295"),
    case("chain --accounts 4294967295"),
    case("compare block --accounts 4294967295"),
    case("compare root --keys 4294967295"),
    case("compare estimator --keys 4294967295"),
    case("compare cache --accounts 4294967295"),
    wasm("compare validation --accounts 4294967295"),
];

const SPECIFICATIONS: [Case; 22] = [
    case("genesis missing.json"),
    case("genesis folder"),
    case("genesis empty.json"),
    case("genesis noise.json"),
    case("genesis diary.txt"),
    case("genesis utf-16.json"),
    case("genesis cut-off.json"),
    case("genesis cut-off.json.gz"),
    case("genesis 512-mib-and-more.json.gz"),
    case("genesis list.json"),
    case("genesis object.json"),
    case("genesis result.json"),
    case("genesis spec-not-raw.json"),
    case("genesis spec-without-top.json"),
    case("genesis spec-odd-digits.json"),
    case("genesis spec-no-digits.json"),
    case("genesis spec-key-twice.json"),
    case("genesis spec-number.json"),
    case("genesis spec-without-child.json"),
    case("genesis state.json --expect-root 0xab"),
    case("genesis state.json --expect-root 0000000000000000000000000000000000000000000000000000000000000000"),
    wasm("block --chain-spec state.json"),
];

const RESULTS: [Case; 18] = [
    case("diff missing.json result.json"),
    case("diff result.json missing.json"),
    case("diff result.json folder"),
    case("diff result.json empty.json"),
    case("diff result.json cut-off.json"),
    case("diff result.json noise.json"),
    case("diff result.json diary.txt"),
    case("diff result.json utf-16.json"),
    case("diff result.json 64-mib-and-more.json.gz"),
    case("diff result.json list.json"),
    case("diff result.json object.json"),
    case("diff result.json schema-9.json"),
    case("diff result.json without-root.json"),
    case("diff result.json negative.json"),
    case("diff result.json text-for-number.json"),
    case("diff result.json two-transfers.json"),
    case("diff result.json genesis-result.json"),
    case("diff result.json verify-result.json"),
];

const BLOCKS: [Case; 22] = [
    case("replay missing.json"),
    case("replay folder"),
    case("replay empty.json"),
    case("replay noise.json"),
    case("replay utf-16.json"),
    case("replay object.json"),
    case("replay result.json"),
    case("replay blocks-none.json"),
    case("replay blocks-version-7.json"),
    case("replay blocks-short-hash.json"),
    case("replay blocks-no-digits.json"),
    case("replay blocks-short-header.json"),
    case("replay blocks-other-hash.json"),
    wasm("replay blocks-other-hash.json --sizes estimat"),
    case("block --names missing.txt"),
    case("block --names folder"),
    case("block --names utf-16.txt"),
    case("block --names latin-1.txt"),
    case("block --names names-without-keys.txt"),
    case("block --names 16-mib-and-more.txt.gz"),
    case("compare overlay --rounds 1 --only no-such"),
    case("db prune store --to 0xxy"),
];

const CHAINS: [Case; 35] = [
    case("replay"),
    case("replay --url localhost --block 1"),
    case("replay --url https://localhost --block 1"),
    case("replay --url ws:// --block 1"),
    case("replay --url ws://localhost:70000 --block 1"),
    case("replay --url ws://me:secret@localhost/v1/KEY --block 1"),
    case("replay result.json --block 1"),
    case("replay result.json --blocks 1..2"),
    case("dry-run result.json --block 1 --extrinsic 0x00"),
    case("replay result.json --url ws://localhost"),
    case("replay result.json --cache new"),
    case("dry-run result.json --extrinsic 0x00 --rpc keys=1"),
    case("replay --url ws://localhost --block last"),
    case("replay --url ws://localhost --block 0x12"),
    case("replay --url ws://localhost --blocks 5"),
    case("replay --url ws://localhost --blocks 7..5"),
    case("replay --url ws://localhost --blocks 0..3"),
    case("replay --url ws://localhost --block 1 --blocks 1..2"),
    case("replay --url ws://localhost --rpc timeout"),
    case("replay --url ws://localhost --rpc timeout=0"),
    case("replay --url ws://localhost --rpc speed=3"),
    case("scan rows"),
    case("scan --url ws://localhost rows"),
    case("scan --url ws://localhost --blocks 1..9 --shard 0/4 rows"),
    case("scan --url ws://localhost --blocks 1..9 --shard 5/4 rows"),
    case("record new.povmeter"),
    case("record --from result.json --url ws://localhost new.povmeter"),
    case("record --from result.json --cache new new.povmeter"),
    case("dry-run"),
    case("dry-run --extrinsic 0x00"),
    case("dry-run --url ws://localhost"),
    case("dry-run --url ws://localhost --extrinsic 0x123"),
    case("dry-run --url ws://localhost --extrinsic many"),
    case("dry-run --url ws://localhost --extrinsic 0x00 --runtime new.wasm"),
    case("dry-run --url ws://localhost --extrinsic 0x00 --pov-limit many"),
];

const RECORDINGS: [Case; 17] = [
    wasm("replay missing.povmeter"),
    wasm("replay recording-cut-off.povmeter"),
    wasm("replay recording-changed.povmeter"),
    wasm("replay recording-version-9.povmeter"),
    wasm("replay recording-and-more.povmeter"),
    wasm("record --from missing.json new.povmeter"),
    wasm("record --from empty.json new.povmeter"),
    wasm("record --from kusama-1.povmeter new.povmeter"),
    wasm("record --from blocks-other-hash.json --block best new.povmeter"),
    wasm("replay blocks-without-state.json"),
    wasm("record --from blocks-1.json --block 65 new.povmeter"),
    wasm("record --from blocks-other-hash.json diary.txt"),
    wasm("record --from blocks-other-hash.json folder"),
    wasm("dry-run missing.povmeter --extrinsic 0x00"),
    wasm("dry-run diary.txt --extrinsic 0x00"),
    wasm("dry-run kusama-1.povmeter --runtime diary.txt"),
    wasm("dry-run kusama-1.povmeter --runtime empty.json"),
];

const OUTPUTS: [Case; 17] = [
    case("block --report diary.txt"),
    case("block --report diary.txt/new"),
    case("compare root --report diary.txt"),
    case("chain --report diary.txt"),
    case("block --folded folder"),
    case("block --folded missing/new"),
    case("block --folded diary.txt"),
    case("block --folded diary.txt/new"),
    case("block --flamegraph diary.txt"),
    case("block --flamegraph folder"),
    wasm("replay blocks-other-hash.json --write-sizes diary.txt"),
    wasm("replay blocks-other-hash.json --write-sizes blocks-other-hash.json"),
    wasm("scan --url ws://localhost --blocks 1..9 tables"),
    wasm("scan --url ws://localhost --blocks 1..9 halves"),
    case("man diary.txt"),
    case("block --db diary.txt"),
    case("block --db letters"),
];

const STORES: [Case; 12] = [
    case("db verify missing"),
    case("db verify diary.txt"),
    case("db verify folder"),
    case("db verify letters"),
    case("db stat letters"),
    case("db verify damaged-store"),
    case("db prune letters --keep 1"),
    case("db prune store --to 0x0000000000000000000000000000000000000000000000000000000000000007"),
    case("db backup letters new"),
    case("db backup store letters"),
    case("block --accounts 11 --transfers 1 --db store"),
    case("chain --db store"),
];

const VARIABLES: [Case; 8] = [
    case("POVMETER_DATA=missing compare root"),
    case("POVMETER_DATA=missing compare overlay"),
    case("POVMETER_DATA=missing compare pool"),
    case("POVMETER_DATA=diary.txt compare pool"),
    case("POVMETER_DATA=folder compare pool"),
    case("compare pool"),
    case("TMPDIR=missing block --accounts 10 --transfers 1"),
    case("TMPDIR=missing chain --accounts 10 --transfers 1"),
];
