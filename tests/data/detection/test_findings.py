import pytest

from equigrad.data.detection.findings import SEVERITY_OF_KIND, FindingCollector
from equigrad.data.findings import SEVERITIES, Finding


def test_cases_are_counted_and_the_first_is_kept():
    found = FindingCollector()
    found.add("boxes without area", "annotation 3")
    found.add("boxes without area", "annotation 7", count=4)
    assert found.findings() == [Finding("warning", "boxes without area", 5, "annotation 3")]


def test_errors_come_first_and_notes_last():
    found = FindingCollector()
    for kind in reversed(SEVERITY_OF_KIND):
        found.add(kind, "case")
    listed = found.findings()
    assert {finding.kind for finding in listed} == set(SEVERITY_OF_KIND)
    ranks = [SEVERITIES.index(finding.severity) for finding in listed]
    assert ranks == sorted(ranks)
    assert set(ranks) == {0, 1, 2}


def test_without_cases_there_are_no_findings():
    assert FindingCollector().findings() == []


@pytest.mark.parametrize(
    ("kind", "severity"),
    [("boxes outside their image", "error"), ("boxes that reach out of their image", "warning")],
)
def test_the_severity_belongs_to_the_kind(kind, severity):
    found = FindingCollector()
    found.add(kind, "case")
    assert found.findings()[0].severity == severity
