"""The example of the README, as a reader runs it."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]


def run_python(code, folder):
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=60)


def test_a_clone_called_attnd_beside_the_caller_is_not_taken_for_the_package(tmp_path):
    (tmp_path / "attnd" / "client").mkdir(parents=True)
    ran = run_python("import attnd; print(attnd.Client.__name__)", tmp_path)
    assert ran.stdout == "Client\n", ran.stderr


def test_the_example_runs_beside_a_clone(server, tmp_path):
    (tmp_path / "attnd").mkdir()
    example, = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert "localhost:8001" in example
    ran = run_python(example.replace("localhost:8001", server), tmp_path)
    assert ran.stdout.startswith("(1, 128, 8, 64) (1, 8, 128) cpu_fused Timings("), ran.stderr
