import copy

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from benchmarks.launches import count_meter
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.parallel import DistributedDataParallel
from torch.testing import assert_close

import equigrad
from equigrad import BACKGROUND, IGNORE, GradientMeter
from host_copies import HostCopies
from quick_processes import run_ranks


def batches(num_steps=6, seed=0):
    """Long-tailed batches of 16 samples with 6 features, 5 categories."""
    generator = torch.Generator().manual_seed(seed)
    shares = torch.tensor([0.5, 0.3, 0.15, 0.05, 0.0])
    for _ in range(num_steps):
        labels = torch.multinomial(shares, 16, replacement=True, generator=generator)
        yield torch.randn(16, 6, generator=generator) + labels[:, None], labels


def layer():
    torch.manual_seed(0)
    return nn.Linear(6, 5)


def expected(gradient, is_own):
    """Sums of |gradient| (N, C) over own entries and over all others."""
    sizes = gradient.abs().double()
    return (sizes * is_own).sum(0), (sizes * ~is_own).sum(0)


def gradient_of(loss, logits):
    return torch.autograd.grad(loss, logits, retain_graph=True)[0]


LOSSES = {
    "cross_entropy": F.cross_entropy,
    "label smoothing": nn.CrossEntropyLoss(label_smoothing=0.1),
    "multi margin": F.multi_margin_loss,
    "Sigmoid-EQL": equigrad.SigmoidEqualizationLoss(5),
    "focal": equigrad.FocalLoss(),
}


@pytest.mark.parametrize("loss_fn", LOSSES.values(), ids=LOSSES)
def test_records_what_autograd_computes_for_any_loss(loss_fn):
    meter, model = GradientMeter(5), layer()
    positive = negative = torch.zeros(5, dtype=torch.float64)
    for features, labels in batches():
        logits = model(features)
        loss = loss_fn(logits, labels)
        more = expected(gradient_of(loss, logits), F.one_hot(labels, 5).bool())
        positive, negative = positive + more[0], negative + more[1]
        meter.watch(logits, labels)
        loss.backward()
    assert_close(meter.statistics.positive, positive, atol=1e-6, rtol=1e-6)
    assert_close(meter.statistics.negative, negative, atol=1e-6, rtol=1e-6)


def test_equals_the_statistics_that_an_equalization_loss_keeps_itself():
    meter, model, criterion = GradientMeter(5), layer(), equigrad.SoftmaxEqualizationLoss(5)
    for features, labels in batches():
        logits = model(features)
        meter.watch(logits, labels)
        criterion(logits, labels).backward()
    assert_close(meter.statistics.positive, criterion.statistics.positive, atol=1e-6, rtol=1e-6)
    assert_close(meter.statistics.negative, criterion.statistics.negative, atol=1e-6, rtol=1e-6)


def train(model, watch):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    for features, labels in batches(20):
        logits = model(features)
        loss = F.cross_entropy(logits, labels)
        watch(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.weight.detach()


def test_weights_are_bit_identical_with_and_without_it():
    meter = GradientMeter(5)
    watched, plain = train(layer(), meter.watch), train(layer(), lambda *batch: None)
    assert torch.equal(watched, plain)
    assert meter.statistics.updates == 20


def test_a_step_that_is_compiled_is_recorded_as_well():
    logits = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    labels = torch.tensor([0, 1, 2, 3, 0, 0])
    recorded = []
    for compiled in (False, True):
        meter = GradientMeter(4)

        def step(meter=meter):
            meter.watch(logits, labels)
            return F.cross_entropy(logits, labels)

        (torch.compile(step, backend="eager") if compiled else step)().backward()
        recorded.append(meter.statistics.ratio)
    assert_close(*recorded)


@pytest.mark.parametrize("shape", [(8, 5), (2, 5, 3, 4)], ids=["rows", "maps"])
def test_background_is_a_negative_of_all_and_ignored_samples_do_not_count(shape):
    torch.manual_seed(0)
    logits = torch.randn(shape, requires_grad=True)
    labels = torch.randint(-1, 5, (shape[0], *shape[2:]))
    labels.view(-1)[0] = IGNORE
    labels.view(-1)[1] = BACKGROUND
    meter = GradientMeter(5)
    meter.watch(logits, labels)
    loss = logits.sigmoid().square().sum()  # of all samples, ignored ones too
    loss.backward()
    rows = logits.grad.movedim(1, -1).reshape(-1, 5)[1:]
    kept = labels.flatten()[1:]
    own = F.one_hot(kept.clamp(min=0), 5).bool() & (kept >= 0)[:, None]
    positive, negative = expected(rows, own)
    assert_close(meter.statistics.positive, positive, atol=1e-6, rtol=1e-6)
    assert_close(meter.statistics.negative, negative, atol=1e-6, rtol=1e-6)
    assert meter.recognition.seen.tolist() == own.sum(0).tolist()


def test_soft_targets_share_an_entry_between_positive_and_negative():
    logits, targets = torch.randn(4, 5, requires_grad=True), torch.rand(4, 5)
    meter = GradientMeter(5)
    meter.watch(logits, targets)
    F.binary_cross_entropy_with_logits(logits, targets).backward()
    sizes = logits.grad.abs().double()
    assert_close(meter.statistics.positive, (sizes * targets).sum(0))
    assert_close(meter.statistics.negative, (sizes * (1 - targets)).sum(0))


def test_multi_label_bools_and_columns_after_the_categories():
    logits = torch.randn(4, 6, requires_grad=True)  # the last is objectness
    targets = torch.rand(4, 5) > 0.5
    meter = GradientMeter(5)
    meter.watch(logits, targets)
    logits.square().sum().backward()
    positive, negative = expected(logits.grad[:, :5], targets)
    assert_close(meter.statistics.positive, positive, atol=1e-6, rtol=1e-6)
    assert_close(meter.statistics.negative, negative, atol=1e-6, rtol=1e-6)


def test_a_scaler_is_divided_out_and_so_is_whatever_the_loss_is_multiplied_by():
    features, labels = next(batches())
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    found = []
    for watch in (
        lambda meter, logits, loss: meter.watch(logits, labels, scale=scaler),
        lambda meter, logits, loss: meter.watch(logits, labels, scale=1024.0),
        lambda meter, logits, loss: meter.watch(logits, labels, loss=loss),
    ):
        meter, logits = GradientMeter(5), layer()(features)
        loss = F.cross_entropy(logits, labels)
        watch(meter, logits, loss)
        scaler.scale(loss).backward()
        found.append(meter.statistics.positive)
    plain, logits = GradientMeter(5), layer()(features)
    plain.watch(logits, labels)
    F.cross_entropy(logits, labels).backward()
    for positive in found:
        assert_close(positive, plain.statistics.positive, atol=1e-9, rtol=1e-6)


def test_autocast_in_bfloat16_is_recorded_as_it_is():
    features, labels = next(batches())
    meter = GradientMeter(5)
    with torch.autocast("cpu", torch.bfloat16):
        logits = layer()(features)
        loss = meter.wrap(F.cross_entropy)(logits, labels)
    more = expected(gradient_of(loss, logits), F.one_hot(labels, 5).bool())
    meter.reset()
    (65536 * loss).backward()
    assert logits.dtype == torch.bfloat16
    assert_close(meter.statistics.positive, more[0], atol=1e-6, rtol=1e-2)


def test_micro_batches_add_up_to_the_joined_batch_and_one_batch_makes_them_one_update():
    features, labels = next(batches())
    joined, parts = GradientMeter(5), GradientMeter(5)
    model = layer()
    logits = model(features)
    joined.watch(logits, labels)
    F.cross_entropy(logits, labels).backward()
    with equigrad.one_batch(parts):
        for part, part_labels in zip(features.chunk(4), labels.chunk(4), strict=True):
            logits = model(part)
            parts.watch(logits, part_labels)
            (F.cross_entropy(logits, part_labels) / 4).backward()
    assert_close(parts.statistics.positive, joined.statistics.positive, atol=1e-7, rtol=1e-6)
    assert_close(parts.recognition.share, joined.recognition.share, equal_nan=True)
    assert parts.statistics.updates == 1


@pytest.mark.parametrize("shape", [(32, 1000), (1024, 1203), (64, 8142), (2, 150, 512, 512)])
def test_on_a_device_it_launches_a_bounded_number_and_nothing_waits(shape):
    counts = count_meter(shape)  # the host that waits for a fake tensor raises an error
    assert counts.forward <= 45
    assert counts.backward <= 70


@pytest.mark.parametrize("options", [lambda loss: {}, lambda loss: {"loss": loss}, lambda loss: {"scale": 2.0}])
@pytest.mark.parametrize("targets", ["labels", "multi-label"])
def test_it_copies_nothing_between_host_and_device(options, targets):
    with FakeTensorMode(), torch.device("cuda"):
        meter, logits = GradientMeter(20), torch.empty(8, 20, requires_grad=True)
        labels = torch.zeros(8, dtype=torch.int64) if targets == "labels" else torch.zeros(8, 20)
        with HostCopies() as copies:
            loss = logits.sum()
            meter.watch(logits, labels, **options(loss))
            for tensor in (loss, logits):
                for hook in (tensor._backward_hooks or {}).values():
                    hook(torch.empty_like(tensor))
    assert meter.statistics.updates == 1
    assert copies.found == []


def watching_rank(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    features, labels = next(batches())
    meter, model = GradientMeter(5), DistributedDataParallel(layer())
    for _ in range(2):
        logits = model(features[rank::2])
        meter.watch(logits, labels[rank::2])
        F.cross_entropy(logits, labels[rank::2]).backward()
    logits = layer()(features)
    gradient = gradient_of(F.cross_entropy(logits, labels), logits)
    positive, negative = expected(gradient, F.one_hot(labels, 5).bool())
    assert_close(meter.statistics.positive, 2 * positive, atol=1e-6, rtol=1e-6)
    assert_close(meter.statistics.negative, 2 * negative, atol=1e-6, rtol=1e-6)
    assert meter.recognition.seen.tolist() == (2 * labels.bincount(minlength=5)).tolist()
    sizes = gradient.abs().double()
    sent = torch.stack([sizes[labels == category].sum(0) for category in range(5)]).fill_diagonal_(0.0)
    own = meter.senders.sums.clone()
    for _ in range(2):  # to ask for it changes nothing
        assert_close(meter.senders.mean_over_ranks().sums[0, :5].double(), 2 * sent, atol=1e-6, rtol=1e-5)
        drowned = {row.index: row.drowned_by for row in meter.table(num_senders=5, all_ranks=True) if row.drowned_by}
    assert drowned
    for receiver, senders in drowned.items():
        shares = (sent / negative)[:, receiver]
        largest = shares.sort(descending=True).values[: len(senders)]
        assert_close(torch.stack([shares[int(name)] for name, _ in senders]), largest)
        assert sum(share for _, share in senders) == pytest.approx(1.0, rel=1e-5)
    assert torch.equal(meter.senders.sums, own)
    dist.destroy_process_group()


def test_two_ranks_hold_what_one_would_on_the_joined_batch(tmp_path):
    run_ranks(watching_rank, tmp_path)


def test_a_wrapped_module_returns_the_same_loss_and_needs_no_scale():
    features, labels = next(batches())
    meter = GradientMeter(5)
    criterion = meter.wrap(nn.CrossEntropyLoss(weight=torch.arange(1.0, 6)))
    logits = layer()(features)
    loss = criterion(logits, labels)
    assert torch.equal(loss, criterion.loss(logits, labels))
    more = expected(gradient_of(loss, logits), F.one_hot(labels, 5).bool())
    meter.reset()
    (loss * 1000).backward()
    assert_close(meter.statistics.positive, more[0], atol=1e-6, rtol=1e-6)
    criterion.eval()
    criterion(layer()(features), labels).backward()
    assert meter.statistics.updates == 1


def test_an_attached_layer_is_watched_where_the_loss_is_inside_the_model():
    features, labels = next(batches())
    meter, model = GradientMeter(5), nn.Sequential(nn.Identity(), layer())
    head = meter.attach(model[1])
    loss = F.cross_entropy(model(features), labels)
    head.watch(labels)
    loss.backward()
    assert meter.statistics.updates == 1
    with pytest.raises(RuntimeError, match="has not been called"):
        head.watch(labels)
    head.remove()
    assert not model[1]._forward_hooks


def test_evaluation_leaves_no_trace():
    features, labels = next(batches())
    meter = GradientMeter(5)
    with torch.no_grad():
        meter.watch(layer()(features), labels)
    meter.eval()
    logits = layer()(features)
    meter.watch(logits, labels)
    logits.sum().backward()
    assert meter.recognition.seen.sum() == meter.statistics.positive.sum() == 0


def test_a_checkpoint_carries_everything():
    meter = GradientMeter(5, window=8)
    train(layer(), meter.watch)
    other = GradientMeter(5, window=8)
    other.load_state_dict(copy.deepcopy(meter.state_dict()))
    assert other.table("windowed") == meter.table("windowed")
    assert other.statistics.updates == 20


def test_a_batch_that_is_not_finite_is_skipped():
    meter, logits = GradientMeter(2), torch.zeros(1, 2, requires_grad=True)
    meter.watch(logits, torch.tensor([0]))
    (logits.sum() * torch.inf).backward()
    assert meter.statistics.skipped == 1
    assert meter.statistics.positive.isfinite().all()


def test_an_empty_batch_is_fine():
    meter, logits = GradientMeter(3), torch.zeros(0, 3, requires_grad=True)
    meter.watch(logits, torch.zeros(0, dtype=torch.int64))
    logits.sum().backward()
    assert [row.state for row in meter.table()] == ["never seen"] * 3


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        (torch.zeros(2, 3), torch.tensor([0, 1]), "no gradient"),
        (torch.zeros(2, 2, requires_grad=True), torch.tensor([0, 1]), "C >= 3 columns"),
        (torch.zeros(2, 3, requires_grad=True), torch.tensor([0, 3]), "0 ... 2"),
        (torch.zeros(2, 3, requires_grad=True), torch.tensor([0]), r"shape \(2,\)"),
        (torch.zeros(2, 3, requires_grad=True), torch.full((2, 3), 1.5), r"within \[0, 1\]"),
    ],
)
def test_what_does_not_fit_is_refused(logits, labels, message):
    with pytest.raises(ValueError, match=message):
        GradientMeter(3).watch(logits, labels)


def test_logits_that_no_gradient_reaches_are_pointed_out():
    meter, logits = GradientMeter(3), torch.zeros(2, 3, requires_grad=True)
    meter.watch(logits * 1, torch.tensor([0, 1]))
    logits.sum().backward()
    with pytest.raises(ValueError, match="no gradient arrived"):
        meter.table()
    with pytest.raises(ValueError, match="not both"):
        meter.watch(logits, torch.tensor([0, 1]), loss=logits.sum(), scale=2.0)
    with pytest.raises(ValueError, match="names must be 3"):
        GradientMeter(3, names=["one"])


def test_lists_are_refused_with_what_is_expected():
    with pytest.raises(ValueError, match="logits and labels must be tensors, got list and list"):
        GradientMeter(2).watch([[0.1, 0.2]], [1])
