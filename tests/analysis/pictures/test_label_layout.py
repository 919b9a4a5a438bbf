import pytest

from equigrad.analysis.pictures.label_layout import LabelLayout

SIZE = (1000, 800)


def overlap(first, second):
    sides = [min(first[axis + 2], second[axis + 2]) - max(first[axis], second[axis]) for axis in (0, 1)]
    return max(sides[0], 0) * max(sides[1], 0)


@pytest.mark.parametrize("box", [(0, 0, 30, 30), (970, 0, 1000, 20), (0, 780, 20, 800), (990, 790, 1000, 800)])
def test_the_label_of_a_box_at_the_border_is_whole(box):
    place = LabelLayout(SIZE, 24).place(150, box)
    assert 0 <= place[0] < place[2] <= 1000
    assert 0 <= place[1] < place[3] <= 800
    assert (place[2] - place[0], place[3] - place[1]) == (150, 24)


def test_a_label_stands_on_the_upper_left_corner_of_its_box():
    assert LabelLayout(SIZE, 24).place(150, (200, 300, 600, 500)) == (200, 276, 350, 300)


def test_labels_of_one_box_do_not_cover_each_other_while_there_is_room():
    layout, taken = LabelLayout(SIZE, 24), []
    for _ in range(40):
        place = layout.place(200, (400, 300, 420, 320))
        assert not any(overlap(place, other) for other in taken)
        taken.append(place)


def test_without_room_labels_cover_the_fewest_others():
    layout = LabelLayout((400, 48), 24)
    places = [layout.place(400, (0, 0, 9, 9)) for _ in range(4)]
    assert sorted(place[1] for place in places) == [0, 0, 24, 24]


@pytest.mark.parametrize("area", [(1, 1), (10, 900), (900, 10)])
def test_a_label_larger_than_the_area_starts_at_its_corner(area):
    layout = LabelLayout(area, 24)
    for _ in range(3):
        assert layout.place(2000, (0, 0, 5, 5))[0] == 0
