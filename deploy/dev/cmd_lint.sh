help_text() {
  cat <<'TEXT'
Usage: ./dev lint [--all | --includes | FILES]

Checks the include rules over the whole project (deploy/include_rules.py), then runs clang-tidy
(.clang-tidy) over the sources that differ from branch main or are not committed yet.
  --all        clang-tidy over everything: some seconds a file
  --includes   the include rules only
TEXT
}

# The sources that this branch and this working tree change.
changed_files() {
  local base
  base=$(git -c safe.directory='*' merge-base HEAD main 2>/dev/null || true)
  {
    [ -z "$base" ] || git -c safe.directory='*' diff --name-only --diff-filter=d "$base" -- '*.cc'
    git -c safe.directory='*' ls-files --others --exclude-standard -- '*.cc'
  } | sort -u
}

main() {
  local what=${1:-} files sources
  need_packages lint
  mapfile -t sources < <(tracked_files '*.cc' '*.c' '*.h' '*.cu' '*.cuh')
  "$PYTHON" "$ROOT/deploy/include_rules.py" "${sources[@]}"
  say "include rules hold in ${#sources[@]} files"
  case "$what" in
    --includes) return ;;
    --all) mapfile -t files < <(tracked_files '*.cc') ;;
    '') mapfile -t files < <(changed_files) ;;
    -*) die "lint: unknown option '$what'" ;;
    *) files=("$@") ;;
  esac
  [ ${#files[@]} -gt 0 ] || { say "no changed sources for clang-tidy"; return; }
  . "$DEV/cmd_compdb.sh"
  write_compilation_database
  say "clang-tidy over ${#files[@]} files"
  printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy -p "$ROOT" --quiet ||
    die "clang-tidy found something"
  say "lint: ok"
}
