import copy
import json
import math
from collections import Counter

import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image

from detection_on_disk import RUNS, SQUARE, annotation, coco, image, write_json, write_pictures
from equigrad.data.detection.checks import check_detection, check_test_set
from equigrad.data.detection.findings import SEVERITY_OF_KIND
from equigrad.data.detection.formats.coco_json import read_coco
from equigrad.data.findings import errors
from images_on_disk import zip_folder
from shared_data import shared_folder

FAULTS = {}


def fault(kind, count=1, base="coco"):
    """Register a function that puts one fault into the content of a real file."""

    def register(inject):
        FAULTS[f"{kind} ({inject.__name__})"] = (kind, count, base, inject)
        return inject

    return register


def first_polygon(content):
    return next(a for a in content["annotations"] if isinstance(a["segmentation"], list))


def first_crowd(content):
    return next(a for a in content["annotations"] if a["iscrowd"] == 1)


def empty_image(content):
    used = {record["image_id"] for record in content["annotations"]}
    return next(record for record in content["images"] if record["id"] not in used)


def empty_category(content):
    used = {record["category_id"] for record in content["annotations"]}
    listed = {id_ for record in content["images"] for id_ in record.get("neg_category_ids", [])}
    return next(record for record in content["categories"] if record["id"] not in used | listed)


def lone_image(content):
    """An image whose every annotation is of a category it does not list as not exhaustive."""
    return next(record for record in content["images"] if not record["not_exhaustive_category_ids"])


@fault("annotations of unknown categories")
def category_without_record(content):
    content["annotations"][3]["category_id"] = 9999


@fault("annotations of unknown images")
def image_without_record(content):
    content["annotations"][3]["image_id"] = 1


@fault("annotations with the same id")
def repeated_annotation_id(content):
    content["annotations"][3]["id"] = content["annotations"][4]["id"]


@fault("annotations with id 0")
def annotation_zero(content):
    content["annotations"][3]["id"] = 0


@fault("annotations with a missing or wrong field")
def negative_id(content):
    content["annotations"][3]["id"] = -4


@fault("annotations with a missing or wrong field")
def box_as_text(content):
    content["annotations"][3]["bbox"] = "1 2 3 4"


@fault("annotations with a missing or wrong field")
def box_of_three_numbers(content):
    del content["annotations"][3]["bbox"][0]


@fault("annotations with a missing or wrong field")
def box_with_text_inside(content):
    content["annotations"][3]["bbox"][1] = "7"


@fault("annotations with a missing or wrong field")
def no_box(content):
    del content["annotations"][3]["bbox"]


@fault("annotations with a missing or wrong field")
def half_a_crowd(content):
    content["annotations"][3]["iscrowd"] = 0.5


@fault("annotations with a missing or wrong field")
def area_as_text(content):
    content["annotations"][3]["area"] = "large"


@fault("boxes that are not finite or beyond any image", 2)
def not_a_number(content):
    content["annotations"][3]["bbox"][1] = math.nan
    content["annotations"][4]["bbox"][2] = math.inf


@fault("boxes with negative width or height")
def negative_width(content):
    content["annotations"][3]["bbox"][2] *= -1


@fault("boxes without area")
def flat_box(content):
    content["annotations"][3]["bbox"][3] = 0


@fault("boxes outside their image")
def box_elsewhere(content):
    content["annotations"][3]["bbox"][0] = 700


@fault("boxes that reach out of their image")
def box_too_far_left(content):
    content["annotations"][3]["bbox"][0] = -5


@fault("areas that are negative or not finite")
def negative_area(content):
    content["annotations"][3]["area"] = -1


@fault("areas larger than their box")
def area_of_another_scale(content):
    content["annotations"][3]["area"] = 1e6


@fault("annotations that repeat another")
def annotation_twice(content):
    content["annotations"].append({**content["annotations"][3], "id": 123456789})


@fault("annotations without mask where others have one", 2)
def no_masks(content):
    content["annotations"][3]["segmentation"] = []
    del content["annotations"][4]["segmentation"]


@fault("masks that are neither polygons nor run lengths")
def mask_as_text(content):
    first_polygon(content)["segmentation"] = "polygon"


@fault("masks that are neither polygons nor run lengths")
def flat_polygon(content):
    first_polygon(content)["segmentation"] = first_polygon(content)["segmentation"][0]


@fault("masks that are neither polygons nor run lengths")
def runs_without_counts(content):
    del first_crowd(content)["segmentation"]["counts"]


@fault("polygons with fewer than three corners")
def two_corners(content):
    first_polygon(content)["segmentation"][0] = [1, 2, 3, 4]


@fault("polygons with an odd number of coordinates")
def half_a_corner(content):
    first_polygon(content)["segmentation"][0].append(4.5)


@fault("polygons that are not finite or endless")
def polygon_not_a_number(content):
    first_polygon(content)["segmentation"][0][3] = math.nan


@fault("polygons that are not finite or endless")
def polygon_to_the_moon(content):
    first_polygon(content)["segmentation"][0][3] = 3e8


@fault("polygons that reach out of their image")
def polygon_too_far(content):
    first_polygon(content)["segmentation"][0][3] = 900


@fault("run lengths of another size than their image")
def runs_of_another_image(content):
    first_crowd(content)["segmentation"]["size"] = [480, 641]


@fault("run lengths that do not cover their image")
def runs_cut_off(content):
    shape = first_crowd(content)["segmentation"]
    shape["counts"] = shape["counts"][:-2]


@fault("crowds that are not run lengths")
def crowd_with_polygon(content):
    first_polygon(content)["iscrowd"] = 1


@fault("records that are not objects")
def annotation_as_number(content):
    content["annotations"].append(17)


@fault("images with the same id")
def image_twice(content):
    content["images"].append(copy.deepcopy(empty_image(content)))
    content["images"][-1].update(file_name="other.jpg")


@fault("images with the same file")
def file_twice(content):
    content["images"].append({**empty_image(content), "id": 777777})


@fault("images with a missing or wrong field")
def size_as_text(content):
    empty_image(content)["height"] = "480"


@fault("images with a missing or wrong field")
def negative_side(content):
    empty_image(content)["width"] = -480


@fault("images without height and width")
def no_width(content):
    del empty_image(content)["width"]


@fault("images of which some have numbers and some texts as ids")
def text_among_numbers(content):
    empty_image(content)["id"] = "a.jpg"


@fault("categories of which some have numbers and some texts as ids")
def category_text_among_numbers(content):
    empty_category(content)["id"] = "dog"


@fault("images with a missing or wrong field")
def as_large_as_a_planet(content):
    empty_image(content).update(height=10**6, width=10**6)


@fault("images with a missing or wrong field")
def nameless_image(content):
    record = empty_image(content)
    del record["file_name"], record["coco_url"]


@fault("image paths that leave the folder")
def path_upwards(content):
    empty_image(content)["file_name"] = "../../secret.jpg"


@fault("categories with the same id")
def category_twice(content):
    content["categories"].append({**content["categories"][0], "name": "another"})


@fault("categories with the same name")
def name_twice(content):
    content["categories"][0]["name"] = content["categories"][1]["name"]


@fault("categories with a missing or wrong field")
def nameless_category(content):
    content["categories"][0]["name"] = " "


@fault("no annotations")
def nothing_annotated(content):
    content["annotations"] = []


@fault("annotations of a category that the image lists as absent", base="lvis")
def absent_and_annotated(content):
    pairs = Counter((record["image_id"], record["category_id"]) for record in content["annotations"])
    image_id, category_id = next(pair for pair, count in pairs.items() if count == 1)
    owner = next(record for record in content["images"] if record["id"] == image_id)
    owner["not_exhaustive_category_ids"] = []
    owner["neg_category_ids"].append(category_id)


@fault("categories both absent and not exhaustive", base="lvis")
def absent_and_not_exhaustive(content):
    record = lone_image(content)
    record["not_exhaustive_category_ids"].append(record["neg_category_ids"][0])


@fault("unknown categories in neg_category_ids", base="lvis")
def absent_unknown(content):
    lone_image(content)["neg_category_ids"].append(5000)


@fault("unknown categories in not_exhaustive_category_ids", base="lvis")
def not_exhaustive_unknown(content):
    lone_image(content)["not_exhaustive_category_ids"].append(5000)


@fault("images without the federated lists that others have", base="lvis")
def no_lists(content):
    del lone_image(content)["neg_category_ids"]


@fault("categories with more images than their frequency allows", base="lvis")
def rare_with_many_images(content):
    next(c for c in content["categories"] if c["frequency"] == "r").update(image_count=11)


@fault("categories without the frequency that others have", base="lvis")
def no_letter(content):
    del empty_category(content)["frequency"]


@fault("categories with a missing or wrong field", base="lvis")
def unknown_letter(content):
    empty_category(content)["frequency"] = "x"


@pytest.fixture(scope="module")
def originals():
    files = {
        "coco": shared_folder("coco228", "instances_train128.json"),
        "lvis": shared_folder("lvis_val_100", "lvis_val_100.json"),
    }
    return {name: file.read_text() for name, file in files.items()}


def faults_of(file, images=None, **options):
    return [item for item in check_detection(file, images, **options) if item.severity != "note"]


@pytest.fixture(params=FAULTS)
def injected(request, originals, tmp_path):
    """The kind and count of a fault, and a file that has it."""
    kind, count, base, inject = FAULTS[request.param]
    content = json.loads(originals[base])
    inject(content)
    return kind, count, write_json(tmp_path / "a.json", content)


@pytest.mark.shared_data
def test_an_injected_fault_is_found_and_nothing_else(injected):
    kind, count, file = injected
    (finding,) = faults_of(file)
    assert (finding.kind, finding.count) == (kind, count)
    assert finding.severity == SEVERITY_OF_KIND[kind]
    assert finding.first
    assert "\n" not in str(finding)


@pytest.mark.shared_data
def test_what_the_reader_refuses_is_an_error_and_no_warning(injected):
    kind, _, file = injected
    try:
        read_coco(file)
    except ValueError:
        assert SEVERITY_OF_KIND[kind] == "error"


def test_the_injected_faults_are_of_many_kinds():
    assert len({kind for kind, *_ in FAULTS.values()}) >= 25


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("folder", "file", "images"),
    [
        ("coco228", "instances_train128.json", "images.zip"),
        ("coco228", "instances_val100.json", "images.zip"),
        ("plantdoc", "instances_train.json", "images.zip"),
        ("plantdoc", "instances_test.json", "images.zip"),
        ("lvis_val_100", "lvis_val_100.json", None),
    ],
)
def test_clean_files_have_no_faults(folder, file, images):
    folder = shared_folder(folder)
    findings = check_detection(folder / file, images and folder / images)
    assert not errors(findings)
    assert {finding.kind for finding in findings} <= {"categories without annotation", "images without annotation"}


@pytest.fixture
def small(tmp_path):
    """A clean file with its images, and a function that checks it."""
    content = coco([image(1), image(2)], [annotation(5, segmentation=SQUARE), annotation(6, 2, 7, segmentation=SQUARE)])
    write_pictures(tmp_path / "images", content)
    return write_json(tmp_path / "a.json", content), tmp_path / "images"


def test_clean_images_have_no_findings(small):
    file, images = small
    assert check_detection(file, images, decode=True) == []
    assert check_detection(file, zip_folder(images, images.parent / "images.zip")) == []


def test_a_missing_image_is_found(small):
    file, images = small
    (images / "2.png").unlink()
    (finding,) = check_detection(file, images)
    assert (finding.kind, finding.count, finding.first) == ("missing image files", 1, str(images / "2.png"))


def test_an_image_of_another_size_is_found(small):
    file, images = small
    Image.new("RGB", (8, 12)).save(images / "2.png")
    (finding,) = check_detection(file, images)
    assert finding.kind == "image files of another size than stated"
    assert finding.first.endswith("2.png: 12 x 8, stated are 8 x 12")


def test_a_file_that_is_no_image_is_found(small):
    file, images = small
    (images / "1.png").write_bytes(b"not an image")
    (finding,) = check_detection(file, images)
    assert finding.kind == "damaged image files"
    assert "1.png: cannot read the image" in finding.first


def test_a_truncated_image_is_found_by_decoding(small):
    file, images = small
    content = (images / "1.png").read_bytes()
    (images / "1.png").write_bytes(content[:-60])
    assert check_detection(file, images) == []
    (finding,) = check_detection(file, images, decode=True)
    assert finding.kind == "damaged image files"


@pytest.mark.parametrize("text", ["", "[]", '{"images": [', "[" * 10**5, "\xff", '{"images": 1, "categories": []}'])
def test_a_file_that_is_not_readable_is_one_finding(tmp_path, text):
    (finding,) = check_detection(write_json(tmp_path / "a.json", text))
    assert (finding.kind, finding.severity) == ("the file is not readable", "error")
    assert "a.json" in finding.first


def test_empty_lists_are_errors(tmp_path):
    findings = check_detection(write_json(tmp_path / "a.json", coco([], [], [])))
    assert {finding.kind for finding in findings} == {"no images", "no annotations", "no categories"}
    assert errors(findings)


def test_a_finding_reads_as_one_line(tmp_path):
    records = [annotation(index, category_id=3) for index in range(1, 1201)]
    findings = check_detection(write_json(tmp_path / "a.json", coco(annotations=records)))
    assert (
        str(findings[0]) == "error: annotations of unknown categories: 1,200, the first is annotation 1: category_id 3"
    )


broken = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["\ud800", "../x", 10**400, RUNS, SQUARE]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "counts", "size"]), inner),
    max_leaves=6,
)
FIELDS = {
    "images": "id height width file_name coco_url neg_category_ids not_exhaustive_category_ids",
    "annotations": "id image_id category_id bbox area iscrowd segmentation",
    "categories": "id name frequency image_count",
}
places = st.sampled_from([(section, name) for section, names in FIELDS.items() for name in (None, *names.split())])


@settings(max_examples=150)
@given(st.dictionaries(places, broken, min_size=1, max_size=4))
def test_nothing_in_a_file_makes_the_checks_fail_or_the_reader_pass_an_error(tmp_path_factory, changes):
    content = json.loads(json.dumps(coco()))
    for (section, name), value in changes.items():
        if name is None:
            content[section][0] = copy.deepcopy(value)
        elif isinstance(content[section][0], dict):
            content[section][0][name] = copy.deepcopy(value)
    folder = tmp_path_factory.mktemp("fuzz")
    findings = check_detection(write_json(folder / "a.json", content), folder)
    try:
        data = read_coco(folder / "a.json")
    except ValueError as error:
        assert "\n" not in str(error)  # noqa: PT017 - most contents are refused, some are harmless
        assert any(item.severity == "error" and item.kind != "missing image files" for item in findings)
    else:
        for index in range(data.num_annotations):
            try:
                data.mask(index)
            except ValueError as error:
                assert "segmentation" in str(error) or not data.has_sizes  # noqa: PT017


def test_a_field_whose_name_is_no_text_is_found(tmp_path):
    file = write_json(tmp_path / "a.json", coco(annotations=[annotation(1, segmentation={"X": 1})]))
    file.write_bytes(file.read_bytes().replace(b'"X"', b'"\xed\xa0\x80"'))
    assert "masks that are neither polygons nor run lengths" in {finding.kind for finding in check_detection(file)}


def boxes_file(tmp_path, boxes, height=100, width=200):
    records = [annotation(index + 1, box=box, area=1.0) for index, box in enumerate(boxes)]
    return write_json(tmp_path / "a.json", coco([image(1, height=height, width=width)], records))


corners = st.tuples(st.integers(0, 150), st.integers(0, 80), st.integers(10, 50), st.integers(10, 20)).map(
    lambda box: (box[0], box[1], box[0] + box[2], box[1] + box[3])
)


@settings(max_examples=30)
@given(st.lists(corners, min_size=3, max_size=30), st.lists(st.just((120, 60, 150, 75)), min_size=3, max_size=9))
def test_corners_instead_of_sizes_are_found(tmp_path_factory, boxes, leaving):
    file = boxes_file(tmp_path_factory.mktemp("corners"), boxes + leaving * 4)
    finding = next(item for item in check_detection(file) if item.kind == "boxes that look like x1, y1, x2, y2")
    assert finding.severity == "error"
    assert finding.count == len(boxes) + 4 * len(leaving)
    assert finding.first.endswith("write [x1, y1, x2 - x1, y2 - y1] as bbox")


@settings(max_examples=30)
@given(st.lists(corners, min_size=1, max_size=30))
def test_boxes_inside_their_image_are_never_taken_for_corners(tmp_path_factory, boxes):
    sized = [(x1, y1, x2 - x1, y2 - y1) for x1, y1, x2, y2 in boxes]
    kinds = {item.kind for item in check_detection(boxes_file(tmp_path_factory.mktemp("sizes"), sized))}
    assert "boxes that look like x1, y1, x2, y2" not in kinds


def test_a_few_boxes_that_leave_their_image_do_not_make_all_others_corners(tmp_path):
    sized = [(150, 60, 20, 20)] * 10 + [(10, 10, 195, 95)] * 5
    kinds = {item.kind for item in check_detection(boxes_file(tmp_path, sized))}
    assert "boxes that reach out of their image" in kinds
    assert "boxes that look like x1, y1, x2, y2" not in kinds


def test_a_single_category_is_noted(tmp_path):
    content = coco(categories=[{"id": 1, "name": "cat"}], annotations=[annotation(1)])
    findings = check_detection(write_json(tmp_path / "a.json", content))
    (finding,) = [item for item in findings if item.kind == "a single category"]
    assert finding.severity == "note"


@pytest.mark.parametrize("packed", [False, True])
def test_images_one_folder_deeper_are_answered_with_the_right_argument(small, packed):
    file, images = small
    store = zip_folder(images.parent, images.parent.parent / "all.zip") if packed else images.parent
    (finding,) = check_detection(file, store)
    assert (finding.kind, finding.count) == ("missing image files", 2)
    assert finding.first == f"{store}/1.png; the images are in {store}/images, name that instead of {store}"
    assert check_detection(file, store / "images") == []


@pytest.fixture
def sets(tmp_path):
    """A training set of three categories, and a test set with the most frequent one alone."""
    categories = [{"id": 1, "name": "cat"}, {"id": 7, "name": "dog"}, {"id": 9, "name": "eel"}]
    records = [annotation(1), annotation(2, 2), annotation(3, 2, 7), annotation(4, 2, 7), annotation(5, 2, 9)]
    train = write_json(tmp_path / "train.json", coco(annotations=records, categories=categories))
    test = write_json(tmp_path / "test.json", coco([image(3)], [annotation(1, 3)], categories))
    return read_coco(train), read_coco(test)


def test_a_test_file_without_the_tail_is_found_the_rarest_first(sets):
    (finding,) = check_test_set(*sets)
    assert finding.severity == "warning"
    assert (finding.count, finding.first) == (2, "eel, with 1 training annotations")
    assert check_test_set(sets[0], sets[0]) == []


def test_a_test_file_with_other_categories_is_an_error(sets, tmp_path):
    other = read_coco(
        write_json(tmp_path / "other.json", coco(annotations=[annotation(1)], categories=[{"id": 1, "name": "dog"}]))
    )
    (finding,) = check_test_set(sets[0], other)
    assert (finding.severity, "other categories than in training" in finding.kind) == ("error", True)


def test_test_images_that_are_trained_on_are_found_by_content(sets, tmp_path):
    train, test = sets
    write_pictures(tmp_path / "images", {"images": [image(1), image(2)]})
    (tmp_path / "images" / "3.png").write_bytes((tmp_path / "images" / "1.png").read_bytes())
    *_, finding = check_test_set(train, test, tmp_path / "images")
    assert (finding.severity, finding.first) == ("error", "3.png = 1.png")
    assert all(item.severity != "error" for item in check_test_set(train, test, tmp_path / "images", by_content=False))
