#!/bin/sh
# The library exports every function of NVML that symbols.inc lists and nothing else, needs nothing
# but libc, and no glibc newer than 2.34. Where there is a toolkit with nvml.h, the list has all of it.
set -eu
library=client_stub/nvml/libnvidia-ml.so.1
fail() { echo "$1" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nm -D --defined-only "$library" | awk '{ print $3 }' | LC_ALL=C sort >"$work/exports"
sed -n 's/^NVML_SYMBOL(\(.*\))$/\1/p' client_stub/nvml/symbols.inc | LC_ALL=C sort >"$work/listed"
different=$(LC_ALL=C comm -3 "$work/exports" "$work/listed")
[ -z "$different" ] || fail "exported (left) or listed (right) only: $different"
# Served ones take the places of the weak ones.
for name in nvmlInit_v2 nvmlDeviceGetMemoryInfo_v2 nvmlInternalGetExportTable; do
  nm -D "$library" | grep -q " T $name\$" || fail "$name is not served"
done
nm -D "$library" | grep -q " W nvmlDeviceSetMigMode\$" || fail "nvmlDeviceSetMigMode has no default"

# A sanitizer's runtime comes on top.
if ! readelf -d "$library" | grep -q 'NEEDED.*lib[a-z]*san\.'; then
  [ "$(readelf -d "$library" | grep -c NEEDED)" = 1 ] || fail "needs more than libc"
  newest=$(printf '%s\n' GLIBC_2.34 $(objdump -T "$library" | grep -o 'GLIBC_[0-9.]*') | sort -V |
    tail -1)
  [ "$newest" = GLIBC_2.34 ] || fail "needs $newest"
fi

header=${CUDA_HOME:-/usr/local/cuda}/include/nvml.h
if [ -e "$header" ]; then
  grep -oE 'DECLDIR +nvml[A-Za-z0-9_]+' "$header" | awk '{ print $2 }' | LC_ALL=C sort -u >"$work/header"
  missing=$(LC_ALL=C comm -13 "$work/listed" "$work/header")
  [ -z "$missing" ] || fail "not listed: $missing"
fi
