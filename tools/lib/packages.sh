# Distribution packages: what the build, the tests and the demo need. Sourced by the tools.

attnd_packages=(
  g++ cmake ninja-build ccache pkg-config git ca-certificates
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libprotoc-dev
  libabsl-dev libhwy-dev libspdlog-dev prometheus-cpp-dev zlib1g-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  python3 python3-venv curl xz-utils
)

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
    echo "attnd: need root or sudo to run: $*" >&2
    return 1
  fi
}

check_distribution() {
  local id="" version_id=""
  [ -r /etc/os-release ] && . /etc/os-release && id=${ID:-} version_id=${VERSION_ID:-}
  case "$id $version_id" in
    "debian 12" | "ubuntu 24.04") ;;
    "ubuntu 22.04")
      echo "attnd: Ubuntu 22.04 packages gRPC 1.30, which lacks the callback API that attnd uses; use Debian 12 or Ubuntu 24.04, or the container" >&2
      return 1 ;;
    *) echo "attnd: tried on Debian 12; this is '${id:-unknown} ${version_id}': going on, package names may differ" >&2 ;;
  esac
}

# Installs what is missing, and says what. Does nothing, and needs no network, when all is there.
ensure_packages() {
  local missing=() package
  for package in "${attnd_packages[@]}"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  check_distribution
  echo "attnd: installing ${missing[*]}"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}
