import io
import sys
from collections import defaultdict
from types import SimpleNamespace

import pytest
import torch
from torch.testing import assert_close

import equigrad
from equigrad.integrations import check
from equigrad.integrations.ultralytics import ClassLoss, Equalizer, equalize, side_file

pytestmark = pytest.mark.integrations

NUM_CLASSES = 3


class FakeYolo:
    """What `equalize` needs of a YOLO object before it is trained."""

    def __init__(self):
        self.callbacks = defaultdict(list)

    def add_callback(self, event, callback):
        self.callbacks[event].append(callback)


@pytest.fixture(scope="session")
def yolo_runs():
    pytest.importorskip("ultralytics", reason="needs Ultralytics: make test-integrations")
    from integrations import yolo_runs

    return yolo_runs


@pytest.fixture
def trained(yolo_runs):
    """A training that is interrupted in its first batch, with a model whose criterion is ours."""
    run = yolo_runs.yolov8_run()
    run.train(1)
    return run


def soft_targets():
    """Logits and soft targets of two images with four anchors, as an assignment makes them."""
    torch.manual_seed(0)
    targets = torch.zeros(2, 4, NUM_CLASSES)
    targets[0, 1, 0], targets[0, 2, 0], targets[1, 0, 2] = 0.9, 0.4, 0.7
    return torch.randn(2, 4, NUM_CLASSES, requires_grad=True), targets


def test_nothing_of_ultralytics_is_imported():
    source = sys.modules["equigrad.integrations.ultralytics"].__file__
    with open(source) as file:
        assert not [line for line in file if line.lstrip().startswith(("import ultralytics", "from ultralytics"))]


def test_binary_cross_entropy_is_the_loss_of_ultralytics():
    logits, targets = soft_targets()
    ours = ClassLoss(equigrad.BinaryCrossEntropyLoss())(logits, targets)
    theirs = torch.nn.BCEWithLogitsLoss(reduction="none")(logits, targets).sum()
    assert_close(ours, theirs)
    assert_close(*(torch.autograd.grad(value, logits)[0] for value in (ours, theirs)))


def test_an_equalization_loss_starts_as_that_and_moves_away():
    logits, targets = soft_targets()
    loss = ClassLoss(equigrad.SigmoidEqualizationLoss(NUM_CLASSES))
    plain = torch.nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="sum")
    assert_close(loss(logits, targets), plain)
    assert loss(logits, targets) != plain


def test_statistics_are_divided_as_the_loss_is():
    logits, targets = soft_targets()
    loss = equigrad.SigmoidEqualizationLoss(NUM_CLASSES)
    value = ClassLoss(loss)(logits, targets)
    (gradient,) = torch.autograd.grad(value / targets.sum(), logits)
    positive = gradient.abs().where(targets > 0, 0).sum((0, 1))
    assert_close(loss.statistics.positive, positive.double())


def test_a_loss_without_quality_takes_an_anchor_for_a_plain_positive():
    logits, targets = soft_targets()
    value = ClassLoss(equigrad.FocalLoss())(logits, targets)
    labels = torch.where(targets.sum(-1) > 0, targets.argmax(-1), equigrad.BACKGROUND)
    assert_close(value, equigrad.FocalLoss(reduction="sum")(logits.flatten(0, 1), labels.flatten()))


def test_a_batch_without_objects_and_one_without_gradient_are_fine():
    logits, targets = soft_targets()
    loss = equigrad.SigmoidEqualizationLoss(NUM_CLASSES)
    ClassLoss(loss)(logits, torch.zeros_like(targets)).backward()
    assert not loss.statistics.positive.any()
    before = loss.statistics.negative.clone()
    with torch.inference_mode():  # validation
        ClassLoss(loss)(logits, targets)
    assert torch.equal(loss.statistics.negative, before)


def test_losses_that_do_not_fit_are_refused():
    with pytest.raises(TypeError, match="category loss of equigrad, got BCELoss"):
        equalize(FakeYolo(), torch.nn.BCELoss())
    with pytest.raises(ValueError, match="SoftmaxEqualizationLoss is a softmax loss"):
        equalize(FakeYolo(), equigrad.SoftmaxEqualizationLoss(NUM_CLASSES))
    yolo = FakeYolo()
    equalize(yolo, equigrad.SigmoidEqualizationLoss(NUM_CLASSES))
    with pytest.raises(ValueError, match="has a loss of equigrad already"):
        equalize(yolo, equigrad.SigmoidEqualizationLoss(NUM_CLASSES))


def test_weights_of_categories_beside_the_loss_are_refused():
    equalizer = Equalizer(equigrad.SigmoidEqualizationLoss(NUM_CLASSES))
    with pytest.raises(ValueError, match=r"cls_pw=0.5 weighs the categories a second time: train with cls_pw=0"):
        equalizer.on_train_start(SimpleNamespace(args=SimpleNamespace(cls_pw=0.5)))


def test_models_without_a_sigmoid_of_classes_are_refused():
    equalizer = Equalizer(equigrad.SigmoidEqualizationLoss(NUM_CLASSES))
    model = SimpleNamespace(criterion=torch.nn.CrossEntropyLoss())
    with pytest.raises(TypeError, match="CrossEntropyLoss has no class scores with a sigmoid"):
        equalizer.on_train_start(SimpleNamespace(args=SimpleNamespace(), model=model))


def test_a_side_file_holds_the_statistics_of_all_heads(tmp_path):
    equalizer = Equalizer(equigrad.SigmoidEqualizationLoss(NUM_CLASSES))
    equalizer._divide_among(dict.fromkeys(("one2many", "one2one")))
    equalizer.losses["one2one"].statistics.positive.fill_(5)
    equalizer.save(side_file(tmp_path / "last.pt"))
    assert [file.name for file in tmp_path.iterdir()] == ["last.equigrad"]
    read = Equalizer(equigrad.SigmoidEqualizationLoss(NUM_CLASSES))
    read.load(tmp_path / "last.equigrad")
    assert_close(read.losses.state_dict(), equalizer.losses.state_dict())


def test_a_loss_without_statistics_has_an_empty_side_file(tmp_path):
    equalizer = Equalizer(equigrad.BinaryCrossEntropyLoss())
    equalizer.save(tmp_path / "last.equigrad")
    equalizer.load(tmp_path / "last.equigrad")
    assert list(equalizer.losses) == ["head"]


class Payload:
    def __reduce__(self):
        return print, ("executed",)


def test_a_side_file_that_is_something_else_is_refused_and_nothing_in_it_executed(tmp_path, capsys):
    equalizer = Equalizer(equigrad.SigmoidEqualizationLoss(NUM_CLASSES))
    file = tmp_path / "last.equigrad"
    torch.save(Payload(), file)
    others = [file.read_bytes(), b"", b"text"]
    for content in ([1, 2], {"head.statistics.positive": torch.zeros(7)}, {"x": 1}):
        torch.save(content, file)
        others.append(file.read_bytes())
    for content in others:
        file.write_bytes(content)
        with pytest.raises(ValueError, match=r"last.equigrad: expected statistics that equalize wrote"):
            equalizer.load(file)
    assert "executed" not in capsys.readouterr().out


def test_resuming_without_the_side_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"last.equigrad: no statistics of the loss"):
        Equalizer(equigrad.SigmoidEqualizationLoss(NUM_CLASSES)).load(side_file(tmp_path / "last.pt"))


def test_callbacks_can_be_pickled_for_several_gpus_and_stay_one_object():
    yolo = FakeYolo()
    equalize(yolo, equigrad.SigmoidEqualizationLoss(NUM_CLASSES))
    buffer = io.BytesIO()
    torch.save(yolo.callbacks, buffer)
    buffer.seek(0)
    copied = torch.load(buffer, weights_only=False)
    assert copied.keys() == {"on_train_start", "on_model_save", "teardown"}
    assert len({id(callback.__self__) for callbacks in copied.values() for callback in callbacks}) == 1


@pytest.mark.parametrize("run", ["yolov8_run", "yolo26_run"])
def test_the_five_checks(yolo_runs, run):
    report = check(getattr(yolo_runs, run))
    assert all(result.state == "pass" for result in report.results), report


def test_end_to_end_models_have_statistics_for_each_head(yolo_runs):
    run = yolo_runs.yolo26_run()
    run.train(1)
    one2many, one2one = (run.module.losses[name].statistics.positive for name in ("one2many", "one2one"))
    assert one2many.any()
    assert one2one.any()
    assert not torch.equal(one2many, one2one)


def test_the_criterion_of_the_trainer_computes_with_our_loss(trained):
    criterion = trained.yolo.trainer.model.criterion
    assert criterion.bce.loss is trained.loss


@pytest.mark.parametrize("task", ["seg", "pose", "obb"])
def test_the_loss_is_put_into_models_of_other_tasks(yolo_runs, task):
    from ultralytics.cfg import get_cfg

    model = yolo_runs.YOLO(f"yolo11n-{task}.yaml").model
    model.args = get_cfg()
    loss = equigrad.SigmoidEqualizationLoss(model.model[-1].nc)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = SimpleNamespace(args=model.args, model=model, device=torch.device("cpu"), optimizer=optimizer)
    Equalizer(loss).on_train_start(trainer)
    assert model.criterion.bce.loss is loss


def test_the_number_of_categories_must_be_that_of_the_data(yolo_runs):
    run = yolo_runs.YoloRun(yolo_runs.scenes(), loss=equigrad.SigmoidEqualizationLoss(80))
    with pytest.raises(ValueError, match="the loss is for 80 categories, the data set has 3"):
        run.train(1)


def test_checkpoints_are_those_of_ultralytics_alone_with_a_file_beside_each(yolo_runs, tmp_path):
    run = yolo_runs.yolov8_run()
    run.train(2)
    run.save(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} >= {"last.pt", "last.equigrad"}
    assert {f.stem for f in tmp_path.glob("*.pt")} == {f.stem for f in tmp_path.glob("*.equigrad")}
    checkpoint = torch.load(tmp_path / "last.pt", weights_only=False)
    assert getattr(checkpoint["ema"], "criterion", None) is None
    state = torch.load(tmp_path / "last.equigrad", weights_only=True)
    assert_close(state["head.statistics.positive"], run.loss.statistics.positive)
