# The CUDA compiler: where it is, or NVIDIA's own wheels put into an ignored folder. Sourced by the tools.
#   ATTND_CUDA=on    build CUDA; without a toolkit, install the wheels
#   ATTND_CUDA=off   do not build CUDA
#   ATTND_CUDA=auto  (default) on where nvcc is found, or where there is a GPU and the wheels can be installed

# Versions that belong to nvcc 13.0.88.
attnd_cuda_wheels=(
  nvidia-cuda-nvcc==13.0.88
  nvidia-cuda-crt==13.0.88
  nvidia-nvvm==13.0.88
  nvidia-cuda-runtime==13.0.96
  nvidia-cuda-cccl==13.0.85
)

find_nvcc() {
  local candidate
  for candidate in "${CUDACXX:-}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc \
                   "$ATTND_ROOT/.deps/cuda-13.0/nvidia/cu13/bin/nvcc"; do
    # Older toolkits do not know the language features and the instructions that the kernels use.
    if [ -n "$candidate" ] && "$candidate" --version 2>/dev/null | grep -q 'release 13\.'; then
      echo "$candidate"
      return 0
    fi
  done
  return 1
}

install_cuda_wheels() {
  local folder=$ATTND_ROOT/.deps/cuda-13.0 top
  echo "attnd: no CUDA 13 compiler here; installing NVIDIA's wheels (${attnd_cuda_wheels[*]}) into .deps/cuda-13.0"
  rm -rf "$folder"
  ensure_pip_environment
  "$ATTND_ROOT/.deps/pip/bin/pip" install --quiet --no-deps --no-compile --target "$folder" "${attnd_cuda_wheels[@]}"
  top=$folder/nvidia/cu13
  # What a toolkit's own installer would have made: nvcc looks in lib64/, CMake looks for libcudart.so, and pip drops the
  # executable bit of some tools.
  ln -sfn lib "$top/lib64"
  ln -sfn libcudart.so.13 "$top/lib/libcudart.so"
  chmod +x "$top"/bin/* "$top"/nvvm/bin/* 2>/dev/null || true
}

ensure_pip_environment() {
  [ -x "$ATTND_ROOT/.deps/pip/bin/pip" ] || python3 -m venv "$ATTND_ROOT/.deps/pip"
}

has_gpu() { [ -e /dev/nvidia0 ] || { command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; }; }

# Sets cuda_preset to "cuda" or "cpu" and exports CUDACXX for the former.
ensure_cuda() {
  cuda_preset=cpu
  local mode=${ATTND_CUDA:-auto} nvcc
  case $mode in on | off | auto) ;; *) echo "attnd: ATTND_CUDA is '$mode'; accepted: on, off, auto" >&2; return 2 ;; esac
  [ "$mode" = off ] && return 0
  if ! nvcc=$(find_nvcc); then
    [ "$mode" = auto ] && ! has_gpu && return 0
    if ! install_cuda_wheels || ! nvcc=$(find_nvcc); then
      [ "$mode" = on ] && { echo "attnd: could not set up the CUDA compiler" >&2; return 1; }
      echo "attnd: could not set up the CUDA compiler; building for the CPU alone" >&2
      return 0
    fi
  fi
  export CUDACXX=$nvcc
  cuda_preset=cuda
}
