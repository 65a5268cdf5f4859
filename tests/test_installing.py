"""The wheel and the sdist hold all that the program needs: what they install runs the demonstration."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import anyio
import pytest

ROOT = Path(__file__).parents[1]
KEPT = {name: value for name, value in os.environ.items() if not name.startswith(("SUPERVISOR", "PYTHON"))}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with the sdist and with the wheel that was built from it, as `python -m build` makes them."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT]
    done = subprocess.run(command, capture_output=True, text=True, env=KEPT)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def only(folder, pattern):
    (found,) = folder.glob(pattern)
    return found


def demonstration(folder, *command):
    """Run the demonstration, outside the checkout, and return its outcome."""
    env = {**KEPT, "SUPERVISOR_STORE": str(folder / "state.db"), "TMPDIR": str(folder)}
    given = [*command, "demo", "--unattended", "allow", "--json"]
    done = subprocess.run(given, cwd=folder, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["outcome"]["kind"]


def test_the_wheel_has_every_file_of_the_package(built):
    """Templates, SQL and the mark of typed packages, too; and nothing of the tests."""
    with zipfile.ZipFile(only(built, "*.whl")) as wheel:
        held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    listed = subprocess.run(["git", "ls-files", "supervisor"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a checkout")
    assert set(listed.stdout.split()) == held


def test_the_wheel_was_built_from_an_sdist_that_has_what_its_readers_need(built):
    with tarfile.open(only(built, "*.tar.gz")) as sdist:
        held = {name.partition("/")[2] for name in sdist.getnames()}
    assert {
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        "docs/README.md",
        "examples/fan_out.py",
        "tests/conftest.py",
    } <= held


def test_an_installed_wheel_runs_the_demonstration(built, tmp_path):
    """Into an environment of its own. The packages on which it depends are those of this one."""
    python = environment(tmp_path, with_pip=False)
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, only(built, "*.whl")], check=True, env=KEPT)
    place = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, text=True
    ).stdout.strip()
    Path(place, "others.pth").write_text(str(Path(anyio.__file__).parents[1]))
    where = [python, "-c", "import supervisor; print(supervisor.__file__)"]
    shown = subprocess.run(where, cwd=tmp_path, capture_output=True, text=True, env=KEPT).stdout
    assert shown.startswith(place)
    assert demonstration(tmp_path, tmp_path / "venv" / "bin" / "supervisor") == "succeeded"


@pytest.mark.soak
@pytest.mark.parametrize("pattern", ["*.whl", "*.tar.gz"])
def test_a_fresh_environment_runs_the_demonstration(built, tmp_path, pattern):
    """With the packages that the index has today."""
    python = environment(tmp_path, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", only(built, pattern)], check=True, env=KEPT)
    assert demonstration(tmp_path, tmp_path / "venv" / "bin" / "supervisor") == "succeeded"


@pytest.mark.soak
def test_uv_runs_and_installs_it(built, tmp_path):
    """`uvx` without an installation, and `uv tool install`."""
    uv = shutil.which("uv", path=f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}")
    if uv is None:
        pytest.skip("uv is not installed: pip install uv")
    wheel = only(built, "*.whl")
    first = tmp_path / "first"
    first.mkdir()
    assert demonstration(first, uv, "tool", "run", "--from", wheel, "supervisor") == "succeeded"
    places = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    subprocess.run([uv, "tool", "install", "--quiet", wheel], check=True, env={**KEPT, **places})
    assert demonstration(tmp_path, tmp_path / "bin" / "supervisor") == "succeeded"


def environment(folder, *, with_pip):
    venv.create(folder / "venv", with_pip=with_pip)
    return folder / "venv" / "bin" / "python"
