#!/usr/bin/env bash
# Lists the call sites that allocate, by phase, with allocations and bytes per block, counted by dhat.
# Builds one block before, so that memory kept between blocks is already there.
#
#   profiling/allocations.sh [OPTIONS] [-- OPTIONS OF THE BLOCK]
#
#   --contender NAME   builder of the block: povmeter, povmeter-none, peer-none, ... [povmeter]
#   --commit COMMIT    measure this commit instead of the working tree
#   --blocks N         number of blocks to count [2]
#   --top N            number of call sites to list per phase [12]
#
#   profiling/allocations.sh --contender peer-none --top 30
#
# valgrind's dh_view.html shows the full result, target/profiling/dhat.out, in a browser. Options of the
# block: blocks --help.
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
# Record long stacks, because those of FRAME are deep and the phase is their outermost frame.
env -i PATH="$PATH" valgrind --quiet --tool=dhat --num-callers=400 --dhat-out-file="$OUT" \
    "$PROGRAM" --blocks "$BLOCKS" "${BLOCK[@]}" >"$OUT.log" 2>&1 || {
    cat "$OUT.log" >&2
    fail "the block can't be built under dhat; the reason is above"
}
"$REPORT" allocations "$OUT" --blocks "$BLOCKS" "${REPORT_OPTIONS[@]}"
