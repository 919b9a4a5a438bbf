"""ImageNet-LT, Places-LT and iNaturalist 2018: the paper's tables `imagenet_lt`, `place_Lt` and `inat`.

    equigrad train image_classification:imagenet_lt_resnet50 --set method=softmax_eql --set data.root=FOLDER

`method` is a row of the table. cRT, LWS and DisAlign start from a run with CE, the distillations from one with Balanced
Softmax: `--set init=RUN`. Settings are those of decoupled training, on which the paper re-implemented all rows.
"""

from dataclasses import replace
from functools import partial

from equigrad.engine import SGD, Cosine, Schedule, TrainSettings
from equigrad.models.normalization import INATURALIST18
from equigrad.models.torchvision_resnets import TORCHVISION, resnet50, resnet152, resnext50
from equigrad.recipes.classification import ClassificationRecipe
from equigrad.recipes.image_data import PublishedImages
from equigrad.recipes.methods import ROWS, MethodName

_TRAINING = TrainSettings(
    optimizer=SGD(lr=0.2, momentum=0.9, weight_decay=5e-4),
    schedule=Schedule(epochs=90, decay=Cosine(per="epoch")),
    batch_size=512,
    num_workers=8,
    evaluate_every=10,
)
_SECOND_STAGE = Schedule(epochs=10, decay=Cosine(per="epoch"))


def imagenet_lt_resnet50(method: MethodName = "ce") -> ClassificationRecipe:
    """ImageNet-LT, ResNet-50 from scratch, 90 epochs."""
    return _row(
        ClassificationRecipe(
            data=PublishedImages("imagenet_lt"),
            backbone=resnet50,
            method=ROWS["ce"][1],
            training=_TRAINING,
            table="imagenet_lt (ResNet-50)",
        ),
        method,
    )


def imagenet_lt_resnext50(method: MethodName = "ce") -> ClassificationRecipe:
    """ImageNet-LT, ResNeXt-50 from scratch, 90 epochs."""
    return replace(imagenet_lt_resnet50(method), backbone=resnext50, table="imagenet_lt (ResNeXt-50)")


def places_lt_resnet152(method: MethodName = "ce") -> ClassificationRecipe:
    """Places-LT, ResNet-152 from ImageNet, last block and classifier trained for 30 epochs."""
    earlier = ("conv1", "bn1", "layer1", "layer2", "layer3")
    training = replace(
        _TRAINING,
        schedule=Schedule(epochs=30, decay=Cosine(per="epoch")),
        batch_size=256,
        frozen=tuple(f"backbone.{part}" for part in earlier),
    )
    return _row(
        ClassificationRecipe(
            data=PublishedImages("places_lt"),
            backbone=partial(resnet152, weights=TORCHVISION),
            method=ROWS["ce"][1],
            training=training,
            table="place_Lt (ResNet-152)",
        ),
        method,
    )


def inaturalist18_resnet50(method: MethodName = "ce") -> ClassificationRecipe:
    """iNaturalist 2018, ResNet-50 from scratch, 90 epochs."""
    return _row(
        ClassificationRecipe(
            data=PublishedImages("inaturalist18", color_jitter=0.0),
            backbone=partial(resnet50, pixels=INATURALIST18),
            method=ROWS["ce"][1],
            training=replace(_TRAINING, optimizer=SGD(lr=0.2, momentum=0.9, weight_decay=1e-4)),
            table="inat (ResNet-50)",
        ),
        method,
    )


def _row(baseline: ClassificationRecipe, name: MethodName) -> ClassificationRecipe:
    """The baseline with the method of a row; a second stage is shorter."""
    label, method = ROWS[name]
    schedule = baseline.training.schedule if method.second_stage is None else _SECOND_STAGE
    return replace(baseline, method=method, row=label, training=replace(baseline.training, schedule=schedule))
