"""Tests of composer_loader inside other programs' training loops, and of the examples that show it; see test_loader.py."""

import importlib.util
import json
import logging
import os
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy as np
from composer_loader import Loader

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/python")
TRAIN, VAL = 96, 33  # of 33 samples the first of two ranks with 16 images a batch gets an empty slice in the end


def make_images(folder, count, side=24):
    """`count` images of noise, brighter from class to class, in the classes a to d."""
    numbers = np.random.default_rng(count)
    for i in range(count):
        os.makedirs(os.path.join(folder, "abcd"[i % 4]), exist_ok=True)
        with open(os.path.join(folder, "abcd"[i % 4], f"{i:03}.ppm"), "wb") as file:
            file.write(f"P6 {side} {side} 255\n".encode())
            file.write(numbers.integers(i % 4 * 60, i % 4 * 60 + 50, (side, side, 3), dtype=np.uint8).tobytes())


def needs(*names):
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"{', '.join(missing)}: not installed")


class FrameworksTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = os.path.join(cls.folder.name, "data")
        make_images(os.path.join(cls.path, "train"), TRAIN)
        make_images(os.path.join(cls.path, "val"), VAL)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.work = work.name

    def loader(self, batch_size=32, **arguments):
        return Loader(self.path, batch_size, **{"size": 16, "num_workers": 2, "samples": True, **arguments})

    def numbers(self, **arguments):
        """The samples' numbers, batch by batch."""
        return [batch[2].tolist() for batch in self.loader(**{"framework": "numpy", **arguments})]

    def run_python(self, *words, status=0):
        """What a program prints that runs in self.work."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path),
                       "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "ACCELERATE_USE_CPU": "true", "JAX_PLATFORMS": "cpu",
                       "GLOO_SOCKET_IFNAME": "lo"}
        for key in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
            environment.pop(key, None)
        done = subprocess.run([sys.executable, *words], cwd=self.work, env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def run_ranks(self, *words):
        """The same with two processes."""
        return self.run_python("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", *words)

    def example(self, name, *words):
        if not os.path.exists(EXAMPLES):
            self.skipTest("there are no examples")
        return [os.path.join(EXAMPLES, name), self.path, *words]

    def program(self, text):
        path = os.path.join(self.work, "program.py")
        with open(path, "w") as file:
            file.write(text)
        return path

    # PyTorch.

    @needs("torch")
    def test_train_example(self):
        output = self.run_python(*self.example("train.py"))
        self.assertEqual(output.count("accuracy"), 3)
        self.assertEqual(self.run_python(*self.example("train.py")), "state.pt: 3 epochs are done\n")

    @needs("torch")
    def test_ddp_example(self):
        output = self.run_ranks(*self.example("ddp_train.py", "2"))
        self.assertEqual(output.count("accuracy"), 2, output)

    @needs("torch")
    def test_ddp(self):
        self.run_ranks(self.program(RANK), self.path)
        ranks = []
        for rank in range(2):
            with open(os.path.join(self.work, f"{rank}.json")) as file:
                ranks.append(json.load(file))
        for pipeline, batches, samples in (("train", 3, TRAIN), ("eval", 2, VAL)):
            first, second = (rank[pipeline] for rank in ranks)
            self.assertEqual((len(first), len(second)), (batches, batches))
            self.assertEqual([a + b for a, b in zip(first, second)], self.numbers(pipeline=pipeline))
            self.assertEqual(sorted(sum(first + second, [])), list(range(samples)))  # disjoint, and all
        self.assertEqual([len(batch) for batch in ranks[0]["eval"]], [16, 0])
        self.assertEqual([rank["resumed"] for rank in ranks], [rank["train"][1:] for rank in ranks])
        self.assertEqual(ranks[0]["state"], ranks[1]["state"])

    # timm.

    @needs("timm")
    def test_timm_example(self):
        output = self.run_python(*self.example("timm_train.py", "1"))
        self.assertEqual(output.count("accuracy"), 1, output)

    @needs("timm")
    def test_timm_prefetch_loader(self):
        import torch
        from timm.data.loader import PrefetchLoader

        colors = {"mean": (0.5, 0.4, 0.3), "std": (0.2, 0.25, 0.3)}
        loader = self.loader(pipeline="train", samples=False)
        batches = PrefetchLoader(loader, device=torch.device("cpu"), **colors)
        self.assertEqual((len(batches), len(batches.dataset), batches.dataset.classes), (3, TRAIN, ["a", "b", "c", "d"]))
        self.assertIsNone(batches.batch_sampler)
        for epoch in (0, 1):
            batches.sampler.set_epoch(epoch)
            native = self.loader(output="float32", samples=False, **colors)
            native.set_epoch(epoch)
            count = 0
            for (images, labels), (expected, classes) in zip(batches, native):
                self.assertEqual((images.dtype, labels.dtype), (torch.float32, torch.int64))
                self.assertTrue(images.is_contiguous(memory_format=torch.channels_last))
                torch.testing.assert_close(images, expected, rtol=1e-4, atol=1e-4)
                self.assertTrue(torch.equal(labels, classes))
                count += len(labels)
            self.assertEqual(count, TRAIN)
        self.assertEqual((loader.state_dict()["epoch"], loader.state_dict()["batch"]), (2, 0))
        next(iter(batches))  # it takes one batch ahead
        self.assertEqual((loader.state_dict()["epoch"], loader.state_dict()["batch"]), (2, 2))

    @needs("timm")
    def test_timm_mixup_enabled(self):
        import torch
        from timm.data.loader import PrefetchLoader

        batches = PrefetchLoader(self.loader(samples=False), device=torch.device("cpu"))
        batches.mixup_enabled = False  # as timm's train.py does, with --mixup-off-epoch
        self.assertFalse(batches.mixup_enabled)

    @needs("timm")
    def test_timm_mixup(self):
        import timm.data

        images, labels = next(iter(self.loader(output="float32", samples=False)))
        mixed, targets = timm.data.Mixup(mixup_alpha=1, num_classes=4)(images, labels)
        self.assertEqual((mixed.shape, tuple(targets.shape)), (images.shape, (32, 4)))

    # Lightning.

    @needs("lightning")
    def test_lightning_example(self):
        """A run that is killed and goes on has the batches of one that is not."""
        words = [self.program(WATCHED), *self.example("lightning_train.py", "10")]
        whole = self.run_python(*words, "0").split("\n")
        self.assertEqual(len([line for line in whole if line.startswith("step")]), 30)
        os.rename(os.path.join(self.work, "checkpoints"), os.path.join(self.work, "of_the_whole"))
        self.run_python(*words, "13", status=3)
        rest = self.run_python(*words, "0").split("\n")
        steps = [line for line in rest if line.startswith("step")]
        self.assertEqual(steps[0].split()[1], "10")  # the checkpoint is in mid-epoch
        self.assertEqual(steps, [line for line in whole if line.startswith("step")][10:])
        self.assertIn("accuracy", rest[-2])

    def lightning_fit(self, folder, stop=None, steps_of_schedule=False, checkpoint=None, **options):
        """The samples' numbers of the batches that a training has, to the end or up to `stop` batches."""
        import lightning
        import torch
        from lightning.pytorch.callbacks import ModelCheckpoint

        train, val = self.loader(framework="torch"), self.loader(framework="torch", pipeline="eval")
        seen = []

        class Stop(Exception):
            pass

        class Place(lightning.Callback):
            def state_dict(self):
                return train.state_dict()

            def load_state_dict(self, state):
                train.load_state_dict(state)

        class Model(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.net = torch.nn.Linear(3, 4)

            def training_step(self, batch, _):
                if len(seen) == stop:
                    raise Stop
                seen.append(batch[2].tolist())
                return torch.nn.functional.cross_entropy(self.net(batch[0].float().mean((2, 3))), batch[1])

            def validation_step(self, batch, _):
                pass

            def configure_optimizers(self):
                optimizer = torch.optim.SGD(self.parameters(), 0.1)
                if not steps_of_schedule:
                    return optimizer
                schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0, self.trainer.estimated_stepping_batches)
                return [optimizer], [{"scheduler": schedule, "interval": "step"}]

        callbacks = [ModelCheckpoint(folder, every_n_train_steps=1, save_top_k=-1, filename="{step}")]
        if steps_of_schedule:
            callbacks.append(Place())
        for name in ("lightning.pytorch", "lightning.fabric"):
            logging.getLogger(name).setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer = lightning.Trainer(max_epochs=3, callbacks=callbacks, accelerator="cpu", logger=False,
                                        enable_progress_bar=False, enable_model_summary=False, **options)
            try:
                trainer.fit(Model(), train, val, ckpt_path=checkpoint)
            except Stop:
                pass
        return seen

    @needs("lightning")
    def test_lightning_checkpoints(self):
        """Trainings that are stopped at any batch go on with the next one."""
        epochs = self.loader(framework="numpy")
        expected = [batch[2].tolist() for _ in range(3) for batch in epochs]
        for options in ({}, {"steps_of_schedule": True}, {"val_check_interval": 2}, {"accumulate_grad_batches": 2}):
            whole = os.path.join(self.work, "whole")
            self.assertEqual(self.lightning_fit(whole, **options), expected)
            self.assertEqual([sorted(sum(expected[i:i + 3], [])) for i in (0, 3, 6)], [list(range(TRAIN))] * 3)
            for stop in range(2, 9):
                with self.subTest(**options, stop=stop), tempfile.TemporaryDirectory() as folder:
                    seen = self.lightning_fit(folder, stop, **options)
                    self.assertEqual(seen, expected[:stop])
                    steps = {int(name[len("step="):-len(".ckpt")]): name for name in os.listdir(folder)}
                    checkpoint = os.path.join(folder, steps[max(steps)])
                    rest = self.lightning_fit(folder, checkpoint=checkpoint, **options)
                    self.assertEqual(rest, expected[-len(rest):])
                    if "accumulate_grad_batches" not in options:
                        self.assertEqual(len(rest), 9 - stop)

    @needs("lightning")
    def test_lightning_ranks(self):
        """Lightning's own launcher sets WORLD_SIZE and LOCAL_RANK, and builds the loader before there are ranks."""
        self.run_python(self.program(LIGHTNING_RANK), self.path)
        ranks = []
        for rank in range(2):
            with open(os.path.join(self.work, f"{rank}.json")) as file:
                ranks.append(json.load(file))
        self.assertEqual([a + b for a, b in zip(*ranks)], self.numbers())

    # Accelerate.

    @needs("accelerate")
    def test_accelerate_example(self):
        output = self.run_python(*self.example("accelerate_train.py", "1"))
        self.assertIn("epoch 0", output)
        output = self.run_python(*self.example("accelerate_train.py", "2"))
        self.assertNotIn("epoch 0", output)
        self.assertIn("epoch 1", output)

    @needs("accelerate")
    def test_accelerate_example_of_ranks(self):
        output = self.run_ranks(*self.example("accelerate_train.py", "2"))
        self.assertEqual(output.count("accuracy"), 2, output)

    @needs("accelerate")
    def test_accelerate(self):
        import torch
        from accelerate import Accelerator

        accelerator = Accelerator(cpu=True)
        loader = self.loader(framework="torch", device=accelerator.device)
        model = torch.nn.Linear(3, 4)
        model, _, prepared = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1), loader)
        self.assertIs(prepared, loader)
        expected = self.numbers()
        iterator = iter(prepared)
        self.assertEqual(next(iterator)[2].tolist(), expected[0])
        accelerator.register_for_checkpointing(prepared)
        accelerator.save_state(os.path.join(self.work, "state"))
        self.assertEqual([batch[2].tolist() for batch in iterator], expected[1:])
        accelerator.load_state(os.path.join(self.work, "state"))
        self.assertEqual([batch[2].tolist() for batch in prepared], expected[1:])

    # JAX.

    @needs("jax")
    def test_jax_example(self):
        output = self.run_python(*self.example("jax_train.py", "2"))
        self.assertEqual(output.count("accuracy"), 2, output)

    @needs("jax")
    def test_jax(self):
        import jax

        arrays = list(self.loader(framework="numpy", layout="nhwc"))
        batches = list(self.loader(framework="jax"))  # all kept: memory of one must not become another's
        for batch, expected in zip(batches, arrays):
            images, labels, samples = batch
            self.assertIsInstance(images, jax.Array)
            self.assertEqual((images.shape, str(images.dtype)), ((32, 16, 16, 3), "uint8"))
            self.assertEqual((str(labels.dtype), str(samples.dtype)), ("int32", "int32"))
            for one, other in zip(batch, expected):
                np.testing.assert_array_equal(np.asarray(one), other)
        self.assertEqual(sorted(sum((batch[2].tolist() for batch in batches), [])), list(range(TRAIN)))
        for output in ("float32", "float16", "bfloat16"):
            images = next(iter(self.loader(framework="jax", output=output, layout="nchw", device="cpu")))[0]
            self.assertEqual((images.shape, str(images.dtype)), ((32, 3, 16, 16), output))
        single, expected = (next(iter(self.loader(framework=framework, output="float32", layout="nhwc")))[0]
                            for framework in ("jax", "numpy"))
        np.testing.assert_array_equal(np.asarray(single), expected)

    @needs("jax")
    def test_jax_devices(self):
        output = self.run_python(self.program(JAX_DEVICES), self.path)
        self.assertEqual(output, "[(16, 16, 16, 3), (16, 16, 16, 3)] [(16,), (16,)]\n")


RANK = """
import json, sys, torch
from composer_loader import Loader
torch.distributed.init_process_group("gloo")
found = {}
for pipeline in ("train", "eval"):
    loader = Loader(sys.argv[1], 16, size=16, samples=True, num_workers=1, pipeline=pipeline)
    found[pipeline] = [batch[2].tolist() for batch in loader]
loader = Loader(sys.argv[1], 16, size=16, samples=True, num_workers=1)
next(iter(loader))
found["state"] = loader.state_dict()
other = Loader(sys.argv[1], 16, size=16, samples=True, num_workers=1)
other.load_state_dict(found["state"])
found["resumed"] = [batch[2].tolist() for batch in other]
with open(f"{torch.distributed.get_rank()}.json", "w") as file:
    json.dump(found, file)
torch.distributed.destroy_process_group()
"""

# Prints what the batches of an example's training are, and ends the process at a step.
WATCHED = """
import os, runpy, sys, zlib
import lightning

end = int(sys.argv.pop())
del sys.argv[0]

class Watch(lightning.Callback):
    def on_train_batch_start(self, trainer, module, batch, index):
        if end and trainer.global_step == end:
            os._exit(3)
        images = batch[0].permute(0, 2, 3, 1).contiguous().numpy()
        print("step", trainer.global_step, trainer.current_epoch, zlib.crc32(images), flush=True)

Trainer = lightning.Trainer
lightning.Trainer = lambda callbacks, **words: Trainer(callbacks=[Watch(), *callbacks], enable_progress_bar=False, **words)
runpy.run_path(sys.argv[0], run_name="__main__")
"""

LIGHTNING_RANK = """
import json, sys
import lightning, torch
from composer_loader import Loader

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(3, 4)
        self.seen = []

    def training_step(self, batch, _):
        self.seen.append(batch[2].tolist())
        return torch.nn.functional.cross_entropy(self.net(batch[0].float().mean((2, 3))), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

train = Loader(sys.argv[1], 16, size=16, samples=True, num_workers=1)
model = Model()
trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", devices=2, strategy="ddp", logger=False, enable_checkpointing=False,
                            enable_progress_bar=False)
trainer.fit(model, train)
with open(f"{trainer.global_rank}.json", "w") as file:
    json.dump(model.seen, file)
trainer.strategy.barrier()
"""

JAX_DEVICES = """
import os, sys
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax
from composer_loader import Loader
from jax.sharding import NamedSharding, PartitionSpec

sharding = NamedSharding(jax.make_mesh((2,), ("data",)), PartitionSpec("data"))
batch = next(iter(Loader(sys.argv[1], 32, size=16, framework="jax", device=sharding)))
print(*[[shard.data.shape for shard in part.addressable_shards] for part in batch])
"""


if __name__ == "__main__":
    unittest.main()
