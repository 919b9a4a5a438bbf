import torch

from equigrad.data.random_draws import below, happens, one_of, uniform


def test_draws_cover_their_range_and_stay_in_it():
    torch.manual_seed(0)
    numbers = [uniform(-2, 3) for _ in range(500)]
    assert -2 <= min(numbers) < -1.9
    assert 2.9 < max(numbers) <= 3
    assert {below(4) for _ in range(100)} == {0, 1, 2, 3}
    assert {one_of(range(640, 801, 32)) for _ in range(200)} == {640, 672, 704, 736, 768, 800}
    assert 0.2 < sum(happens(0.3) for _ in range(1000)) / 1000 < 0.4
    assert not any(happens(0.0) for _ in range(100))
    assert all(happens(1.0) for _ in range(100))


def test_draws_follow_the_seed_of_torch():
    drawn = []
    for _ in range(2):
        torch.manual_seed(4)
        drawn.append((uniform(0, 1), below(1000), one_of((3, 5, 7)), happens(0.5)))
    assert drawn[0] == drawn[1]
