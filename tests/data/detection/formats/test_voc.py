from pathlib import Path

import pytest
from PIL import Image

from equigrad.data.detection.checks import check_detection
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.detection.formats.voc import convert_voc, is_voc
from hostile_files import refusal


def voc_object(name="dog", box=(2, 3, 5, 8), difficult=0):
    tags = "".join(f"<{tag}>{value}</{tag}>" for tag, value in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True))
    return f"\n<object>\n<name>{name}</name><difficult>{difficult}</difficult>\n<bndbox>{tags}</bndbox></object>"


def write_voc(folder, documents):
    """`Annotations/<stem>.xml` with the objects, and the images they are of, 12 wide and 8 high."""
    (folder / "Annotations").mkdir(parents=True)
    (folder / "JPEGImages").mkdir()
    for stem, objects in documents.items():
        text = (
            f"<annotation><filename>{stem}.jpg</filename><size><width>0</width></size>{''.join(objects)}</annotation>"
        )
        (folder / "Annotations" / f"{stem}.xml").write_text(text)
        Image.new("RGB", (12, 8)).save(folder / "JPEGImages" / f"{stem}.jpg")
    return folder


@pytest.fixture
def folder(tmp_path):
    objects = [voc_object(), voc_object("cat", (1, 1, 12, 8), difficult=1)]
    return write_voc(tmp_path / "voc", {"a": objects, "b": []})


def test_boxes_become_coco_boxes(folder, tmp_path):
    data = read_coco(convert_voc(folder, tmp_path / "out" / "a.json"))
    assert data.categories.names == ("cat", "dog")
    assert data.file_names == ("JPEGImages/a.jpg", "JPEGImages/b.jpg")
    assert (data.heights.tolist(), data.widths.tolist()) == ([8, 8], [12, 12])  # of the images, not of <size>
    assert data.boxes.tolist() == [[1, 2, 5, 8], [0, 0, 12, 8]]  # pixels 2..5 and 3..8, counted from 1
    assert data.labels.tolist() == [1, 0]
    assert data.is_crowd.tolist() == [False, True]  # difficult
    assert data.areas.tolist() == [24, 96]


def test_converted_data_passes_the_checks_with_its_images(folder, tmp_path):
    findings = check_detection(convert_voc(folder, tmp_path / "a.json"), folder)
    assert {finding.severity for finding in findings} <= {"note"}


def test_a_split_takes_the_listed_images(folder, tmp_path):
    (folder / "ImageSets" / "Main").mkdir(parents=True)
    (folder / "ImageSets" / "Main" / "train.txt").write_text("b\n\n")
    data = read_coco(convert_voc(folder, tmp_path / "a.json", ["dog"], split="train"))
    assert data.file_names == ("JPEGImages/b.jpg",)
    with pytest.raises(FileNotFoundError, match=r"Main/val.txt: no such list"):
        convert_voc(folder, tmp_path / "a.json", split="val")
    with pytest.raises(ValueError, match="split: expected a path inside"):
        convert_voc(folder, tmp_path / "a.json", split="../val")


def test_given_names_keep_their_order(folder, tmp_path):
    assert read_coco(convert_voc(folder, tmp_path / "a.json", ["eel", "dog", "cat"])).labels.tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"a.xml:\d+: name: expected one of the 1 categories, got 'dog'"):
        convert_voc(folder, tmp_path / "a.json", ["cat"])


BOMB = '<?xml version="1.0"?>\n<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;&b;">]>\n<annotation>&c;</annotation>'
HEAD = "<annotation>\n<filename>a.jpg</filename>\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, r"a.xml:2: document types .<!DOCTYPE>. are not accepted"),
        ("<annotation>\n<filename>", r"a.xml:2: not XML \(no element found\)"),
        ("", r"a.xml:1: not XML"),
        ("<a>" * 1000, r"a.xml:1: nested too deeply"),
        ("<annotation></annotation>", r"a.xml:1: annotation: expected a filename"),
        (HEAD + "<object><name>x</name></object></annotation>", r"a.xml:3: object: expected a bndbox"),
        (HEAD + "<object>\n</object></annotation>", r"a.xml:3: object: expected a name"),
        (HEAD + voc_object(box=("2", "x", "3", "4")) + "</annotation>", r"a.xml:6: ymin: expected a number, got 'x'"),
        (HEAD + voc_object(box=("2", "nan", "3", "4")) + "</annotation>", r"a.xml:6: ymin: expected a number"),
        (HEAD + voc_object(box=(9, 1, 3, 4)) + "</annotation>", r"a.xml:6: bndbox: expected xmin <= xmax"),
        (HEAD.replace("a.jpg", "../../a.jpg") + "</annotation>", r"a.xml: filename: expected a path inside the folder"),
    ],
)
def test_a_wrong_file_is_named_with_its_line(folder, tmp_path, text, message):
    (folder / "Annotations" / "a.xml").write_text(text)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        convert_voc(folder, tmp_path / "a.json")
    assert not (tmp_path / "a.json").exists()


@pytest.mark.parametrize("name", ["a", "old.jpg", r"C:\Users\me\a.jpg", "/home/me/a.jpg"])
@pytest.mark.parametrize("folders", [("Annotations", "JPEGImages"), ("annotations", "images")])
def test_an_image_is_found_by_the_name_of_its_xml_file_where_the_one_in_it_is_wrong(folder, tmp_path, name, folders):
    expected = read_coco(convert_voc(folder, tmp_path / "a.json"))
    file = folder / "Annotations" / "a.xml"
    file.write_text(file.read_text().replace("<filename>a.jpg", f"<filename>{name}"))
    for old, new in zip(("Annotations", "JPEGImages"), folders, strict=True):
        (folder / old).rename(folder / new)
    assert is_voc(folder)
    found = read_coco(convert_voc(folder, tmp_path / "b.json"))
    assert [Path(path).name for path in found.file_names] == [Path(path).name for path in expected.file_names]
    (folder / folders[1] / "a.jpg").unlink()
    with pytest.raises(FileNotFoundError, match=r"no such image, but .*a.xml names it"):
        convert_voc(folder, tmp_path / "b.json")


def test_an_image_that_cannot_be_read_is_named(folder, tmp_path):
    (folder / "JPEGImages" / "b.jpg").write_bytes(b"no")
    with pytest.raises(OSError, match=r"b.jpg: cannot read the image"):
        convert_voc(folder, tmp_path / "a.json")


def test_a_folder_without_annotations_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"expected annotations \(\*.xml\), found none"):
        convert_voc(tmp_path, tmp_path / "a.json")


def test_lists_of_splits_stay_in_the_folder(folder, tmp_path):
    (folder / "ImageSets" / "Main").mkdir(parents=True)
    (folder / "ImageSets" / "Main" / "train.txt").write_text("a\n../../secret\n")
    with pytest.raises(
        ValueError, match=r"train\.txt: expected a path inside the folder of images, got '\.\./\.\./secret'"
    ):
        convert_voc(folder, tmp_path / "a.json", split="train")


@pytest.mark.parametrize("link", ["JPEGImages/a.jpg", "Annotations/a.xml"])
def test_a_link_out_of_the_folder_is_not_followed_where_that_is_forbidden(folder, tmp_path, link, monkeypatch):
    monkeypatch.setenv("EQUIGRAD_FOLLOW_LINKS", "0")
    (folder / link).rename(tmp_path / "secret")
    (folder / link).symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match=f"{link}: leaves"):
        convert_voc(folder, tmp_path / "a.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<annotation>" + "<object>" * 1_000_000, "nested too deeply"),
        ("<annotation>" + "x\n" * 9_000_000, "expected at most 16,777,216 bytes"),
        ("<annotation><filename>" + "x\n" * 6_000_000, "not XML"),
        ('<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><annotation>&b;</annotation>', "are not accepted"),
    ],
    ids=["depth", "length", "text", "entities"],
)
def test_a_hostile_annotation_is_refused(folder, tmp_path, text, message):
    (folder / "Annotations" / "a.xml").write_text(text)
    refused = refusal(convert_voc, folder, tmp_path / "a.json")
    assert refused.startswith(str(folder / "Annotations" / "a.xml"))
    assert message in refused


def test_names_beside_the_annotations_or_in_a_file_keep_their_order(folder, tmp_path):
    (folder / "classes.txt").write_text("eel\ndog\ncat\n")
    assert read_coco(convert_voc(folder, tmp_path / "a.json")).categories.names == ("eel", "dog", "cat")
    (tmp_path / "names.txt").write_text("dog\ncat\n")
    assert read_coco(convert_voc(folder, tmp_path / "a.json", tmp_path / "names.txt")).labels.tolist() == [0, 1]
