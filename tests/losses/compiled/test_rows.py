"""The compiled passes against the plain formulas in float64, and against the blocks that take their place."""

import ctypes
import importlib.util
import math
import os
import platform
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.testing import assert_close

import equigrad
from equigrad import BACKGROUND, IGNORE
from equigrad.losses import functional, reference
from equigrad.losses.blockwise import BlockwisePass
from equigrad.losses.compiled import rows
from losses.all_losses import CASES
from quick_processes import quick_context

ROOT = Path(__file__).parents[3]
CC = os.environ.get("CC", "cc")
HAS_GCC = shutil.which(CC) and "Free Software Foundation" in subprocess.check_output([CC, "--version"], text=True)

needs_library = pytest.mark.skipif(rows.library is None, reason="the passes are not compiled: gcc was not found")


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


def double_sums(logits, labels, focus=None):
    """Loss and gradient of the summed cross-entropy, or with a focus focal loss, in float64, exact at any logit."""
    logits, index = logits.detach().double(), labels.unsqueeze(1)
    is_own = torch.zeros(logits.shape, dtype=torch.bool).scatter_(1, index, True)
    if focus is None:
        lead = (logits - logits.gather(1, index)).masked_fill(is_own, -math.inf).logsumexp(1)
        gradient = logits.log_softmax(1).exp().scatter_(1, index, -lead.sigmoid().unsqueeze(1))
        return torch.nn.functional.softplus(lead, threshold=700).sum(), gradient
    error = torch.where(is_own, -logits, logits)
    cost = error.clamp(min=0) + error.abs().neg().exp().log1p()
    factor = (focus * (error - cost)).exp()
    slope = factor * (error.sigmoid() + focus * cost * (-error).sigmoid())
    return (factor * cost).sum(), torch.where(is_own, -slope, slope)


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


EXACT_CASES = {
    "many equal ones": lambda random: torch.full((2, 300_001), 0.3),
    "near ties": lambda random: 5 + 1e-6 * random((40, 1203)),
    "near ties of large ones": lambda random: 1e4 + 1e-2 * random((40, 1203)),
    "small probabilities": lambda random: random((3, 9000)) - 30,
    "far apart": lambda random: 1e4 * random((40, 1203)),
    "moderate": lambda random: 20 * random((40, 1203)),
}


@needs_library
@pytest.mark.parametrize("focus", [None, 0.0, 2.0])
@pytest.mark.parametrize("case", EXACT_CASES)
def test_every_entry_of_the_gradient_is_exact_to_a_few_roundings(case, focus):
    generator = torch.Generator().manual_seed(0)
    logits = EXACT_CASES[case](partial(torch.randn, generator=generator)).requires_grad_()
    labels = torch.randint(logits.shape[1], (len(logits),), generator=generator)
    if focus is None:
        loss, _ = functional.cross_entropy(logits, labels, reduction="sum")
    else:
        loss, _ = functional.binary_cross_entropy(logits, labels, focus=focus or None, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, logits)
    expected, wanted = double_sums(logits, labels, focus)
    assert_close(loss.double(), expected, rtol=1e-5, atol=0)
    # A focus of 2 doubles the error of a logarithm. What is below 1e-17 is as good as nothing.
    assert_close(gradient.double(), wanted, rtol=1e-5, atol=1e-22)


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
@pytest.mark.parametrize("focus", [None, 2.0])
def test_an_own_logit_without_a_bound_is_a_sure_sample(focus):
    logits = torch.tensor([[torch.inf, 0.0, -3e38], [1.0, 3e38, torch.inf]], requires_grad=True)
    loss, sums = functional.binary_cross_entropy(logits[:1], torch.tensor([0]), focus=focus)
    factor = 1.0 if focus is None else 0.25
    assert_close(loss, torch.tensor(factor * math.log(2)))
    (gradient,) = torch.autograd.grad(loss, logits)
    assert_close(gradient[0, [0, 2]], torch.zeros(2))
    assert sums.positive.eq(0).all()
    loss, _ = functional.binary_cross_entropy(logits[1:, :2], torch.tensor([0]), focus=focus)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert_close(gradient[1, 1], torch.tensor(1.0))


@needs_library
@pytest.mark.parametrize(
    ("what", "shape"), [("cross_entropy", (3, 5)), ("negatives", (3, 5)), ("negatives", (1, 5, 3))]
)
def test_a_label_that_is_changed_after_its_check_writes_nowhere(what, shape):
    for label in (5, 2**31, 2**62, -(2**63)):
        run = BlockwisePass(torch.zeros(shape, requires_grad=True), None, 0.0)
        labels = torch.tensor([1, label, IGNORE]).view(shape[0], *shape[2:])
        rows.add(run, what, labels, weight=torch.ones(5, dtype=torch.float64))
        assert math.isnan(run.loss) == (what == "cross_entropy")  # of others the positives are refused by torch
        assert run.gradient.isfinite().all()
        assert run.positive.sum() == (0.8 if what == "cross_entropy" else 0)


def lose_threads(path):
    """A loss in this process, which starts threads, and in one that is forked from it, where they are missing."""
    torch.set_num_threads(2)
    loss, logits, labels = equigrad.BinaryCrossEntropyLoss(), torch.zeros(701, 300), torch.arange(701) % 300
    value = loss(logits, labels)
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # nobody else would end it
        path.write_text(str(float(loss(logits, labels) - value)))
        os._exit(0)
    os.waitpid(child, 0)


@needs_library
def test_a_forked_process_does_not_wait_for_the_threads_of_its_parent(tmp_path):
    process = quick_context().Process(target=lose_threads, args=(tmp_path / "difference",))
    process.start()
    process.join(60)
    process.kill()
    assert float((tmp_path / "difference").read_text()) == 0


@needs_library
def test_another_type_layout_or_kernel_takes_blocks(monkeypatch):
    def pass_over(logits):
        return BlockwisePass(logits, None)

    assert rows.fits(pass_over(torch.zeros(2, 3)))
    assert rows.fits(pass_over(torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last)))
    assert not rows.fits(pass_over(torch.zeros(2, 3, 4, 5)))
    assert not rows.fits(pass_over(torch.zeros(2, 3, dtype=torch.float64)))
    assert not rows.fits(pass_over(torch.zeros(2, 3, dtype=torch.bfloat16)))
    assert not rows.fits(pass_over(torch.zeros(3, 2).t()))
    assert not rows.fits(pass_over(torch.zeros(3, dtype=torch.complex64).conj().imag.unsqueeze(1)))
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


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A copy of the source; what is loaded is compiled from it."""
    source = tmp_path / "rows.c"
    source.write_bytes(rows.SOURCE.read_bytes())
    monkeypatch.setattr(rows, "SOURCE", source)
    monkeypatch.setattr(rows, "LIBRARY", tmp_path / rows.LIBRARY.name)
    return source


needs_gcc = pytest.mark.skipif(not HAS_GCC, reason="needs gcc")


@needs_gcc
def test_a_library_of_another_source_is_not_used(build, source, monkeypatch):
    monkeypatch.setenv("CC", f"{CC} -DEACH_ISA= -O1")
    assert build.compile_library(source)
    assert {file.name for file in source.parent.iterdir()} == {source.name, rows.LIBRARY.name}
    assert isinstance(rows._load(), ctypes.CDLL)
    source.write_text(source.read_text() + "\n")
    assert rows._load() is None


@needs_gcc
@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs an x86")
@pytest.mark.parametrize(
    "flags",
    [
        "-DEACH_ISA=",  # before AVX2, and what has no choice at run time
        "-DEACH_ISA= -march=x86-64-v3",
        """'-DEACH_ISA=__attribute__((target_clones("avx512f", "avx2", "default")))'""",  # gcc before 12
    ],
)
def test_processors_and_compilers_of_each_generation_have_the_same_numbers(flags, build, source, monkeypatch):
    if "v3" in flags and "AVX2" not in torch.backends.cpu.get_cpu_capability().replace("512", "2"):
        pytest.skip("needs AVX2")
    monkeypatch.setenv("CC", f"{CC} {flags} -Wall -Wextra -Werror")
    assert build.compile_library(source)
    library = rows._load()
    assert library is not None
    logits = (10 * torch.randn(30, 1203, generator=torch.Generator().manual_seed(0))).requires_grad_()
    labels = torch.arange(30) - 1
    maps, results = logits[:, :-3].reshape(3, 1200, 2, 5), []
    for own in (library, None):
        monkeypatch.setattr(rows, "library", own)
        for batch, targets, call in (
            (logits, labels.clamp(min=0), functional.cross_entropy),
            (logits, labels, functional.binary_cross_entropy),
            (logits, labels, partial(functional.binary_cross_entropy, focus=2.0)),
            (maps, labels.view(3, 2, 5), partial(functional.binary_cross_entropy, focus=2.0)),
        ):
            loss, sums = call(batch, targets, reduction="sum")
            results.append((loss.detach(), *torch.autograd.grad(loss, batch, retain_graph=True), *sums[:2]))
    for one, other in zip(results[:4], results[4:], strict=True):
        assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_without_a_compiler_the_installation_goes_on_and_says_so_in_a_line(build, source, monkeypatch, capsys):
    rows.LIBRARY.write_text("an old one")
    failing = f"""{sys.executable} -c 'raise SystemExit("in a function:\\nan error\\nhere")'"""
    for compiler, reason in (
        ("no-such-compiler", "'no-such-compiler'"),
        (failing, ": an error"),
        ("cc '", "No closing quotation"),
        (f"{sys.executable} -c raise(SystemExit(1))", "exit status 1."),
    ):
        monkeypatch.setenv("CC", compiler)
        assert not build.compile_library(source)
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("equigrad: not compiled, losses on a CPU are slower: ")
        assert line.endswith(reason)
    assert list(source.parent.iterdir()) == [source]


@pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang")
def test_clang_is_refused(build, source, monkeypatch, capsys):
    monkeypatch.setenv("CC", "clang")
    assert not build.compile_library(source)
    assert len(capsys.readouterr().err.splitlines()) == 1
