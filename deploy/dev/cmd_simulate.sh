help_text() {
  cat <<'TEXT'
Usage: ./dev simulate [--servers=1250] [--sessions=100000] [--load=0.95] [--placement=pack|spread]
                      [--seed=1] [--patience=10m] [--decisions=FOLDER] [--plot=FILE.svg]

Builds the scheduler's placement and runs it on a virtual clock: a pool of servers with eight GPUs each,
and sessions whose sizes and lifetimes are like those of published traces of GPU clusters
(scheduler/simulation/workload.h). Prints how it goes, and ends with one line of figures.
docs/placement.md says what they mean.
  --load       what sessions want together, of all GPUs until the last one arrives
  --patience   after which wait GPUs are set aside for a request
  --decisions  a folder for the decisions; bazel run //scheduler/placement:replay_decisions -- FILE...
               makes each again
  --plot       a file for a plot
TEXT
}

main() {
  local arg args=() plot="" samples
  for arg in "$@"; do
    case "$arg" in
      --plot=*) plot=${arg#--plot=} ;;
      *) args+=("$arg") ;;
    esac
  done
  need_build
  say "building the simulation"
  bazel_call build --config=opt -- //scheduler/simulation:simulate || die "the build failed"
  if [ -z "$plot" ]; then
    exec "$(bazel_bin)/scheduler/simulation/simulate" "${args[@]}"
  fi
  samples=$(mktemp)
  "$(bazel_bin)/scheduler/simulation/simulate" --samples="$samples" "${args[@]}" || {
    rm -f "$samples"
    return 1
  }
  "$PYTHON" "$ROOT/scheduler/simulation/plot.py" "$samples" "$plot"
  rm -f "$samples"
}
