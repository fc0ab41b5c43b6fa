"""Which device a model runs on, by the name a person gives."""

import torch


def pick_device(name: str) -> torch.device:
    """The device of that name; for `auto` a GPU where there is one."""
    is_here = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(device for device, here in is_here.items() if here))
    if not is_here.get(name):
        here = ", ".join(device for device, here in is_here.items() if here)
        raise ValueError(f"device {name!r} is not on this machine; allowed here: auto, {here}.")
    return torch.device(name)
