import torch

from equigrad.models.deployment.suppression import NOT_A_BOX, Boxes, best, kept_boxes
from equigrad.tasks.export.formats import load_onnx
from equigrad.tasks.export.onnx_operators import suppression_operator, translations


class Suppression(torch.nn.Module):
    def forward(self, boxes, scores, labels):
        return suppression_operator()(boxes, scores, labels, 3, 0.5)


def crowded(num_images):
    generator = torch.Generator().manual_seed(num_images)
    corners = torch.rand(num_images, 60, 2, generator=generator) * 40
    boxes = torch.cat([corners, corners + 5 + torch.rand(num_images, 60, 2, generator=generator) * 20], 2)
    scores = torch.rand(num_images, 60, generator=generator)
    scores[:, ::7] = NOT_A_BOX
    return boxes, scores, torch.randint(0, 3, (num_images, 60), generator=generator)


def test_onnx_runtime_keeps_the_boxes_that_torchvision_keeps():
    batch = torch.export.Dim("batch")
    program = torch.export.export(Suppression(), crowded(2), dynamic_shapes=({0: batch},) * 3)
    exported = torch.onnx.export(
        program, dynamo=True, opset_version=18, custom_translation_table=translations(), verbose=False
    )
    run = load_onnx(exported.model_proto.SerializeToString())
    for num_images in (1, 2, 5):
        boxes = crowded(num_images)
        (kept,) = run(boxes)
        assert kept.dtype == torch.bool
        assert kept.equal(kept_boxes(*boxes, 3, 0.5))
    boxes, _, labels = crowded(1)
    assert not run((boxes, torch.full((1, 60), NOT_A_BOX), labels))[0].any()


class Best(torch.nn.Module):
    def forward(self, boxes, scores, labels):
        return tuple(best(Boxes(boxes, scores, labels), 40))


def test_onnx_runtime_keeps_the_order_of_equal_scores():
    def tied(num_images):
        boxes, scores, labels = crowded(num_images)
        return boxes, scores.mul(5).round(), labels

    batch = torch.export.Dim("batch")
    program = torch.export.export(Best(), tied(2), dynamic_shapes=({0: batch},) * 3)
    exported = torch.onnx.export(
        program, dynamo=True, opset_version=18, custom_translation_table=translations(), verbose=False
    )
    run = load_onnx(exported.model_proto.SerializeToString())
    for num_images in (1, 3):
        inputs = tied(num_images)
        for found, expected in zip(run(inputs), best(Boxes(*inputs), 40), strict=True):
            assert found.equal(expected)
