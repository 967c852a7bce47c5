#!/usr/bin/env bash
# clang with thread-safety analysis and clang-tidy, on the sources that the last commits changed.
# Usage: tests/tidy/lint_changed.sh BUILD_DIR [FILE.cc ...]
#
#   LINT_COMMITS   how many commits back a change counts (default 8)
#   LINT_FILES     at most so many files, the latest changed first (default 24)
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
shift
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  mapfile -t files < <(git log -n "${LINT_COMMITS:-8}" --name-only --format= -- '*.cc' |
    awk '!seen[$0]++' | while read -r f; do [ -e "$f" ] && echo "$f"; done |
    head -n "${LINT_FILES:-24}")
fi
[ ${#files[@]} -gt 0 ] || { echo "no source changed"; exit 0; }

# Generated headers must exist before anything that includes them can be read.
ninja -C "$build" sluice_proto >/dev/null
printf 'linting %d files\n' "${#files[@]}"
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 1 \
  clang-tidy-14 -p "$build" --quiet --warnings-as-errors='*'
