# Calls of Bazel. Sourced by ./dev.

# The targets that a running installation is made of (deploy/local/local_server.py names their files).
INSTALLATION=(
  //client_stub/shim:libcuda.so.1 //client_stub:libwarpline_core.so
  //client_stub/nvml:libnvidia-ml.so.1 //transport/ucx:libwarpline_ucx.so
  //client_stub/libraries:libcublas.so.13 //client_stub/libraries:libcublasLt.so.13
  //server/device/cuda/libraries:libcuda.so.1
  //server/gpu_server:warpline-server //server/gpu_server:warpline-supervisor //server/gpu_server:warpline-worker //server/gpu_server:warpline-keeper //server/gpu_server:warpline-relay //server/gpu_server:warpline-compiler //server/gpu_server:warpline-mps
  //scheduler:warpline-scheduler
  //tools/cli:warpline //tools/ptxas:warpline-ptxas
)

bazel_call() {
  # shellcheck disable=SC2086  # startup options are several words
  bazel ${WARPLINE_BAZEL_STARTUP:-} "$@"
}

# parse_build_options ARGS...: sets CONFIG (opt, asan, tsan, clang, dbg), and REST to what is left.
parse_build_options() {
  CONFIG=opt
  REST=()
  while [ $# -gt 0 ]; do
    case "$1" in
      --asan | --tsan | --clang | --dbg | --opt) CONFIG=${1#--} ;;
      --config) CONFIG=${2:?--config needs a name}; shift ;;
      --config=*) CONFIG=${1#--config=} ;;
      --) ;;
      *) REST+=("$1") ;;
    esac
    shift
  done
}

# split_targets ARGS...: sets TARGETS (all of them if none is named) and FLAGS (-x, --x).
split_targets() {
  TARGETS=()
  FLAGS=()
  local arg
  for arg in "$@"; do
    case "$arg" in
      # A target to leave out; Bazel wants these after its flags.
      -//*) TARGETS+=("$arg") ;;
      -*) FLAGS+=("$arg") ;;
      *) TARGETS+=("$arg") ;;
    esac
  done
  [ ${#TARGETS[@]} -gt 0 ] || TARGETS=(//...)
}

need_build() {
  need_packages build "$@"
  need_cuda
  trim_disk_cache
}

# trim_disk_cache: Bazel 4 never deletes from its disk cache (.bazelrc), so the oldest results go here
# once there are more than WARPLINE_BUILD_CACHE_GB of them. A result that is missed is built again.
trim_disk_cache() {
  local cache="$HOME/.cache/warpline-bazel" limit=$((${WARPLINE_BUILD_CACHE_GB:-30} * 1000000000))
  [ -d "$cache" ] || return 0
  find "$cache" -type f -printf '%T@ %s %p\n' | sort -rn |
    awk -v limit="$limit" '
      { bytes += $2; files[NR] = $3; sizes[NR] = bytes }
      END {
        if (bytes <= limit) exit
        for (i = 1; i <= NR; i++) if (sizes[i] > limit * 0.7) print files[i]
      }' | xargs -r -d '\n' rm -f || true  # Another build may trim it, too.
}

# bazel_bin: the folder with what was built by `--config=opt`. The bazel-bin link in the tree points
# to whatever configuration was built last.
bazel_bin() {
  bazel_call info --config=opt bazel-bin 2>/dev/null
}
