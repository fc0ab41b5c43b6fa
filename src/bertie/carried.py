"""Where a model is: at a path, in a run, or by its name among those that the package carries."""

from pathlib import Path

MODELS = Path(__file__).parent / "models"  # a folder for each, with its card
DEFAULT = "bertie-small-en"
CONFIG, INSIDE_RUN = "config.json", "model"


def names() -> list[str]:
    """The models that the package carries, by the alphabet."""
    return sorted(path.parent.name for path in MODELS.glob(f"*/{CONFIG}"))


def listed() -> str:
    """The same for a sentence."""
    return ", ".join(names()) or "none"


def model_folder(model: str | Path) -> Path:
    """The folder of the model: what stands at the path, of a run its model, else the carried one of this name."""
    found = find(model)
    if not found.exists():
        raise ValueError(
            f"{model} is not there: a model is a folder, or the name of one that the package carries: {listed()}."
        )
    return found


def find(given: str | Path) -> Path:
    """The same, but what is not to be found is left as it is: for what may be no model, and who says so himself."""
    path = Path(given)
    if not path.exists() and str(path) in names():
        return MODELS / path
    is_run = (path / INSIDE_RUN).is_dir() and not (path / CONFIG).exists()
    return path / INSIDE_RUN if is_run else path
