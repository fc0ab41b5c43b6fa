"""The events of a run for TensorBoard, for those who watch their runs there."""

from pathlib import Path

from bertie.training.runlog import Event

NOT_PLOTTED = ("event", "step", "tokens", "seconds", "reason")


class Board:
    """A folder of TensorBoard's files."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ValueError(
                "--tensorboard needs tensorboard, which is not installed: pip install 'bertie[tensorboard]'."
            ) from None
        self._writer = SummaryWriter(str(folder))

    def write(self, event: Event) -> None:
        """Add the event's figures, each a curve."""
        for name, figure in event.items():
            if name not in NOT_PLOTTED:
                self._writer.add_scalar(name, float(figure), int(event["step"]))

    def close(self) -> None:
        self._writer.close()
