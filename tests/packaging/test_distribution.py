"""Source distribution and wheel, built and installed as a stranger would."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2]
PARTS = ("hw", "sw", "sim", "boards")

pytestmark = pytest.mark.slow


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def sources():
    """Files of the packages in the checkout, by their name in the wheel."""
    return {str(path.relative_to(ROOT / part))
            for part in PARTS for path in (ROOT / part / "headrace").rglob("*")
            if path.is_file() and "__pycache__" not in path.parts}


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """Source distribution, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    return next(folder.glob("*.tar.gz")), next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def stranger(distributions, tmp_path_factory):
    """Python of a clean environment with the wheel."""
    folder = tmp_path_factory.mktemp("stranger")
    run(sys.executable, "-m", "venv", folder)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "--disable-pip-version-check", "install", distributions[1])
    return python


def test_wheel_holds_all_files(distributions):
    with zipfile.ZipFile(distributions[1]) as wheel:
        names = set(wheel.namelist())
    assert {name for name in names if name.startswith("headrace/")} == sources()
    assert not any(name == "headrace/__init__.py" for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    for part in PARTS:
        assert f"headrace/{part}/py.typed" in names
    for name in ("headrace/sim/cpp/axi_memory.cpp", "headrace/sw/models/demo/model.safetensors",
                 "headrace/sw/c/headrace_driver.c"):
        assert name in names


def test_source_distribution_holds_what_the_checkout_holds(distributions):
    with tarfile.open(distributions[0]) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert names >= {f"{name.split('/')[1]}/{name}" for name in sources()}
    assert names >= {"Makefile", "LICENSE", "CHANGELOG.md", "README.md", "pyproject.toml",
                     ".ci/run", "tests/packaging/test_distribution.py"}


def test_installed_parts_import(stranger, tmp_path):
    names = [f"headrace.{part}" for part in PARTS]
    names += ["headrace.sw.cli", "headrace.sim.simulation", "headrace.hw.axi"]
    code = "import importlib\n" + "".join(
        f"print(importlib.import_module({name!r}).__file__)\n" for name in names)
    for line in run(stranger, "-c", code, cwd=tmp_path).splitlines():
        assert Path(line).is_relative_to(stranger.parents[1])


def test_host_does_not_load_amaranth(stranger, tmp_path):
    code = ("import sys, headrace.hw.config, headrace.hw.isa, headrace.hw.regmap\n"
            "sys.exit('amaranth' in sys.modules)")
    run(stranger, "-c", code, cwd=tmp_path)


def test_installed_command(stranger, tmp_path):
    command = stranger.parent / "headrace"
    assert "run" in run(command, "--help", cwd=tmp_path)
    text = run(command, "run", "demo", "--prompt", "Once upon a time", "--tokens", "4",
               "--device", "golden", cwd=tmp_path)
    assert text.strip()
