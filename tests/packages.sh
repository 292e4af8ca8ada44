#!/usr/bin/env bash
# Packages as who installs them has them, with no compiler on the path and in another folder than this repository.
#   tarball   cpack's tarball with LIBTORCH: its program runs
#   archives  the tarball again, and the Debian package
#   loader    the loader's wheel, in a virtual environment with NumPy alone: its tests pass
#   wheel     the wheel, in an empty virtual environment that finds LIBTORCH as Python's torch
# The last two train and are a library to programs: those of a path with a compiler, where there is one.
# Usage: packages.sh tarball|archives|loader|wheel SOURCE_DIR BUILD SCRATCH LIBTORCH. Exit status 77: skipped, and why.
set -Eeuo pipefail
trap 'echo "packages.sh: the command in line $LINENO failed" >&2' ERR
kind=$1 source_dir=$2 build=$3 scratch=$4 libtorch=$5
rm -rf "$scratch"
mkdir -p "$scratch"/{bare,elsewhere}
scratch=$(realpath -- "$scratch")
training=
trap '[ -z "$training" ] || kill -KILL "$training" 2>/dev/null' EXIT
cd "$scratch/elsewhere"
for tool in sh readlink dirname; do ln -s "$(type -P $tool)" "$scratch/bare/$tool"; done

fail() {
  printf '%s\n' "$1" >&2
  [ ! -e "$scratch/printed" ] || cat "$scratch/printed" >&2
  exit 1
}
skip() {
  echo "skipped: $1"
  cat "$scratch/printed"
  exit 77
}
# bare WORDS...: runs them as on a machine where little more than the package is installed; its output is in printed.
bare() {
  env -i HOME="$scratch" PATH="$path" ${named:+"LIBTORCH=$named"} "$@" >"$scratch/printed" 2>&1
}
# bare_fails STATUS TEXT WORDS...
bare_fails() {
  local expected=$1 text=$2 status=0
  shift 2
  bare "$@" || status=$?
  [ $status = "$expected" ] || fail "$*: ended with status $status, not $expected"
  grep -qF -- "$text" "$scratch/printed" || fail "$*: does not say '$text'"
}

# Of the machine's own libraries the program needs only those that any machine has.
brings_its_libraries() {
  LD_TRACE_LOADED_OBJECTS=1 LD_LIBRARY_PATH=$libtorch/lib "$1" >"$scratch/printed"
  grep -qF "$prefix/lib/composer/libjpeg.so" "$scratch/printed" || fail "$1 does not load the libjpeg of the package"
  local strange
  strange=$(grep -vE "$prefix/|$libtorch/|(linux-vdso|ld-linux[^ ]*|lib(c|m|dl|rt|util|pthread|resolv|stdc\+\+|gcc_s|gomp))\.so" \
    "$scratch/printed") || true
  [ -z "$strange" ] || fail "$1 needs of this machine: $strange"
}

trains() {
  local small=(--train_subset_num_batches 4 --eval_subset_num_batches 2 --progress_bar false)
  bare composer train --run_name short --max_duration 2ep "${small[@]}" || fail "composer train failed"
  grep -q '"status": *"completed"' runs/short/summary.json || fail "the run is not completed"
  [ $kind = wheel ] || return 0

  # What started the program has become it.
  bare composer -n 2 examples/run_composer_trainer --run_name ranks --max_duration 1ep "${small[@]}" || fail "two ranks failed"
  bare_fails 2 "did you mean 'max_duration'" composer train --max_durration 1ep

  env -i HOME="$scratch" PATH="$path" ${named:+"LIBTORCH=$named"} composer train --run_name ended --max_duration 1000ep \
    --log_interval 1ba --progress_bar false >"$scratch/printed" 2>&1 &
  training=$!
  local status=0
  until grep -qs '"batch"' runs/ended/metrics.jsonl; do
    kill -0 $training || fail "the run ended by itself"
    sleep 0.1
  done
  kill -TERM $training
  wait $training || status=$?
  training=
  [ $status = 143 ] || fail "a run that SIGTERM ended has status $status"
}

# is_library FOLDER: the CMake project there, with its program of the same name as the source, is built and run
is_library() {
  if ! type -P c++ cmake ninja >/dev/null; then
    echo "without a compiler: find_package(composer) is not tried"
    return
  fi
  bare composer --cmake-dir || fail "composer --cmake-dir failed"
  cmake -S "$1" -B "$scratch/library" -G Ninja -Dcomposer_DIR="$(cat "$scratch/printed")" -DLIBTORCH="$libtorch" \
    >"$scratch/log" 2>&1 && cmake --build "$scratch/library" >>"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; fail "$1 is not built"; }
}

loader() {
  python3 -m venv "$scratch/venv" >"$scratch/printed" 2>&1 || skip "python3 makes no virtual environment"
  "$scratch/venv/bin/pip" install --quiet --retries 1 --timeout 15 scikit-build-core numpy >"$scratch/printed" 2>&1 ||
    skip "scikit-build-core cannot be installed"
  PYTHON=$scratch/venv/bin/python "$source_dir/packaging/build_loader_wheel" --built "$build" --no-build-isolation \
    --config-settings=build-dir="$scratch/build" --wheel-dir "$scratch/dist" >"$scratch/printed" 2>&1 ||
    fail "the loader's wheel is not built"
  local file
  file=$(echo "$scratch"/dist/composer_loader-*-py3-none-manylinux_*_"$(uname -m)".whl)
  [ -e "$file" ] || fail "the loader's wheel has another name: $(ls "$scratch/dist")"
  [ "$(stat -c %s "$file")" -lt 8000000 ] || fail "the loader's wheel has $(stat -c %s "$file") bytes"
  "$scratch/venv/bin/pip" uninstall --quiet --yes scikit-build-core
  "$scratch/venv/bin/pip" install --quiet --no-deps "$file"
  local library
  library=$(echo "$scratch"/venv/lib/python3*/site-packages/composer_loader/libcomposer_loader.so)
  ldd "$library" >"$scratch/printed"
  local strange
  strange=$(grep -vE "composer_loader/libhwy|linux-vdso|ld-linux|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so" "$scratch/printed") || true
  [ -z "$strange" ] || fail "the loader's library needs of this machine: $strange"
  cp "$source_dir/tests/python/test_loader.py" "$scratch"
  (cd "$scratch" && env -u PYTHONPATH "$scratch/venv/bin/python" -m unittest test_loader >"$scratch/printed" 2>&1) ||
    fail "the tests of the loader's wheel failed"
}

wheel() {
  python3 -m venv "$scratch/tools" >"$scratch/printed" 2>&1 || skip "python3 makes no virtual environment"
  "$scratch/tools/bin/pip" install --quiet --retries 1 --timeout 15 scikit-build-core >"$scratch/printed" 2>&1 || skip "scikit-build-core cannot be installed"
  PYTHON=$scratch/tools/bin/python "$source_dir/packaging/build_wheel" --built "$build" --no-build-isolation \
    --config-settings=build-dir="$scratch/build" \
    --wheel-dir "$scratch/dist" >"$scratch/printed" 2>&1 || fail "the wheel is not built"
  local version
  version=$("$build/bin/composer" --version)
  version=${version#composer }
  local file
  file=$(echo "$scratch"/dist/*)
  [ "$file" = "$scratch/dist/composer-$version-py3-none-linux_$(uname -m).whl" ] || fail "the wheel is called $file"

  python3 -m venv "$scratch/venv"
  "$scratch/venv/bin/pip" install --quiet --no-deps "$file"
  path=$scratch/venv/bin:$scratch/bare named=
  bare_fails 2 "pip install torch==2.11.0" composer --version
  local site
  site=$(echo "$scratch"/venv/lib/python3*/site-packages)
  if [ -e "$libtorch/__init__.py" ]; then
    dirname "$libtorch" >"$site/torch.pth"
  else
    named=$libtorch
  fi
  grep -q '^Requires-Dist: torch==2.11.0$' "$site"/composer-*.dist-info/METADATA || fail "the wheel does not require torch"
  bare composer --version || fail "composer --version failed"
  bare "$scratch/venv/bin/python" -m composer_native --version || fail "python -m composer_native failed"
  [ -e "$site/composer_loader/libcomposer_loader.so" ] || fail "the wheel has no loader for Python"
  prefix=$site/composer_native
  brings_its_libraries "$prefix/lib/composer/composer"
  trains
  ln -s "$scratch/venv/bin/composer" "$scratch/bare/cnn"
  bare cnn --version || fail "a link of another name failed"
  rm "$scratch/bare/cnn"
  is_library "$source_dir/examples/custom_algorithm"
  if [ -e "$scratch/library/gradient_noise" ]; then
    brings_its_libraries "$scratch/library/gradient_noise"
    bare "$scratch/library/gradient_noise" describe algorithm gradient_noise || fail "the program of the wheel's library failed"
  fi
}

# unpack_tarball WORDS...: of cpack, which makes it
unpack_tarball() {
  (cd "$scratch" && cpack "$@" --config "$build/CPackConfig.cmake" -B "$scratch/packages" >"$scratch/printed" 2>&1) || fail "cpack failed"
  mkdir "$scratch/installed"
  tar -xf "$scratch"/packages/composer-*.tar.gz -C "$scratch/installed" --strip-components=1
  prefix=$scratch/installed path=$scratch/installed/bin:$scratch/bare

  named= bare_fails 2 "LIBTORCH: is not set" composer --version
  named=$scratch bare_fails 2 "LIBTORCH=$scratch: has no lib/libtorch_cpu.so" composer --version
  mkdir -p "$scratch"/older/{lib,include/torch/headeronly}
  touch "$scratch/older/lib/libtorch_cpu.so"
  named=$scratch/older bare_fails 2 "LIBTORCH=$scratch/older: is LibTorch of an unknown version" composer --version
  printf '#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 10\n' >"$scratch/older/include/torch/headeronly/version.h"
  named=$scratch/older bare_fails 2 "LIBTORCH=$scratch/older: is LibTorch 2.10; name the folder of LibTorch 2.11" composer --version

  named=$libtorch
  brings_its_libraries "$prefix/lib/composer/composer"
}

tarball() {
  unpack_tarball -G TGZ
  bare composer list models || fail "the tarball's program failed"
  grep -q '^resnet ' "$scratch/printed" || fail "the tarball's program lists no models"
}

archives() {
  unpack_tarball
  trains
  mkdir "$scratch/program"
  { echo '#include "composer/run/trainer.h"' && cat "$source_dir/cli/composer.cpp"; } >"$scratch/program/gradient_noise.cpp"
  cp "$source_dir/examples/custom_algorithm/CMakeLists.txt" "$scratch/program"
  is_library "$scratch/program"
  if [ -e "$scratch/library/gradient_noise" ]; then
    brings_its_libraries "$scratch/library/gradient_noise"
    ! ninja -C "$scratch/library" -t deps | grep "/usr/include/nlohmann" || fail "the tarball's headers need some of this machine"
    bare "$scratch/library/gradient_noise" --version || fail "the program of the tarball's library failed"
  fi

  [ -e "$scratch"/packages/composer-cnn_*.deb ] || { echo "without dpkg-shlibdeps and file: no Debian package"; return 0; }
  dpkg-deb -f "$scratch"/packages/composer-cnn_*.deb Depends >"$scratch/printed"
  for package in libc6 libjpeg libyaml-cpp; do
    grep -q "$package" "$scratch/printed" || fail "Debian's package does not depend on $package"
  done
  dpkg-deb -x "$scratch"/packages/composer-cnn_*.deb "$scratch/debian"
  ! compgen -G "$scratch/debian/usr/lib/composer/libjpeg.so.*" >/dev/null || fail "Debian's package carries libraries that Debian has"
  path=$scratch/debian/usr/bin:$scratch/bare
  bare composer list models || fail "the program of Debian's package failed"
  grep -q '^resnet ' "$scratch/printed" || fail "Debian's package lists no models"
}

$kind
