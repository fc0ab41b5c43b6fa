"""What is built is what is needed: the wheel, installed by itself, finds its models from anywhere."""

import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from bertie import carried

ROOT = Path(__file__).parents[1]
BUILT_FROM = ("src", "pyproject.toml", "README.md", "LICENSE", ".gitignore")


def test_an_installed_wheel_opens_the_models_it_carries(carries: Path, tmp_path: Path) -> None:
    tree, venv, elsewhere = tmp_path / "tree", tmp_path / "venv", tmp_path / "elsewhere"
    for name in BUILT_FROM:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        tree.mkdir(exist_ok=True)
        copy(ROOT / name, tree / name)
    stands_in = tree / "src" / "bertie" / "models" / carried.DEFAULT
    shutil.rmtree(stands_in, ignore_errors=True)
    shutil.copytree(carries, stands_in)
    said(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", tmp_path, cwd=tree)
    said(sys.executable, "-m", "venv", "--without-pip", venv, cwd=tmp_path)
    python = venv / "bin" / "python"
    install = ("install", "--quiet", "--no-index", "--no-deps", *tmp_path.glob("*.whl"))
    said(sys.executable, "-m", "pip", "--python", python, *install, cwd=tmp_path)
    # What bertie needs is what these tests run with; bertie itself is not in there, but only named by its path.
    packages = Path(said(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip())
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    elsewhere.mkdir()
    bertie = venv / "bin" / "bertie"
    one = json.loads(said(bertie, "models", "--json", cwd=elsewhere))
    assert Path(one["folder"]) == packages / "bertie" / "models" / carried.DEFAULT
    assert json.loads(said(bertie, "fill", carried.DEFAULT, "a [MASK]", "--json", cwd=elsewhere))["predictions"]
    code = "import bertie; print(bertie.load().encode('a cat').shape)"
    assert said(python, "-c", code, cwd=elsewhere) == "(32,)\n"


def said(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False, env={})
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout
