"""Hugging Face transformers: the Trainer's loss function for classifiers, and the detectors of the DETR family.

trainer = Trainer(model, args, compute_loss_func=hf.loss(model, equigrad.SoftmaxEqualizationLoss(10)), ...)

hf.equalize(detector, equigrad.EqualizedVarifocalLoss(80, constant_weight=True))
"""

from equigrad.integrations.hf.detection import BatchPerStep as BatchPerStep, equalize as equalize
from equigrad.integrations.hf.restored_weights import restore as restore
from equigrad.integrations.hf.trainer_loss import loss as loss
