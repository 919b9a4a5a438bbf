from equigrad.analysis.doctor.finding import Finding, worst_first


def test_a_finding_is_one_line_with_evidence_and_remedy():
    assert str(Finding("warning", "odd", "it is odd", "3 of 4", "do that")) == "warning: it is odd (3 of 4) -> do that"


def test_errors_come_first_and_the_rest_keeps_its_order():
    findings = [
        Finding(severity, name, "", "", "") for severity, name in [("note", "a"), ("error", "b"), ("note", "c")]
    ]
    assert [finding.name for finding in worst_first(findings)] == ["b", "a", "c"]
