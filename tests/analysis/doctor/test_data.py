import numpy as np

from equigrad.analysis.doctor.data import Commands, Fault, data_findings
from equigrad.analysis.doctor.tail import Tail

NAMES = ("cat", "dog", "eel")
COMMANDS = Commands("equigrad data check photos", "equigrad train own_data:classification")


def findings(counts, tested=(1, 1, 1), faults=()):
    counts = np.array(counts)
    return data_findings(Tail(counts, counts, np.array(tested)), NAMES, faults, COMMANDS)


def test_complete_data_has_no_finding():
    assert findings([300, 30, 3]) == []


def test_a_test_set_without_any_rare_category_is_a_warning():
    (finding,) = findings([300, 30, 3], tested=(5, 5, 0))
    assert (finding.severity, finding.name) == ("warning", "not_tested")
    assert "none of the few-shot ones is in it" in finding.text
    assert finding.evidence == "eel; training images of the rarest: 3"
    assert finding.remedy == "test on a held-out part: equigrad train own_data:classification"


def test_a_test_set_without_a_frequent_category_is_a_note():
    (finding,) = findings([300, 30, 3], tested=(0, 5, 5))
    assert finding.severity == "note"


def test_a_single_category_is_an_error_beside_those_never_seen():
    single, absent = findings([300, 0, 0])
    assert (single.severity, single.name, single.evidence) == ("error", "single_category", "cat has all 300 images")
    assert (absent.name, absent.evidence) == ("never_seen", "dog, eel")


def test_faults_of_files_have_the_command_that_lists_them():
    label, other = findings([9, 9, 9], faults=[Fault("labels out of range", 2, "7"), Fault("missing files", 1, "a")])
    assert (label.name, other.name) == ("labels_out_of_range", "data_fault")
    assert other.remedy == "equigrad data check photos"


def test_data_that_cannot_be_counted_shows_its_faults_alone():
    fault = Fault("annotations of unknown categories", 1, "annotation 3")
    assert [finding.name for finding in data_findings(None, (), [fault], COMMANDS)] == ["labels_out_of_range"]
