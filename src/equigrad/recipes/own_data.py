"""Your own data, without a line of Python.

equigrad train own_data:classification --set data.train=photos/train --set data.test=photos/test
"""

from functools import partial

from equigrad.engine import SGD, Cosine, Schedule, TrainSettings, Warmup
from equigrad.models.efficientnet_lite import PACKAGE, EfficientNetLite0
from equigrad.recipes import methods
from equigrad.recipes.classification import ClassificationRecipe
from equigrad.recipes.image_data import OwnImages


def classification(prior_power: float = 1.0) -> ClassificationRecipe:
    """Softmax-EQL on a folder for each category or a list of `path label`, from an ImageNet backbone."""
    return ClassificationRecipe(
        data=OwnImages(),
        backbone=partial(EfficientNetLite0, weights=PACKAGE),
        method=methods.softmax_eql(prior_power),
        training=TrainSettings(
            optimizer=SGD(lr=0.02, momentum=0.9, nesterov=True, weight_decay=1e-4, decay_norm_and_bias=False),
            schedule=Schedule(epochs=20, decay=Cosine(), warmup=Warmup(100)),
            batch_size=32,
            num_workers=2,
        ),
    )
