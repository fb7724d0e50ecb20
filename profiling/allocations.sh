#!/usr/bin/env bash
# Who allocates? Lists call sites by phase, with their allocations and bytes per block, as dhat counts
# them. A block is built before, so that what is kept between blocks is there.
#
#   profiling/allocations.sh [OPTIONS] [-- OPTIONS OF THE BLOCK]
#
#   --contender NAME   who builds the block: povmeter, povmeter-none, peer-none, ... [povmeter]
#   --commit COMMIT    look at this commit instead of this tree as it is
#   --blocks N         blocks that are counted [2]
#   --top N            how many call sites to list per phase [12]
#
#   profiling/allocations.sh --contender peer-none --top 30
#
# target/profiling/dhat.out has everything: valgrind's dh_view.html shows it in a browser. Options of
# the block: blocks --help.
set -euo pipefail
# shellcheck source=profiling/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

CONTENDER=povmeter
COMMIT=.
BLOCKS=2
REPORT_OPTIONS=()
while [ "$#" -gt 0 ]; do
    case "$1" in
        -h | --help) usage; exit ;;
        --contender) CONTENDER="$(value "$@")"; shift ;;
        --commit) COMMIT="$(value "$@")"; shift ;;
        --blocks) BLOCKS="$(value "$@")"; shift ;;
        --top) REPORT_OPTIONS+=("$1" "$(value "$@")"); shift ;;
        --) shift; break ;;
        *) fail "unexpected: $1; allocations.sh --help tells more" ;;
    esac
    shift
done
BLOCK=(--contender "$CONTENDER" "$@")

need_valgrind
build_here frames
REPORT="$(folder here frames)/povmeter-profiling"
PROGRAM="$(program "$COMMIT" frames)"
OUT="$WORK/dhat.out"
note "counting: ${BLOCK[*]}"
# Stacks under FRAME are deep, and the phase is at their far end.
env -i PATH="$PATH" valgrind --quiet --tool=dhat --num-callers=400 --dhat-out-file="$OUT" \
    "$PROGRAM" --blocks "$BLOCKS" "${BLOCK[@]}" >"$OUT.log" 2>&1 || {
    cat "$OUT.log" >&2
    fail "the block can't be built under dhat; the reason is above"
}
"$REPORT" allocations "$OUT" --blocks "$BLOCKS" "${REPORT_OPTIONS[@]}"
