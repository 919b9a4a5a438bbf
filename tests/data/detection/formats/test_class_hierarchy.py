import json

import numpy as np
import pytest
from hypothesis import given, strategies as st

from equigrad.data.detection.formats.class_hierarchy import ClassHierarchy, read_hierarchy

MIDS = ["/m/animal", "/m/dog", "/m/fish", "/m/seafood", "/m/salmon", "/m/car"]
ANIMAL, DOG, FISH, SEAFOOD, SALMON, CAR = range(6)


def node(name, *children, **more):
    return {"LabelName": name, **({"Subcategory": list(children)} if children else {}), **more}


# A salmon is a fish, hence an animal, and it is seafood.
TREE = node(
    "/m/0bl9f",
    node("/m/animal", node("/m/dog"), node("/m/fish", node("/m/salmon"))),
    node("/m/seafood", node("/m/salmon")),
    node("/m/car", Part=[node("/m/wheel")]),
)


def written(folder, tree):
    file = folder / "hierarchy.json"
    file.write_text(tree if isinstance(tree, str) else json.dumps(tree))
    return file


def ancestors(hierarchy, label):
    return np.flatnonzero(hierarchy.is_ancestor[label]).tolist()


@pytest.fixture
def hierarchy(tmp_path):
    return read_hierarchy(written(tmp_path, TREE), MIDS)


def test_a_category_has_the_ancestors_of_all_its_places_in_the_tree(hierarchy):
    assert ancestors(hierarchy, SALMON) == [ANIMAL, FISH, SEAFOOD]
    assert ancestors(hierarchy, FISH) == [ANIMAL]
    assert ancestors(hierarchy, ANIMAL) == []


def test_the_outermost_node_is_no_category_and_parts_are_no_subcategories(hierarchy):
    assert hierarchy.num_classes == 6
    assert ancestors(hierarchy, CAR) == []
    assert not hierarchy.is_ancestor[:, CAR].any()


def test_labels_expand_upwards_to_themselves_and_their_ancestors(hierarchy):
    rows, labels = hierarchy.upwards([DOG, CAR, SALMON])
    assert rows.tolist() == [0, 0, 1, 2, 2, 2, 2]
    assert labels.tolist() == [DOG, ANIMAL, CAR, SALMON, ANIMAL, FISH, SEAFOOD]


def test_labels_expand_downwards_to_themselves_and_their_descendants(hierarchy):
    rows, labels = hierarchy.downwards([SEAFOOD, ANIMAL])
    assert rows.tolist() == [0, 0, 1, 1, 1, 1]
    assert labels.tolist() == [SEAFOOD, SALMON, ANIMAL, DOG, FISH, SALMON]


def test_no_labels_expand_to_none(hierarchy):
    for expand in (hierarchy.upwards, hierarchy.downwards):
        rows, labels = expand([])
        assert (len(rows), len(labels)) == (0, 0)


def test_a_subtree_that_occurs_twice_gives_each_ancestor_once(tmp_path):
    fish = node("/m/fish", node("/m/salmon"))
    tree = node("root", node("/m/animal", fish), node("/m/seafood", fish))
    hierarchy = read_hierarchy(written(tmp_path, tree), MIDS)
    _, labels = hierarchy.upwards([SALMON])
    assert labels.tolist() == [SALMON, ANIMAL, FISH, SEAFOOD]


@given(parents=st.lists(st.integers(0, 8), min_size=9, max_size=9), labels=st.lists(st.integers(0, 9), max_size=12))
def test_upwards_and_downwards_are_each_others_inverse(parents, labels):
    is_ancestor = np.zeros((10, 10), dtype=bool)
    for label, parent in enumerate(parents, start=1):  # parents come before their children
        is_ancestor[label] = is_ancestor[parent % label]
        is_ancestor[label, parent % label] = True
    hierarchy = ClassHierarchy(is_ancestor)
    rows, up = hierarchy.upwards(labels)
    assert {(labels[row], label) for row, label in zip(rows, up, strict=True)} == {
        (labels[row], label) for row, label in enumerate(labels)
    } | {(label, above) for label in labels for above in ancestors(hierarchy, label)}
    for label in labels:
        _, down = hierarchy.downwards([label])
        assert all(label in hierarchy.upwards([below])[1] for below in down)
        assert len(down) == 1 + is_ancestor[:, label].sum()


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ("{", "not a valid JSON file"),
        ("[" * 100_000, "not a valid JSON file"),
        ([], "Subcategory must be a list"),
        (node("root", node("/m/unicorn")), "LabelName '/m/unicorn' is not one of the 6 categories"),
        (node("root", {"Name": "/m/dog"}), "every Subcategory must be an object with a LabelName"),
        (node("root", "dog"), "every Subcategory must be an object with a LabelName"),
        ({"LabelName": "root", "Subcategory": {"LabelName": "/m/dog"}}, "Subcategory must be a list"),
        (
            node("root", node("/m/dog", node("/m/fish", node("/m/dog")))),
            "LabelName '/m/dog' is a subcategory of itself",
        ),
    ],
)
def test_a_broken_hierarchy_is_refused_in_one_line_that_names_the_file(tmp_path, tree, message):
    with pytest.raises(ValueError, match=message) as error:
        read_hierarchy(written(tmp_path, tree), MIDS)
    assert "hierarchy.json: " in str(error.value)
    assert "\n" not in str(error.value)


def test_two_categories_that_are_each_others_ancestors_are_refused(tmp_path):
    tree = node("root", node("/m/dog", node("/m/fish")), node("/m/fish", node("/m/dog")))
    with pytest.raises(ValueError, match="is a subcategory of itself"):
        read_hierarchy(written(tmp_path, tree), MIDS)


def test_a_missing_hierarchy_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.json: no such file; expected the class hierarchy"):
        read_hierarchy(tmp_path / "none.json", MIDS)
