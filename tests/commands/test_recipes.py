"""`equigrad recipes`; what `--check` does is in `tests/tasks/smoke_test`."""

from commands.running_commands import equigrad


def test_recipes_lists_what_can_be_trained_and_the_tables():
    listed = equigrad("recipes")
    assert listed.code == 0
    lines = {line.split()[0]: line for line in listed.out.splitlines() if ":" in line.split(" ")[0]}
    assert "inat (ResNet-50)" in lines["image_classification:inaturalist18_resnet50"]
    assert {"tiny:softmax_eql", "own_data:classification"} <= lines.keys()
    blocks = listed.out.splitlines()
    methods = blocks[next(row for row, line in enumerate(blocks) if "inaturalist18" in line and "(" not in line) - 1]
    assert "dive_softmax_eql" in methods
