# Shared by all commands of ./dev: messages and a sane environment. Sourced, never run.

say() { printf 'dev: %s\n' "$*"; }

die() {
  printf 'dev: error: %s\n' "$*" >&2
  exit 1
}

# wants_help ARGS...: whether --help is among them, before a bare `--`.
wants_help() {
  local arg
  for arg in "$@"; do
    case "$arg" in
      --) return 1 ;;
      -h | --help) return 0 ;;
    esac
  done
  return 1
}

# A container may have no HOME and no locale; Bazel, pip and Python want both.
prepare_environment() {
  export LC_ALL=C.UTF-8
  if [ -z "${HOME:-}" ] || ! mkdir -p "$HOME" 2>/dev/null || [ ! -w "$HOME" ]; then
    HOME=$(getent passwd "$(id -u)" | cut -d: -f6 || true)
    if [ -z "$HOME" ] || [ ! -w "$HOME" ]; then
      HOME="${TMPDIR:-/tmp}/warpline-home-$(id -u)"
      mkdir -p "$HOME"
    fi
    export HOME
  fi
  [ -n "${USER:-}" ] || export USER="$(id -un 2>/dev/null || id -u)"
  # Debian's own Python: one that a version manager put first on PATH may lack pip.
  PYTHON=/usr/bin/python3
  CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/warpline"
}

# quietly WHAT COMMAND...: runs COMMAND with its output kept for the case that it fails.
quietly() {
  local what=$1 log
  shift
  log=$(mktemp)
  if ! "$@" >"$log" 2>&1 </dev/null; then
    tail -n 30 "$log" >&2
    rm -f "$log"
    printf 'dev: error: %s failed\n' "$what" >&2
    return 1
  fi
  rm -f "$log"
}

# tracked_files PATTERN...: the files of the project (committed or not yet) that match, one a line.
tracked_files() {
  if command -v git >/dev/null && git -c safe.directory='*' rev-parse --git-dir >/dev/null 2>&1; then
    git -c safe.directory='*' ls-files --cached --others --exclude-standard -- "$@" |
      while IFS= read -r file; do [ -f "$file" ] && printf '%s\n' "$file"; done || true
  else
    local pattern args=()
    for pattern in "$@"; do args+=(-o -name "$pattern"); done
    find . -path './bazel-*' -prune -o -path ./dist -prune -o -path ./.git -prune -o \
      -type f \( "${args[@]:1}" \) -print | sed 's|^\./||'
  fi
}
