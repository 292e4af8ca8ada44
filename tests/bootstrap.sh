#!/usr/bin/env bash
# cmake/bootstrap with stand-ins for all it calls: which wheels it installs with and without a driver, that an interrupted
# installation is begun again, that errors and progress are shown. Usage: bootstrap.sh SOURCE_DIR SCRATCH
set -euo pipefail
source_dir=$1
scratch=$2
rm -rf "$scratch"
mkdir -p "$scratch"/{cmake,bin,build/release/bin}
cp "$source_dir/cmake/bootstrap" "$scratch/cmake/bootstrap"
mkdir -p "$scratch/tests"
cp "$source_dir/tests/peers.txt" "$scratch/tests/peers.txt"
cd "$scratch"
unset LIBTORCH COMPOSER_CUDA
export PATH=$PWD/bin:$PATH CALLS=$PWD/calls

stand_in() {
  printf '#!/bin/sh\n%s\n' "$2" >"$1"
  chmod +x "$1"
}
stand_in bin/dpkg-query 'shift 3; printf "%s: install ok installed\n" "$@"'
stand_in bin/ldconfig ''
stand_in bin/cmake 'echo "cmake $*" >>"$CALLS"'
stand_in bin/ctest 'echo "ctest $*" >>"$CALLS"'
stand_in build/release/bin/composer 'echo "composer $*" >>"$CALLS"'
stand_in pip 'echo "pip $*" >>"$CALLS"; [ ! -e slow ] || { echo Downloading torch; sleep 9; }
  [ ! -e broken ] || { echo "ERROR: no route to host"; echo "after it"; exit 7; }'
stand_in bin/python3 'echo "python3 $*" >>"$CALLS"; rm -rf .deps/venv; mkdir -p .deps/venv/bin; cp pip .deps/venv/bin/pip'

fail() {
  printf '%s\nIt called:\n%s\nand printed:\n%s\n' "$1" "$(cat calls)" "$(cat printed)" >&2
  exit 1
}
bootstrap() {
  : >calls
  bash cmake/bootstrap "$@" >printed 2>&1 || fail "bootstrap $* failed"
}
bootstrap_fails() {
  : >calls
  ! bash cmake/bootstrap "$@" >printed 2>&1 || fail "bootstrap $* did not fail"
}
called() { grep -qF -- "$1" calls || fail "'$1' was not called"; }
not_called() { ! grep -qF -- "$1" calls || fail "'$1' was called"; }
printed() { grep -qF -- "$1" printed || fail "'$1' was not printed"; }
not_printed() { ! grep -qF -- "$1" printed || fail "'$1' was printed"; }
lean='--no-deps torch==2.11.0'

# A dry run prints the steps and takes none.
COMPOSER_CUDA=0 bootstrap --dry-run quickstart
printed "$lean"
printed "cmake --build --preset program"
printed "build/release/bin/composer train"
[ ! -s calls ] && [ ! -e .deps ] || fail "a dry run did something"

# A driver decides.
stand_in bin/nvidia-smi ''
bootstrap --dry-run quickstart
printed "install --disable-pip-version-check --no-color --progress-bar off torch==2.11.0 numpy"
COMPOSER_CUDA=0 bootstrap --dry-run quickstart
printed "$lean"
rm bin/nvidia-smi
stand_in bin/ldconfig 'echo "libcuda.so.1 (libc6,x86-64) => /usr/lib/libcuda.so.1"'
bootstrap --dry-run quickstart
not_printed "$lean"
stand_in bin/ldconfig ''
if [ ! -e /proc/driver/nvidia ] && [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ] && [ -z "$(type -P nvidia-smi)" ]; then
  bootstrap --dry-run quickstart
  printed "$lean"
fi
COMPOSER_CUDA=1 bootstrap --dry-run quickstart
not_printed "$lean"
LIBTORCH=/opt/torch bootstrap --dry-run quickstart
not_printed "torch=="
printed "-DLIBTORCH=/opt/torch"
COMPOSER_CUDA=yes bootstrap_fails quickstart
[ ! -s calls ] || fail "a wrong call did something"
bootstrap_fails quikstart
[ ! -s calls ] || fail "a wrong call did something"

# An installation that fails shows the log from the error on and is begun again.
export COMPOSER_CUDA=0
touch broken
bootstrap_fails quickstart
printed "ERROR: no route to host"
printed "after it"
not_called "cmake"
rm broken
touch slow
bootstrap quickstart
rm slow
printed "installing LibTorch without CUDA: Downloading torch"
called "python3 -m venv --clear .deps/venv"
called "$lean"
called "cmake --build --preset program"
called "composer train"
bootstrap quickstart
not_called "python3"
not_called "pip"
called "composer train"

# The tests complete the set that is there; interrupted, it is begun again.
unset COMPOSER_CUDA
touch broken
bootstrap_fails test
not_called "python3"
called "torch==2.11.0 numpy"
rm broken
bootstrap test
called "python3 -m venv --clear .deps/venv"
called "torch==2.11.0 numpy"
called "-r tests/peers.txt"
called "cmake --build --preset release"
called "ctest --preset release"
COMPOSER_CUDA=0 bootstrap quickstart
not_called "pip"

# The peers are installed anew where their list has changed, once, and where it was interrupted.
bootstrap test
not_called "pip"
echo 'extra==1.0' >>tests/peers.txt
touch broken
bootstrap_fails test
rm broken
bootstrap test
called "-r tests/peers.txt"
not_called "torch==2.11.0 numpy"
bootstrap test
not_called "pip"
