# Debian packages, from deploy/dev/packages.txt. Sourced by ./dev.

# group_packages GROUP...: the packages of the groups, one a line.
group_packages() {
  awk -v want=" $* " '!/^#/ && NF == 2 && index(want, " " $1 " ") { print $2 }' "$ROOT/deploy/dev/packages.txt"
}

# missing_packages GROUP...: those that are not installed, one a line.
missing_packages() {
  local wanted
  mapfile -t wanted < <(group_packages "$@")
  { dpkg-query -W -f '${Package} ${db:Status-Abbrev}\n' "${wanted[@]}" 2>/dev/null || true; } |
    awk -v wanted="${wanted[*]}" '
      $2 == "ii" { installed[$1] = 1 }
      END {
        count = split(wanted, names, " ")
        for (i = 1; i <= count; i++) if (!(names[i] in installed)) print names[i]
      }'
}

# need_packages GROUP...: installs what is missing of the groups. Prints nothing if all is there.
need_packages() {
  local missing as_root=()
  command -v dpkg-query >/dev/null && command -v apt-get >/dev/null || die \
    "this system has no apt-get. Warpline builds on Debian 12: docker run -it -v \"$ROOT\":/src -w /src debian:12 ./dev test"
  missing=$(missing_packages "$@" | tr '\n' ' ')
  missing=${missing% }
  [ -n "$missing" ] || return 0
  check_system
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "missing Debian packages. As root: apt-get install --no-install-recommends $missing"
    as_root=(sudo)
    [ -t 0 ] || as_root+=(-n)
    "${as_root[@]}" true || die "sudo was refused. As root: apt-get install --no-install-recommends $missing"
  fi
  as_root+=(env DEBIAN_FRONTEND=noninteractive apt-get -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  if [ -z "${package_lists_updated:-}" ]; then
    say "updating the package lists (apt-get update)"
    quietly "apt-get update" "${as_root[@]}" update || say "going on with the package lists that are here"
    package_lists_updated=1
  fi
  say "installing Debian packages: $missing"
  quietly "apt-get install" "${as_root[@]}" install --no-install-recommends $missing || die \
    "could not install: $missing"
}

check_system() {
  local name
  name=$(. /etc/os-release 2>/dev/null && printf '%s %s' "${ID:-unknown}" "${VERSION_ID:-}") || name=unknown
  [ "$name" = "debian 12" ] || say "warning: this system is '$name'; only Debian 12 is checked, and its" \
    "Bazel 4.2.3 is what the build files are written for"
  [ "$(uname -m)" = x86_64 ] || die "this machine is $(uname -m); Warpline supports x86-64 only"
}
