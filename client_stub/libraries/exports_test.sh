#!/bin/sh
# The library exports every function of cuBLAS that cublas_symbols.inc lists and nothing else, with
# NVIDIA's symbol version, needs nothing but libc, and no glibc newer than 2.34.
set -eu
library=client_stub/libraries/libcublas.so.13
fail() { echo "$1" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | LC_ALL=C sort >"$work/versioned"
! grep -v '@@libcublas.so.13$' "$work/versioned" || fail "exported with another version"
sed 's/@@.*//' "$work/versioned" | LC_ALL=C sort >"$work/exports"
sed -n 's/^CUBLAS_SYMBOL(\(.*\))$/\1/p' client_stub/libraries/cublas_symbols.inc |
  LC_ALL=C sort >"$work/listed"
different=$(LC_ALL=C comm -3 "$work/exports" "$work/listed")
[ -z "$different" ] || fail "exported (left) or listed (right) only: $different"
# Served ones take the places of the weak ones.
for name in cublasCreate_v2 cublasSgemm_v2 cublasSgemm_v2_64 cublasGemmEx cublasSetMatrix; do
  nm -D "$library" | grep -q " T $name@@" || fail "$name is not served"
done
nm -D "$library" | grep -q " W cublasSspr2_v2@@" || fail "cublasSspr2_v2 has no default"

# A sanitizer's runtime comes on top.
if ! readelf -d "$library" | grep -q 'NEEDED.*lib[a-z]*san\.'; then
  [ "$(readelf -d "$library" | grep -c NEEDED)" = 1 ] || fail "needs more than libc"
  newest=$(printf '%s\n' GLIBC_2.34 $(objdump -T "$library" | grep -o 'GLIBC_[0-9.]*') | sort -V |
    tail -1)
  [ "$newest" = GLIBC_2.34 ] || fail "needs $newest"
fi
