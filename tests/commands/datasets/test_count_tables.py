import numpy as np
import pytest

from equigrad.commands.datasets.count_tables import CountRow, count_rows, count_text
from equigrad.evaluation.tables import write_table


@pytest.fixture
def counts():
    """Of three groups, and a category without images."""
    return np.array([5, 200, 0, 50])


NAMES = ("eel", "cat", "unicorn", "dog")


def test_rows_are_in_the_order_of_labels_with_their_groups(counts):
    assert count_rows(counts, NAMES) == [
        CountRow(0, "eel", 5, "few"),
        CountRow(1, "cat", 200, "many"),
        CountRow(2, "unicorn", 0, "few"),
        CountRow(3, "dog", 50, "medium"),
    ]


def test_the_csv_file_has_a_line_for_each_category(counts, tmp_path):
    file = write_table(count_rows(counts, NAMES), tmp_path / "counts.csv")
    assert file.read_text().splitlines() == [
        "label,name,count,group",
        *("0,eel,5,few", "1,cat,200,many", "2,unicorn,0,few", "3,dog,50,medium"),
    ]


def test_the_text_has_a_summary_groups_and_bars_from_head_to_tail(counts):
    summary, _, *groups, _, cat, dog, eel, unicorn = count_text("photos", counts, NAMES).splitlines()
    assert summary == (
        "photos: 255 images, 4 categories, 1 without images, from 200 to 5 images each, imbalance factor 40"
    )
    assert [line.split() for line in groups] == [
        ["group", "categories", "images", "share"],
        *(["many", "1", "200", "78.4%"], ["medium", "1", "50", "19.6%"], ["few", "2", "5", "2.0%"]),
    ]
    assert cat.split() == ["cat", "200", "█" * 40, "many"]
    assert dog.split() == ["dog", "50", "█" * 10, "medium"]
    assert eel.split() == ["eel", "5", "█", "few"]
    assert unicorn.split() == ["unicorn", "0", "few"]


def test_of_many_categories_twenty_are_shown_with_head_and_tail():
    counts = np.arange(1000, 0, -1)
    *bars, _, hidden = count_text("photos", counts, [str(label) for label in range(1000)]).splitlines()[-22:]
    assert hidden == "20 of 1,000 categories are shown; --all shows all, --csv FILE writes them"
    assert bars[0].split()[:2] == ["0", "1,000"]
    assert bars[-1].split()[:2] == ["999", "1"]
    shown = [int(bar.split()[1].replace(",", "")) for bar in bars]
    assert shown == sorted(shown, reverse=True)


def test_all_categories_are_shown_where_that_is_wanted():
    text = count_text("photos", np.arange(100, 0, -1), [str(label) for label in range(100)], show_all=True)
    assert len([line for line in text.splitlines() if "█" in line]) == 100
    assert "are shown" not in text


def test_a_long_name_is_cut():
    *_, bar = count_text("photos", np.array([3]), ["a" * 30]).splitlines()
    assert bar.split()[0] == "a" * 23 + "…"


def test_data_without_any_image_has_no_imbalance():
    summary, *_ = count_text("photos", np.array([0, 0]), ["cat", "dog"]).splitlines()
    assert summary == "photos: 0 images, 2 categories"
