# shellcheck shell=bash
# Functions and variables of the scripts in this folder. Sourced, not run.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
mkdir -p "${CARGO_TARGET_DIR:-$ROOT/target}"
TARGET="$(cd "${CARGO_TARGET_DIR:-$ROOT/target}" && pwd)"
# Folder of the recordings, and of the programs of other commits.
WORK="$TARGET/profiling"
# Other flags would rebuild the whole target folder.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS

say() { printf '%s\n' "$*"; }
note() { printf '%s\n' "$*" >&2; }
fail() {
    note "error: $*"
    exit 2
}

# Prints the help of a script: the comment at its top.
usage() { sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"; }

# need COMMAND HOW: fails with one line if COMMAND is missing.
need() {
    command -v "$1" >/dev/null || fail "$1 is missing: $2"
}

need_cargo() { need cargo "install Rust from https://rustup.rs"; }
need_valgrind() { need valgrind "apt-get install valgrind, dnf install valgrind"; }

# value OPTION [VALUE]: prints VALUE, or fails if it is missing.
value() {
    [ "$#" -ge 2 ] || fail "expected a value after $1; $(basename "$0") --help tells more"
    printf '%s\n' "$2"
}

# build PLACE TREE KIND CARGO_ARGUMENTS...: runs cargo build with the arguments, in TREE.
#   PLACE    here: the usual target folder; commits: a separate one, because cargo mixes up crates of
#            the same name in different trees and would rebuild them each time
#   KIND     plain: as users build it; frames: with frame pointers and lines, in a separate build
build() {
    local place="$1" tree="$2" kind="$3" target
    shift 3
    note "building $* ($kind)"
    target="$(target_dir "$place" "$kind")"
    case "$kind" in
        plain) (cd "$tree" && CARGO_TARGET_DIR="$target" \
            cargo build --locked --quiet --release "$@") ;;
        frames) (cd "$tree" && CARGO_TARGET_DIR="$target" cargo \
            --config "$ROOT/profiling/cargo.toml" build --locked --quiet --profile profiling "$@") ;;
    esac
}

target_dir() {
    case "$1 $2" in
        "here plain") printf '%s\n' "$TARGET" ;;
        "here frames") printf '%s\n' "$WORK" ;;
        *) printf '%s\n' "$WORK/commits" ;;
    esac
}

# folder PLACE KIND: prints the folder of the programs of a build.
folder() {
    local profile=release
    [ "$2" = plain ] || profile=profiling
    printf '%s\n' "$(target_dir "$1" "$2")/$profile"
}

# build_here KIND: builds the program that builds blocks, and the one that reads profiles. POVMETER_FEATURES
# are options of cargo with the features of a build that is there already.
build_here() {
    local features
    read -ra features <<<"${POVMETER_FEATURES:-}"
    need_cargo
    mkdir -p "$WORK"
    # Build the workspace, because any other set of features compiles the runtime once more.
    build here "$ROOT" "$1" --workspace "${features[@]}" --bin blocks --bin povmeter-profiling
}

# program COMMIT KIND: prints the path of the program that builds blocks, of COMMIT; `.` is the working
# tree, built by build_here. A commit without this program gets that of the working tree. Keeps builds.
program() {
    local commit="$1" kind="$2" sha tree kept from
    mkdir -p "$WORK/programs"
    if [ "$commit" = . ]; then
        # Copy the program of build_here, because the build of a commit may replace it.
        kept="$WORK/programs/here-$kind"
        cp "$(folder here "$kind")/blocks" "$kept"
        printf '%s\n' "$kept"
        return
    fi
    need git "install git"
    sha="$(git -C "$ROOT" rev-parse --verify --quiet "$commit^{commit}")" ||
        fail "expected a commit, found $commit; a shallow clone has no others: git fetch --unshallow"
    kept="$WORK/programs/$sha-$kind"
    if [ ! -x "$kept" ]; then
        tree="$WORK/trees/$sha"
        git -C "$ROOT" worktree prune
        [ -d "$tree" ] || git -C "$ROOT" worktree add --quiet --detach "$tree" "$sha"
        if [ -d "$tree/profiling" ]; then
            build commits "$tree" "$kind" --workspace --bin blocks
            from=blocks
        else
            mkdir -p "$tree/crates/workload/examples"
            # In such a commit the crates of dev/ were one crate.
            sed -E 's/povmeter_dev_(ladder|runtime)/povmeter_workload/' \
                "$ROOT/profiling/src/bin/blocks.rs" >"$tree/crates/workload/examples/blocks.rs"
            build commits "$tree" "$kind" -p povmeter-workload --example blocks
            from=examples/blocks
        fi
        cp "$(folder commits "$kind")/$from" "$kept"
        git -C "$ROOT" worktree remove --force "$tree"
    fi
    printf '%s\n' "$kept"
}
