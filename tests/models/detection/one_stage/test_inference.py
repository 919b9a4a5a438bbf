import pytest
import torch
from hypothesis import given, strategies as st
from torch.testing import assert_close

from equigrad import SigmoidObjectnessScores, SigmoidScores
from equigrad.models.detection.anchors import AnchorGrid
from equigrad.models.detection.box_coders import DeltaCoder
from equigrad.models.detection.one_stage.head import LevelOutput
from equigrad.models.detection.one_stage.inference import Candidates, DenseInference, best_pairs, voted

SIZES = ((4, 6), (2, 3))
ANCHORS = AnchorGrid((8, 16), (3, 4))(SIZES)


def outputs(num_logits=5, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def draw(channels, size):
        return torch.randn(2, 2 * channels, *size, generator=generator)

    return [LevelOutput(draw(num_logits, size), 0.3 * draw(4, size), draw(1, size)) for size in SIZES]


@given(
    seed=st.integers(0, 1000),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 7)),
    count=st.integers(1, 20),
)
def test_the_best_pairs_are_those_of_a_full_sort(seed, shape, count):
    scores = torch.rand(shape, generator=torch.Generator().manual_seed(seed))
    values, places, labels = best_pairs(scores, count)
    expected = scores.flatten().sort(descending=True).values[: min(count, shape[0] * shape[2])]
    assert_close(values, expected)
    assert torch.equal(scores[places // shape[2], labels, places % shape[2]], values)


def test_equal_scores_give_as_many_pairs_as_asked():
    values, _, _ = best_pairs(torch.full((2, 3, 4), 0.5), 5)
    assert values.tolist() == [0.5] * 5


def plain_detections(levels, image, size, *, threshold, count, square_root):
    """Every pair of every anchor, sorted, then NMS by loops."""
    pairs = []
    for level, anchors in zip(levels, ANCHORS, strict=True):
        found = []
        _, _, height, width = level.logits.shape
        for y in range(height):
            for x in range(width):
                for a in range(2):
                    quality = level.quality[image, a, y, x].sigmoid()
                    values = level.boxes[image, 4 * a : 4 * a + 4, y, x]
                    box = DeltaCoder().decode(anchors[2 * (y * width + x) + a], values)
                    box = torch.minimum(box.clamp(min=0), torch.tensor([size[1], size[0]] * 2))
                    for k in range(5):
                        score = level.logits[image, 5 * a + k, y, x].sigmoid() * quality
                        found.append((float(score.sqrt() if square_root else score), k, box))
        found.sort(key=lambda pair: -pair[0])
        pairs += found[: min(count, len(anchors))]
    kept = []
    for pair in sorted(pairs, key=lambda pair: -pair[0]):
        if (pair[2][2:] <= pair[2][:2]).any():
            continue
        if all(other[1] != pair[1] or overlap(other[2], pair[2]) <= threshold for other in kept):
            kept.append(pair)
    return kept


def overlap(a, b):
    common = (torch.minimum(a[2:], b[2:]) - torch.maximum(a[:2], b[:2])).clamp(min=0).prod()
    return common / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - common)


@pytest.mark.parametrize("square_root", [False, True])
def test_detections_equal_a_plain_computation(square_root):
    levels = outputs()
    sizes = [(32, 48), (30, 40)]
    inference = DenseInference(0.4, num_candidates=25, square_root=square_root)
    detections = inference(levels, ANCHORS, DeltaCoder(), SigmoidScores(), sizes)
    for image, (found, size) in enumerate(zip(detections, sizes, strict=True)):
        expected = plain_detections(levels, image, size, threshold=0.4, count=25, square_root=square_root)
        assert_close(found["scores"], torch.tensor([score for score, _, _ in expected]))
        assert found["labels"].tolist() == [label for _, label, _ in expected]
        assert_close(found["boxes"], torch.stack([box for _, _, box in expected]))


def test_no_more_boxes_than_asked_for_and_the_best_first():
    found = DenseInference(0.9, num_boxes=7)(outputs(), ANCHORS, DeltaCoder(), SigmoidScores(), [(32, 48)] * 2)[0]
    assert found["boxes"].shape == (7, 4)
    assert torch.equal(found["scores"], found["scores"].sort(descending=True).values)


def test_a_column_of_objectness_is_no_category():
    levels = outputs(num_logits=6)
    found = DenseInference()(levels, ANCHORS, DeltaCoder(), SigmoidObjectnessScores(), [(32, 48)] * 2)
    assert all(detections["labels"].max() <= 4 for detections in found)


def test_half_precision_gives_float32_scores():
    levels = [LevelOutput(*(maps.half() for maps in level)) for level in outputs()]
    found = DenseInference()(levels, ANCHORS, DeltaCoder(), SigmoidScores(), [(32, 48)] * 2)
    assert found[0]["scores"].dtype == torch.float32
    assert found[0]["boxes"].dtype == torch.float32


def test_a_box_is_moved_by_the_votes_of_its_own_category():
    boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 8], [0, 0, 10, 8], [20, 20, 30, 30]])
    candidates = Candidates(boxes, torch.tensor([0.9, 0.6, 0.6, 0.5]), torch.tensor([1, 1, 0, 1]))
    kept = Candidates(*(values[:1] for values in candidates))
    # IoU 1 and 0.8: weights 0.9 and 0.6 exp(-0.04 / 0.025)
    weight = 0.6 * torch.tensor(-1.6).exp()
    bottom = (0.9 * 10 + weight * 8) / (0.9 + weight)
    assert_close(voted(kept, candidates), torch.tensor([[0.0, 0, 10, bottom]]))
