#!/usr/bin/env bash
# Runs a command of ./dev as the first one in a fresh, minimal Debian 12: no compiler, no toolkit, no
# environment. Needs root and debootstrap. What it made is gone afterwards.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: deploy/fresh_debian.sh [OPTIONS] [COMMAND [ARGUMENTS]]      (default command: test)

Makes a minimal Debian 12 in a temporary folder, copies this tree (with what is not committed) into
it, and runs ./dev COMMAND there, in its own process and mount namespaces.
  --mirror=URL        of Debian's packages (default http://deb.debian.org/debian)
  --base=DIR          a debootstrap'ed folder to copy instead of making one
  --copy=FILE:PATH    a file that the system gets as PATH, such as pip's configuration (repeatable)
  --bind=DIR          a folder of this machine that it sees, such as a CUDA toolkit (repeatable)
  --keep              do not remove the folder
TEXT
}

mirror=http://deb.debian.org/debian
base=
keep=
copies=()
binds=()
while [ $# -gt 0 ]; do
  case "$1" in
    --mirror=*) mirror=${1#*=} ;;
    --base=*) base=${1#*=} ;;
    --copy=*) copies+=("${1#*=}") ;;
    --bind=*) binds+=("${1#*=}") ;;
    --keep) keep=1 ;;
    -h | --help) usage; exit ;;
    -*) usage >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done
[ $# -gt 0 ] || set -- test

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$(mktemp -d "${TMPDIR:-/tmp}/fresh-debian.XXXXXX")

# Never while something is mounted there: it would be removed from where it really lies.
remove_folder() {
  if grep -qF " $folder/" /proc/self/mounts; then
    echo "fresh_debian: not removing $folder, which has mounts" >&2
  else
    rm -rf --one-file-system "$folder"
  fi
}
[ -n "$keep" ] || trap remove_folder EXIT

if [ -n "$base" ]; then
  cp -a "$base/." "$folder"
else
  debootstrap --variant=minbase bookworm "$folder" "$mirror" >"$folder.log" || { tail "$folder.log"; exit 1; }
  rm -f "$folder.log"
fi
printf 'deb %s bookworm main\ndeb %s bookworm-updates main\n' "$mirror" "$mirror" \
  >"$folder/etc/apt/sources.list"
cp -L /etc/resolv.conf /etc/hosts "$folder/etc/"
for copy in "${copies[@]}"; do
  install -D -m 644 "${copy%%:*}" "$folder${copy#*:}"
done
mkdir "$folder/src"
(cd "$root" && git ls-files -z --cached --others --exclude-standard |
  tar --null --files-from=- --ignore-failed-read -cf - 2>/dev/null || true) | tar -xf - -C "$folder/src"
for bind in "${binds[@]}"; do
  mkdir -p "$folder$bind"
done

# With the namespaces go their mounts and every process, Bazel's server among them. The devices are
# the ones that debootstrap made; this machine's own /dev stays out of it.
export folder
started=$(date +%s)
status=0
unshare --mount --pid --fork bash -euc '
  mount -t proc proc "$folder/proc"
  mount -t tmpfs tmpfs "$folder/dev/shm"
  while [ "$1" != -- ]; do
    mount --bind "$1" "$folder$1"
    mount -o remount,bind,ro "$folder$1"
    shift
  done
  shift
  exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    chroot "$folder" /src/dev "$@"' bash "${binds[@]}" -- "$@" || status=$?
echo "fresh_debian: ./dev $* took $(($(date +%s) - started)) s and ended with status $status"
exit "$status"
