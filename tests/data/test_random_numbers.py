import torch

from equigrad.data.random_numbers import choice, happens, integer_below, uniform


def test_numbers_cover_their_range_and_stay_in_it():
    torch.manual_seed(0)
    numbers = [uniform(-2, 3) for _ in range(500)]
    assert -2 <= min(numbers) < -1.9
    assert 2.9 < max(numbers) <= 3
    assert {integer_below(4) for _ in range(100)} == {0, 1, 2, 3}
    assert {choice(range(640, 801, 32)) for _ in range(200)} == {640, 672, 704, 736, 768, 800}


def test_an_event_happens_as_often_as_its_probability_says():
    torch.manual_seed(0)
    assert 0.2 < sum(happens(0.3) for _ in range(1000)) / 1000 < 0.4
    assert not any(happens(0.0) for _ in range(100))
    assert all(happens(1.0) for _ in range(100))


def test_an_event_consumes_one_random_number_whatever_its_probability():
    following = []
    for probability in (0.0, 0.5, 1.0):
        torch.manual_seed(1)
        happens(probability)
        following.append(uniform(0, 1))
    assert len(set(following)) == 1


def test_numbers_follow_torchs_seed():
    drawn = []
    for _ in range(2):
        torch.manual_seed(4)
        drawn.append((uniform(0, 1), integer_below(1000), choice((3, 5, 7)), happens(0.5)))
    assert drawn[0] == drawn[1]
