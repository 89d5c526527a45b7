help_text() {
  cat <<'TEXT'
Usage: ./dev lint [--all | --includes | --threads | FILES | FOLDERS]
       ./dev lint --prose [--base=REV] [--all] [FILES | FOLDERS]

Checks the include rules of deploy/lint/folders.toml over the whole project, that docs/folders.md shows
them, that docs/threads.md has every thread, that tests/attack/mutations.toml applies to the sources, and
the English of changed comments and pages. Then it runs clang-tidy (.clang-tidy) over the sources that
differ from branch main or are not committed yet; for a header, over the source of its name. As many at a
time as there are processors. Compiles nothing but generated headers.
  --all        clang-tidy over everything: some seconds a file
  --includes   what is before clang-tidy only
  --threads    that, and clang's thread-safety analysis over everything but tests: two seconds a
               file. Of the prose it judges the last commit only. CI does this
  --prose      the English of changed comments and pages only, or of all with --all, which prints
               counts. Without git history it compares with what there is, and never fails for
               that: deploy/lint/prose.py --help says what it finds and what it compares with
TEXT
}

# The sources that this branch and this working tree change, and those of changed headers.
changed_files() {
  local base file
  base=$(git -c safe.directory='*' merge-base HEAD main 2>/dev/null || true)
  {
    [ -z "$base" ] || git -c safe.directory='*' diff --name-only --diff-filter=d "$base" -- '*.cc' '*.h'
    git -c safe.directory='*' ls-files --others --exclude-standard -- '*.cc' '*.h'
  } | while IFS= read -r file; do
    file=${file%.h}
    [ ! -f "${file%.cc}.cc" ] || printf '%s\n' "${file%.cc}.cc"
  done | sort -u
}

# The targets that compile the files.
targets_of() {
  bazel_call query --keep_going --noshow_progress \
    "kind('cc_(library|binary|test) rule', rdeps(//..., set($*), 1))" 2>/dev/null || true
}

# write_compile_commands TARGETS...: compile_commands.json for them, and what they generate.
write_compile_commands() {
  say "making what $# targets generate"
  bazel_call build --config=opt --keep_going --output_groups=compilation_prerequisites_INTERNAL_ -- \
    "$@" || say "warning: some headers may be missing"
  "$PYTHON" "$ROOT/deploy/dev/compile_commands.py" "$@"
}

# Those of the files that compile_commands.json has.
compiled_files() {
  local file
  for file in "$@"; do
    ! grep -qF "\"file\": \"$ROOT/$file\"" "$ROOT/compile_commands.json" || printf '%s\n' "$file"
  done
}

check_prose() {
  "$PYTHON" "$ROOT/deploy/lint/prose.py" "$@" || die "the prose is to be corrected (deploy/lint/prose.py --help)"
}

main() {
  local what=${1:-} files sources targets
  if [ "$what" = --prose ]; then
    check_prose "${@:2}"
    return
  fi
  need_packages lint
  mapfile -t sources < <(tracked_files '*.cc' '*.c' '*.h' '*.cu' '*.cuh')
  "$PYTHON" "$ROOT/deploy/lint/include_rules.py" --check="$ROOT/docs/folders.md" "${sources[@]}"
  say "include rules hold in ${#sources[@]} files"
  "$PYTHON" "$ROOT/tools/threads.py" "$ROOT/docs/threads.md" "${sources[@]}"
  say "docs/threads.md has every thread"
  "$PYTHON" "$ROOT/deploy/lint/hooks.py" --check="$ROOT/docs/hooks.md"
  say "docs/hooks.md has every hook of policies, and each is asked"
  "$PYTHON" "$ROOT/tests/attack/mutations.py" --check
  say "the mutations of the attacks apply"
  if [ "$what" = --threads ]; then check_prose --last; else check_prose; fi
  case "$what" in
    --includes) return ;;
    --threads)
      need_build clang
      write_compile_commands //...
      "$PYTHON" "$ROOT/deploy/lint/thread_safety.py" "$ROOT/compile_commands.json" ||
        die "the thread-safety analysis found something"
      return
      ;;
    --all) mapfile -t files < <(tracked_files '*.cc') ;;
    '') mapfile -t files < <(changed_files) ;;
    -*) die "lint: unknown option '$what'" ;;
    *) mapfile -t files < <(for what in "$@"; do
         if [ -d "$what" ]; then tracked_files "${what%/}/*.cc"; else printf '%s\n' "$what"; fi
       done | sort -u) ;;
  esac
  [ ${#files[@]} -gt 0 ] || { say "no changed sources for clang-tidy"; return; }
  need_build
  mapfile -t targets < <(targets_of "${files[@]}")
  [ ${#targets[@]} -gt 0 ] || die "no target compiles these files"
  write_compile_commands "${targets[@]}"
  # Without its command a source would be read with those of another; what Bazel does not compile,
  # such as the programs of tests/hosts, is left out.
  mapfile -t sources < <(compiled_files "${files[@]}")
  [ ${#sources[@]} -eq ${#files[@]} ] || say "not compiled by Bazel: $((${#files[@]} - ${#sources[@]})) files"
  files=("${sources[@]}")
  say "clang-tidy over ${#files[@]} files"
  printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy -p "$ROOT" --quiet ||
    die "clang-tidy found something"
  say "lint: ok"
}
