"""A GPU trains as a CPU does: loss, gradient and statistics over losses, dtypes, shapes and layouts."""

import copy

import pytest
import torch
from torch.testing import assert_close

import equigrad
from gpu.training import EQUALIZATION, cpu_blocks, equalization_batch, equalization_loss, on_device, train
from losses.all_losses import CASES

# On a CPU, Triton's interpreter computes with numpy, which warns of NaN.
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore::RuntimeWarning")]

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
SHAPES = [(0, 5), (1, 1), (7, 1203), (300, 129), (3, 70_000), (2, 19, 9, 7), (1, 5000, 11)]


def assert_trains_alike(loss, batches, device, **options):
    """Compare with the blocks of a CPU, to the rounding of float32 exponents and of the logits' dtype."""
    twin = copy.deepcopy(loss)
    result = train(loss.to(device), on_device(batches, device), **options)
    with cpu_blocks():
        expected = train(twin, batches, **options)
    dtype = batches[0][0].dtype
    close = {"rtol": 1e-9, "atol": 1e-12} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-5}
    rounding = torch.finfo(dtype).eps  # of parts of the gradient that may cancel each other
    close_gradient = {"rtol": max(close["rtol"], 2 * rounding), "atol": max(close["atol"], rounding / 8)}
    for (value, gradient), (wanted, wanted_gradient) in zip(result.steps, expected.steps, strict=True):
        assert_close(value, wanted, **close)
        assert_close(gradient, wanted_gradient, **close_gradient)
    assert_close(result.state, expected.state, **close)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_every_loss_trains_as_on_the_cpu(device, kernels, name, dtype):
    case = CASES[name]
    batches = [list(case.batch(13, seed=seed, dtype=dtype)) for seed in range(3)]
    assert_trains_alike(case.build(), batches, device)


@pytest.mark.parametrize("name", CASES)
def test_maps_train_as_on_the_cpu(device, kernels, name):
    batches = [list(CASES[name].batch(2, 3, 5, seed=seed, dtype=torch.float32)) for seed in range(2)]
    assert_trains_alike(CASES[name].build(reduction="sum"), batches, device)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", EQUALIZATION)
def test_shapes_train_as_on_the_cpu(device, kernels, name, shape, dtype):
    batches = [equalization_batch(name, shape, dtype, seed) for seed in range(2)]
    assert_trains_alike(equalization_loss(name, shape[1]), batches, device)


@pytest.mark.parametrize("layout", ["channels last", "columns of a larger tensor", "transposed"])
@pytest.mark.parametrize("shape", [(37, 129), (2, 19, 9, 7)], ids=str)
@pytest.mark.parametrize("name", EQUALIZATION)
def test_layouts_train_as_on_the_cpu(device, kernels, name, shape, layout):
    batch = equalization_batch(name, shape, torch.float32)
    assert_trains_alike(equalization_loss(name, shape[1]), [batch], device, layout=layout)


@pytest.mark.parametrize("name", ["Sigmoid-EQL", "EFL"])
def test_multi_label_targets_train_as_on_the_cpu(device, kernels, name):
    logits, _ = equalization_batch(name, (40, 129), torch.float32)
    targets = torch.rand(logits.shape, generator=torch.Generator().manual_seed(2)) < 0.1
    assert_trains_alike(equalization_loss(name, 129), [[logits, targets]], device)


def test_soft_labels_train_as_on_the_cpu(device, kernels):
    logits, _ = equalization_batch("Softmax-EQL", (40, 129), torch.float32)
    labels = torch.randn(logits.shape, generator=torch.Generator().manual_seed(2)).softmax(1)
    assert_trains_alike(equalization_loss("Softmax-EQL", 129), [[logits, labels]], device)


@pytest.mark.parametrize("normalizer", [3.0, torch.tensor(3.0)], ids=["number", "tensor"])
@pytest.mark.parametrize("name", EQUALIZATION)
def test_a_normalizer_divides_as_on_the_cpu(device, kernels, name, normalizer):
    batch = equalization_batch(name, (40, 129), torch.float32)
    assert_trains_alike(equalization_loss(name, 129), [batch], device, normalizer=normalizer)


@pytest.mark.parametrize("name", EQUALIZATION)
def test_one_batch_gathers_its_calls_as_on_the_cpu(device, kernels, name):
    batches = [equalization_batch(name, (20, 129), torch.float32, seed) for seed in range(3)]
    loss = equalization_loss(name, 129)
    twin = copy.deepcopy(loss)
    loss.to(device)
    with equigrad.one_batch(loss):
        train(loss, on_device(batches, device))
    with cpu_blocks(), equigrad.one_batch(twin):
        train(twin, batches)
    assert_close(loss.state_dict(), twin.state_dict(), rtol=1e-4, atol=1e-5, check_device=False)


@pytest.mark.parametrize("name", EQUALIZATION)
def test_a_batch_that_is_not_finite_is_left_out(device, kernels, name):
    logits, *others = on_device([equalization_batch(name, (20, 129), torch.float32)], device)[0]
    loss = equalization_loss(name, 129).to(device)
    before = loss.statistics.positive.clone()
    loss(torch.full_like(logits, torch.nan).requires_grad_(), *others)
    assert loss.statistics.skipped == 1
    assert torch.equal(loss.statistics.positive, before)


@pytest.mark.parametrize("name", EQUALIZATION)
def test_a_compiled_loss_trains_as_on_the_cpu(device, kernels, name):
    batch = equalization_batch(name, (40, 129), torch.float32)
    loss = equalization_loss(name, 129)
    loss.compile(fullgraph=True)
    assert_trains_alike(loss, [batch, batch], device)


def test_entries_beyond_two_to_the_31_get_their_gradient(gpu, kernels):
    num_classes = 1024
    shape = (2**31 // num_classes + 8, num_classes)
    num_bytes = 2 * shape[0] * num_classes
    if torch.cuda.mem_get_info(gpu)[0] < 6 * num_bytes:
        pytest.skip(f"needs {6 * num_bytes / 2**30:.0f} GB of free memory on the device")
    _, labels = equalization_batch("Sigmoid-EQL", (8, num_classes), torch.bfloat16)
    logits = torch.zeros(shape, dtype=torch.bfloat16, device=gpu)
    tail = 3 * torch.randn(8, num_classes, device=gpu).to(torch.bfloat16)
    logits[-8:] = tail
    all_labels = torch.full(shape[:1], equigrad.IGNORE, device=gpu)
    all_labels[-8:] = labels.to(gpu)
    whole, last = (equalization_loss("Sigmoid-EQL", num_classes).to(gpu) for _ in range(2))
    whole(logits.requires_grad_(), all_labels).backward()
    last(tail.requires_grad_(), labels.to(gpu)).backward()
    assert_close(logits.grad[-8:], tail.grad)
    assert not logits.grad[:-8].any()
