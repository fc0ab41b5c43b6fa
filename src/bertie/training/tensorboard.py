"""The events of a run for TensorBoard, for those who watch their runs there."""

from pathlib import Path
from typing import TYPE_CHECKING

from bertie.training.runlog import Event

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

NOT_PLOTTED = ("event", "step", "tokens", "seconds", "reason")


def load_writer() -> type["SummaryWriter"]:
    """Torch's writer of these files; ValueError says what to install if the extra is missing."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError(
            "--tensorboard needs tensorboard, which is not installed: pip install 'bertie[tensorboard]'."
        ) from None
    return SummaryWriter


class Board:
    """A folder of TensorBoard's files. What came after the step that a run goes on from is no longer shown."""

    def __init__(self, folder: Path, step: int) -> None:
        self._writer = load_writer()(str(folder), purge_step=step + 1)

    def write(self, event: Event) -> None:
        """Add the event's figures, each a curve."""
        for name, figure in event.items():
            if name not in NOT_PLOTTED:
                self._writer.add_scalar(name, float(figure), int(event["step"]))

    def close(self) -> None:
        self._writer.close()
