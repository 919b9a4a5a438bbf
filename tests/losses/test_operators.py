"""Losses inside a compiled model: one graph, the same numbers, few compilations."""

import copy

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

import equigrad
from equigrad.losses import functional, operators
from losses.all_losses import CASES

# Values for each sample are the plain formulas; with state behind them, backward must not see it move.
ONE_GRAPH = [(name, "mean") for name in CASES] + [
    (name, "none") for name in ("Softmax-EQL", "EFL", "Seesaw", "LDAM", "BAGS")
]


@pytest.fixture(autouse=True)
def _forget_what_was_compiled():
    torch._dynamo.reset()


class Model(nn.Module):
    """A layer and a loss, as in a training loop."""

    def __init__(self, loss, num_features, dtype=torch.float64):
        super().__init__()
        self.layer = nn.Linear(num_features, num_features).to(dtype)
        self.loss = loss

    def forward(self, features, labels, *extra):
        return self.loss(self.layer(features), labels, *extra)


def two_models(case, dtype=torch.float64, **options):
    """The same model twice."""
    model = Model(case.build(**options), case.num_logits, dtype)
    return model, copy.deepcopy(model)


def train(forward, model, case, *, steps=3, dtype=torch.float64):
    """Losses and gradients of some steps."""
    results = []
    for seed in range(steps):
        batch = case.batch(seed=seed, dtype=dtype)
        loss = forward(batch.logits.detach(), batch.labels, *batch.extra).sum()
        results.append((loss.detach(), *torch.autograd.grad(loss, tuple(model.layer.parameters()))))
    return results


@pytest.mark.parametrize(("name", "reduction"), ONE_GRAPH)
def test_a_model_with_its_loss_compiles_to_one_graph_and_trains_the_same(name, reduction):
    case = CASES[name]
    eager, compiled = two_models(case, reduction=reduction)
    expected = train(eager, eager, case)
    assert_close(train(torch.compile(compiled, fullgraph=True, backend="aot_eager"), compiled, case), expected)
    assert_close(compiled.state_dict(), eager.state_dict())
    if "statistics.positive" in eager.loss.state_dict():
        assert not torch.equal(eager.loss.statistics.positive, case.build().statistics.positive)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Sigmoid-EQL", "Softmax-EQL"])
def test_the_default_compiler_trains_the_same(name):
    eager, compiled = two_models(CASES[name])
    expected = train(eager, eager, CASES[name])
    assert_close(train(torch.compile(compiled, fullgraph=True), compiled, CASES[name]), expected)
    assert_close(compiled.state_dict(), eager.state_dict())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("name", ["Sigmoid-EQL", "Softmax-EQL", "EFL", "EQFL"])
def test_lower_precision_compiles_to_the_same_numbers(name, dtype):
    case = CASES[name]
    eager, compiled = two_models(case, dtype)
    expected = train(eager, eager, case, dtype=dtype)
    result = train(torch.compile(compiled, fullgraph=True, backend="aot_eager"), compiled, case, dtype=dtype)
    assert_close(result, expected)
    assert_close(compiled.state_dict(), eager.state_dict())


@pytest.mark.parametrize("name", ["Sigmoid-EQL", "Softmax-EQL", "EFL", "EQFL"])
def test_twenty_batch_sizes_are_compiled_at_most_twice(name):
    case, counter = CASES[name], CompileCounter()
    _, model = two_models(case)
    step = torch.compile(model, fullgraph=True, backend=counter)
    for num_samples in range(4, 24):
        batch = case.batch(num_samples)
        step(batch.logits.detach(), batch.labels, *batch.extra).backward()
    assert counter.frame_count <= 2


def test_nothing_is_compiled_again_while_the_statistics_move():
    counter = CompileCounter()
    _, model = two_models(CASES["Sigmoid-EQL"])
    train(torch.compile(model, fullgraph=True, backend=counter), model, CASES["Sigmoid-EQL"], steps=10)
    assert counter.frame_count == 1


@pytest.mark.parametrize("name", ["Softmax-EQL", "EFL", "Seesaw", "LDAM"])
def test_the_calls_of_a_batch_are_compiled_once_however_many_they_are(name):
    case, counter = CASES[name], CompileCounter()
    eager, compiled = two_models(case)
    step = torch.compile(compiled, fullgraph=True, backend=counter, dynamic=True)
    for forward, model in ((eager, eager), (step, compiled)):
        with equigrad.one_batch(model, micro_batches=12):
            train(forward, model, case, steps=12)
    assert counter.frame_count == 1
    assert_close(dict(compiled.named_buffers()), dict(eager.named_buffers()))


@pytest.mark.parametrize("layout", ["rows", "channels first", "channels last"])
def test_maps_of_logits_compile_in_either_layout(layout):
    case = CASES["Softmax-EQL"]
    batch = case.batch(*((6,) if layout == "rows" else (2, 3, 5)))
    logits = batch.logits.detach()
    if layout == "channels last":
        logits = logits.contiguous(memory_format=torch.channels_last)
    logits.requires_grad_()
    eager, compiled = case.build(), case.build()
    expected = torch.autograd.grad(eager(logits, batch.labels), logits)
    step = torch.compile(compiled, fullgraph=True, backend="aot_eager")
    assert_close(torch.autograd.grad(step(logits, batch.labels), logits), expected)


@pytest.mark.parametrize("name", ["Sigmoid-EQL", "Softmax-EQL"])
def test_a_compiled_loss_refuses_a_label_that_is_out_of_range(name):
    case = CASES[name]
    step = torch.compile(case.build(), fullgraph=True, backend="aot_eager")
    batch = case.batch()
    batch.labels[0] = 4
    with pytest.raises(ValueError, match=r"labels must be 0 ... 3"):
        step(*batch)


def test_a_compiled_loss_keeps_still_in_evaluation_and_without_gradients():
    loss = CASES["Softmax-EQL"].build()
    before, batch = copy.deepcopy(loss.state_dict()), CASES["Softmax-EQL"].batch()
    step = torch.compile(loss, fullgraph=True, backend="aot_eager")
    loss.eval()
    in_evaluation = step(*batch)
    loss.train()
    with torch.no_grad():
        assert_close(step(*batch), in_evaluation.detach())
    assert_close(loss.state_dict(), before)


def test_a_checkpointed_model_compiles_with_the_loss_outside_the_checkpoint():
    case = CASES["Sigmoid-EQL"]
    eager, compiled = two_models(case)

    class Checkpointed(nn.Module):
        def forward(self, features, labels):
            return compiled.loss(checkpoint(compiled.layer, features, use_reentrant=False), labels)

    expected = train(eager, eager, case)
    step = torch.compile(Checkpointed(), fullgraph=True, backend="aot_eager")
    assert_close(train(step, compiled, case), expected)
    assert_close(compiled.state_dict(), eager.state_dict())


def test_a_compiled_loss_inside_a_checkpoint_is_refused_in_backward():
    case = CASES["Sigmoid-EQL"]
    model, batch = Model(case.build(), 4), case.batch()

    class Checkpointed(nn.Module):
        def forward(self, features, labels):
            return checkpoint(model, features, labels, use_reentrant=False)

    loss = torch.compile(Checkpointed(), fullgraph=True, backend="aot_eager")(batch.logits.detach(), batch.labels)
    with pytest.raises(RuntimeError, match=r"outside torch\.utils\.checkpoint"):
        loss.backward()


def arguments_of(name):
    """Arguments of the operators, with every vector they take."""
    logits = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, 1, 2, -100, 1])
    vector = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    end = ("mean", None, -100, True)
    quality = torch.rand(5).double()
    hard, varifocal = (False, False, True, False), (False, True, True, True)  # of soft targets
    return {
        "binary_cross_entropy": (
            logits,
            labels,
            vector,
            vector,
            None,
            None,
            None,
            *hard,
            vector,
            vector,
            vector,
            2.0,
            *end,
        ),
        "focal": (logits, labels, vector, vector, 0.25, vector, quality, *varifocal, None, None, None, 1.0, *end),
        "cross_entropy": (logits, labels, vector, vector, vector, 1.0, 0.0, *end),
        "seesaw_cross_entropy": (logits, labels, vector, 0.8, 2.0, 0.01, *end),
        "lade_cross_entropy": (logits, labels, vector, 0.1, 0.1, *end),
    }[name]


@pytest.mark.parametrize(
    "name", ["binary_cross_entropy", "focal", "cross_entropy", "seesaw_cross_entropy", "lade_cross_entropy"]
)
def test_every_operator_keeps_the_rules_of_operators(name):
    operator = getattr(torch.ops.equigrad, "binary_cross_entropy" if name == "focal" else name)
    torch.library.opcheck(operator.default, arguments_of(name))
    maps = [v.unsqueeze(-1).expand(*v.shape, 4) if i < 2 else v for i, v in enumerate(arguments_of(name))]
    if name != "focal":
        torch.library.opcheck(operator.default, tuple(maps))


def test_random_numbers_of_a_loss_go_on_in_a_compiled_step():
    plain, traced = equigrad.FederatedLoss([9, 5, 2, 1]), equigrad.FederatedLoss([9, 5, 2, 1])
    step = torch.compile(traced.uniform, fullgraph=True, backend="aot_eager")
    for _ in range(3):
        assert_close(step((4,), torch.device("cpu")), plain.uniform((4,), torch.device("cpu")))
    assert traced.uniform.num_calls == 3


def test_outside_a_compiler_the_function_is_returned_itself():
    assert operators.as_operator(functional.cross_entropy) is functional.cross_entropy
