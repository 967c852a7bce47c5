#!/usr/bin/env bash
# Installs the Debian 12 packages that Sluice needs. Needs root; does nothing where all are there.
#
#   --for build     the compiler and the libraries: what `cmake --preset release` needs (default)
#   --for test      those, and what every preset and every test needs
#   --for runtime   the libraries that installed programs load
#   --with npm      also npm, which the quick start fetches a trained model with
#   --list          print the packages and install nothing
set -euo pipefail

build_packages=(
  cmake ninja-build g++ ccache pkg-config
  libabsl-dev libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  libdnnl-dev liburing-dev libxxhash-dev libonnx-dev
  libyaml-cpp-dev libspdlog-dev libcli11-dev libsystemd-dev prometheus-cpp-dev libcivetweb-dev
  libssl-dev libpng-dev libjpeg-dev nlohmann-json3-dev
  libgtest-dev libgmock-dev libbenchmark-dev
)
test_packages=(
  clang clang-format clang-tidy libclang-rt-14-dev libomp-14-dev git shellcheck libonnx-testdata
  openssl python3 python3-grpcio python3-numpy python3-onnx prometheus
)
runtime_packages=(
  libgrpc++1.51 libprotobuf32 libdnnl2 liburing2 libxxhash0 libonnx1 libyaml-cpp0.7
  libspdlog1.10 libsystemd0 libssl3 libprometheus-cpp-core1.0 libprometheus-cpp-pull1.0 libcivetweb1 libpng16-16 libjpeg62-turbo libgomp1
)

usage() { sed -n '2,8s/^# \{0,1\}//p' "$0"; }

purpose=build list=no extra=()
while [ $# -gt 0 ]; do
  case "$1 ${2-}" in
    "--for build" | "--for test" | "--for runtime") purpose=$2; shift 2 ;;
    "--with npm") extra+=(npm); shift 2 ;;
    "--list "*) list=yes; shift ;;
    "--help "* | "-h "*) usage; exit 0 ;;
    *) echo "$0: got $*, want --for build|test|runtime, --with npm, --list or --help" >&2; exit 2 ;;
  esac
done

case "$purpose" in
  build) packages=("${build_packages[@]}") ;;
  test) packages=("${build_packages[@]}" "${test_packages[@]}") ;;
  runtime) packages=("${runtime_packages[@]}") ;;
esac
# A command that is there already serves, whoever installed it.
for package in "${extra[@]}"; do
  command -v "$package" >/dev/null || packages+=("$package")
done

if [ "$list" = yes ]; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$state" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  echo "all ${#packages[@]} packages are installed"
  exit 0
fi

if [ "$(id -u)" -ne 0 ]; then
  echo "$0: installing packages needs root; missing: ${missing[*]}" >&2
  exit 1
fi
echo "installing ${#missing[@]} packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -q -y --no-install-recommends "${missing[@]}"
