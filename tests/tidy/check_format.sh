#!/usr/bin/env bash
# Every C++ source has clang-format's form; prints each place that has not. Usage: check_format.sh
# [--fix]: with --fix, gives it that form instead.
set -euo pipefail
cd "$(dirname "$0")/../.."
mode=(--dry-run -Werror)
case "${1-}" in
  '') ;;
  --fix) mode=(-i) ;;
  *) sed -n '2,3s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
# Of what git tracks, that which is still there.
git ls-files -z '*.h' '*.cc' '*.inc' '*.cu' '*.cuh' |
  xargs -0 sh -c 'for f; do [ ! -e "$f" ] || printf "%s\0" "$f"; done' sh |
  xargs -0 clang-format "${mode[@]}"
