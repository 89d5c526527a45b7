# The CUDA toolkit: one that is installed, else NVIDIA's wheels. Sourced by ./dev.
# third_party/cuda/cuda_configure.bzl looks in the same places in the same order.

# toolkit_version DIR: prints cuda.h's CUDA_VERSION (13000 for 13.0) if DIR holds a toolkit.
toolkit_version() {
  [ -x "$1/bin/nvcc" ] && [ -f "$1/include/cuda.h" ] || return 1
  [ -f "$1/lib64/libcudart_static.a" ] || [ -f "$1/lib/libcudart_static.a" ] || return 1
  awk '/^#define CUDA_VERSION / { print $3; exit }' "$1/include/cuda.h"
}

usable_toolkit() {
  local version
  version=$(toolkit_version "$1") && [ -n "$version" ] || return 1
  [ "$version" -ge 13000 ] && [ "$version" -lt 14000 ] && return 0
  say "passing over the CUDA toolkit in $1: its CUDA_VERSION is $version, and 13 is needed"
  return 1
}

# Sets and exports CUDA_HOME; installs the wheels if there is no toolkit.
need_cuda() {
  local nvcc wheels="$CACHE/cuda-13.0"
  if [ -n "${CUDA_HOME:-}" ]; then
    usable_toolkit "$CUDA_HOME" || die \
      "CUDA_HOME=$CUDA_HOME holds no CUDA 13 toolkit (bin/nvcc, include/cuda.h, libcudart_static.a). Correct or unset it."
    return
  fi
  nvcc=$(command -v nvcc || true)
  [ -z "$nvcc" ] || nvcc=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
  for CUDA_HOME in /usr/local/cuda $nvcc "$wheels/nvidia/cu13"; do
    export CUDA_HOME
    [ -e "$CUDA_HOME" ] && usable_toolkit "$CUDA_HOME" && return
  done
  install_cuda_wheels "$wheels"
}

# An interrupted install leaves only a folder that is never looked at.
install_cuda_wheels() {
  local target=$1 partial
  need_packages wheels
  mkdir -p "$CACHE"
  rm -rf "$CACHE"/cuda-partial.*
  partial=$(mktemp -d "$CACHE/cuda-partial.XXXXXX")
  say "installing the CUDA 13.0 toolkit from NVIDIA's wheels into $target (about 300 MB)"
  quietly "pip install" env PIP_REQUIRE_VIRTUALENV=0 PIP_USER=0 PIP_ROOT_USER_ACTION=ignore \
    PIP_DISABLE_PIP_VERSION_CHECK=1 "$PYTHON" -m pip install --no-input --no-deps --only-binary=:all: \
    --require-hashes --no-cache-dir --retries 5 --target "$partial" -r "$ROOT/deploy/dev/cuda_wheels.txt" ||
    die "could not install the toolkit; install CUDA 13.0 yourself and set CUDA_HOME"
  rm -rf "$target"
  mv "$partial" "$target"
  export CUDA_HOME="$target/nvidia/cu13"
  usable_toolkit "$CUDA_HOME" || die "the wheels in $target do not make a toolkit"
}
