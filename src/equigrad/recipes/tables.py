"""Published numbers, and nothing else: per cent as printed, by table of the paper and row."""

Row = dict[str, float]


def _rows(columns: str, text: str) -> dict[str, Row]:
    """Rows of `name: value value …` under the columns."""
    names = columns.split()
    table = {}
    for line in text.strip().splitlines():
        row, _, values = line.partition(":")
        table[row.strip()] = dict(zip(names, map(float, values.split()), strict=True))
    return table


_SHOTS = "Overall Many Medium Few"

TABLES: dict[str, dict[str, Row]] = {
    "imagenet_lt (ResNet-50)": _rows(
        _SHOTS,
        """
        CE: 41.8 64.4 33.8 5.9
        BCE: 39.6 63.7 30.4 4.0
        Logit Adjustment: 47.3 59.2 44.7 23.0
        Logit Adjustment (post-hoc): 47.6 59.2 45.3 22.9
        Balanced Softmax: 47.6 59.4 45.1 22.8
        LADE: 47.8 59.5 45.4 23.4
        cRT: 47.6 58.6 44.7 26.8
        LWS: 47.8 57.6 45.1 29.5
        DisAlign: 47.7 55.5 46.0 31.6
        DIVE: 49.9 62.4 47.4 23.2
        Seesaw Loss: 49.3 66.2 44.1 19.4
        Sigmoid-EQL: 45.6 66.6 38.4 11.4
        Softmax-EQL: 51.3 58.9 49.1 39.2
        """,
    ),
    "imagenet_lt (ResNeXt-50)": _rows(
        _SHOTS,
        """
        CE: 44.5 65.9 37.7 8.2
        BCE: 42.7 65.9 34.4 6.4
        Logit Adjustment: 49.6 60.9 47.3 26.1
        Logit Adjustment (post-hoc): 49.9 61.4 47.5 26.3
        Balanced Softmax: 50.0 61.4 47.6 26.2
        LADE: 50.3 61.5 47.8 27.1
        cRT: 49.4 61.4 46.1 27.0
        LWS: 50.2 60.3 47.4 31.2
        DisAlign: 50.2 58.8 48.1 33.4
        DIVE: 52.7 64.4 50.5 27.4
        Seesaw Loss: 50.9 67.1 46.0 22.0
        Sigmoid-EQL: 47.4 67.5 40.8 13.4
        Softmax-EQL: 53.0 61.7 49.8 39.5
        """,
    ),
    "place_Lt (ResNet-152)": _rows(
        _SHOTS,
        """
        CE: 31.5 46.6 28.3 11.0
        BCE: 30.2 47.7 25.7 8.5
        Logit Adjustment: 39.7 42.6 40.2 33.0
        Logit Adjustment (post-hoc): 39.3 43.0 40.1 30.6
        Balanced Softmax: 39.6 42.6 40.1 32.9
        LADE: 39.6 42.7 40.0 33.0
        cRT: 37.9 44.2 38.2 25.4
        LWS: 39.6 42.2 40.3 33.0
        DisAlign: 39.6 42.2 41.3 33.0
        DIVE: 39.8 42.8 40.3 33.1
        Seesaw Loss: 37.0 47.9 34.7 22.4
        Sigmoid-EQL: 34.2 45.0 29.9 24.1
        Softmax-EQL: 40.8 39.1 41.5 42.6
        """,
    ),
    "inat (ResNet-50)": _rows(
        _SHOTS,
        """
        CE: 61.7 72.9 62.8 57.4
        BCE: 62.1 73.3 63.1 58.0
        Logit Adjustment: 66.0 64.8 65.7 66.7
        Logit Adjustment (post-hoc): 66.3 65.1 66.2 66.7
        Balanced Softmax: 66.0 64.7 66.0 66.5
        LADE: 66.3 65.4 66.1 66.9
        cRT: 64.8 69.4 65.5 62.7
        LWS: 65.9 63.7 66.2 66.0
        DisAlign: 65.9 63.7 66.2 66.0
        DIVE: 69.1 70.3 70.0 67.8
        Seesaw Loss: 65.0 73.0 66.4 61.3
        Sigmoid-EQL: 62.9 73.2 63.6 59.3
        Softmax-EQL: 66.8 63.2 66.3 68.4
        DIVE-Softmax-EQL: 70.4 68.7 70.4 70.8
        """,
    ),
}
