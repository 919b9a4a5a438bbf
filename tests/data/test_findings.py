import pytest

from equigrad.data.findings import Finding, errors


def test_a_finding_reads_as_one_line_with_severity_kind_count_and_first_case():
    finding = Finding.of("error", "train.txt: missing files", ["a.png", *["b.png"] * 1233])
    assert str(finding) == "error: train.txt: missing files: 1,234, the first is a.png"


@pytest.mark.parametrize(("severity", "counts"), [("error", True), ("warning", False), ("note", False)])
def test_only_errors_make_training_wrong(severity, counts):
    finding = Finding.of(severity, "kind", ["case"])
    note = Finding.of("note", "other", ["case"])
    assert errors([note, finding]) == ([finding] if counts else [])
