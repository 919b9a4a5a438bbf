"""A loop of plain torch that passes the five checks, to break it in one way at a time."""

import torch
from torch import nn

import equigrad
from equigrad.integrations import HostRun

NUM_CLASSES = 4


class PlainRun(HostRun):
    def __init__(self):
        torch.manual_seed(0)
        self.module = nn.ModuleDict(
            {"net": nn.Linear(6, NUM_CLASSES), "criterion": equigrad.SigmoidEqualizationLoss(NUM_CLASSES)}
        )
        self.optimizer = torch.optim.SGD(self.module.parameters(), lr=0.1)
        self.features = torch.randn(8, 6)
        self.labels = torch.tensor([0, 0, 0, 1, 0, 1, 2, 3])

    def loss(self, rows):
        return self.module["criterion"](self.module["net"](self.features[rows]), self.labels[rows])

    def train(self, steps):
        self.module.train()
        for _ in range(steps):
            self.optimizer.zero_grad()
            self.loss(slice(None)).backward()
            self.optimizer.step()

    def evaluate(self):
        self.module.eval()
        self.loss(slice(None))

    def save(self, folder):
        torch.save(self.module.state_dict(), folder / "checkpoint.pt")

    def resume(self, folder):
        self.module.load_state_dict(torch.load(folder / "checkpoint.pt"))

    def gradients(self, micro_batches):
        with equigrad.one_batch(self.module, micro_batches=micro_batches):
            for rows in torch.arange(8).chunk(micro_batches):
                (self.loss(rows) / micro_batches).backward()
        return {name: value.grad for name, value in self.module.named_parameters()}
