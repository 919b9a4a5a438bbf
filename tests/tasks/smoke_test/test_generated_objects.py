from pathlib import Path

import numpy as np
import pytest

from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.frequency import load_frequencies
from equigrad.tasks.detection.data import CocoFiles, GlyphObjects, OpenImages
from equigrad.tasks.smoke_test.generated_objects import generated_objects


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("stage")


def test_a_stand_in_for_lvis_has_its_categories_letters_and_federated_fields(folder):
    sets = generated_objects(CocoFiles(benchmark="lvis"), folder).load(with_masks=True)
    data, real = sets.train.data, load_frequencies("lvis_v1")
    assert data.categories.names == real.names
    rare = real.image_counts <= 10
    np.testing.assert_array_equal(data.groups["rare"], np.flatnonzero(rare))
    np.testing.assert_array_equal(data.category_counts[rare], real.image_counts[rare])
    assert (data.category_counts > 1000).sum() == 1
    assert data.negative is not None
    image, target = sets.train[0]
    assert target["masks"].dense().flatten(1).any(1).all()
    assert min(image.shape[-2:]) == 64


@pytest.mark.parametrize(("benchmark", "num_classes"), [("coco", 80), (None, 5)])
def test_stand_ins_without_letters_have_coco_s_rules(folder, benchmark, num_classes):
    data = generated_objects(CocoFiles(benchmark=benchmark), folder)
    train = read_coco(data.train)
    assert (train.num_classes, train.negative, train.categories.frequency) == (num_classes, None, None)
    assert (train.category_counts > 0).all()
    assert len(data.load(with_masks=True).test) == 1


def test_files_are_written_once_and_other_settings_stay(folder):
    data = CocoFiles(benchmark="coco", keep_empty=False, test=None, test_share=0.3, test_images=Path("elsewhere"))
    first = generated_objects(data, folder)
    written = first.train.stat().st_mtime_ns
    assert generated_objects(data, folder) == first
    assert first.train.stat().st_mtime_ns == written
    assert (first.test, first.keep_empty, first.test_share, first.test_images) == (None, False, 0.3, None)
    assert len(first.load(with_masks=False).test) == round(0.3 * 16)


def test_a_stand_in_for_openimages_has_a_box_of_each_category_and_a_hierarchy(folder):
    sets = generated_objects(OpenImages(expand_boxes=True), folder).load(with_masks=False)
    counts = sets.train.data.instance_counts
    assert (len(counts), counts.min(), counts.max()) == (500, 1, 20)  # the first category is above 19 others


def test_glyphs_of_other_settings_have_a_folder_of_their_own(folder):
    first, second = (generated_objects(GlyphObjects(num_classes=3, seed=seed), folder) for seed in (0, 1))
    assert first.root != second.root
    assert len(second.load(with_masks=False).train) < 10


def test_data_that_nobody_knows_stays_as_it_is(folder):
    data = object()
    assert generated_objects(data, folder) is data
