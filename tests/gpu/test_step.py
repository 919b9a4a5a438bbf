"""What a training step asks of a device: memory, no waiting, capture in a CUDA graph, the same bits in every run."""

import copy
from collections.abc import Callable

import pytest
import torch
from benchmarks.losses import peak_memory as peak_resident_memory
from torch import Tensor, nn
from torch.testing import assert_close

from gpu.training import CAPTURABLE, EQUALIZATION, equalization_batch, equalization_loss, on_device, train
from losses.all_losses import CASES

pytestmark = pytest.mark.gpu


def small_batches(name, device, count=3):
    batches = [list(CASES[name].batch(13, seed=seed, dtype=torch.float32)) for seed in range(count)]
    return on_device(batches, device)


def peak_memory(loss: nn.Module, logits: Tensor, *others: Tensor) -> float:
    """Of forward and backward, in logits tensors."""
    if logits.device.type == "cpu":
        return peak_resident_memory(loss, logits, *others)
    loss(logits, *others).backward()  # what is allocated once
    logits.grad = None
    torch.cuda.reset_peak_memory_stats(logits.device)
    before = torch.cuda.memory_allocated(logits.device)
    loss(logits, *others).backward()
    return (torch.cuda.max_memory_allocated(logits.device) - before) / logits.nbytes


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(4096, 1203), (2, 150, 128, 128)], ids=str)
@pytest.mark.parametrize("name", EQUALIZATION)
def test_a_step_holds_little_beside_the_gradient(device, kernels, name, shape, dtype):
    logits, *others = on_device([equalization_batch(name, shape, dtype)], device)[0]
    loss = equalization_loss(name, shape[1]).to(device)
    # The plain device path has temporaries of a quarter of the logits, in float32: half of them in half precision.
    bound = 1.2 if kernels == "triton" else 3.0 if dtype == torch.float32 else 7.5
    assert 1.0 <= peak_memory(loss, logits.requires_grad_(), *others) < bound


@pytest.mark.parametrize("name", CASES)
def test_a_training_step_never_waits_for_the_device(gpu, kernels, name):
    loss = CASES[name].build().to(gpu)
    head = nn.Linear(6, CASES[name].num_logits, device=gpu)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1, momentum=0.9)
    batches = small_batches(name, gpu)
    features = [torch.randn(13, 6, device=gpu) for _ in batches]

    def step(inputs: Tensor, others: list[Tensor]) -> None:
        optimizer.zero_grad()
        loss(head(inputs), *others).backward()
        optimizer.step()

    step(features[0], batches[0][1:])  # kernels are compiled and loaded, which waits
    torch.cuda.synchronize(gpu)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for inputs, (_, *others) in zip(features, batches, strict=True):
            step(inputs, others)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def captured(step: Callable[[], Tensor], device: torch.device) -> Callable[[], Tensor]:
    """A CUDA graph of the step; on a CPU the step itself."""
    if device.type == "cpu":
        return step
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step()

    def replay() -> Tensor:
        graph.replay()
        return result

    return replay


@pytest.mark.parametrize("name", CAPTURABLE)
def test_a_cuda_graph_trains_as_its_steps_do(device, kernels, name):
    loss = CASES[name].build().to(device)
    twin = copy.deepcopy(loss)
    batches = small_batches(name, device, count=4)
    static = [value.clone() for value in batches[0]]
    static[0].requires_grad_()

    def step() -> Tensor:
        static[0].grad = None
        value = loss(*static)
        value.backward()
        return value.detach()

    if device.type == "cuda":  # kernels are compiled and loaded before the capture, on another stream as it will be
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            step()
        torch.cuda.current_stream(device).wait_stream(stream)
        loss.load_state_dict(twin.state_dict())
    replay = captured(step, device)
    for batch, (value, gradient) in zip(batches, train(twin, batches).steps, strict=True):
        with torch.no_grad():
            for place, new in zip(static, batch, strict=True):
                place.copy_(new)
        assert_close(replay().cpu(), value)
        assert_close(static[0].grad.cpu(), gradient)
    assert_close(loss.state_dict(), twin.state_dict())


@pytest.mark.parametrize("name", EQUALIZATION)
def test_two_runs_are_equal_to_the_bit(device, kernels, name, monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    batches = on_device([equalization_batch(name, (1000, 129), torch.float32, seed) for seed in range(3)], device)
    was_deterministic = torch.are_deterministic_algorithms_enabled()
    # The kernels always are; the plain device path adds up labelled entries with `index_add_`.
    torch.use_deterministic_algorithms(was_deterministic or kernels == "torch")
    try:
        first, second = (train(equalization_loss(name, 129).to(device), batches) for _ in range(2))
    finally:
        torch.use_deterministic_algorithms(was_deterministic)
    assert_close(first.steps, second.steps, rtol=0, atol=0)
    assert_close(first.state, second.state, rtol=0, atol=0)
