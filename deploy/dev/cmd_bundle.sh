help_text() {
  cat <<'TEXT'
Usage: ./dev bundle [--deb] [--wheel] [--out DIR]

Builds and makes one folder (default dist/warpline) with server, client library, examples and
benchmark that runs on other Linux machines on x86-64 (glibc 2.34 or newer) without Bazel or our
packages. Its README.txt says how. Fails if any file in it would need a newer system.
  --deb    also a Debian package of it beside the folder: warpline_VERSION_amd64.deb
  --wheel  also a Python wheel of the client, for `pip install`: warpline-VERSION-py3-none-TAG.whl
TEXT
}

main() {
  local commit stamp deb= wheel= out=$ROOT/dist/warpline rest=()
  while [ $# -gt 0 ]; do
    case "$1" in
      --deb) deb=1 ;;
      --wheel) wheel=1 ;;
      --out) out=${2:?--out needs a folder}; shift ;;
      --out=*) out=${1#*=} ;;
      *) rest+=("$1") ;;
    esac
    shift
  done
  need_build bundle
  say "building what goes into the bundle"
  bazel_call build --config=opt -- "${INSTALLATION[@]}" //examples/... //bench/cuda/... \
    //tests/chaos:long_program \
    //deploy/bundle:libwarpline_compat.so
  say "collecting libraries and licences"
  commit=$(git -c safe.directory='*' describe --always --dirty 2>/dev/null || echo unknown)
  "$PYTHON" "$ROOT/deploy/bundle/bundle.py" --bazel_bin="$(bazel_bin)" --cuda_home="$CUDA_HOME" \
    --commit="$commit" --out="$out" "${rest[@]}"
  stamp=$(git -c safe.directory='*' log -1 --format=%ct 2>/dev/null || date +%s)
  if [ -n "$deb" ]; then
    "$PYTHON" "$ROOT/deploy/debian/debian_package.py" "$out" --out="$(dirname "$out")" --stamp="$stamp"
  fi
  if [ -n "$wheel" ]; then
    "$PYTHON" "$ROOT/deploy/wheel/wheel.py" "$out" --out="$(dirname "$out")" --stamp="$stamp"
  fi
}
