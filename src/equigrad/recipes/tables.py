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
_PIXELS = "mIoU mIoU1 mIoU2 mIoU3 mAcc mAcc1 mAcc2 mAcc3"
_RARITY = "AP APr APc APf"
_MASKS = "AP APr APc APf APb"
_FIFTHS = "AP AP1 AP2 AP3 AP4 AP5"

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
    "ade20k_lt_results (PSPNet, R50)": _rows(
        _PIXELS,
        """
        CE: 31.11 47.86 29.83 15.59 39.72 61.30 39.15 18.71
        Softmax-EQL: 33.01 48.32 30.79 19.92 46.10 64.44 46.79 27.07
        BCE: 30.78 48.02 29.22 15.11 39.07 61.36 38.32 17.53
        Sigmoid-EQL: 32.87 48.68 30.52 19.40 41.56 61.70 39.95 23.01
        """,
    ),
    "ade20k_lt_results (PSPNet, R101)": _rows(
        _PIXELS,
        """
        CE: 34.39 50.49 33.32 19.34 43.44 64.45 42.09 23.77
        Softmax-EQL: 35.65 50.49 34.67 21.77 48.67 66.37 49.89 29.73
        BCE: 33.27 50.08 32.26 17.47 41.91 63.48 41.18 21.06
        Sigmoid-EQL: 35.35 50.68 33.66 21.70 44.73 64.08 43.19 26.94
        """,
    ),
    "ade20k_lt_results (DeepLabV3+, R50)": _rows(
        _PIXELS,
        """
        CE: 32.06 49.22 31.96 14.99 40.93 63.57 41.84 17.4
        Softmax-EQL: 33.16 49.12 32.22 18.13 45.13 64.89 46.93 23.56
        BCE: 31.58 48.69 32.36 13.69 40.27 62.86 41.93 16.02
        Sigmoid-EQL: 32.84 49.21 32.26 17.06 42.86 63.39 43.78 21.43
        """,
    ),
    "ade20k_lt_results (DeepLabV3+, R101)": _rows(
        _PIXELS,
        """
        CE: 34.69 50.92 34.34 18.80 44.09 65.10 44.85 22.33
        Softmax-EQL: 35.08 50.98 34.59 19.67 47.42 66.81 49.15 26.32
        BCE: 33.43 50.85 33.92 15.52 42.57 64.72 44.15 18.84
        Sigmoid-EQL: 36.12 51.72 35.60 21.05 46.48 66.08 47.07 26.29
        """,
    ),
    "ade20k_results (PSPNet, R50)": _rows(
        _PIXELS,
        """
        CE: 41.52 52.67 38.61 33.28 52.07 65.57 48.66 41.80
        Softmax-EQL: 42.11 53.27 39.20 33.84 58.67 68.80 55.77 51.44
        BCE: 41.21 53.00 37.65 32.99 51.44 66.06 46.94 41.31
        Sigmoid-EQL: 41.95 52.74 38.69 34.42 53.32 66.23 48.97 44.75
        """,
    ),
    "ade20k_results (PSPNet, R101)": _rows(
        _PIXELS,
        """
        CE: 43.99 54.60 41.19 36.18 55.45 67.86 52.49 46.00
        Softmax-EQL: 44.13 54.50 41.40 36.49 60.83 69.50 58.63 54.36
        BCE: 43.39 54.60 40.33 35.25 54.19 67.60 50.44 44.55
        Sigmoid-EQL: 44.37 54.68 41.80 36.64 55.66 67.74 52.21 47.04
        """,
    ),
    "ade20k_results (DeepLabV3+, R50)": _rows(
        _PIXELS,
        """
        CE: 43.34 54.09 40.52 35.40 55.11 67.83 52.30 45.20
        Softmax-EQL: 43.67 53.79 40.80 36.40 59.44 69.47 57.04 51.80
        BCE: 43.09 54.42 40.67 34.17 54.85 68.27 52.33 43.94
        Sigmoid-EQL: 43.74 54.57 41.12 35.53 55.38 67.67 52.72 45.77
        """,
    ),
    "ade20k_results (DeepLabV3+, R101)": _rows(
        _PIXELS,
        """
        CE: 44.62 55.48 42.60 35.77 56.34 68.92 54.28 45.83
        Softmax-EQL: 44.49 55.54 42.80 35.12 60.51 70.43 60.25 50.85
        BCE: 44.40 55.46 42.65 35.10 56.17 68.99 54.13 45.39
        Sigmoid-EQL: 45.96 55.87 43.56 38.44 58.44 69.51 56.23 49.59
        """,
    ),
    "comparison_sota_lvis1 (R50 Mask R-CNN)": _rows(
        _MASKS,
        """
        CE baseline: 19.2 0 17.2 29.5 20.0
        Grad-Blocking: 21.6 3.8 21.7 29.2 22.5
        RFS: 24.4 14.6 23.7 29.4 25.0
        BAGS: 25.1 14.7 24.9 29.8 25.5
        Seesaw Loss: 24.7 14.8 24.0 29.8 25.3
        Softmax-EQL: 25.3 17.4 24.5 29.7 25.5
        Sigmoid-EQL: 25.5 17.7 24.3 30.2 26.1
        """,
    ),
    "comparison_sota_lvis1 (R101 Mask R-CNN)": _rows(
        _MASKS,
        """
        CE baseline: 20.8 1.4 19.4 30.9 21.7
        Grad-Blocking: 22.9 3.7 23.6 30.7 24.2
        RFS: 25.8 17.4 24.7 30.7 26.8
        BAGS: 26.4 17.2 26.0 31.0 26.9
        Seesaw Loss: 26.4 16.7 25.7 31.4 27.0
        Softmax-EQL: 26.5 18.0 25.7 31.0 26.9
        Sigmoid-EQL: 27.2 20.6 25.9 31.4 27.9
        """,
    ),
    "component_analysis": _rows(
        _MASKS,
        """
        none: 16.1 0 12.0 27.4 17.2
        obj: 18.1 1.9 16.4 28.3 19.0
        obj neg: 19.7 7.3 17.6 27.6 20.5
        obj pos: 23.3 12.2 22.8 28.8 23.9
        obj neg pos: 23.7 14.9 22.8 28.6 24.2
        """,
    ),
    "mapping_func": _rows(
        _RARITY,
        """
        sqrt, neg: 18.4 2.1 17.6 28.2
        sqrt, neg pos: 21.4 6.2 21.0 28.6
        linear, neg: 18.8 2.0 16.9 28.3
        linear, neg pos: 22.6 10.0 22.0 28.7
        exp, neg: 19.1 2.1 17.6 28.2
        exp, neg pos: 23.2 11.9 22.7 28.8
        sigmoid-like, neg: 19.7 7.3 17.6 27.6
        sigmoid-like, neg pos: 23.7 14.9 22.8 28.6
        """,
    ),
    "longer_schedule (ResNet-50)": _rows(
        _RARITY,
        """
        CE baseline: 20.5 2.0 19.0 30.3
        Sigmoid-EQL: 26.2 19.1 25.0 30.7
        """,
    ),
    "longer_schedule (ResNet-101)": _rows(
        _RARITY,
        """
        CE baseline: 21.7 1.6 20.7 31.7
        Sigmoid-EQL: 27.5 20.5 26.2 32.0
        """,
    ),
    "compare_e2e_decouple": _rows(
        _MASKS,
        """
        CE: 16.1 0.0 12.0 27.4 16.7
        BCE: 16.5 0.0 13.1 27.3 17.2
        LWS: 17.0 2.0 13.5 27.4 17.5
        cRT: 22.1 11.9 20.2 29.0 22.2
        BAGS: 23.1 13.1 22.5 28.2 23.7
        Softmax-EQL: 23.1 15.3 22.1 27.6 23.3
        Sigmoid-EQL: 23.7 14.9 22.8 28.6 24.2
        """,
    ),
    "better_repr": _rows(
        _MASKS,
        """
        cRT: 22.0 13.5 20.8 27.1 22.1
        cRT, EQL: 22.4 13.3 21.7 27.3 22.4
        LWS: 17.0 2.0 13.5 27.4 17.5
        LWS, EQL: 23.1 13.8 22.2 28.1 23.2
        BAGS: 23.1 13.1 22.5 28.2 23.7
        BAGS, EQL: 24.0 14.6 23.8 28.5 24.5
        """,
    ),
    "openimage (R50)": _rows(
        _FIFTHS,
        """
        Faster R-CNN: 43.1 26.3 42.5 45.2 48.2 52.6
        Grad-Blocking: 45.3 32.7 44.6 47.3 48.3 53.1
        Sigmoid-EQL: 52.6 48.6 52.0 53.0 53.4 55.8
        """,
    ),
    "openimage (R101)": _rows(
        _FIFTHS,
        """
        Faster R-CNN: 46.0 29.2 45.5 49.3 50.9 54.7
        Grad-Blocking: 48.0 36.1 47.2 50.5 51.0 55.0
        Sigmoid-EQL: 55.1 51.0 55.2 56.6 55.6 57.5
        """,
    ),
    "main_results (ResNet-50, two-stage)": _rows(
        _RARITY,
        """
        Faster R-CNN: 24.1 14.7 22.2 30.5
        Grad-Blocking: 25.1 15.7 24.4 30.1
        Seesaw Loss: 26.4 17.5 25.3 31.5
        cRT: 24.8 15.9 23.6 30.1
        BAGS: 26.0 17.2 24.9 31.1
        NorCal: 26.6 18.7 25.6 31.1
        """,
    ),
    "main_results (ResNet-101, two-stage)": _rows(
        _RARITY,
        """
        Faster R-CNN: 25.7 15.1 24.1 32.0
        Seesaw Loss: 27.8 18.7 27.0 32.8
        BAGS: 27.6 18.7 26.5 32.6
        NorCal: 27.8 19.4 26.9 32.5
        """,
    ),
    "main_results (ResNet-50, one-stage)": _rows(
        _RARITY,
        """
        RetinaNet: 18.5 9.6 16.1 25.0
        Baseline†: 25.7 14.3 23.8 32.7
        EFL: 27.5 20.2 26.1 32.4
        """,
    ),
    "main_results (ResNet-101, one-stage)": _rows(
        _RARITY,
        """
        RetinaNet: 19.6 10.1 17.3 26.2
        Baseline†: 27.0 14.4 25.7 34.0
        EFL: 29.2 23.5 27.4 33.8
        """,
    ),
    "ablation_study_components": _rows(
        _RARITY,
        """
        none: 25.7 14.3 23.8 32.7
        WF: 26.1 15.6 24.5 32.6
        FF: 26.2 17.7 24.7 31.5
        WF FF: 27.5 20.2 26.1 32.4
        """,
    ),
    "s_effect": _rows(
        _RARITY,
        """
        s=0: 25.7 14.3 23.8 32.7
        s=1: 26.3 16.3 24.6 32.6
        s=2: 26.6 17.6 24.6 32.7
        s=4: 27.3 19.9 25.5 32.6
        s=8: 27.5 20.2 26.1 32.4
        s=12: 26.5 19.9 24.6 31.6
        """,
    ),
    "one_stage_with_efl (FCOS*)": _rows(
        _RARITY,
        """
        FL: 22.6 12.7 20.9 28.9
        FL+EQL: 23.0 14.1 21.3 28.7
        EFL: 23.4 14.9 21.9 28.7
        """,
    ),
    "one_stage_with_efl (PAA)": _rows(
        _RARITY,
        """
        FL: 23.7 14.2 21.6 30.2
        FL+EQL: 24.1 16.5 22.1 29.8
        EFL: 25.6 19.8 23.8 30.2
        """,
    ),
    "one_stage_with_efl (ATSS)": _rows(
        _RARITY,
        """
        FL: 24.7 13.7 23.4 31.1
        FL+EQL: 25.2 15.0 24.3 30.8
        EFL: 25.8 18.1 24.5 30.6
        """,
    ),
    "one_stage_with_efl (Baseline†)": _rows(
        _RARITY,
        """
        FL: 25.7 14.3 23.8 32.7
        FL+EQL: 26.8 17.7 25.3 32.6
        EFL: 27.5 20.2 26.1 32.4
        """,
    ),
    "yolox_results (small)": _rows(
        _RARITY,
        """
        Sigmoid: 15.2 2.9 11.6 24.7
        FL: 18.5 3.6 15.7 28.2
        EFL: 23.3 18.1 21.2 28.0
        QFL: 22.5 11.0 20.6 29.7
        EQFL: 24.2 16.3 22.7 29.4
        """,
    ),
    "yolox_results (medium)": _rows(
        _RARITY,
        """
        Sigmoid: 20.9 5.3 17.6 31.5
        FL: 25.0 7.1 23.5 34.4
        EFL: 30.0 23.8 28.2 34.7
        QFL: 28.9 16.8 27.2 36.1
        EQFL: 31.0 24.0 29.1 36.2
        """,
    ),
    "oid_results (R50, two-stage)": _rows(_FIFTHS, "Faster R-CNN: 43.1 26.3 42.5 45.2 48.2 52.6"),
    "oid_results (R50, one-stage)": _rows(
        _FIFTHS,
        """
        RetinaNet: 32.1 21.0 34.0 35.4 35.6 34.2
        Baseline†: 43.3 19.4 44.3 49.5 50.6 52.2
        EFL: 51.5 52.8 52.9 50.8 50.2 50.9
        """,
    ),
    "oid_results (R101, two-stage)": _rows(_FIFTHS, "Faster R-CNN: 46.0 29.2 45.5 49.3 50.9 54.7"),
    "oid_results (R101, one-stage)": _rows(
        _FIFTHS,
        """
        RetinaNet: 35.8 26.4 38.9 38.3 38.1 36.8
        Baseline†: 44.7 19.6 46.6 51.1 52.3 53.4
        EFL: 52.6 53.4 53.8 51.4 51.8 52.3
        """,
    ),
    "coco_results": _rows(
        "AP AP50 AP75 APs APm APl",
        """
        FL: 42.3 61.0 45.7 26.7 46.2 53.0
        EFL(s=2): 42.4 61.0 46.1 26.5 46.2 53.2
        EFL(s=4): 42.3 61.2 45.6 26.6 46.1 52.9
        EFL(s=8): 42.2 60.8 45.6 26.4 46.1 52.7
        """,
    ),
}
