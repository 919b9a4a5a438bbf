"""The kinds of faults that the checks of detection data look for, and a collector that counts them."""

from equigrad.data.findings import SEVERITIES, Finding, Severity

SEVERITY_OF_KIND: dict[str, Severity] = {
    "the file is not readable": "error",
    "records that are not objects": "error",
    "no images": "error",
    "no annotations": "error",
    "no categories": "error",
    "categories with a missing or wrong field": "error",
    "categories with the same id": "error",
    "categories with the same name": "error",
    "categories of which some have numbers and some texts as ids": "error",
    "categories without the frequency that others have": "error",
    "categories with more images than their frequency allows": "error",
    "categories without annotation": "note",
    "a single category": "note",
    "images with a missing or wrong field": "error",
    "images with the same id": "error",
    "images of which some have numbers and some texts as ids": "error",
    "images without height and width": "warning",
    "images with the same file": "error",
    "image paths that leave the folder": "error",
    "images without the federated lists that others have": "error",
    "unknown categories in neg_category_ids": "error",
    "unknown categories in not_exhaustive_category_ids": "error",
    "categories both absent and not exhaustive": "error",
    "images without annotation": "note",
    "annotations with a missing or wrong field": "error",
    "annotations with the same id": "error",
    "annotations with id 0": "warning",  # pycocotools' metrics take a match with it for no match
    "annotations of unknown images": "error",
    "annotations of unknown categories": "error",
    "annotations of a category that the image lists as absent": "error",
    "annotations that repeat another": "warning",
    "annotations without mask where others have one": "warning",
    "boxes that are not finite or beyond any image": "error",
    "boxes that look like x1, y1, x2, y2": "error",
    "boxes with negative width or height": "error",
    "boxes without area": "warning",
    "boxes outside their image": "error",
    "boxes that reach out of their image": "warning",
    "areas that are negative or not finite": "error",
    "areas larger than their box": "warning",
    "crowds that are not run lengths": "warning",
    "masks that are neither polygons nor run lengths": "error",
    "polygons with an odd number of coordinates": "error",
    "polygons with fewer than three corners": "error",
    "polygons that are not finite or endless": "error",
    "polygons that reach out of their image": "warning",
    "run lengths of another size than their image": "error",
    "run lengths that do not cover their image": "error",
    "missing image files": "error",
    "damaged image files": "error",
    "image files of another size than stated": "error",
}


class FindingCollector:
    """Counts the cases of each kind of fault and remembers the first."""

    def __init__(self) -> None:
        self._cases: dict[str, tuple[int, str]] = {}

    def add(self, kind: str, case: str, count: int = 1) -> None:
        """Count cases of a kind, which must be in `SEVERITY_OF_KIND`; of all texts only the first is kept."""
        known, first = self._cases.get(kind, (0, case))
        self._cases[kind] = (known + count, first)

    def findings(self) -> list[Finding]:
        """One finding for each kind that occurred: errors first, then warnings, then notes."""
        found = [
            Finding(severity, kind, *self._cases[kind])
            for kind, severity in SEVERITY_OF_KIND.items()
            if kind in self._cases
        ]
        return sorted(found, key=lambda finding: SEVERITIES.index(finding.severity))
