"""ImageNet-LT, Places-LT and iNaturalist 2018: the paper's tables `imagenet_lt`, `place_Lt` and `inat`.

    equigrad train image_classification:imagenet_lt_resnet50 --set method=softmax_eql --set data.root=FOLDER

`method` is a row of the table. cRT, LWS and DisAlign start from a run with CE, the distillations from one with Balanced
Softmax: `--init RUN`. Settings are those of decoupled training (Kang et al., ICLR 2020), on which the paper
re-implemented all rows: single precision, no averaged weights, no warm-up.
"""

from collections.abc import Mapping
from dataclasses import replace

from equigrad.engine import SGD, Cosine, Schedule, TrainSettings
from equigrad.models.backbones.resnets import TORCHVISION
from equigrad.recipes.methods.classification import CE, LADE_INATURALIST, METHODS, MethodName
from equigrad.tasks.backbones import ResNet
from equigrad.tasks.classification.data import PublishedImages
from equigrad.tasks.classification.recipe import ClassificationRecipe


def imagenet_lt_resnet50(method: MethodName = "ce") -> ClassificationRecipe:
    """ImageNet-LT, ResNet-50 from scratch, 90 epochs."""
    baseline = ClassificationRecipe(
        data=PublishedImages("imagenet_lt"),
        backbone=ResNet(),
        method=CE,
        training=_training(epochs=90, lr=0.2, weight_decay=5e-4, batch_size=512),
        table="imagenet_lt (ResNet-50)",
    )
    crt = _training(epochs=10, lr=0.2, weight_decay=5e-4, batch_size=512)
    disalign, released = _disalign(epochs=10), _released()
    own = {"crt": crt, "lws": _shorter(crt), "disalign": disalign, "softmax_eql_released": released}
    return _row(baseline, method, own)


def imagenet_lt_resnext50(method: MethodName = "ce") -> ClassificationRecipe:
    """ImageNet-LT, ResNeXt-50 from scratch, 90 epochs."""
    return replace(imagenet_lt_resnet50(method), backbone=ResNet("resnext50"), table="imagenet_lt (ResNeXt-50)")


def places_lt_resnet152(method: MethodName = "ce") -> ClassificationRecipe:
    """Places-LT, ResNet-152 from ImageNet, last block and classifier trained for 30 epochs."""
    # "Everything frozen except the last layer and classifier", says the paper; no code settles which layer that is.
    earlier = ("conv1", "bn1", "layer1", "layer2", "layer3")
    frozen = tuple(f"backbone.{part}" for part in earlier)
    baseline = ClassificationRecipe(
        data=PublishedImages("places_lt"),
        backbone=ResNet("resnet152", TORCHVISION),
        method=CE,
        training=replace(_training(epochs=30, lr=0.2, weight_decay=5e-4, batch_size=256), frozen=frozen),
        table="place_Lt (ResNet-152)",
    )
    crt = _training(epochs=10, lr=0.1, weight_decay=5e-4, batch_size=256)
    recipe = _row(baseline, method, {"crt": crt, "lws": _shorter(crt), "disalign": _disalign(epochs=10)})
    stage = recipe.method.second_stage
    if stage is None:
        return recipe
    # In the first stage the batch norms of the frozen blocks rest, and a second one goes on as that ended.
    return replace(recipe, method=replace(recipe.method, second_stage=replace(stage, batch_norm="frozen")))


def inaturalist18_resnet50(method: MethodName = "ce") -> ClassificationRecipe:
    """iNaturalist 2018, ResNet-50 from scratch, 90 epochs."""
    baseline = ClassificationRecipe(
        data=PublishedImages("inaturalist18", color_jitter=0.0),
        backbone=ResNet(pixels="inaturalist18"),
        method=CE,
        training=_training(epochs=90, lr=0.2, weight_decay=1e-4, batch_size=512),
        table="inat (ResNet-50)",
    )
    crt = _training(epochs=30, lr=0.2, weight_decay=1e-4, batch_size=512)
    disalign = _training(epochs=30, lr=0.1, weight_decay=1e-4, batch_size=512)
    recipe = _row(baseline, method, {"crt": crt, "lws": _shorter(crt), "disalign": disalign})
    return replace(recipe, method=LADE_INATURALIST) if method == "lade" else recipe


def _training(*, epochs: float, lr: float, weight_decay: float, batch_size: int) -> TrainSettings:
    return TrainSettings(
        optimizer=SGD(lr=lr, momentum=0.9, weight_decay=weight_decay),
        schedule=Schedule(epochs=epochs, decay=Cosine(per="epoch")),
        batch_size=batch_size,
        num_workers=8,
        evaluate_every=10,
    )


def _shorter(crt: TrainSettings) -> TrainSettings:
    """LWS learns one number per category; published settings: those of cRT for five epochs, on all benchmarks."""
    return replace(crt, schedule=replace(crt.schedule, epochs=5))


def _released() -> TrainSettings:
    """Softmax-EQL on ImageNet-LT as its code has it: half the paper's learning rate, with Nesterov's momentum."""
    optimizer = SGD(lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    return replace(_training(epochs=90, lr=0.1, weight_decay=5e-4, batch_size=512), optimizer=optimizer)


def _disalign(epochs: float) -> TrainSettings:
    """DisAlign's published settings for ImageNet-LT."""
    return _training(epochs=epochs, lr=0.1, weight_decay=5e-4, batch_size=256)


def _row(baseline: ClassificationRecipe, name: MethodName, own: Mapping[str, TrainSettings]) -> ClassificationRecipe:
    """The baseline with the method of a row; some, such as second stages, have settings of their own."""
    label, method = METHODS[name]
    return replace(baseline, method=method, row=label, training=own.get(name, baseline.training))
