"""SimOTA, by hand and against plain loops."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, strategies as st
from torch.testing import assert_close

from equigrad.models.detection.assignment.simota import SimOTAAssigner, classification_cost
from models.detection_cases import anchors, centre, iou

CELLS = anchors((1,))
NUM_CELLS = sum(map(len, CELLS))


def run(boxes, labels, predicted, logits, objectness, **options):
    result = SimOTAAssigner(**options)(CELLS, boxes, labels, predicted, logits.__getitem__, objectness)
    return result.matched


def undecided():
    """Predictions (predicted, logits, objectness) in which every cell predicts a box far away, and all scores alike."""
    zeros = torch.zeros(NUM_CELLS, 2, dtype=torch.float64)
    return torch.cat(CELLS) + 1000, zeros, zeros[:, 0].clone()


def test_an_object_gets_as_many_cells_as_its_overlaps_add_up_to():
    predicted, logits, objectness = undecided()
    box = torch.tensor([[8.0, 8, 24, 24]], dtype=torch.float64)  # cells 9, 10, 17, 18 of the fine level
    predicted[[9, 10, 17]] = box
    predicted[18] = torch.tensor([8.0, 8, 24, 20])  # IoU 3/4
    matched = run(box, torch.tensor([0]), predicted, logits, objectness)
    assert matched.ge(0).nonzero()[:, 0].tolist() == [9, 10, 17]  # floor(3.75)


def test_an_object_gets_one_cell_if_nothing_overlaps():
    predicted, logits, objectness = undecided()
    logits[18, 0] = 3.0  # the only difference between the four central cells
    matched = run(torch.tensor([[8.0, 8, 24, 24]]).double(), torch.tensor([0]), predicted, logits, objectness)
    assert matched.ge(0).nonzero()[:, 0].tolist() == [18]


def test_cells_outside_are_a_last_resort():
    predicted, logits, objectness = undecided()
    box = torch.tensor([[8.0, 8, 24, 24]], dtype=torch.float64)
    predicted[27] = box  # perfect, near the centre (16, 16), but outside the object: the cell is at (28, 28)
    predicted[18] = torch.tensor([8.0, 8, 24, 20])
    assert run(box, torch.tensor([0]), predicted, logits, objectness).ge(0).nonzero()[:, 0].tolist() == [18]


def test_a_contested_cell_goes_to_the_object_it_costs_least():
    predicted, logits, objectness = undecided()
    boxes = torch.tensor([[8.0, 8, 24, 24], [8, 8, 24, 20]], dtype=torch.float64)
    predicted[9] = torch.tensor([8.0, 8, 24, 12])  # IoU 1/4 and 1/3: the best cell of both
    assert run(boxes, torch.tensor([0, 0]), predicted, logits, objectness)[9] == 1
    assert run(boxes.flip(0), torch.tensor([0, 0]), predicted, logits, objectness)[9] == 0
    logits[9] = torch.tensor([2.0, -2.0])
    assert run(boxes, torch.tensor([0, 1]), predicted, logits, objectness)[9] == 0  # its category outweighs 3 log(4/3)


def test_the_cost_of_a_category_is_the_binary_cross_entropy_of_the_root_of_both_scores():
    logits = torch.randn(5, 4, dtype=torch.float64)
    objectness, labels = torch.randn(5, dtype=torch.float64), torch.tensor([2, 0, 2])
    probs = (logits.sigmoid() * objectness.sigmoid()[:, None]).sqrt()
    targets = F.one_hot(labels, 4).double()
    expected = torch.stack(
        [F.binary_cross_entropy(probs, target.expand(5, 4), reduction="none").sum(1) for target in targets]
    )
    assert_close(classification_cost(logits, objectness, labels), expected)


def test_extreme_logits_cost_finite_amounts():
    cost = classification_cost(torch.tensor([[100.0, -100]]), torch.tensor([100.0]), torch.tensor([0, 1]))
    assert_close(cost, torch.tensor([[0.0], [100.0 + 50]]), atol=0.1, rtol=0)  # -log(1 - 1) = 100, -log(e^-50) = 50


def plain_simota(boxes, labels, predicted, logits, objectness):
    cells = torch.cat(CELLS).tolist()
    inside, near = [], []
    for cell in cells:
        (x, y), reach = centre(cell), 2.5 * (cell[2] - cell[0])
        inside.append([min(x - b[0], y - b[1], b[2] - x, b[3] - y) > 0 for b in boxes])
        near.append([max(abs(x - centre(b)[0]), abs(y - centre(b)[1])) < reach for b in boxes])
    candidates = [place for place in range(len(cells)) if any(inside[place]) or any(near[place])]
    overlaps = [{place: iou(predicted[place], box) for place in candidates} for box in boxes]
    cost = [{} for _ in boxes]
    for number, label in enumerate(labels):
        for place in candidates:
            probs = [math.sqrt(1 / (1 + math.exp(-z)) / (1 + math.exp(-objectness[place]))) for z in logits[place]]
            entropy = -sum(math.log(p if category == label else 1 - p) for category, p in enumerate(probs))
            is_central = inside[place][number] and near[place][number]
            overlap = -3 * math.log(overlaps[number][place] + 1e-8)
            cost[number][place] = entropy + overlap + (0 if is_central else 1e5)
    wishes = {}
    for number in range(len(boxes)):
        count = max(1, int(sum(sorted(overlaps[number].values(), reverse=True)[:10])))
        for place in sorted(candidates, key=cost[number].get)[:count]:
            wishes.setdefault(place, []).append(number)
    matched = [-1] * len(cells)
    for place, wanting in wishes.items():
        everyone = range(len(boxes)) if len(wanting) > 1 else wanting
        matched[place] = min(everyone, key=lambda number: cost[number][place])
    return matched


def random_case(seed, num_objects, smallest_end):
    """(boxes, labels, predicted, logits, objectness); predictions fit some object well."""
    generator = torch.Generator().manual_seed(seed)
    draw = {"generator": generator, "dtype": torch.float64}
    corners = 25 * torch.rand(num_objects, 2, **draw)
    ends = torch.clamp(corners + 4, min=smallest_end) + 20 * torch.rand(num_objects, 2, **draw)
    boxes = torch.cat([corners, ends], 1)
    fitting = boxes[torch.randint(num_objects, (NUM_CELLS,), generator=generator)]
    predicted = fitting + torch.randn(NUM_CELLS, 4, **draw)
    labels = torch.randint(3, (num_objects,), generator=generator)
    return boxes, labels, predicted, torch.randn(NUM_CELLS, 3, **draw), torch.randn(NUM_CELLS, **draw)


@given(st.integers(0, 9999), st.integers(1, 6))
def test_agrees_with_plain_loops(seed, num_objects):
    case = random_case(seed, num_objects, smallest_end=0)
    assert run(*case).tolist() == plain_simota(*(value.tolist() for value in case))


@given(st.integers(0, 9999), st.integers(2, 6))
def test_the_order_of_objects_does_not_matter(seed, num_objects):
    boxes, labels, *predictions = random_case(seed, num_objects, smallest_end=30)  # all overlap: no equal costs
    order = torch.randperm(num_objects, generator=torch.Generator().manual_seed(seed))
    shuffled = run(boxes[order], labels[order], *predictions)
    assert torch.where(shuffled >= 0, order[shuffled], -1).tolist() == run(boxes, labels, *predictions).tolist()


def test_images_without_objects_or_with_objects_out_of_reach_are_background():
    predictions = undecided()
    nothing = torch.empty(0, 4).double(), torch.empty(0, dtype=torch.int64)
    assert run(*nothing, *predictions).eq(-1).all()
    assert run(torch.tensor([[900.0, 900, 901, 901]]).double(), torch.tensor([0]), *predictions).eq(-1).all()


@pytest.mark.parametrize("options", [{"radius": 0}, {"num_overlaps": 0}])
def test_settings_that_match_nothing_are_refused(options):
    with pytest.raises(ValueError, match="expected radius > 0 and num_overlaps >= 1"):
        SimOTAAssigner(**options)
