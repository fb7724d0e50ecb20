#!/usr/bin/env bash
# Draws a flame graph of a block's time. Records stacks while blocks are built.
#
#   profiling/flamegraph.sh [OPTIONS] [-- OPTIONS OF THE BLOCK]
#
#   --contender NAME   builder of the block: povmeter, povmeter-none, peer-none, ... [povmeter]
#   --against COMMIT   draw the difference to this commit: red is a larger part of the block now,
#                      blue a smaller one
#   --seconds N        seconds to record [10]
#   --output FILE      the graph [target/profiling/flamegraph.svg]; also writes FILE.folded
#   --small            for a page: without a script, and without frames below half a percent
#   --title TEXT       the line above the graph
#   --inline           show inlined functions, too; takes minutes
#
#   profiling/flamegraph.sh --contender peer-none -- --signatures sr25519 --call transfer_all
#
# Options of the block: blocks --help. Ends with code 1 if 2 % of the samples or more are unknown.
set -euo pipefail
# shellcheck source=profiling/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

CONTENDER=povmeter
AGAINST=
SECONDS_RECORDED=10
OUTPUT="$WORK/flamegraph.svg"
TITLE=
INLINE=--no-inline
DRAW=()
while [ "$#" -gt 0 ]; do
    case "$1" in
        -h | --help) usage; exit ;;
        --contender) CONTENDER="$(value "$@")"; shift ;;
        --against) AGAINST="$(value "$@")"; shift ;;
        --seconds) SECONDS_RECORDED="$(value "$@")"; shift ;;
        --output) OUTPUT="$(value "$@")"; shift ;;
        --title) TITLE="$(value "$@")"; shift ;;
        --small) DRAW+=(--small) ;;
        --inline) INLINE=--inline ;;
        --) shift; break ;;
        *) fail "unexpected: $1; flamegraph.sh --help tells more" ;;
    esac
    shift
done
BLOCK=(--contender "$CONTENDER" "$@")

need perf "apt-get install linux-perf (Debian) or linux-tools-generic (Ubuntu), dnf install perf"

# Use the kernel's timer where there is no cycle counter, as in many virtual machines. Without the
# right to sample the kernel, sample the program alone.
EVENT=cpu-clock
if perf stat -x, -e cycles -- true 2>&1 | grep -qE '^[0-9]+,'; then
    EVENT=cycles
fi
PARANOID="$(cat /proc/sys/kernel/perf_event_paranoid 2>/dev/null || echo 2)"
[ "$PARANOID" -lt 2 ] || [ "$(id -u)" -eq 0 ] || EVENT="$EVENT:u"

# record PROGRAM NAME: writes the folded stacks of PROGRAM to $WORK/NAME.folded. Starts to record when
# the parent state is ready.
record() {
    local program="$1" data="$WORK/$2.data" stacks="$WORK/$2.stacks" recorder ready
    note "recording $EVENT for $SECONDS_RECORDED s"
    coproc BLOCKS { exec "$program" "${BLOCK[@]}" --memory own; }
    # Copy these, because bash unsets them when the program ends.
    local builder="$BLOCKS_PID" answers="${BLOCKS[0]}" requests="${BLOCKS[1]}"
    IFS= read -r ready <&"$answers" || fail "the block can't be built; the reason is above"
    [ "${ready%% *}" = ready ] || fail "expected the word ready, found: $ready"
    perf record --quiet -F 999 -e "$EVENT" --call-graph fp -o "$data" -p "$builder" \
        -- sleep "$SECONDS_RECORDED" 2>"$data.log" &
    recorder=$!
    while kill -0 "$recorder" 2>/dev/null; do
        echo block >&"$requests"
        IFS= read -r _ <&"$answers" || fail "the block can't be built; the reason is above"
    done
    if ! wait "$recorder"; then
        cat "$data.log" >&2
        fail "perf can't record: see profiling/README.md on kernel.perf_event_paranoid ($PARANOID)"
    fi
    kill "$builder" || true
    wait "$builder" 2>/dev/null || true
    perf script -i "$data" "$INLINE" -F comm,pid,tid,time,event,ip,sym,dso >"$stacks" 2>"$data.log"
    "$REPORT" fold "$stacks" --output "$WORK/$2.folded" || STATUS=$?
    [ "$STATUS" -le 1 ] || exit "$STATUS"
    rm -f "$stacks" "$data.log"
}

STATUS=0
build_here frames
REPORT="$(folder here frames)/povmeter-profiling"
record "$(folder here frames)/blocks" now
cp "$WORK/now.folded" "$OUTPUT.folded"
SUBTITLE="$(printf '%s ' "${BLOCK[@]}")"
if [ -n "$AGAINST" ]; then
    BEFORE="$(program "$AGAINST" frames)"
    record "$BEFORE" before
    DRAW+=(--against "$WORK/before.folded")
    SUBTITLE+="since $AGAINST: red is a larger part of the block, blue a smaller one"
else
    SUBTITLE+="- green: povmeter, orange: sp-state-machine and trie-db, blue: FRAME, grey: others"
fi
"$REPORT" draw "$WORK/now.folded" --title "${TITLE:-A block by $CONTENDER}" \
    --subtitle "$SUBTITLE" --output "$OUTPUT" "${DRAW[@]}"
say "$OUTPUT"
exit "$STATUS"
