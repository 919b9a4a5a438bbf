"""The compiled passes against the plain formulas in float64, and against the blocks that take their place."""

import ctypes
import importlib.util
import math
import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.testing import assert_close

import equigrad
from equigrad import BACKGROUND, IGNORE
from equigrad.losses import functional, reference
from equigrad.losses.compiled import rows
from losses.all_losses import CASES

ROOT = Path(__file__).parents[3]
COMPILER = shutil.which(os.environ.get("CC", "cc"))

needs_library = pytest.mark.skipif(rows.library is None, reason="the passes are not compiled: no C compiler was found")


@st.composite
def batches(draw, lowest_label):
    """Logits (N, C) of any strides, labels, a margin, a weight and a number above 0 for each category."""
    num_rows, num_classes = draw(st.integers(0, 70)), draw(st.integers(1, 70))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**16)))
    scale = draw(st.sampled_from([0.0, 1.0, 10.0, 100.0, 1e4]))
    space = scale * torch.randn(num_rows, num_classes + 3, generator=generator)
    logits = space[:, 2:-1] if draw(st.booleans()) else space[:, :num_classes].contiguous()
    labels = torch.randint(lowest_label, num_classes, (num_rows,), generator=generator)
    labels[torch.rand(num_rows, generator=generator) < draw(st.sampled_from([0.0, 0.3, 1.0]))] = IGNORE
    vectors = torch.rand(3, num_classes, generator=generator, dtype=torch.float64)
    return logits.detach().requires_grad_(), labels, *vectors


def check(fused, plain, logits):
    """Loss and gradient of a fused loss are those of its formula in float64; returns that gradient, the sums and the
    relative tolerance of these."""
    loss, sums = fused
    assert loss.dtype == torch.float32
    expected = plain.sum()
    (gradient,) = torch.autograd.grad(loss, logits)
    (wanted,) = torch.autograd.grad(expected, logits)
    size = max(1.0, logits.detach().abs().max().item() if logits.numel() else 0.0)
    assert_close(loss.double(), expected, rtol=2e-6, atol=1e-6 * size * max(1, len(logits)))
    # A float32 logit is known to 6e-8 of its size, and so is every probability.
    assert_close(gradient, wanted.float(), rtol=2e-6 * size, atol=1e-6)
    return wanted.double(), sums, max(1e-4, 2e-6 * size)


@needs_library
@settings(max_examples=60, deadline=None)
@given(batches(0), st.booleans(), st.booleans(), st.booleans(), st.sampled_from([1.0, 0.5, 20.0]))
def test_cross_entropy_is_its_formula(batch, has_margin, is_weighted, has_label_margin, scale):
    logits, labels, margin, weight, label_margin = batch
    margin, weight = margin.log() if has_margin else 0.0, weight if is_weighted else None
    label_margin = 20 * label_margin if has_label_margin else None
    options = {"weight": weight, "label_margin": label_margin, "scale": scale, "reduction": "sum"}
    fused = functional.cross_entropy(logits, labels, margin, **options)
    own = torch.zeros(logits.shape, dtype=torch.bool)
    own[labels >= 0, labels[labels >= 0]] = True
    adjusted = scale * logits.double() + margin - (own * label_margin if has_label_margin else 0.0)
    plain = reference.cross_entropy(adjusted, labels, weight)
    gradient, sums, rtol = check(fused, plain, logits)
    assert_close(sums.positive, (gradient.abs() * own).sum(0), rtol=rtol, atol=1e-5 * scale)
    assert_close(sums.negative, (gradient.abs() * ~own).sum(0), rtol=rtol, atol=1e-5 * scale)


@needs_library
@settings(max_examples=60, deadline=None)
@given(batches(BACKGROUND), st.sampled_from([None, 0.0, 0.5, 2.0, 10.0]), st.booleans())
def test_binary_cross_entropy_and_focal_loss_are_their_formula(batch, focus, has_vectors):
    logits, labels, positive_weight, negative_weight, spread = batch
    if has_vectors:
        weights, focus = (positive_weight, negative_weight), None if focus is None else focus * spread
    else:
        weights = (torch.ones_like(spread), torch.ones_like(spread))
    fused = functional.binary_cross_entropy(logits, labels, *weights, focus=focus, reduction="sum")
    is_own = torch.zeros(logits.shape, dtype=torch.bool)
    is_own[labels >= 0, labels[labels >= 0]] = True
    error = torch.where(is_own, -logits.double(), logits.double())
    cost = torch.nn.functional.softplus(error, threshold=100)
    factor = 1.0 if focus is None else (focus * (error - cost)).exp()  # (1 - p_t)^gamma
    plain = (factor * cost * torch.where(is_own, *weights))[labels != IGNORE]
    check(fused, plain, logits)


@needs_library
@pytest.mark.parametrize("name", CASES)
def test_a_loss_trains_the_same_with_and_without_the_library(name, monkeypatch):
    def train():
        loss, steps = CASES[name].build(), []
        for seed in range(3):
            batch = CASES[name].batch(40, seed=seed, dtype=torch.float32)
            value = loss(*batch)
            steps.append((value.detach(), *torch.autograd.grad(value, batch.logits)))
        return steps, dict(loss.state_dict())

    ours = train()
    monkeypatch.setattr(rows, "library", None)
    assert_close(ours, train(), rtol=1e-5, atol=1e-6)


@needs_library
@pytest.mark.parametrize("shape", [(3, 5, 7, 9), (2, 70, 65), (1, 3, 1), (4, 1, 130), (2, 300, 40, 20), (2, 4, 71, 70)])
@pytest.mark.parametrize(
    "loss_class",
    [equigrad.SoftmaxEqualizationLoss, equigrad.SigmoidEqualizationLoss, equigrad.EqualizedFocalLoss],
)
def test_maps_are_the_rows_of_their_positions(loss_class, shape):
    generator = torch.Generator().manual_seed(0)
    num_classes = shape[1]
    maps = torch.randn(shape, generator=generator)
    labels = torch.randint(num_classes, (shape[0], *shape[2:]), generator=generator)
    labels[torch.rand(labels.shape, generator=generator) < 0.2] = IGNORE
    if loss_class.takes_background:
        labels[torch.rand(labels.shape, generator=generator) < 0.2] = BACKGROUND
    results = []
    for logits in (maps, maps.movedim(1, -1).reshape(-1, num_classes)):
        loss = loss_class(num_classes)
        loss.statistics.positive.fill_(1.0)
        loss.statistics.negative.copy_(torch.linspace(1, 9, num_classes))
        logits = logits.clone().requires_grad_()
        value = loss(logits, labels if logits.dim() > 2 else labels.flatten())
        value.backward()
        gradient = logits.grad.movedim(1, -1).reshape(-1, num_classes) if logits.dim() > 2 else logits.grad
        results.append((value.detach(), gradient, loss.statistics.positive, loss.statistics.negative))
    assert_close(results[0], results[1], rtol=1e-5, atol=1e-6)


@needs_library
@pytest.mark.parametrize(
    ("loss", "shape"),
    [
        (equigrad.SoftmaxEqualizationLoss(300), (701, 300)),
        (equigrad.EqualizedFocalLoss(300), (701, 300)),
        (equigrad.EqualizedFocalLoss(300), (3, 300, 701)),
    ],
)
def test_threads_share_rows_and_positions(loss, shape):
    results, threads = [], torch.get_num_threads()
    for number in (1, 2, 5):
        torch.set_num_threads(number)
        loss.statistics.reset()
        logits = torch.randn(shape, generator=torch.Generator().manual_seed(1)).requires_grad_()
        labels = (torch.arange(math.prod(shape) // 300) % 300).view(shape[0], *shape[2:])
        value = loss(logits, labels)
        value.backward()
        results.append(
            (value.detach(), logits.grad, loss.statistics.positive.clone(), loss.statistics.negative.clone())
        )
    torch.set_num_threads(threads)
    for one in results[1:]:
        assert torch.equal(one[1], results[0][1])
        assert_close(one, results[0], rtol=1e-6, atol=0)


@needs_library
@pytest.mark.parametrize("loss", [functional.cross_entropy, functional.binary_cross_entropy])
def test_a_logit_without_a_bound_counts_as_in_torch(loss):
    logits = torch.tensor([[-torch.inf, 0.0, 1.0], [torch.nan, torch.nan, torch.nan]])
    value, _ = loss(logits, torch.tensor([1, IGNORE]), reduction="sum")
    expected, _ = loss(logits[:1, 1:], torch.tensor([0]), reduction="sum")
    assert_close(value, expected)
    assert loss(logits, torch.tensor([1, 1]), reduction="sum")[0].isnan()


@needs_library
def test_a_probability_near_one_leaves_an_exact_gradient():
    logits = torch.tensor([[30.0, 0.0]], requires_grad=True)
    _, sums = functional.cross_entropy(logits, torch.tensor([0]))
    assert_close(sums.positive[0], torch.tensor(30.0).double().neg().exp() / (1 + torch.tensor(-30.0).double().exp()))


@needs_library
def test_another_type_layout_or_kernel_takes_blocks(monkeypatch):
    def pass_over(logits):
        return equigrad.losses.blockwise.BlockwisePass(logits, None)

    assert rows.fits(pass_over(torch.zeros(2, 3)))
    assert rows.fits(pass_over(torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last)))
    assert not rows.fits(pass_over(torch.zeros(2, 3, 4, 5)))
    assert not rows.fits(pass_over(torch.zeros(2, 3, dtype=torch.float64)))
    assert not rows.fits(pass_over(torch.zeros(2, 3, dtype=torch.bfloat16)))
    assert not rows.fits(pass_over(torch.zeros(3, 2).t()))
    monkeypatch.setattr(rows, "library", None)
    assert not rows.fits(pass_over(torch.zeros(2, 3)))


@pytest.fixture
def build():
    """The script that compiles the passes when equigrad is installed."""
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
def test_a_library_of_another_source_is_not_used(build, tmp_path, monkeypatch):
    source = tmp_path / "rows.c"
    source.write_bytes(rows.SOURCE.read_bytes())
    assert build.compile_library(source)
    assert [file.name for file in tmp_path.iterdir() if file != source] == [rows.LIBRARY.name]
    monkeypatch.setattr(rows, "SOURCE", source)
    monkeypatch.setattr(rows, "LIBRARY", tmp_path / rows.LIBRARY.name)
    assert isinstance(rows._load(), ctypes.CDLL)
    source.write_text(source.read_text() + "\n")
    assert rows._load() is None


def test_without_a_compiler_the_installation_goes_on_and_says_so(build, tmp_path, monkeypatch, capsys):
    source = tmp_path / "rows.c"
    source.write_text("int answer(void) { return 42; }")
    (tmp_path / rows.LIBRARY.name).write_text("an old one")
    for compiler in ("no-such-compiler", f"{sys.executable} -c raise(SystemExit(1))"):
        monkeypatch.setenv("CC", compiler)
        assert not build.compile_library(source)
        assert "losses on a CPU are slower" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [source]
