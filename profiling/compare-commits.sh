#!/usr/bin/env bash
# Compares the speed of two commits. Builds both, lets them build the same block in turns, and prints
# the ratio of their times, its spread, and whether it is above the noise.
#
#   profiling/compare-commits.sh [OPTIONS] BASE CANDIDATE [-- OPTIONS OF THE BLOCK]
#
#   BASE, CANDIDATE       commits; `.` is the working tree
#   --contender NAME      builder of the block: povmeter, povmeter-none, peer-none, ... [povmeter]
#   --base-contender NAME builder of the base's block, if it is another
#   --launches N          number of starts of each program [12]
#   --rounds N            number of blocks per start [20]
#
#   profiling/compare-commits.sh main .
#   profiling/compare-commits.sh --base-contender peer-none . .
#
# Times are thread CPU time. Options of the block: blocks --help.
set -euo pipefail
# shellcheck source=profiling/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

CONTENDER=povmeter
BASE_CONTENDER=
COMMITS=()
DUEL=()
while [ "$#" -gt 0 ]; do
    case "$1" in
        -h | --help) usage; exit ;;
        --contender) CONTENDER="$(value "$@")"; shift ;;
        --base-contender) BASE_CONTENDER="$(value "$@")"; shift ;;
        --launches | --rounds) DUEL+=("$1" "$(value "$@")"); shift ;;
        --) shift; break ;;
        -*) fail "unexpected: $1; compare-commits.sh --help tells more" ;;
        *) COMMITS+=("$1") ;;
    esac
    shift
done
[ "${#COMMITS[@]}" -eq 2 ] || fail "expected two commits, found ${#COMMITS[@]}; --help tells more"

build_here plain
REPORT="$(folder here plain)/povmeter-profiling"
BASE="$(program "${COMMITS[0]}" plain)"
CANDIDATE="$(program "${COMMITS[1]}" plain)"
[ -z "$BASE_CONTENDER" ] || DUEL+=(--base-options "--contender $BASE_CONTENDER")
say "${COMMITS[0]} (${BASE_CONTENDER:-$CONTENDER}) and ${COMMITS[1]} ($CONTENDER)"
"$REPORT" duel "$BASE" "$CANDIDATE" "${DUEL[@]}" -- --contender "$CONTENDER" "$@"
