#!/usr/bin/env bash
# Installs what the tests need, builds, and runs every test. Usage: tests/run.sh [--help]
#
#   --preset NAME   one of dev, asan, tsan, lint; may be repeated (default: all four)
#   --no-install    the packages are there already
#
# Needs root only to install packages and for the tests that make a memory cgroup, which say aloud
# when they are skipped. Prints the reproducing command of whatever fails.
set -euo pipefail
cd "$(dirname "$0")/.."

install=yes
presets=()
while [ $# -gt 0 ]; do
  case "$1" in
    --preset) presets+=("$2"); shift 2 ;;
    --no-install) install=no; shift ;;
    --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "$0: got $1, want --preset NAME, --no-install or --help" >&2; exit 2 ;;
  esac
done
[ ${#presets[@]} -gt 0 ] || presets=(lint asan tsan dev)

[ "$install" = no ] || deploy/install_dependencies.sh --for test

run() {
  echo
  echo "== $*"
  local begin=$SECONDS
  if ! "$@"; then
    echo "FAILED: $*" >&2
    exit 1
  fi
  echo "== took $((SECONDS - begin)) s"
}

for preset in "${presets[@]}"; do
  case "$preset" in
    lint)
      run tests/tidy/check_tree.py
      run tests/tidy/check_format.sh
      run cmake --preset lint --log-level=WARNING
      run tests/tidy/lint_changed.sh build/lint
      ;;
    *)
      # Lines are enough to read a backtrace by; the rest of what -g writes takes a quarter longer.
      debug=()
      [ "$preset" != dev ] || debug=(-DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O2 -g1 -DNDEBUG")
      run cmake --preset "$preset" --log-level=WARNING "${debug[@]}"
      run cmake --build --preset "$preset"
      if [ "$preset" = dev ]; then
        run cmake --build --preset dev --target all_verify_interface_header_sets
      fi
      run ctest --preset "$preset" --progress
      ;;
  esac
done
