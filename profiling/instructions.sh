#!/usr/bin/env bash
# Counts the instructions of blocks under callgrind, by phase, crate and function, and compares them
# with profiling/instructions.baseline.json.
#
#   profiling/instructions.sh [OPTIONS] [-- OPTIONS OF THE BLOCK]
#
#   --contender NAME    builder of the block: povmeter, povmeter-none, peer-none, ... [povmeter]
#   --commit COMMIT     count this commit instead of the working tree
#   --blocks N          number of blocks to count; prints their mean [8]
#   --threshold PERCENT growth of a phase or a crate of povmeter above which the script fails [2]
#   --top N             number of functions to list [20]
#   --update-baseline   make these counts the baseline
#
#   profiling/instructions.sh -- --accounts 2000 --transfers 100
#
# Ends with code 1 if a phase or a crate of povmeter grew by more than the threshold. Counts depend on the
# compiler, the C library and the processor's features. If these differ from the baseline's, the script says
# so and does not compare. Options of the block: blocks --help.
set -euo pipefail
# shellcheck source=profiling/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

CONTENDER=povmeter
COMMIT=.
BLOCKS=8
REPORT_OPTIONS=()
while [ "$#" -gt 0 ]; do
    case "$1" in
        -h | --help) usage; exit ;;
        --contender) CONTENDER="$(value "$@")"; shift ;;
        --commit) COMMIT="$(value "$@")"; shift ;;
        --blocks) BLOCKS="$(value "$@")"; shift ;;
        --threshold | --top) REPORT_OPTIONS+=("$1" "$(value "$@")"); shift ;;
        --update-baseline) REPORT_OPTIONS+=(--update) ;;
        --) shift; break ;;
        *) fail "unexpected: $1; instructions.sh --help tells more" ;;
    esac
    shift
done
BLOCK=(--contender "$CONTENDER" "$@")

need_valgrind
build_here plain
REPORT="$(folder here plain)/povmeter-profiling"
PROGRAM="$(program "$COMMIT" plain)"

# Use the same memory addresses each time, where that is allowed.
FIXED=(setarch -R)
"${FIXED[@]}" true 2>/dev/null || FIXED=()
OUT="$WORK/callgrind.out"
note "counting: ${BLOCK[*]}"
"${FIXED[@]}" env -i PATH="$PATH" valgrind --quiet --tool=callgrind \
    --toggle-collect='blocks::phase_*' --callgrind-out-file="$OUT" \
    "$PROGRAM" --blocks "$BLOCKS" "${BLOCK[@]}" >"$OUT.log" 2>&1 || {
    cat "$OUT.log" >&2
    fail "the block can't be built under callgrind; the reason is above"
}

# The processor features by which the program chooses its code.
features() {
    local feature
    for feature in ssse3 sse4_1 avx avx2 bmi2; do
        if grep -qwm1 "$feature" /proc/cpuinfo; then printf '%s ' "$feature"; fi
    done
}
"$REPORT" instructions "$OUT" --baseline "$ROOT/profiling/instructions.baseline.json" \
    --block="${BLOCK[*]}" --blocks "$BLOCKS" "${REPORT_OPTIONS[@]}" \
    --condition "rustc=$(rustc --version)" \
    --condition "host=$(rustc --version --verbose | sed -n 's/^host: //p')" \
    --condition "libc=$(getconf GNU_LIBC_VERSION 2>/dev/null || echo other)" \
    --condition "valgrind=$(valgrind --version)" \
    --condition "processor=$(features)"
