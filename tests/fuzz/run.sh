#!/usr/bin/env bash
# Builds the fuzz targets and runs each for a while, from its corpus in git.
# Usage: tests/fuzz/run.sh SECONDS [TARGET ...]     e.g. tests/fuzz/run.sh 3600 onnx_import_fuzz
#
# SECONDS is per target; without targets all run, one after the other. Inputs that reach code of
# their own are kept in build/fuzz/found/TARGET, from where the next run goes on. An input that
# crashes, hangs for 25 s or takes over 2 GiB stays in build/fuzz/failed/TARGET-*; exit 1 then, and
# the reproducing command is printed. Add such an input to the target's corpus with its fix.
set -euo pipefail
cd "$(dirname "$0")/../.."

case "${1-}" in
  --help | -h) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
  '' | *[!0-9]*) echo "$0: got '${1-}', want SECONDS or --help" >&2; exit 2 ;;
esac
seconds=$1
shift

cmake --preset fuzz --log-level=WARNING
# Every target with its corpus, as the build declares them: "NAME PROGRAM CORPUS" a line.
targets() {
  ctest --test-dir build/fuzz --show-only=json-v1 | python3 -c '
import json, sys
for test in json.load(sys.stdin)["tests"]:
    if test["name"].endswith("_fuzz"):
        program, _, corpus = test["command"]
        print(test["name"], program, corpus)'
}
mapfile -t known < <(targets)
[ $# -gt 0 ] || mapfile -t names < <(printf '%s\n' "${known[@]}" | cut -d' ' -f1)
[ $# -eq 0 ] || names=("$@")
cmake --build --preset fuzz --target "${names[@]}"

failed=0
for name in "${names[@]}"; do
  read -r _ program corpus < <(printf '%s\n' "${known[@]}" | grep "^$name ")
  found=build/fuzz/found/$name
  mkdir -p "$found" build/fuzz/failed
  started=$(mktemp)
  echo "== $name for $seconds s"
  if ! "$program" -max_total_time="$seconds" -timeout=25 -rss_limit_mb=2048 -verbosity=0 \
    -print_final_stats=1 -artifact_prefix="build/fuzz/failed/$name-" "$found" "$corpus"; then
    failed=1
    find build/fuzz/failed -name "$name-*" -newer "$started" -exec echo "FAILED: $program" {} \; >&2
  fi
  echo "== $name: $(find "$found" -type f | wc -l) inputs found beside the corpus"
  rm "$started"
done
exit "$failed"
