import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Sums in one order whatever the machine, and no threads fighting over small tensors."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
