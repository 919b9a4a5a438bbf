import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def fabric():
    """One process on the CPU."""
    from equigrad.engine import launch

    return launch(accelerator="cpu")
