#!/usr/bin/env bash
# Builds the fuzz targets, runs each from its corpus in git, one after the other, and prints a table.
# Usage: tests/fuzz/run.sh --runs N | --seconds S [TARGET ...]
#        e.g. tests/fuzz/run.sh --runs 1000000
#             tests/fuzz/run.sh --seconds 3600 onnx_import_fuzz
#
# N executions, or S seconds, are per target; without targets all run. Inputs that reach code of
# their own are kept in build/fuzz/found/TARGET, from where the next run goes on; what libFuzzer
# said is in build/fuzz/log/TARGET. An input that crashes, hangs for 25 s or takes over 2 GiB stays
# in build/fuzz/failed/TARGET-*; exit 1 then, and the reproducing command is printed. Add such an
# input to the target's corpus with its fix.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() { sed -n '2,12s/^# \{0,1\}//p' "$0"; }
case "${1-}:${2-}" in
  --help:* | -h:*) usage; exit 0 ;;
  --runs:*[!0-9]* | --seconds:*[!0-9]* | --runs: | --seconds:)
    echo "$0: $1: got '${2-}', want a number" >&2; exit 2 ;;
  --runs:*) limit=-runs=$2 ;;
  --seconds:*) limit=-max_total_time=$2 ;;
  *) echo "$0: got '${1-}', want --runs N, --seconds S or --help" >&2; exit 2 ;;
esac
shift 2

cmake --preset fuzz --log-level=WARNING >/dev/null
# Every target as the build declares it: "NAME PROGRAM CORPUS" a line. A program that is not built
# yet has a name only.
targets() {
  ctest --test-dir build/fuzz --show-only=json-v1 | python3 -c '
import json, sys
for test in json.load(sys.stdin)["tests"]:
    if test["name"].endswith("_fuzz"):
        command = test.get("command", ["", ""])
        print(test["name"], command[0], command[-1])'
}
known=$(targets)
names=("$@")
[ $# -gt 0 ] || mapfile -t names < <(cut -d' ' -f1 <<<"$known")
for name in "${names[@]}"; do
  grep -q "^$name " <<<"$known" || {
    echo "$0: got target '$name', want one of: $(cut -d' ' -f1 <<<"$known" | xargs)" >&2
    exit 2
  }
done
cmake --build --preset fuzz --target "${names[@]}"
known=$(targets)

# A number of libFuzzer's output: `stat FILE NAME`.
stat() { sed -n "s/^stat::$2: *\([0-9]*\)$/\1/p" "$1" | tail -1; }
covered() { sed -n 's/^#.* cov: \([0-9]*\) .*/\1/p' "$1" | tail -1; }

failed=0 rows=()
for name in "${names[@]}"; do
  read -r _ program corpus < <(grep "^$name " <<<"$known")
  found=build/fuzz/found/$name
  log=build/fuzz/log/$name
  mkdir -p "$found" build/fuzz/failed build/fuzz/log
  started=$(mktemp)
  begin=$SECONDS
  echo "== $name ($limit)"
  result=ok
  "$program" "$limit" -timeout=25 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/failed/$name-" "$found" "$corpus" >"$log" 2>&1 || result=FAILED
  if [ "$result" = FAILED ]; then
    failed=1
    tail -40 "$log" >&2
    find build/fuzz/failed -name "$name-*" -newer "$started" -exec echo "FAILED: $program" {} \; >&2
  fi
  rm "$started"
  rows+=("$(printf '%-18s %11s %8s %8s %8s %9s %s' "$name" \
    "$(stat "$log" number_of_executed_units)" "$((SECONDS - begin))" "$(covered "$log")" \
    "$(find "$found" -type f | wc -l)" "$(stat "$log" peak_rss_mb)" "$result")")
done
printf '%-18s %11s %8s %8s %8s %9s %s\n' target executions seconds edges found 'peak MiB' result
printf '%s\n' "${rows[@]}"
exit "$failed"
