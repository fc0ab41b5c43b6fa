import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch

TINY = Path(__file__).with_name("tiny.py")


@pytest.fixture(autouse=True)
def one_thread():
    """Sums in one order whatever the machine, and no threads fighting over small tensors."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tiny():
    """The module of the tiny run."""
    spec = importlib.util.spec_from_file_location("tiny", TINY)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def run_tiny():
    """The tiny run in processes of its own; gives what it printed."""

    def run(*arguments):
        command = [sys.executable, "-W", "error", TINY, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
