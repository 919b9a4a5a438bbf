import pytest
import torch

from equigrad import IGNORE
from equigrad.meter import recognition as module
from equigrad.meter.recognition import Recognition


def test_a_sample_is_won_if_its_own_logit_is_the_highest():
    recognition = Recognition(3)
    logits = torch.tensor([[2.0, 1.0, 0.0], [2.0, 1.0, 0.0], [0.0, 1.0, 3.0], [9.0, 0.0, 0.0]])
    recognition.look(logits, torch.tensor([0, 1, 2, IGNORE]))
    assert recognition.share.tolist() == [1.0, 0.0, 1.0]
    assert recognition.seen.tolist() == [1, 1, 1]


def test_earlier_samples_of_a_category_count_less_but_not_those_of_others():
    recognition = Recognition(2, half_life=1.0)
    lost, won, other = torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    recognition.look(lost, torch.tensor([0]))
    for _ in range(50):
        recognition.look(other, torch.tensor([1]))
    recognition.look(won, torch.tensor([0]))
    assert recognition.share.tolist() == pytest.approx([1 / 1.5, 1.0])


def test_of_several_targets_each_must_be_above_the_categories_that_are_none():
    recognition = Recognition(4)
    recognition.look(torch.tensor([[3.0, 1.0, 2.0, 0.0]]), torch.tensor([[True, True, False, False]]))
    assert recognition.share[:2].tolist() == [1.0, 0.0]
    assert recognition.share[2:].isnan().all()


@pytest.mark.parametrize("share_of_background", [0.0, 0.9])
def test_maps_and_rows_are_the_same(share_of_background):
    torch.manual_seed(0)
    logits, labels = torch.randn(2, 5, 6, 7), torch.randint(5, (2, 6, 7))
    labels[torch.rand(labels.shape) < share_of_background] = -1
    maps, rows = Recognition(5), Recognition(5)
    maps.look(logits, labels)
    rows.look(logits.movedim(1, -1).reshape(-1, 5), labels.flatten())
    assert torch.equal(maps.won, rows.won)
    assert torch.equal(maps.seen, rows.seen)


def test_of_a_large_map_evenly_spaced_pixels_are_compared_and_all_are_counted(monkeypatch):
    monkeypatch.setattr(module, "_MAX_SAMPLES", 100)
    logits, labels = torch.zeros(1, 2, 40, 40), torch.zeros(1, 40, 40, dtype=torch.int64)
    logits[:, 1, 20:] = 1.0
    recognition = Recognition(2, half_life=1e9)
    recognition.look(logits, labels)
    assert recognition.seen.tolist() == [1600, 0]
    assert recognition.compared[0].item() == 100
    assert recognition.share[0].item() == 0.5


def test_nothing_is_known_before_the_first_sample_and_after_reset():
    recognition = Recognition(2)
    recognition.look(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64))
    assert recognition.share.isnan().all()
    recognition.look(torch.zeros(1, 2), torch.tensor([0]))
    recognition.reset()
    assert recognition.share.isnan().all()
    with pytest.raises(ValueError, match="half_life"):
        Recognition(2, half_life=0)
