#!/usr/bin/env bash
# Runs a command of ./dev as the first one in a fresh, minimal Debian 12: no compiler, no toolkit, no
# environment. Needs root and debootstrap. What it made is gone afterwards.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: deploy/debian/fresh_debian.sh [OPTIONS] [COMMAND [ARGUMENTS]]      (default command: test)
       deploy/debian/fresh_debian.sh [OPTIONS] --package=FILE

Makes a minimal Debian 12 in a temporary folder, copies this tree (with what is not committed) into
it, and runs ./dev COMMAND there, in its own process and mount namespaces.
  --package=FILE      instead: installs this Debian package there, serves on the CPU device, runs an
                      example in plain text and over TLS, and removes the package (needs openssl here)
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
package=
copies=()
binds=()
while [ $# -gt 0 ]; do
  case "$1" in
    --mirror=*) mirror=${1#*=} ;;
    --base=*) base=${1#*=} ;;
    --copy=*) copies+=("${1#*=}") ;;
    --bind=*) binds+=("${1#*=}") ;;
    --keep) keep=1 ;;
    --package=*) package=${1#*=} ;;
    -h | --help) usage; exit ;;
    -*) usage >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done
[ $# -gt 0 ] || set -- test

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
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
if [ -n "$package" ]; then
  cp "$package" "$folder/src/warpline.deb"
  "$root/deploy/local/make_certs.sh" "$folder/src/certs" 127.0.0.1
  cat >"$folder/src/try" <<'TRY'
#!/bin/bash
set -euo pipefail
example=/usr/lib/warpline/bin/examples/vector_add
serve() {
  rm -f /tmp/port
  # As the service does, with the flags of the package's file, on another port.
  . /etc/default/warpline-server
  # shellcheck disable=SC2086  # flags are several words
  warpline-server $WARPLINE_SERVER_FLAGS --listen=127.0.0.1:0 --device=cpu \
    --port_file=/tmp/port "$@" &
  while [ ! -s /tmp/port ]; do kill -0 $!; sleep 0.1; done
}
stop() { kill $!; wait $!; }

dpkg --install /src/warpline.deb
serve
warpline run --endpoint=127.0.0.1:"$(cat /tmp/port)" -- "$example"
stop
tls=(--tls_ca=/src/certs/ca.crt)
serve "${tls[@]}" --tls_cert=/src/certs/server.crt --tls_key=/src/certs/server.key
tls+=(--tls_cert=/src/certs/client.crt --tls_key=/src/certs/client.key)
warpline run --endpoint=127.0.0.1:"$(cat /tmp/port)" "${tls[@]}" -- "$example"
warpline stat --endpoint=127.0.0.1:"$(cat /tmp/port)" "${tls[@]}"
stop
dpkg --purge warpline
test ! -e /usr/lib/warpline -a ! -e /etc/default/warpline-server
echo "package: ok"
TRY
  chmod +x "$folder/src/try"
  program=(/src/try)
else
  program=(/src/dev "$@")
fi
[ -n "$package" ] || (cd "$root" && git ls-files -z --cached --others --exclude-standard |
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
    chroot "$folder" "$@"' bash "${binds[@]}" -- "${program[@]}" || status=$?
echo "fresh_debian: ${program[*]} took $(($(date +%s) - started)) s and ended with status $status"
exit "$status"
