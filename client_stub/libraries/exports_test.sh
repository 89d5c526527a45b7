#!/bin/sh
# Each library exports every function that its list of symbols names and nothing else, with NVIDIA's
# symbol version, needs nothing but libc, and no glibc newer than 2.34.
set -eu
folder=client_stub/libraries
fail() { echo "$1" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# check NAME SYMBOLS
check() {
  library=$folder/$1
  nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | LC_ALL=C sort >"$work/versioned"
  ! grep -v "@@$1\$" "$work/versioned" || fail "exported with another version"
  sed 's/@@.*//' "$work/versioned" | LC_ALL=C sort >"$work/exports"
  sed -n 's/^CUBLAS_SYMBOL(\(.*\))$/\1/p' "$folder/$2" | LC_ALL=C sort >"$work/listed"
  different=$(LC_ALL=C comm -3 "$work/exports" "$work/listed")
  [ -z "$different" ] || fail "$1: exported (left) or listed (right) only: $different"
  # A sanitizer's runtime comes on top.
  if ! readelf -d "$library" | grep -q 'NEEDED.*lib[a-z]*san\.'; then
    [ "$(readelf -d "$library" | grep -c NEEDED)" = 1 ] || fail "$1 needs more than libc"
    newest=$(printf '%s\n' GLIBC_2.34 $(objdump -T "$library" | grep -o 'GLIBC_[0-9.]*') | sort -V |
      tail -1)
    [ "$newest" = GLIBC_2.34 ] || fail "$1 needs $newest"
  fi
}

# is_served NAME FUNCTION...: served ones take the places of the weak ones.
is_served() {
  library=$folder/$1
  shift
  for name in "$@"; do
    nm -D "$library" | grep -q " T $name@@" || fail "$name is not served"
  done
}
is_refused() {
  nm -D "$folder/$1" | grep -q " W $2@@" || fail "$2 has no default"
}

check libcublas.so.13 cublas_symbols.inc
is_served libcublas.so.13 cublasCreate_v2 cublasSgemm_v2 cublasSgemm_v2_64 cublasGemmEx cublasSetMatrix
is_refused libcublas.so.13 cublasSspr2_v2
check libcublasLt.so.13 lt_symbols.inc
is_served libcublasLt.so.13 cublasLtCreate cublasLtMatmul cublasLtMatmulAlgoGetHeuristic \
  cublasLtMatrixLayoutInit_internal
is_refused libcublasLt.so.13 cublasLtMatrixTransform
