#!/bin/sh
# The shim exports what the toolkit's own stub of libcuda.so does (GL, EGL and VDPAU entry points
# come on top), needs nothing but libc, and no glibc newer than 2.34.
set -eu
shim=client_stub/shim/libcuda.so.1
fail() { echo "$1" >&2; exit 1; }

exports() { nm -D --defined-only "$1" | awk '$2 == "T" { print $3 }' | LC_ALL=C sort; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
exports "$shim" >"$work/shim"
grep -qx cuGetProcAddress_v2 "$work/shim" || fail "cuGetProcAddress_v2 is not exported"
! grep -v '^cu' "$work/shim" | grep -Eqvx 'warpline(MemoryReadback|StreamWait|EventWait|StreamCancel|Library(Find|Call|Ask))' ||
  fail "exports more than the driver API"

# A sanitizer's runtime comes on top.
if readelf -d "$shim" | grep -q 'NEEDED.*lib[a-z]*san\.'; then exit 0; fi
[ "$(readelf -d "$shim" | grep -c NEEDED)" = 1 ] || fail "needs more than libc"
readelf -d "$shim" | grep -q 'NEEDED.*\[libc\.so\.6\]' || fail "does not need libc"
newest=$(printf '%s\n' GLIBC_2.34 $(objdump -T "$shim" | grep -o 'GLIBC_[0-9.]*') | sort -V | tail -1)
[ "$newest" = GLIBC_2.34 ] || fail "needs $newest"

stub=${1:-none}/stubs/libcuda.so
if [ -e "$stub" ]; then
  exports "$stub" >"$work/stub"
  missing=$(LC_ALL=C comm -13 "$work/shim" "$work/stub")
  [ -z "$missing" ] || fail "not exported: $missing"
  extra=$(LC_ALL=C comm -23 "$work/shim" "$work/stub" | grep -Ev 'GL|Egl|VDPAU|^warpline' || true)
  [ -z "$extra" ] || fail "unknown to the stub: $extra"
fi
