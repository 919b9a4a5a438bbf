import itertools
import json
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings, strategies as st

from equigrad.data.detection.formats.class_hierarchy import ClassHierarchy
from equigrad.evaluation.detection.openimages import OpenImagesEvaluator, count_groups
from equigrad.evaluation.detection.openimages_matching import all_point_average_precision
from equigrad.evaluation.tables import write_table
from quick_processes import quick_context, run_ranks

ANIMAL, DOG, CAT, CAR = range(4)
NAMES = ("Animal", "Dog", "Cat", "Car")
IS_ANCESTOR = np.zeros((4, 4), dtype=bool)
IS_ANCESTOR[[DOG, CAT], ANIMAL] = True
UNIT = (0.0, 0.0, 10.0, 10.0)
COUNTS = (40, 30, 20, 10)


@dataclass
class Columns:
    """A list of labels for every image."""

    offsets: Any
    values: Any

    @classmethod
    def of(cls, lists):
        return cls(np.cumsum([0, *map(len, lists)]), np.array([*itertools.chain(*lists)], dtype=np.int64))


@dataclass
class Categories:
    ids: Any = field(default_factory=lambda: np.arange(1, 5))
    names: tuple = NAMES
    frequency: None = None


@dataclass
class Boxes:
    image_ids: Any
    offsets: Any
    boxes: Any
    labels: Any
    categories: Categories = field(default_factory=Categories)


@dataclass
class Image:
    """What is known of one image: boxes as (label, corners, whether group-of), and verified labels."""

    boxes: list = field(default_factory=list)
    positive: list = field(default_factory=list)
    negative: list = field(default_factory=list)


@dataclass
class Truth:
    images: list
    hierarchy: Any = field(default_factory=lambda: ClassHierarchy(IS_ANCESTOR))

    def __post_init__(self):
        rows = [row for image in self.images for row in image.boxes]
        self.image_names = np.array([f"{index:016x}" for index in range(len(self.images))], dtype="S16")
        self.is_group_of = np.array([is_group for _, _, is_group in rows], dtype=bool)
        self.positive = Columns.of([image.positive for image in self.images])
        self.negative = Columns.of([image.negative for image in self.images])
        self.detection = Boxes(
            np.arange(len(self.images)),
            np.cumsum([0, *(len(image.boxes) for image in self.images)]),
            np.array([corners for _, corners, _ in rows], dtype=np.float32).reshape(-1, 4),
            np.array([label for label, _, _ in rows], dtype=np.int32),
        )


def evaluated(images, detections, **options):
    """AP by category of detections (image, label, corners, score)."""
    hierarchy = options.pop("hierarchy", ClassHierarchy(IS_ANCESTOR))
    evaluator = OpenImagesEvaluator(Truth(images, hierarchy), COUNTS, **options)
    evaluator.add_rows([row_of(*detection) for detection in detections])
    return {row.name: row.AP for row in evaluator.per_category()}


def row_of(image, label, corners, score):
    x1, y1, x2, y2 = corners
    return {
        "image_id": f"{image:016x}",
        "category_id": label + 1,
        "bbox": [x1, y1, x2 - x1, y2 - y1],
        "score": score,
    }


def shifted(dx, corners=UNIT):
    return (corners[0] + dx, corners[1], corners[2] + dx, corners[3])


# Ordinary boxes


def test_a_detection_at_iou_half_is_true_and_below_it_is_false():
    image = Image([(CAR, UNIT, False)], [CAR])
    assert evaluated([image], [(0, CAR, (0, 0, 10, 5), 0.9)])["Car"] == 1
    assert evaluated([image], [(0, CAR, (0, 0, 10, 4.9), 0.9)])["Car"] == 0


def test_only_the_highest_scored_detection_of_a_box_is_true():
    image = Image([(CAR, UNIT, False), (CAR, shifted(50), False)], [CAR])
    # True, false (the box is taken), true: precision 1 and 2/3 at recall 1/2 and 1.
    detections = [(0, CAR, UNIT, 0.9), (0, CAR, shifted(1), 0.8), (0, CAR, shifted(50), 0.7)]
    assert evaluated([image], detections)["Car"] == pytest.approx((1 + 2 / 3) / 2)


def test_a_detection_whose_best_box_is_taken_does_not_turn_to_another_box():
    # The second overlaps both boxes by more than half, the first box more: PASCAL's rule makes it false.
    image = Image([(CAR, UNIT, False), (CAR, shifted(1), False)], [CAR])
    assert evaluated([image], [(0, CAR, UNIT, 0.9), (0, CAR, shifted(0.2), 0.8)])["Car"] == 0.5


def test_a_box_that_nothing_finds_lowers_recall():
    image = Image([(CAR, UNIT, False), (CAR, shifted(50), False)], [CAR])
    assert evaluated([image], [(0, CAR, UNIT, 0.9)])["Car"] == 0.5


def test_detections_without_area_are_left_out():
    image = Image([(CAR, UNIT, False)], [CAR])
    assert evaluated([image], [(0, CAR, (5, 5, 5, 9), 0.99), (0, CAR, UNIT, 0.9)])["Car"] == 1


# Group-of boxes


def test_a_detection_inside_a_group_of_box_finds_it_however_small():
    image = Image([(CAR, (0, 0, 100, 100), True)], [CAR])
    assert evaluated([image], [(0, CAR, UNIT, 0.9)])["Car"] == 1


def test_a_detection_with_less_than_half_its_area_in_a_group_of_box_is_false():
    image = Image([(CAR, (0, 0, 100, 100), True)], [CAR])
    assert evaluated([image], [(0, CAR, (95, 0, 105, 10), 0.9)])["Car"] == 1
    assert evaluated([image], [(0, CAR, (95.1, 0, 105.1, 10), 0.9)])["Car"] == 0


def test_a_group_of_box_that_covers_the_detection_only_partly_does_not_count_by_iou():
    # The detection holds the whole group-of box: much of the box, a quarter of the detection.
    image = Image([(CAR, (0, 0, 50, 50), True)], [CAR])
    assert evaluated([image], [(0, CAR, (0, 0, 100, 100), 0.9)])["Car"] == 0


def test_several_detections_in_a_group_of_box_are_one_true_detection():
    image = Image([(CAR, (0, 0, 100, 100), True), (CAR, shifted(200), False)], [CAR])
    inside = [(0, CAR, shifted(dx), score) for dx, score in ((0, 0.9), (20, 0.8), (40, 0.7))]
    # Those after the first are not counted, so the ordinary box below them is found at precision 1.
    assert evaluated([image], [*inside, (0, CAR, shifted(200), 0.6)])["Car"] == 1


def test_a_group_of_box_is_found_at_the_highest_score_inside_it():
    image = Image([(CAR, (0, 0, 100, 100), True)], [CAR])
    detections = [(0, CAR, shifted(0), 0.3), (0, CAR, shifted(20), 0.9), (0, CAR, shifted(200), 0.5)]
    assert evaluated([image], detections)["Car"] == 1
    detections[1] = (0, CAR, shifted(20), 0.4)  # now the wrong one comes first
    assert evaluated([image], detections)["Car"] == 0.5


def test_a_group_of_box_without_a_detection_inside_lowers_recall():
    image = Image([(CAR, (0, 0, 100, 100), True), (CAR, shifted(200), False)], [CAR])
    assert evaluated([image], [(0, CAR, shifted(200), 0.9)])["Car"] == 0.5


def test_an_ordinary_box_inside_a_group_of_box_is_found_first_and_the_next_detection_finds_the_group():
    image = Image([(CAR, UNIT, False), (CAR, (0, 0, 100, 100), True)], [CAR])
    assert evaluated([image], [(0, CAR, UNIT, 0.9)])["Car"] == 0.5
    # A double of the ordinary box would be false outside; inside the group it finds the group.
    assert evaluated([image], [(0, CAR, UNIT, 0.9), (0, CAR, shifted(1), 0.8)])["Car"] == 1


def test_a_detection_in_two_group_of_boxes_finds_the_one_with_more_of_it():
    image = Image([(CAR, (0, 0, 100, 100), True), (CAR, (8, 0, 200, 100), True)], [CAR])
    assert evaluated([image], [(0, CAR, (7, 0, 17, 10), 0.9)])["Car"] == 0.5
    both = [(0, CAR, (7, 0, 17, 10), 0.9), (0, CAR, (120, 0, 130, 10), 0.8)]
    assert evaluated([image], both)["Car"] == 1
    same = [(0, CAR, (7, 0, 17, 10), 0.9), (0, CAR, (0, 0, 5, 5), 0.8)]
    assert evaluated([image], same)["Car"] == 0.5


# Verified labels


def test_detections_of_a_category_nobody_looked_for_are_left_out():
    images = [Image([(CAR, UNIT, False)], [CAR]), Image()]
    assert evaluated(images, [(1, CAR, UNIT, 0.99), (0, CAR, UNIT, 0.9)])["Car"] == 1


def test_detections_of_a_category_verified_to_be_absent_are_false():
    images = [Image([(CAR, UNIT, False)], [CAR]), Image(negative=[CAR])]
    assert evaluated(images, [(1, CAR, UNIT, 0.99), (0, CAR, UNIT, 0.9)])["Car"] == 0.5


def test_detections_of_a_category_verified_to_be_present_but_without_box_are_false():
    images = [Image([(CAR, UNIT, False)], [CAR]), Image(positive=[CAR])]
    assert evaluated(images, [(1, CAR, UNIT, 0.99), (0, CAR, UNIT, 0.9)])["Car"] == 0.5


def test_a_box_verifies_its_category():
    image = Image([(CAR, UNIT, False)])
    assert evaluated([image], [(0, CAR, shifted(50), 0.99), (0, CAR, UNIT, 0.9)])["Car"] == 0.5


# The hierarchy


def test_boxes_count_for_the_ancestors_of_their_category():
    image = Image([(DOG, UNIT, False), (CAT, shifted(50), False)], [DOG, CAT])
    values = evaluated([image], [(0, DOG, UNIT, 0.9)])
    assert values["Dog"] == 1
    assert values["Cat"] == 0
    assert values["Animal"] == 0.5
    assert math.isnan(values["Car"])


def test_detections_count_for_the_ancestors_of_their_category_unless_told_otherwise():
    image = Image([(DOG, UNIT, False)], [DOG])
    assert evaluated([image], [(0, DOG, UNIT, 0.9)])["Animal"] == 1
    assert evaluated([image], [(0, DOG, UNIT, 0.9)], expand_detections=False)["Animal"] == 0
    both = [(0, DOG, UNIT, 0.9), (0, ANIMAL, UNIT, 0.9)]
    assert evaluated([image], both, expand_detections=False)["Animal"] == 1


def test_nothing_is_expanded_without_a_hierarchy():
    image = Image([(DOG, UNIT, False)], [DOG])
    values = evaluated([image], [(0, DOG, UNIT, 0.9)], hierarchy=None)
    assert values["Dog"] == 1
    assert math.isnan(values["Animal"])


def test_the_wrong_kind_of_animal_is_still_an_animal():
    image = Image([(DOG, UNIT, False)], [DOG], [CAT])
    values = evaluated([image], [(0, CAT, UNIT, 0.9)])
    assert values["Animal"] == 1
    assert values["Dog"] == 0


def test_a_group_of_box_is_one_for_its_ancestors_too():
    image = Image([(DOG, (0, 0, 100, 100), True)], [DOG])
    detections = [(0, DOG, UNIT, 0.9), (0, CAT, shifted(20), 0.8)]
    assert evaluated([image], detections)["Animal"] == 1


def test_present_labels_verify_ancestors_but_not_descendants():
    found = Image([(ANIMAL, UNIT, False), (CAT, shifted(50), False)], [ANIMAL, CAT])
    wrong = [(1, ANIMAL, UNIT, 0.99), (1, CAT, UNIT, 0.99)]
    right = [(0, ANIMAL, UNIT, 0.9), (0, CAT, shifted(50), 0.8)]
    values = evaluated([found, Image(positive=[DOG])], wrong + right, expand_detections=False)
    assert values["Animal"] == 0.25  # verified through Dog, so the wrong one counts; one of two boxes is found
    assert values["Cat"] == 1  # nobody looked for cats
    values = evaluated([found, Image(positive=[ANIMAL])], wrong + right, expand_detections=False)
    assert values["Cat"] == 1


def test_absent_labels_verify_descendants_but_not_ancestors():
    found = Image([(ANIMAL, UNIT, False), (CAT, shifted(50), False)], [ANIMAL, CAT])
    wrong = [(1, ANIMAL, UNIT, 0.99), (1, CAT, UNIT, 0.99)]
    right = [(0, CAT, shifted(50), 0.8)]
    values = evaluated([found, Image(negative=[ANIMAL])], wrong + right, expand_detections=False)
    assert values["Cat"] == 0.5  # no animal, hence no cat
    values = evaluated([found, Image(negative=[DOG])], [*wrong, (0, ANIMAL, UNIT, 0.9)], expand_detections=False)
    assert values["Animal"] == 0.5  # no dog, but perhaps an animal: the wrong one is left out, a box is missed


# The average


@pytest.mark.parametrize(
    ("is_true", "num_boxes", "expected"),
    [
        ([], 3, 0),
        ([False, False], 1, 0),
        ([True], 1, 1),
        ([True, False, True, False, True], 4, (1 + 2 / 3 + 3 / 5) / 4),
        ([False, True, True], 2, 2 / 3),  # a later precision that is higher counts for lower recalls
    ],
)
def test_average_precision_is_the_area_under_the_curve_of_best_precision(is_true, num_boxes, expected):
    assert all_point_average_precision(np.array(is_true, dtype=bool), num_boxes) == pytest.approx(expected)


def test_five_groups_of_equal_size_go_from_least_to_most_trained():
    counts = np.random.default_rng(0).permutation(np.arange(14, 514))
    groups = count_groups(counts)
    assert list(groups) == ["AP1", "AP2", "AP3", "AP4", "AP5"]
    assert all(len(members) == 100 for members in groups.values())
    assert counts[groups["AP1"]].max() < counts[groups["AP2"]].min()
    assert counts[groups["AP5"]].max() == 513


def test_the_result_averages_categories_with_boxes_overall_and_by_group():
    image = Image([(DOG, UNIT, False), (CAR, shifted(50), False)], [DOG, CAR])
    evaluator = OpenImagesEvaluator(Truth([image]), COUNTS)
    evaluator.add_rows([row_of(0, DOG, UNIT, 0.9)])
    result = evaluator.result()
    assert result["AP"] == pytest.approx(2 / 3)  # Animal 1, Dog 1, Car 0; there is no cat
    assert (result["AP1"], result["AP3"], result["AP4"]) == (0, 1, 1)
    assert math.isnan(result["AP2"])
    assert math.isnan(result["AP5"])  # four categories leave a group empty


def test_rows_of_categories_can_be_written_as_a_table(tmp_path):
    image = Image([(DOG, UNIT, True)], [DOG])
    evaluator = OpenImagesEvaluator(Truth([image]), COUNTS)
    evaluator.add_rows([row_of(0, DOG, UNIT, 0.9)])
    rows = json.loads(write_table(evaluator.per_category(), tmp_path / "rows.json").read_text())
    assert rows[DOG] == {"name": "Dog", "count": 30, "group": "AP3", "num_boxes": 1, "AP": 1.0}
    assert rows[CAR]["AP"] is None


# Ways in


def random_case(seed, num_images=5):
    """A crowded little data set, with boxes on a coarse grid so that overlaps are many, and distinct scores."""
    rng = np.random.default_rng(seed)

    def corners():
        x, y = rng.integers(0, 6, size=2)
        width, height = rng.integers(1, 5, size=2)
        return (float(x), float(y), float(x + width), float(y + height))

    def labels():
        return np.flatnonzero(rng.random(4) < 0.3).tolist()

    def boxes():
        return [(int(rng.integers(4)), corners(), bool(rng.random() < 0.3)) for _ in range(rng.integers(5))]

    images = [Image(boxes(), labels(), labels()) for _ in range(num_images)]
    num_detections = int(rng.integers(0, 60))
    scores = rng.permutation(np.linspace(0.01, 0.99, num_detections)) if num_detections else []
    detections = [(int(rng.integers(num_images)), int(rng.integers(4)), corners(), float(score)) for score in scores]
    return images, detections


def as_batches(detections, num_images):
    predictions, targets = [], []
    for image in range(num_images):
        own = [detection for detection in detections if detection[0] == image]
        predictions.append(
            {
                "boxes": torch.tensor([corners for _, _, corners, _ in own], dtype=torch.float64).reshape(-1, 4),
                "scores": torch.tensor([score for *_, score in own], dtype=torch.float64),
                "labels": torch.tensor([label for _, label, _, _ in own], dtype=torch.int64),
            }
        )
        targets.append({"image_id": image})
    return predictions, targets


def assert_same(left, right):
    assert left.keys() == right.keys()
    for name in left:
        assert left[name] == pytest.approx(right[name], nan_ok=True, abs=1e-12), name


def test_model_outputs_result_rows_and_files_give_the_same(tmp_path):
    images, detections = random_case(3)
    evaluators = [OpenImagesEvaluator(Truth(images), COUNTS) for _ in range(3)]
    evaluators[0].add(*as_batches(detections, len(images)))
    rows = [row_of(*detection) for detection in detections]
    evaluators[1].add_rows(rows)
    (tmp_path / "results.json").write_text(json.dumps(rows))
    evaluators[2].add_file(tmp_path / "results.json")
    assert 0 < evaluators[0].result()["AP"] < 1
    assert_same(evaluators[0].result(), evaluators[1].result())
    assert_same(evaluators[0].result(), evaluators[2].result())


def test_an_image_that_comes_twice_counts_once():
    images, detections = random_case(4)
    whole, repeated = (OpenImagesEvaluator(Truth(images), COUNTS) for _ in range(2))
    predictions, targets = as_batches(detections, len(images))
    whole.add(predictions, targets)
    repeated.add(predictions[:3], targets[:3])
    repeated.add(predictions[2:], targets[2:])  # a padded sampler repeats an image
    assert_same(repeated.result(), whole.result())


def result_of_rank(rank, store, queue):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    images, detections = random_case(4)
    predictions, targets = as_batches(detections, len(images))
    own = slice(0, 3) if rank == 0 else slice(2, 5)  # a padded sampler gives an image to both
    evaluator = OpenImagesEvaluator(Truth(images), COUNTS)
    evaluator.add(predictions[own], targets[own])
    queue.put(evaluator.result())
    dist.destroy_process_group()


def test_two_ranks_get_the_result_of_one(tmp_path):
    queue = quick_context().SimpleQueue()
    run_ranks(result_of_rank, tmp_path / "store", queue)
    images, detections = random_case(4)
    alone = OpenImagesEvaluator(Truth(images), COUNTS)
    alone.add(*as_batches(detections, len(images)))
    for _ in range(2):
        assert_same(queue.get(), alone.result())


def test_without_detections_everything_is_missed():
    evaluator = OpenImagesEvaluator(Truth([Image([(DOG, UNIT, False)], [DOG])]), COUNTS)
    assert evaluator.result()["AP"] == 0
    evaluator.add([], [])
    evaluator.add_rows([])
    evaluator.add(*as_batches([], 1))
    assert evaluator.result()["AP"] == 0


def test_without_boxes_there_is_no_value():
    for images in ([], [Image()], [Image(negative=[DOG])]):
        evaluator = OpenImagesEvaluator(Truth(images), COUNTS)
        assert all(math.isnan(value) for value in evaluator.result().values())
    evaluator.add_rows([row_of(0, DOG, UNIT, 0.9)])
    assert math.isnan(evaluator.result()["AP"])


# Against a second implementation


def plain_average_precisions(images, detections, is_ancestor, expand_detections=True):
    """The rules once more, as loops over one image, category and detection at a time."""
    above = [[label, *np.flatnonzero(row).tolist()] for label, row in enumerate(is_ancestor)]
    below = [[label, *np.flatnonzero(column).tolist()] for label, column in enumerate(is_ancestor.T)]
    counts_for = above if expand_detections else [[label] for label in range(len(above))]
    return [plain_average_precision(label, images, detections, counts_for, above, below) for label in range(len(above))]


def plain_average_precision(label, images, detections, counts_for, above, below):
    outcomes, num_boxes = [], 0
    for index, image in enumerate(images):
        boxes = [(corners, group) for own, corners, group in image.boxes if label in above[own]]
        num_boxes += len(boxes)
        verified = bool(boxes) or any(label in above[own] for own in image.positive)
        verified = verified or any(label in below[own] for own in image.negative)
        if verified:
            own = [detection for detection in detections if detection[0] == index and label in counts_for[detection[1]]]
            own.sort(key=lambda detection: -detection[3])
            outcomes += plain_outcomes(own, boxes)
    return plain_area(sorted(outcomes, reverse=True), num_boxes) if num_boxes else math.nan


def plain_outcomes(detections, boxes):
    """(score, whether true) of each detection of an image that counts."""
    ordinary = [corners for corners, is_group in boxes if not is_group]
    groups = [corners for corners, is_group in boxes if is_group]
    taken, group_scores, outcomes = set(), {}, []
    for _, _, corners, score in detections:
        overlaps = [shared(corners, box) / (area(corners) + area(box) - shared(corners, box)) for box in ordinary]
        insides = [shared(corners, box) / area(corners) for box in groups]
        best = int(np.argmax(overlaps)) if overlaps else None
        if best is not None and overlaps[best] >= 0.5 and best not in taken:
            taken.add(best)
            outcomes.append((score, True))
        elif insides and max(insides) >= 0.5:
            group = int(np.argmax(insides))
            group_scores[group] = max(score, group_scores.get(group, 0))
        else:
            outcomes.append((score, False))
    return outcomes + [(score, True) for score in group_scores.values()]


def shared(left, right):
    width = min(left[2], right[2]) - max(left[0], right[0])
    height = min(left[3], right[3]) - max(left[1], right[1])
    return max(width, 0) * max(height, 0)


def area(corners):
    return (corners[2] - corners[0]) * (corners[3] - corners[1])


def plain_area(outcomes, num_boxes):
    """Area under the curve, rectangle by rectangle, each as high as the best precision from there on."""
    points, num_true = [], 0
    for place, (_, is_true) in enumerate(outcomes, start=1):
        num_true += is_true
        points.append((num_true / num_boxes, num_true / place))
    total, reached = 0.0, 0.0
    for place, (recall, _) in enumerate(points):
        total += (recall - reached) * max(precision for _, precision in points[place:])
        reached = recall
    return total


@settings(max_examples=150)
@given(seed=st.integers(0, 2**32 - 1), expand_detections=st.booleans())
def test_it_agrees_with_a_second_implementation(seed, expand_detections):
    images, detections = random_case(seed)
    ours = evaluated(images, detections, expand_detections=expand_detections)
    theirs = plain_average_precisions(images, detections, IS_ANCESTOR, expand_detections)
    assert list(ours.values()) == pytest.approx(theirs, nan_ok=True, abs=1e-12)


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_order_of_rows_and_images_does_not_matter(seed):
    images, detections = random_case(seed)
    order = np.random.default_rng(seed).permutation(len(images))
    places = np.argsort(order)
    moved = [(int(places[image]), label, corners, score) for image, label, corners, score in detections[::-1]]
    ours = evaluated(images, detections)
    assert list(ours.values()) == pytest.approx(
        list(evaluated([images[index] for index in order], moved).values()), nan_ok=True, abs=1e-12
    )


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), factor=st.sampled_from([0.5, 2.0, 64.0]))
def test_stretching_an_axis_and_rescaling_scores_do_not_matter(seed, factor):
    images, detections = random_case(seed)

    def stretched(corners):
        return (corners[0] * factor, corners[1], corners[2] * factor, corners[3])

    def wide(image):
        boxes = [(label, stretched(corners), is_group) for label, corners, is_group in image.boxes]
        return Image(boxes, image.positive, image.negative)

    moved = [(image, label, stretched(corners), score / 3) for image, label, corners, score in detections]
    assert list(evaluated(images, detections).values()) == pytest.approx(
        list(evaluated([wide(image) for image in images], moved).values()), nan_ok=True, abs=1e-12
    )


# What is refused


def test_counts_must_fit_the_categories():
    with pytest.raises(ValueError, match=r"category_counts must be \(4,\), got \(2,\)"):
        OpenImagesEvaluator(Truth([]), [1, 2])


def test_truth_without_verified_labels_is_refused():
    truth = Truth([Image([(DOG, UNIT, False)])])
    truth.positive = None
    with pytest.raises(ValueError, match="truth must have verified image-level labels"):
        OpenImagesEvaluator(truth, COUNTS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image_id": "ffff"}, "rows: image_id 'ffff' is not one of the 1 images"),
        ({"image_id": [1]}, "rows: image_id"),
        ({"category_id": 5}, "rows: category_id 5 is not one of the 4 categories"),
        ({"category_id": "Dog"}, "rows: category_id 'Dog'"),
        ({"bbox": [1, 2, 3]}, r"rows: bbox must be four finite numbers, got \[1, 2, 3\]"),
        ({"bbox": [1, 2, 3, "x"]}, r"rows: bbox must be four finite numbers"),
        ({"score": "high"}, r"rows: score must be a finite number, got 'high'"),
        ({"score": math.nan}, "rows: score must be a finite number, got nan"),
        ({"bbox": [0, 0, math.inf, 1]}, "rows: bbox must be four finite numbers"),
    ],
)
def test_wrong_rows_are_named(change, message):
    evaluator = OpenImagesEvaluator(Truth([Image()]), COUNTS)
    good = row_of(0, DOG, UNIT, 0.9)
    with pytest.raises(ValueError, match=message):
        evaluator.add_rows([good, good | change])


def test_rows_lacking_a_field_are_named(tmp_path):
    evaluator = OpenImagesEvaluator(Truth([Image()]), COUNTS)
    (tmp_path / "results.json").write_text('[{"image_id": 0, "category_id": 1, "score": 0.5}]')
    with pytest.raises(ValueError, match=r"results\.json: every row must have a bbox"):
        evaluator.add_file(tmp_path / "results.json")


def test_wrong_model_outputs_are_refused():
    evaluator = OpenImagesEvaluator(Truth([Image(), Image(), Image()]), COUNTS)
    with pytest.raises(ValueError, match=r"labels must be in 0\.\.3, got 4\.\.4"):
        evaluator.add([{"boxes": [UNIT], "scores": [0.5], "labels": [4]}], [{"image_id": 0}])
    with pytest.raises(ValueError, match="boxes, scores and labels must have one length"):
        evaluator.add([{"boxes": [UNIT], "scores": [0.5, 0.4], "labels": [1]}], [{"image_id": 1}])
    with pytest.raises(ValueError, match="argument 2 is longer"):
        evaluator.add([], [{"image_id": 2}])
