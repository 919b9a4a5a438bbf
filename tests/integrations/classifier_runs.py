"""The same small classifier in loops that need no adapter: Lightning, Accelerate, DDP, FSDP2, timm and skorch."""

import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import equigrad
from equigrad.integrations import BatchPerStep, HostRun, NotApplicable

NUM_CLASSES = 4
LABELS = torch.tensor([0, 0, 0, 1, 0, 1, 2, 3])


def features():
    return torch.randn(8, 6, generator=torch.Generator().manual_seed(1))


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, NUM_CLASSES))


def loader(micro_batches=1):
    return DataLoader(TensorDataset(features(), LABELS), batch_size=8 // micro_batches)


class WithLoss(nn.Module):
    """A network that returns its loss in training: what DDP and FSDP2 wrap."""

    def __init__(self):
        super().__init__()
        self.network = network()
        self.criterion = equigrad.SigmoidEqualizationLoss(NUM_CLASSES)

    def forward(self, inputs, labels):
        return self.criterion(self.network(inputs), labels)


def gradients_of(module):
    return {name: value.grad.clone() for name, value in module.named_parameters() if value.grad is not None}


def lightning_run():
    import lightning

    class Classifier(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.parts = WithLoss()

        def training_step(self, batch, index):
            return self.parts(*batch)

        def validation_step(self, batch, index):
            self.log("loss", self.parts(*batch))

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    class MicroBatches(lightning.Callback):
        """The micro-batches of a step are one batch to the statistics."""

        def on_train_start(self, trainer, module):
            (optimizer,) = trainer.optimizers
            self.batches = BatchPerStep(module, optimizer, micro_batches=trainer.accumulate_grad_batches)

        def on_train_end(self, trainer, module):
            self.batches.close()

    class Gradients(lightning.Callback):
        def on_before_optimizer_step(self, trainer, module, optimizer):
            self.found = gradients_of(module)

    globals()["_LightningClassifier"] = Classifier  # for pickle
    Classifier.__qualname__ = "_LightningClassifier"

    class LightningRun(HostRun):
        def __init__(self):
            self.module = Classifier()

        def trainer(self, callbacks=(), **options):
            quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
            options = {"max_steps": 1, "enable_checkpointing": False, **options}
            callbacks = [MicroBatches(), *callbacks]
            return lightning.Trainer(accelerator="cpu", devices=1, callbacks=callbacks, **quiet, **options)

        def train(self, steps):
            self.last = self.trainer(max_steps=steps, max_epochs=-1)
            self.last.fit(self.module, loader())

        def evaluate(self):
            self.trainer().validate(self.module, loader(), verbose=False)

        def save(self, folder):
            self.last.save_checkpoint(folder / "last.ckpt")

        def resume(self, folder):
            self.trainer(max_steps=2, max_epochs=-1).fit(self.module, loader(), ckpt_path=folder / "last.ckpt")

        def gradients(self, micro_batches):
            gradients = Gradients()
            self.trainer([gradients], accumulate_grad_batches=micro_batches).fit(self.module, loader(micro_batches))
            return gradients.found

    return LightningRun()


def accelerate_run():
    from accelerate import Accelerator

    class AccelerateRun(HostRun):
        def __init__(self):
            self.module = WithLoss()

        def prepared(self, micro_batches=1):
            accelerator = Accelerator(cpu=True, gradient_accumulation_steps=micro_batches)
            optimizer = torch.optim.SGD(self.module.parameters(), lr=0.1)
            return accelerator, *accelerator.prepare(self.module, optimizer, loader(micro_batches))

        def train(self, steps):
            self.accelerator, model, optimizer, batches = self.prepared()
            model.train()
            for _ in range(steps):
                for inputs, labels in batches:
                    self.accelerator.backward(model(inputs, labels))
                    optimizer.step()
                    optimizer.zero_grad()

        def evaluate(self):
            _, model, _, batches = self.prepared()
            model.eval()
            for inputs, labels in batches:
                model(inputs, labels)

        def save(self, folder):
            self.accelerator.save_state(folder)

        def resume(self, folder):
            self.prepared()[0].load_state(folder)

        def gradients(self, micro_batches):
            accelerator, model, _, batches = self.prepared(micro_batches)
            with equigrad.one_batch(model, micro_batches=micro_batches):
                for inputs, labels in batches:
                    with accelerator.accumulate(model):
                        accelerator.backward(model(inputs, labels))
            return gradients_of(self.module)

    return AccelerateRun()


class TorchRun(HostRun):
    """One rank of a job; subclasses wrap the model."""

    def __init__(self):
        self.module = WithLoss()
        self.model = self.wrapped(self.module)
        self.optimizer = torch.optim.SGD(self.module.parameters(), lr=0.1)

    def wrapped(self, module):
        raise NotImplementedError

    def train(self, steps):
        self.model.train()
        for _ in range(steps):
            self.optimizer.zero_grad()
            self.model(features(), LABELS).backward()
            self.optimizer.step()

    def evaluate(self):
        self.model.eval()(features(), LABELS)

    def save(self, folder):
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import get_state_dict

        model, optimizer = get_state_dict(self.model, self.optimizer)
        dcp.save({"model": model, "optimizer": optimizer}, checkpoint_id=folder)

    def resume(self, folder):
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

        model, optimizer = get_state_dict(self.model, self.optimizer)
        dcp.load({"model": model, "optimizer": optimizer}, checkpoint_id=folder)
        set_state_dict(self.model, self.optimizer, model_state_dict=model, optim_state_dict=optimizer)

    def weights(self):
        return {name: _whole(value) for name, value in self.module.named_parameters()}

    def gradients(self, micro_batches):
        with equigrad.one_batch(self.model, micro_batches=micro_batches):
            for inputs, labels in loader(micro_batches):
                (self.model(inputs, labels) / micro_batches).backward()
        return {name: _whole(value.grad) for name, value in self.module.named_parameters()}


def _whole(values):
    return values.full_tensor() if hasattr(values, "full_tensor") else values


def _one_rank():
    if not torch.distributed.is_initialized():
        file = Path(tempfile.mkdtemp()) / "store"
        torch.distributed.init_process_group("gloo", init_method=f"file://{file}", rank=0, world_size=1)


class DDPRun(TorchRun):
    def wrapped(self, module):
        _one_rank()
        return nn.parallel.DistributedDataParallel(module)


class FSDP2Run(TorchRun):
    def wrapped(self, module):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        _one_rank()
        mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
        sharded = fully_shard(module, mesh=mesh)
        sharded.__dict__["__deepcopy__"] = _refuse_copy
        return sharded


def _refuse_copy(memo):
    raise NotApplicable("FSDP2 cannot be copied, only saved: torch refuses deepcopy")


def ddp_run():
    return DDPRun()


def fsdp2_run():
    return FSDP2Run()


def timm_run():
    from timm.task import resume_task_checkpoint

    from equigrad.integrations.timm import ClassificationTask

    class TimmRun(HostRun):
        def __init__(self):
            self.module = ClassificationTask(network(), equigrad.SoftmaxEqualizationLoss(NUM_CLASSES), verbose=False)
            self.optimizer = torch.optim.SGD(self.module.parameters(), lr=0.1)

        def train(self, steps):
            self.module.train()
            for _ in range(steps):
                self.optimizer.zero_grad()
                self.module(features(), LABELS)["loss"].backward()
                self.optimizer.step()

        def evaluate(self):
            self.module.eval()(features(), LABELS)

        def save(self, folder):
            torch.save(self.module.get_checkpoint_state(), folder / "last.pth.tar")

        def resume(self, folder):
            resume_task_checkpoint(self.module, str(folder / "last.pth.tar"), log_info=False)

        def gradients(self, micro_batches):
            with equigrad.one_batch(self.module, micro_batches=micro_batches):
                for inputs, labels in loader(micro_batches):
                    (self.module(inputs, labels)["loss"] / micro_batches).backward()
            return gradients_of(self.module)

    return TimmRun()


def skorch_run():
    from skorch import NeuralNetClassifier

    class SkorchRun(HostRun):
        def __init__(self):
            self.net = NeuralNetClassifier(
                network(),
                criterion=equigrad.SigmoidEqualizationLoss,
                criterion__num_classes=NUM_CLASSES,
                predict_nonlinearity=torch.sigmoid,
                train_split=None,
                batch_size=8,
                lr=0.1,
                max_epochs=1,
                verbose=0,
            ).initialize()
            self.module = nn.ModuleList([self.net.module_, self.net.criterion_])

        def train(self, steps):
            self.net.partial_fit(features().numpy(), LABELS.numpy(), epochs=steps)
            self.module = nn.ModuleList([self.net.module_, self.net.criterion_])

        def evaluate(self):
            self.net.validation_step((features(), LABELS))
            self.net.predict_proba(features().numpy())

        def save(self, folder):
            self.net.save_params(
                f_params=folder / "net.pt", f_criterion=folder / "criterion.pt", f_optimizer=folder / "optimizer.pt"
            )

        def resume(self, folder):
            self.net.load_params(
                f_params=folder / "net.pt", f_criterion=folder / "criterion.pt", f_optimizer=folder / "optimizer.pt"
            )

        def gradients(self, micro_batches):
            raise NotApplicable("skorch has no gradient accumulation of its own")

    return SkorchRun()


def smp_run():
    import segmentation_models_pytorch as smp

    from equigrad.integrations.smp import MaskLoss

    images = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    masks = torch.arange(4 * 32 * 32).reshape(4, 1, 32, 32).remainder(NUM_CLASSES).to(torch.uint8)
    masks[:, :, :2] = 255

    class SmpRun(HostRun):
        def __init__(self):
            torch.manual_seed(0)
            net = smp.Unet(
                "resnet18",
                encoder_weights=None,
                encoder_depth=3,
                decoder_channels=(8, 8, 8),
                decoder_use_norm=False,
                classes=NUM_CLASSES,
            )
            for module in list(net.modules()):
                for name, child in module.named_children():
                    if isinstance(child, nn.BatchNorm2d):
                        setattr(module, name, nn.Identity())
            criterion = MaskLoss(equigrad.SoftmaxEqualizationLoss(NUM_CLASSES, ignore_index=255))
            self.module = nn.ModuleDict({"net": net, "criterion": criterion})
            self.optimizer = torch.optim.SGD(self.module.parameters(), lr=1e-3)

        def loss(self, rows=slice(None)):
            return self.module["criterion"](self.module["net"](images[rows]), masks[rows])

        def train(self, steps):
            self.module.train()
            for _ in range(steps):
                self.optimizer.zero_grad()
                self.loss().backward()
                self.optimizer.step()

        def evaluate(self):
            self.module.eval()
            self.loss()

        def save(self, folder):
            torch.save(self.module.state_dict(), folder / "last.pt")

        def resume(self, folder):
            self.module.load_state_dict(torch.load(folder / "last.pt"))

        def gradients(self, micro_batches):
            with equigrad.one_batch(self.module, micro_batches=micro_batches):
                for rows in torch.arange(4).chunk(micro_batches):
                    (self.loss(rows) / micro_batches).backward()
            return gradients_of(self.module)

    return SmpRun()
