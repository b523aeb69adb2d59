# Configures and builds one preset. Sourced by the tools.

ATTND_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$ATTND_ROOT/tools/lib/packages.sh"
. "$ATTND_ROOT/tools/lib/cuda.sh"
. "$ATTND_ROOT/tools/lib/python.sh"

# build_preset PRESET [TARGET...]: build/PRESET holds the result.
build_preset() {
  local preset=$1 arguments=()
  shift
  # A changed compiler makes CMake start over and forget the preset's settings: begin with a fresh cache then.
  if [ "$preset" = cuda ]; then
    arguments+=("-DCMAKE_CUDA_COMPILER=$CUDACXX")
    local cache=$ATTND_ROOT/build/cuda/CMakeCache.txt
    if [ -f "$cache" ] && ! grep -q "^CMAKE_CUDA_COMPILER:[A-Z]*=$CUDACXX\$" "$cache"; then rm -f "$cache"; fi
  fi
  (cd "$ATTND_ROOT" && cmake --preset "$preset" "${arguments[@]}" >"$ATTND_ROOT/build/$preset.configure.log" 2>&1) || {
    cat "$ATTND_ROOT/build/$preset.configure.log" >&2
    return 1
  }
  echo "attnd: building $preset"
  NINJA_STATUS="[%f/%t %es] " cmake --build "$ATTND_ROOT/build/$preset" ${1:+--target "$@"}
}
