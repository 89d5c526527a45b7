help_text() {
  cat <<'TEXT'
Usage: ./dev fmt [--check] [FILES]

Formats the C, C++ and CUDA sources of the project (or FILES) with clang-format, as .clang-format
says. With --check it changes nothing, names what is not formatted and exits with 1.
TEXT
}

main() {
  local check= files=() arg
  for arg in "$@"; do
    case "$arg" in
      --check) check=1 ;;
      -*) die "fmt: unknown option '$arg'" ;;
      *) files+=("$arg") ;;
    esac
  done
  need_packages fmt
  [ ${#files[@]} -gt 0 ] || mapfile -t files < <(tracked_files '*.cc' '*.c' '*.h' '*.cu' '*.cuh')
  [ ${#files[@]} -gt 0 ] || { say "no sources"; return; }
  if [ -n "$check" ]; then
    local wrong
    wrong=$(clang-format --dry-run "${files[@]}" 2>&1 | sed -n 's/^\(.*\):[0-9]*:[0-9]*: warning: .*/\1/p' | sort -u)
    if [ -n "$wrong" ]; then
      printf '%s\n' "$wrong"
      die "these $(wc -l <<<"$wrong") files are not formatted; run ./dev fmt"
    fi
    say "${#files[@]} files are formatted"
  else
    clang-format -i "${files[@]}"
    say "formatted ${#files[@]} files"
  fi
}
