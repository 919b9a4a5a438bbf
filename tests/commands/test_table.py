import csv

import pytest

from commands.running_commands import equigrad

SHORT = (
    *("training.schedule.steps=2", "training.schedule.warmup.length=1", "training.batch_size=4"),
    *("data.test_count=1",),
)
FEW_IMAGES = ("data.num_classes=5", "data.max_count=12", "data.imbalance_factor=6")
FEW_OBJECTS = ("data.num_classes=4", "data.max_count=6")
FEW_SCENES = ("data.num_glyphs=3", "data.max_count=6")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with a table of two rows, one of which starts from the other, and one that only reads its weights."""
    folder = tmp_path_factory.mktemp("table")
    rows = "CE,cRT,Logit Adjustment (post-hoc)"
    words = ("table", "imagenet_lt", "--rows", rows, "--seeds", "2", "--jobs", "1")
    done = equigrad(*words, settings=(*SHORT, *FEW_IMAGES), folder=folder)
    assert done.code == 0, done.err
    return folder, words, done


def test_a_table_has_published_numbers_beside_ours_for_every_variant(finished):
    folder, _, done = finished
    text = (folder / "runs/tables/mini/imagenet_lt.md").read_text()
    assert "**ResNet-50**" in text
    assert "**ResNeXt-50**" in text
    assert "| CE | 2 | 41.8 / " in text
    assert "rank agreement (tau)" in text
    assert "`equigrad table imagenet_lt --" in text  # the command that made it
    assert "[6/6]" in done.out


def test_rows_that_differ_in_the_backbone_alone_share_their_runs(finished):
    folder, _, done = finished
    assert "6 runs, 0 of them are there" in done.out  # three rows with two seeds, for two backbones
    with (folder / "runs/tables/mini/imagenet_lt.csv").open() as stream:
        records = list(csv.DictReader(stream))
    assert len(records) == 12
    assert len({record["run"] for record in records}) == 3


def test_the_csv_and_the_markdown_agree(finished):
    folder, _, _ = finished
    with (folder / "runs/tables/mini/imagenet_lt.csv").open() as stream:
        records = [record for record in csv.DictReader(stream) if record["variant"] == "ResNet-50"]
    ours = [float(record["ours_Overall"]) for record in records if record["row"] == "CE"]
    text = (folder / "runs/tables/mini/imagenet_lt.md").read_text()
    assert f"| CE | 2 | 41.8 / {sum(ours) / 2:.1f} ± " in text


def test_the_page_makes_no_requests_and_has_the_rows(finished):
    page = (finished[0] / "runs/tables/mini/imagenet_lt.html").read_text()
    assert "default-src 'none'" in page
    assert "Logit Adjustment (post-hoc)" in page


def test_a_finished_table_is_not_trained_again(finished):
    folder, words, _ = finished
    done = equigrad(*words, settings=(*SHORT, *FEW_IMAGES), folder=folder)
    assert done.code == 0
    assert "6 runs, 6 of them are there" in done.out
    assert "[" not in done.out.splitlines()[1]


def test_what_is_there_can_be_collated_without_training(finished):
    folder, _, _ = finished
    words = ("table", "imagenet_lt", "--rows", "CE,BCE", "--collate", "--output", "collated")
    done = equigrad(*words, settings=(*SHORT, *FEW_IMAGES), folder=folder)
    assert done.code == 0, done.err
    assert "39.6 / –" in done.out  # BCE was not trained


def test_labels_with_a_comma_are_rows_like_others(tmp_path):
    words = ("table", "mapping_func", "--rows", "sqrt, neg pos,linear, neg", "--dry-run")
    done = equigrad(*words, folder=tmp_path)
    assert done.code == 0, done.err
    assert "mapping_func, mini: 2 runs" in done.out


def test_results_of_tables_written_elsewhere_are_not_trained_again(finished, tmp_path):
    folder, _, _ = finished
    elsewhere = folder / "runs/tables/mini"
    words = ("table", "imagenet_lt", "--rows", "CE,BCE", "--seeds", "2", "--merge", str(elsewhere), "--jobs", "1")
    done = equigrad(*words, settings=(*SHORT, *FEW_IMAGES), folder=tmp_path)
    assert done.code == 0, done.err
    assert f"2 runs, 0 of them are there; 2 more are in {elsewhere}" in done.out  # BCE is trained, CE is not
    with (elsewhere / "imagenet_lt.csv").open() as stream:
        written = {(line["row"], line["seed"]): line["ours_Overall"] for line in csv.DictReader(stream)}
    with (tmp_path / "runs/tables/mini/imagenet_lt.csv").open() as stream:
        merged = {(line["row"], line["seed"]): line["ours_Overall"] for line in csv.DictReader(stream)}
    assert merged["CE", "1"] == written["CE", "1"]
    assert ("BCE", "1") in merged


@pytest.mark.parametrize(
    ("name", "rows", "data"),
    [
        ("component_analysis", "obj neg pos", FEW_OBJECTS),
        ("s_effect", "s=8", FEW_OBJECTS),
        ("yolox_results", "EQFL", FEW_OBJECTS),
        ("ade20k_lt_results", "Softmax-EQL", FEW_SCENES),
    ],
)
def test_a_row_of_each_task_trains(name, rows, data, tmp_path):
    done = equigrad("table", name, "--rows", rows, "--jobs", "1", settings=(*SHORT, *data), folder=tmp_path)
    assert done.code == 0, done.err
    assert (tmp_path / f"runs/tables/mini/{name}.md").is_file()


def test_without_a_name_all_tables_are_listed_with_what_is_there(tmp_path):
    done = equigrad("table", folder=tmp_path)
    assert done.code == 0
    assert done.out.count("\n") == 22  # 19 tables
    assert "oid_results" in done.out


def test_full_scale_says_what_it_needs_and_refuses_to_start_without_it(tmp_path):
    done = equigrad("table", "s_effect", "--scale", "full", "--dry-run", folder=tmp_path)
    assert done.code == 0
    assert "data.train: lvis/lvis_v1_train.json  (missing; name yours with --set data.train=PATH)" in done.out
    assert "GPU hours by arithmetic" in done.out
    done = equigrad("table", "s_effect", "--scale", "full", folder=tmp_path)
    assert done.code == 1
    assert done.err.count("\n") == 1
    assert "coco: no such file or folder" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("s_efect",), "did you mean s_effect"),
        (("s_effect", "--rows", "s=9"), "--rows s=9: no such row; the table has s=0; s=1; "),
        (("imagenet_lt", "--rows", "Sofmax-EQL"), "did you mean Softmax-EQL"),
        (("mapping_func", "--rows", "linear, neg,sqr"), "--rows sqr: no such row; the table has "),
        (("s_effect", "--set", "training.epochs=3"), "training.epochs"),
        (("s_effect", "--merge", "elsewhere"), "--merge elsewhere: no such folder"),
        (("s_effect", "--merge", "."), "--merge .: it has no s_effect.csv"),
    ],
)
def test_wrong_words_are_one_line(words, message, tmp_path):
    done = equigrad("table", *words, folder=tmp_path)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert message in done.err


def test_a_row_that_fails_does_not_stop_the_others(tmp_path):
    words = ("table", "imagenet_lt", "--rows", "CE,cRT,BCE", "--jobs", "1")
    settings = (*SHORT, *FEW_IMAGES, "training.max_grad_norm=1")
    runs = tmp_path / "runs/tables/mini/runs"
    first = equigrad(*words, "--dry-run", settings=settings, folder=tmp_path)
    assert first.code == 0
    runs.mkdir(parents=True)
    # A file where the folder of a run should be.
    done = equigrad(*words, "--collate", settings=settings, folder=tmp_path)
    name = next(line["run"] for line in csv.DictReader((tmp_path / "runs/tables/mini/imagenet_lt.csv").open()))
    (runs / f"{name}_0").write_text("")
    done = equigrad(*words, settings=settings, folder=tmp_path)
    assert done.code == 1
    assert "1 of 3 runs failed" in done.err  # cRT, which starts from it, is not tried
    assert "39.6 / –" not in done.out  # BCE was trained
