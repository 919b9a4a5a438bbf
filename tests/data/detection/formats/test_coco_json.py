import json
import math

import numpy as np
import pytest

from detection_on_disk import SQUARE, annotation, coco, image, with_text_ids, write_json
from equigrad.data.detection.formats.coco_json import read_coco, write_coco
from shared_data import shared_folder


@pytest.fixture
def read(tmp_path):
    return lambda content: read_coco(write_json(tmp_path / "a.json", content))


def test_annotations_become_columns_sorted_by_image(read):
    records = [annotation(9, 2, box=(1, 2, 3.5, 4)), annotation(3, 1, 7, iscrowd=1), annotation(2, 2, 7)]
    data = read(coco([image(1), image(2)], records))
    assert data.ids.tolist() == [3, 9, 2]  # in the order of the file within an image
    assert data.offsets.tolist() == [0, 1, 3]
    assert data.boxes[1].tolist() == [1, 2, 4.5, 6]
    assert data.boxes.dtype == np.float32
    assert data.xywh[1].tolist() == [1, 2, 3.5, 4]
    assert data.labels.tolist() == [1, 0, 1]  # categories by ascending id, wherever they stand in the file
    assert data.categories.names == ("cat", "dog")
    assert data.categories.ids.tolist() == [1, 7]
    assert data.is_crowd.tolist() == [True, False, False]
    assert (data.heights.tolist(), data.widths.tolist()) == ([8, 8], [12, 12])
    assert data.segmentations is None
    assert data.negative is None


def test_an_annotation_without_area_gets_that_of_its_box(read):
    record = annotation(1, box=(0, 0, 2, 5))
    del record["area"]
    assert read(coco(annotations=[record])).areas.tolist() == [10]


def test_the_order_of_the_sections_and_white_space_do_not_matter(tmp_path):
    content = coco()
    spread = {"info": {"text": '}, {"x": [1'}, **{name: content[name] for name in reversed(content)}}
    plain = read_coco(write_json(tmp_path / "a.json", content))
    pretty = read_coco(write_json(tmp_path / "b.json", json.dumps(spread, indent=3)))
    for index in range(3):
        assert pretty.ids[index] == plain.ids[index]
        assert pretty.rle(index) == plain.rle(index)


def test_federated_fields_of_lvis_are_read(read):
    images = [
        image(1, neg_category_ids=[7, 1], not_exhaustive_category_ids=[]),
        image(2, neg_category_ids=[], not_exhaustive_category_ids=[7]),
    ]
    categories = [{"id": 1, "name": "cat", "frequency": "r"}, {"id": 7, "name": "dog", "frequency": "f"}]
    data = read(coco(images, [], categories))
    assert [data.negative[index].tolist() for index in (0, 1)] == [[1, 0], []]
    assert [data.not_exhaustive[index].tolist() for index in (0, 1)] == [[], [1]]
    assert data.categories.frequency == ("r", "f")
    assert {name: members.tolist() for name, members in data.groups.items()} == {
        "rare": [0],
        "common": [],
        "frequent": [1],
    }


def test_a_file_of_test_images_needs_no_annotations(read):
    content = coco()
    del content["annotations"]
    data = read(content)
    assert (len(data), data.num_annotations) == (2, 0)
    assert data.is_empty.all()


URL = "http://images.cocodataset.org/train2017/000000000009.jpg"


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"coco_url": URL}, "train2017/000000000009.jpg"),  # LVIS v1
        ({"file_name": "COCO_train2014_000000000009.jpg", "coco_url": URL}, "train2017/000000000009.jpg"),  # v0.5
        ({"file_name": "000000000009.jpg", "coco_url": URL}, "train2017/000000000009.jpg"),  # COCO
        ({"file_name": "mine/9.jpg", "coco_url": "http://host/9.jpg"}, "mine/9.jpg"),
        ({"file_name": "9.jpg", "coco_url": ""}, "9.jpg"),
        ({"file_name": "12:30 a..b.jpg"}, "12:30 a..b.jpg"),
    ],
)
def test_the_path_of_an_image_is_that_of_its_benchmark(read, fields, path):
    record = {"id": 1, "height": 8, "width": 12, **fields}
    assert read(coco([record], [])).file_names == (path,)


@pytest.mark.parametrize("path", ["/data/b/a.jpg", "C:\\data\\b\\a.jpg", "\\\\data\\b\\a.jpg"])
def test_a_path_from_the_root_of_a_machine_stays_below_the_folder_of_images(read, path):
    record = {"id": 31, "height": 8, "width": 12, "file_name": path}
    assert read(coco([record], [])).file_names == ("data/b/a.jpg",)


def test_a_file_that_begins_with_a_byte_order_mark_is_read(read, tmp_path):
    file = write_json(tmp_path / "a.json", coco())
    expected = read_coco(file).boxes
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert read_coco(file).boxes.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "path", ["../a.jpg", "/etc/../a.jpg", "a/../../b.jpg", "C:\\..\\a.jpg", "c:a.jpg", "a\\..\\b", "a\0b"]
)
@pytest.mark.parametrize("field", ["file_name", "coco_url"])
def test_a_path_that_leaves_the_folder_of_images_is_refused(read, field, path):
    record = {"id": 31, "height": 8, "width": 12, field: path if field == "file_name" else f"http://host/{path}"}
    with pytest.raises(ValueError, match=rf"a.json: image 31: {field}: expected a path inside the folder"):
        read(coco([record], []))


LISTS = {"neg_category_ids": [7], "not_exhaustive_category_ids": []}


def same_but_ids(one, other):
    for name in ("boxes", "labels", "offsets", "areas", "is_crowd", "heights", "widths"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert one.categories.names == other.categories.names
    assert one.negative.values.tolist() == other.negative.values.tolist()


def test_ids_may_be_texts_and_are_kept_as_they_are(read):
    content = coco([image(1, **LISTS), image(2, **LISTS)])
    plain, found = read(content), read(with_text_ids(content))
    same_but_ids(found, plain)
    assert found.mask(0).sum() == 16
    assert found.image_ids.tolist() == ["image-001", "image-002"]
    assert found.categories.ids.tolist() == ["kind-001", "kind-007"]
    assert found.ids.tolist() == [1, 2, 3]
    assert found.subset([1]).image_ids.tolist() == ["image-002"]


def test_whole_numbers_may_be_written_as_floats_and_in_references_as_texts(read):
    content = coco([image(1, **LISTS), image(2, **LISTS)])
    odd = json.loads(json.dumps(content))
    for record in (*odd["images"], *odd["annotations"], *odd["categories"]):
        record["id"] = float(record["id"])
    odd["images"][0]["neg_category_ids"] = ["7"]
    odd["annotations"][0]["image_id"], odd["annotations"][1]["category_id"] = "1", "7"
    plain, found = read(content), read(odd)
    same_but_ids(found, plain)
    for one, other in ((found, plain), (found.categories, plain.categories)):
        assert one.ids.tolist() == other.ids.tolist()
    assert found.image_ids.dtype == plain.image_ids.dtype == np.int64


@pytest.mark.parametrize("missing", [["height"], ["height", "width"]])
def test_an_image_without_size_is_read_and_only_what_needs_it_is_refused(read, missing):
    record = {key: value for key, value in image(2).items() if key not in missing}
    data = read(coco([image(1), {**record, "width": None}], [annotation(5, segmentation=SQUARE)]))
    assert (data.heights.tolist(), data.widths.tolist(), data.has_sizes) == ([8, 0], [12, 0], False)
    assert data.category_counts.tolist() == [1, 0]
    for use in (lambda: data.has_area, lambda: data.mask(0)):
        with pytest.raises(
            ValueError, match=r"image 2: height and width are missing; `equigrad data convert coco .*a.json"
        ):
            use()


def test_a_test_set_whose_ids_are_written_in_another_way_has_the_categories_of_training(read):
    train = read(coco())
    content = coco(categories=[{"id": "7", "name": "dog"}, {"id": "1", "name": "cat"}])
    test = read(content)
    assert test.categories.ids.tolist() == ["1", "7"]
    assert test.in_categories_of(train).categories.ids.tolist() == [1, 7]
    assert test.in_categories_of(train).labels.tolist() == train.labels.tolist()
    content["categories"][0]["name"] = "fox"
    with pytest.raises(ValueError, match="id 7 is 'fox' here and 'dog' there"):
        read(content).in_categories_of(train)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({**annotation(5), "bbox": "1,2,3,4"}, r"annotation 5: bbox: expected array, got str, and bbox is '1,2,3,4'"),
        ({**annotation(5), "bbox": [1, 2, 3]}, "annotation 5: bbox: expected array of length 4"),
        (
            {**annotation(5), "bbox": [1, 2, 3, math.nan]},
            r"annotation 5: bbox\[3\]: expected float, got a number that is not finite, .* \[1, 2, 3, nan\]",
        ),
        ({**annotation(5), "bbox": [1, 2, -math.inf, 3]}, r"annotation 5: bbox\[2\]: .* bbox is \[1, 2, -inf, 3\]"),
        ({**annotation(5), "area": math.inf}, "annotation 5: area: .* area is inf"),
        ({**annotation(5), "id": -3}, "annotation -3: id: expected int >= 0"),
        ({**annotation(5), "id": 10**30}, "annotation 1000000.*: id: "),
        ({**annotation(5), "id": 1.5}, "annotation number 1: id: expected a whole number from 0 or a text, got 1.5"),
        ({**annotation(5), "image_id": None}, "annotation 5: image_id: expected a whole number .* or a text, got null"),
        ({**annotation(5), "image_id": "01"}, "annotation 5: image_id: there is no image with id '01'"),
        ({**annotation(5), "category_id": 1.5}, "annotation 5: category_id: there is no category with id 1.5"),
        ({**annotation(5), "category_id": math.nan}, "annotation 5: category_id: there is no category with id nan"),
        ({**annotation(5), "iscrowd": 2}, "annotation 5: iscrowd: invalid enum value 2"),
        ({"id": 5}, "annotation 5: object missing required field image_id"),
        (3, "annotation number 1: expected object, got int"),
        (annotation(5, image_id=77), "annotation 5: image_id: there is no image with id 77"),
        (annotation(5, category_id=2), "annotation 5: category_id: there is no category with id 2"),
    ],
)
def test_a_wrong_annotation_is_named_with_its_field(read, record, message):
    with pytest.raises(ValueError, match=f"a.json: {message}") as raised:
        read(coco(annotations=[record]))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (coco([image(1), image(1)]), "image 1: id: used 2 times"),
        (coco(annotations=[annotation(4), annotation(4)]), "annotation 4: id: used 2 times"),
        (coco(categories=[{"id": 1, "name": "a"}] * 3), "category 1: id: used 3 times"),
        (coco([image("a"), image("a")]), "image a: id: used 2 times"),
        (coco(annotations=[annotation("b"), annotation("b")]), "annotation b: id: used 2 times"),
        (coco([image(1), image("a")]), "image number 2: id: expected a whole number, as the first has, got 'a'"),
        (coco([image("")]), "image number 1: id: expected a whole number from 0 or a text, got ''"),
        (coco([image(math.nan)]), r"image number 1: id: expected a whole number from 0 or a text, got '.x7f'"),
        (coco(categories=[]), "categories: expected one or more, got none"),
        (coco([image(1, height="8")]), "image 1: height: expected int, got str"),
        (coco([image(1, width=0)]), "image 1: width: expected int >= 1"),
        (coco([image(1, width=10**5, height=10**5)]), "image 1: height, width: expected up to 178956970 pixels"),
        (
            coco([{"id": 1, "height": 8, "width": 12}]),
            "image 1: file_name: expected a path here or in coco_url",
        ),
        (
            coco([image(1, neg_category_ids=[4]), image(2, neg_category_ids=[1])]),
            "image 1: neg_category_ids: there is no category with id 4",
        ),
        (
            coco([image(1, neg_category_ids=[1]), image(2)]),
            "image 2: neg_category_ids: expected a list, as other images have",
        ),
        (
            coco(categories=[{"id": 1, "name": "a"}, {"id": 7, "name": "b", "frequency": "c"}]),
            "category 1: frequency: expected r, c or f",
        ),
        (coco(categories=[{"id": 1, "name": "a", "frequency": "x"}]), "category 1: frequency: "),
        ([], "expected an object with the lists images, annotations and categories: expected object, got array"),
        ({"images": [], "annotations": []}, "expected an object .*: object missing required field categories"),
        ({**coco(), "images": {}}, "expected an object .*: images: expected array, got object"),
        ("", "the annotation file is empty"),
        ('{"images": [], "categories": [{"id": 1', "not a complete JSON file, it ends at byte 38"),
        ('{"images": [], "categories": [}', r"not a JSON file, malformed: invalid character \(byte 30\)"),
        ('{"images": NaN, "categories": []}', "expected an object .*: images: expected array, got str"),
        ('{"images": [], "categories": ' + "[" * 100_000, "nested too deeply"),
        ('{"images": [], "annotations": [{"a": ' + "[" * 100_000, "nested too deeply"),
        ("PK\3\4 not json", "not a JSON file"),
    ],
)
def test_a_file_that_cannot_be_used_gets_one_clear_line(read, content, message):
    with pytest.raises(ValueError, match=f"a.json: {message}") as raised:
        read(content)
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none.json: no such annotation file"):
        read_coco(tmp_path / "none.json")


def test_a_category_called_nan_is_a_name_and_not_a_number(read):
    content = coco(categories=[{"id": 1, "name": 'NaN "Infinity"'}, {"id": 7, "name": "b"}])
    content["info"] = {"score": math.nan}
    data = read(content)
    assert data.categories.names == ('NaN "Infinity"', "b")
    assert data.rle(0)["size"] == [8, 12]  # masks still stand where they were read


def test_written_records_are_read_again(tmp_path):
    records = [annotation(5, segmentation=SQUARE)]
    file = write_coco(tmp_path / "new" / "a.json", [image(1, file_name="é.png")], records, [{"id": 1, "name": "cat"}])
    data = read_coco(file)
    assert data.file_names == ("é.png",)
    assert data.mask(0).sum() == 16
    assert [path.name for path in file.parent.iterdir()] == ["a.json"]


@pytest.mark.shared_data
@pytest.mark.parametrize(
    "parts",
    [
        ("coco228", "instances_train128.json"),
        ("coco228", "instances_val100.json"),
        ("lvis_val_100", "lvis_val_100.json"),
        ("plantdoc", "instances_train.json"),
    ],
)
def test_real_files_hold_what_the_json_says(parts):
    file = shared_folder(*parts)
    content = json.loads(file.read_text())
    data = read_coco(file)
    records = {record["id"]: record for record in content["annotations"]}
    assert sorted(data.ids) == sorted(records)
    for row, (id_, image_index) in enumerate(zip(data.ids, data.image_indices, strict=True)):
        record = records[id_]
        assert data.image_ids[image_index] == record["image_id"]
        assert data.categories.ids[data.labels[row]] == record["category_id"]
        assert data.xywh[row].tolist() == record["bbox"]
        assert (data.areas[row], data.is_crowd[row]) == (record["area"], record.get("iscrowd", 0))
    for index, record in enumerate(content["images"]):
        assert (data.heights[index], data.widths[index]) == (record["height"], record["width"])
        if data.negative is not None:
            assert data.categories.ids[data.negative[index]].tolist() == record["neg_category_ids"]
            assert data.categories.ids[data.not_exhaustive[index]].tolist() == record["not_exhaustive_category_ids"]


@pytest.mark.shared_data
def test_counts_of_lvis_are_those_of_its_file():
    file = shared_folder("lvis_val_100", "lvis_val_100.json")
    data = read_coco(file)
    records = sorted(json.loads(file.read_text())["categories"], key=lambda record: record["id"])
    assert data.category_counts.tolist() == [record["image_count"] for record in records]
    assert data.instance_counts.tolist() == [record["instance_count"] for record in records]
    assert {name: len(members) for name, members in data.groups.items()} == {
        "rare": 454,
        "common": 461,
        "frequent": 315,
    }
