"""Builds the documentation into a static site, in both languages: python docs/site/build.py FOLDER.

A warning is an error."""

import shutil
import sys
import tempfile
from pathlib import Path

from sphinx.cmd.build import build_main

HERE = Path(__file__).parent
LANGUAGES = {"en": "en", "zh": "zh_CN"}  # the folder, and what Sphinx calls it


def build(out: Path) -> int:
    """Writes OUT/en, OUT/zh and OUT/index.html, which opens the reader's language; the exit code."""
    for folder, language in LANGUAGES.items():
        with tempfile.TemporaryDirectory() as scratch:
            settings = ["-c", str(HERE), "-D", f"language={language}", "-d", scratch]
            strict = ["--quiet", "--fail-on-warning", "--nitpicky"]
            code = build_main([*settings, *strict, str(HERE.parent / folder), str(out / folder)])
        if code:
            return code
    shutil.copy(HERE / "index.html", out / "index.html")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python docs/site/build.py FOLDER")
    sys.exit(build(Path(sys.argv[1])))
