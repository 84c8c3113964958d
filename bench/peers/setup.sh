#!/usr/bin/env bash
# Installs the Python peers of the benchmark into ${HALFBYTE_CACHE:-~/.cache/halfbyte}/peers/venv. Runs again at no cost.
#
#   bash bench/peers/setup.sh
#
# HALFBYTE_PEERS_PYTHON  the Python to use (3.11 or newer, with its headers); default: the newest found
# MICROXCALING_REPO      where git finds microxcaling (an address or a folder); default: its public repository
#
# torch and JAX are needed; the libraries that emulate low precision are skipped, with the reason, where they can't be had.
#
# PyPI's Linux wheel of torch is a CUDA build: it wants about 3 GB of NVIDIA libraries even where only the CPU is used.
# They are needed to load it, not to run it, so all but the small CUDA runtime are replaced by stub libraries whose every
# function aborts. No CPU code calls one.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
base="${HALFBYTE_CACHE:-$HOME/.cache/halfbyte}/peers"
venv="$base/venv"
stamp="$venv/.halfbyte-stamp"

fail() {
  echo "bench/peers/setup.sh: $1" >&2
  exit 2
}

# A shim may exist for a Python that is not installed, so each candidate is run. torch.compile needs Python's headers.
usable_python() {
  "$1" -c 'import os, sys, sysconfig, venv
sys.exit(sys.version_info < (3, 11) or not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' 2>/dev/null
}

find_python() {
  local candidate
  for candidate in ${HALFBYTE_PEERS_PYTHON:-python3.13 python3.12 \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[32].*/bin/python3 python3}; do
    if usable_python "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  fail "no Python 3.11 or newer with its headers (python3-dev) was found; set HALFBYTE_PEERS_PYTHON to one"
}

# Builds a stub for every library that torch's libraries need and nothing provides.
stub_missing_libraries() {
  local site torch_lib cudart work needed library
  site="$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
  torch_lib="$site/torch/lib"
  work="$(mktemp -d)"
  needed="$(readelf -d "$torch_lib"/*.so | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u)"
  needed="$(grep -E '^lib(cu|nv|nccl)' <<<"$needed" | grep -vE '^libcuda(rt)?\.' || true)"
  if [ -n "$needed" ]; then
    cudart="$(find "$site/nvidia" -name 'libcudart.so.*' | head -n 1)"
    nm -D --defined-only "$cudart" | awk '{ sub(/@.*/, "", $3); print $3 }' | sort -u >"$work/provided"
    nm -D --undefined-only "$torch_lib"/*.so | awk 'NF == 2 { sub(/@.*/, "", $2); print $2 }' |
      grep -E '^(cu|nv|nccl)[A-Za-z_]' | sort -u | comm -23 - "$work/provided" |
      awk 'BEGIN { print "extern void abort(void);" } { print "void " $1 "(void) { abort(); }" }' >"$work/stub.c"
    for library in $needed; do
      # Which library holds a function does not matter, so every stub holds them all (40 KB).
      gcc -w -O1 -fno-builtin -fPIC -shared "-Wl,-soname,$library" -o "$torch_lib/$library" "$work/stub.c"
    done
    echo "peers: stubs in place of $(wc -w <<<"$needed") CUDA libraries"
  fi
  rm -r "$work"
}

pip_install() {
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps "$@"
}

install_core() {
  rm -rf "$venv"
  echo "peers: installing torch and JAX (about 0.8 GB to download) into $venv"
  "$python" -m venv "$venv"
  pip_install --only-binary :all: -r "$here/requirements.txt"
  stub_missing_libraries
  "$venv/bin/python" -c '
import logging, jax, torch
logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)
x = torch.ones(64, 64, dtype=torch.bfloat16)
assert torch.compile(lambda x: (x @ x).float().sum())(x).item() == 64.0**3
print(f"peers: torch {torch.__version__}, jax {jax.__version__}")'
  printf '%s' "$want" >"$stamp"
}

has_module() {
  "$venv/bin/python" -c "import sys, importlib.util; sys.exit(importlib.util.find_spec('$1') is None)"
}

# microxcaling is no package: its repository is put on the path.
install_microxcaling() {
  local commit="7bc41952de394f5cc5e782baf132e7c7542eb4e4" folder="$base/microxcaling" site
  rm -rf "$folder"
  GIT_TERMINAL_PROMPT=0 timeout 120 git clone --quiet --no-checkout \
    "${MICROXCALING_REPO:-https://github.com/microsoft/microxcaling}" "$folder" || return 1
  git -C "$folder" checkout --quiet "$commit" || return 1
  site="$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
  echo "$folder" >"$site/microxcaling.pth"
}

# fouroversix builds CUDA kernels unless told not to; it imports transformers, which it does not declare.
install_fouroversix() {
  pip_install --only-binary :all: -r "$here/requirements-fouroversix.txt" &&
    SKIP_CUDA_BUILD=1 pip_install --no-build-isolation --no-binary fouroversix fouroversix==1.0.5
}

install_torchao() {
  pip_install --only-binary :all: torchao==0.18.0
}

# MODULE NAME: installs a library whose module is not there yet; where that fails its peers are left out.
optional() {
  local log="$base/$2.log"
  has_module "$1" && return
  if "install_$2" >"$log" 2>&1 && has_module "$1"; then
    echo "peers: $2 installed"
  else
    echo "peers: skipping $2, its peers can't run: $(grep -iE 'error|fatal|could not' "$log" | tail -n 1)" >&2
  fi
}

command -v g++ >/dev/null || fail "torch.compile needs a C++ compiler; install g++ and run this again"
mkdir -p "$base"
exec 9>"$base/.lock"
flock 9

python="$(find_python)"
want="$("$python" -c 'import sys; print(sys.executable, sys.version.split()[0])') $(cat "$here/requirements.txt" "$here/setup.sh" | sha256sum)"

if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$want" ]; then
  install_core
fi
optional torchao torchao
optional mx microxcaling
optional fouroversix fouroversix
echo "peers: ready in $venv"
