import ntpath
import posixpath

import pytest
from hypothesis import example, given, strategies as st

from equigrad.data.detection.data import StoredNames
from equigrad.data.detection.formats.coco_paths import image_path, without_folders
from equigrad.data.images.paths import inside

pieces = st.sampled_from(["..", ".", "", "a", "b.jpg", "C:", "c:x", "...", "~", "\0", "\ud800"]) | st.text(max_size=3)
paths = st.lists(pieces, max_size=5).flatmap(lambda parts: st.sampled_from(["/".join(parts), "\\".join(parts)]))


@given(paths)
@example("a/..\\..\\b")
def test_an_accepted_path_stays_below_the_root_on_every_system(path):
    try:
        accepted = inside(path, "file_name")
    except ValueError as error:
        assert str(error).startswith("file_name: expected a path inside")  # noqa: PT017 - either is right, by its text
        return
    assert posixpath.normpath(posixpath.join("/root", accepted)).startswith("/root")
    assert ntpath.normpath(ntpath.join("D:\\root", accepted)).lower().startswith("d:\\root")
    accepted.encode()  # and is a name that a file can have


@given(paths, paths)
def test_neither_field_of_a_record_leads_outside(file_name, url_path):
    try:
        path = image_path(file_name, f"http://host/{url_path}")
    except ValueError:
        return
    assert inside(path, "path") == path


@pytest.mark.parametrize("url", ["", "http://host", "http://host/"])
def test_a_record_without_any_name_is_refused(url):
    with pytest.raises(ValueError, match="file_name: expected a path here or in coco_url, got neither"):
        image_path(None, url)


@given(st.lists(st.text("ab/é", min_size=1, max_size=6).filter(lambda name: name.strip("/") == name), max_size=8))
def test_names_of_an_index_lose_their_folders_as_a_list_of_names_does(names):
    expected, found = without_folders(names), without_folders(StoredNames.of(names))
    assert (found if found is None else tuple(found)) == expected


def test_names_of_an_index_that_lost_their_folders_stay_in_one_text():
    names = without_folders(StoredNames.of(["train2017/000000000009.jpg", "val2017/é.jpg", "flat.jpg"]))
    assert isinstance(names, StoredNames)
    assert names[1] == "é.jpg"
