import pytest

from losses.kernels.interpreted import interpreting_process, run_pass


@pytest.fixture(scope="session")
def interpreted():
    """Calls a function in a process whose Triton kernels are interpreted: `interpreted(function, *arguments)`."""
    with interpreting_process() as pool:
        yield lambda function, *arguments, **options: pool.submit(function, *arguments, **options).result()


@pytest.fixture(scope="session")
def compute(interpreted):
    """The result of a pass: `compute(binary_cross_entropy, logits, labels, ...)`."""
    return lambda function, *arguments, **options: interpreted(run_pass, function, *arguments, **options)
