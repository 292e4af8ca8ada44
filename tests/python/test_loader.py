"""Tests of composer_loader: python -m unittest, with the built packages on PYTHONPATH."""

import functools
import gc
import http.server
import importlib.util
import inspect
import io
import json
import logging
import multiprocessing
import os
import pickle
import subprocess
import sys
import tarfile
import tempfile
import threading
import unittest

import composer_loader
import numpy as np
from composer_loader import BadSample, Loader

HAS_TORCH = importlib.util.find_spec("torch") is not None
HAS_JAX = importlib.util.find_spec("jax") is not None
IMAGES = 40
EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/python/train.py")


def make_images(folder, count=IMAGES, side=40):
    """`count` images of noise in the classes a to d."""
    numbers = np.random.default_rng(0)
    for i in range(count):
        os.makedirs(os.path.join(folder, "abcd"[i % 4]), exist_ok=True)
        with open(os.path.join(folder, "abcd"[i % 4], f"{i:03}.ppm"), "wb") as file:
            file.write(f"P6 {side} {side} 255\n".encode())
            file.write(numbers.integers(0, 255, (side, side, 3), dtype=np.uint8).tobytes())


def threads():
    return len(os.listdir("/proc/self/task"))


class Files(http.server.BaseHTTPRequestHandler):
    """The files of a folder, whole or by ranges."""

    protocol_version = "HTTP/1.1"

    def __init__(self, folder, *arguments):
        self.folder = folder
        super().__init__(*arguments)

    def do_GET(self):
        try:
            with open(self.folder + self.path, "rb") as file:
                content = file.read()
        except OSError:
            self.send_response(404)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        first, last = 0, len(content) - 1
        if "Range" in self.headers:
            first, last = (int(one) for one in self.headers["Range"][len("bytes="):].split("-"))
            last = min(last, len(content) - 1)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        else:
            self.send_response(200)
        self.send_header("ETag", '"1"')
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(last + 1 - first))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content[first:last + 1])

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


class LoaderTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = cls.folder.name
        make_images(cls.path)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def loader(self, batch_size=8, **arguments):
        arguments = {"size": 16, "framework": "numpy", "num_workers": 2, "samples": True, **arguments}
        return Loader(self.path, batch_size, **arguments)

    def numbers(self, batches):
        """The samples' numbers, batch by batch."""
        return [batch[2].tolist() for batch in batches]

    def run_python(self, program, **options):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.run([sys.executable, "-c", program, self.path], env=environment, capture_output=True,
                              text=True, timeout=120, **options)

    # Epochs and iterations.

    def test_epochs(self):
        loader = self.loader()
        self.assertEqual((len(loader), loader.num_samples, loader.num_classes), (5, IMAGES, 4))
        self.assertEqual(loader.class_names, ["a", "b", "c", "d"])
        first, second = self.numbers(loader), self.numbers(loader)
        self.assertNotEqual(first, second)
        for epoch in (first, second):
            self.assertEqual(sorted(sum(epoch, [])), list(range(IMAGES)))
        again = self.loader(num_workers=0)
        again.set_epoch(1)
        self.assertEqual(self.numbers(again), second)
        again.sampler.set_epoch(0)
        self.assertEqual(self.numbers(again), first)
        self.assertEqual(self.numbers(again), second)

    def test_broken_off(self):
        loader = self.loader()
        epochs = self.numbers(loader), self.numbers(loader), self.numbers(loader)
        other = self.loader()
        for batch in other:
            self.assertEqual(batch[2].tolist(), epochs[0][0])
            break
        self.assertEqual(self.numbers(other), epochs[1])
        iterator = iter(other)  # begins nothing yet
        self.assertEqual(self.numbers(iter(other)), epochs[2])
        del iterator

    def test_len_batches_without_the_end(self):
        loader = self.loader()
        epochs = self.numbers(loader), self.numbers(loader)
        other = self.loader()
        iterator = iter(other)
        for _ in range(len(other)):
            next(iterator)
        self.assertEqual(other.state_dict()["epoch"], 1)
        self.assertEqual(self.numbers(other), epochs[1])
        self.assertRaises(StopIteration, next, iterator)
        self.assertRaises(StopIteration, next, iterator)

    def test_two_iterators(self):
        loader = self.loader()
        epochs = self.numbers(loader), self.numbers(loader)
        other = self.loader()
        pairs = list(zip(other, other))
        self.assertEqual(self.numbers(pair[0] for pair in pairs), epochs[0])
        self.assertEqual(self.numbers(pair[1] for pair in pairs), epochs[1])

    def test_nothing_grows(self):
        loader = self.loader()
        for batch in loader:
            break
        gc.collect()
        before = threads()
        for _ in range(200):
            for batch in loader:
                break
        self.assertEqual(threads(), before)
        self.assertEqual(loader.state_dict()["epoch"], 200)
        loader.close()
        self.assertLess(threads(), before)
        self.assertRaises(ValueError, iter, loader)

    def test_context(self):
        before = threads()
        with self.loader() as loader:
            iterator = iter(loader)
            batch = next(iterator)
            kept = batch[0].copy()
        self.assertEqual(threads(), before)
        self.assertRaisesRegex(ValueError, "closed", next, iterator)
        np.testing.assert_array_equal(batch[0], kept)  # batches stay valid

    def test_batches_keep_their_memory(self):
        loader = self.loader()
        kept = [(batch[0], batch[0].copy()) for _ in range(3) for batch in loader]
        del loader
        gc.collect()
        for images, copy in kept:
            np.testing.assert_array_equal(images, copy)

    def test_closing_under_calls(self):
        for delay in range(0, 20, 2):
            loader = self.loader(1)
            timer = threading.Timer(delay / 1000, loader.close)
            timer.start()
            with self.assertRaisesRegex(ValueError, "closed"):
                while True:
                    list(loader)
            timer.join()

    def test_cycles_of_iterators(self):
        loader = self.loader()
        expected = self.numbers(self.loader())
        for _ in range(3):
            iterator = iter(loader)
            next(iterator)
            cycle = [iterator]
            cycle.append(cycle)
            del iterator, cycle
            gc.collect()
            self.assertEqual(len(self.numbers(loader)), 5)
        loader.set_epoch(0)
        self.assertEqual(self.numbers(loader), expected)

    def test_failed_beginning(self):
        fails = []

        def size(epoch):
            if fails:
                raise IndexError(fails.pop())
            return 16

        loader = self.loader(size=size)
        state = {**loader.state_dict(), "epoch": 2, "batch": 3}
        loader.load_state_dict(state)
        fails.append("once")
        self.assertRaises(IndexError, next, iter(loader))
        self.assertEqual(loader.state_dict(), state)
        self.assertEqual(len(list(loader)), 2)

    def test_rows(self):
        words = {"order": "sequential", "drop_last": False}
        for rows in ("0-9,20", [*range(10), 20], np.array([*range(10), 20])):
            self.assertEqual(sum(self.numbers(self.loader(rows=rows, **words)), []), [*range(10), 20])
        loader = self.loader(rows=range(30, 40), **words)
        self.assertEqual(sum(self.numbers(loader), []), list(range(30, 40)))
        self.assertTrue(loader.sample_name(39).endswith("/d/039.ppm"))
        self.assertRaisesRegex(ValueError, "40", loader.sample_name, 40)

    def test_set_epoch_in_a_loop(self):
        loader = self.loader()
        epochs = [self.numbers(self.loader())] + [None] * 7
        other = self.loader()
        other.set_epoch(7)
        epochs[7] = self.numbers(other)
        seen = []
        for batch in loader:
            seen.append(batch[2].tolist())
            loader.set_epoch(7)
            if len(seen) < 5:
                self.assertEqual((loader.state_dict()["epoch"], loader.state_dict()["batch"]), (0, len(seen)))
        self.assertEqual((seen, loader.state_dict()["epoch"]), (epochs[0], 7))
        self.assertEqual(self.numbers(loader), epochs[7])

    # States.

    def test_states(self):
        loader = self.loader()
        states, batches = [loader.state_dict()], []
        for _ in range(2):
            for batch in loader:
                batches.append(batch[2].tolist())
                states.append(loader.state_dict())
        self.assertEqual([(s["epoch"], s["batch"]) for s in states],
                         [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (2, 0)])
        for done, state in enumerate(states[:-1]):
            resumed = self.loader()
            iterator = iter(resumed)  # has handed out nothing: it moves too
            resumed.load_state_dict(json.loads(json.dumps(state)))
            self.assertEqual(resumed.state_dict(), state)
            resumed.set_epoch(state["epoch"])  # a training loop's call does not undo it
            self.assertEqual(next(iterator)[2].tolist(), batches[done])

    def test_states_of_ranks(self):
        whole = self.numbers(self.loader())
        state = self.loader().state_dict()
        one = self.loader()
        for batch in one:
            state = one.state_dict()
            if state["batch"] == 2:
                break
        shares = []
        for rank in range(2):
            loader = self.loader(4, rank=rank, world_size=2)
            loader.load_state_dict(state)
            self.assertEqual(len(loader), 5)
            shares.append(self.numbers(loader))
        self.assertEqual([a + b for a, b in zip(*shares)], whole[2:])

    def test_states_are_refused(self):
        state = self.loader().state_dict()
        with tempfile.TemporaryDirectory() as other:
            make_images(other, 44)
            with self.assertRaisesRegex(ValueError, "other data: 40 samples"):
                Loader(other, 8, size=16, framework="numpy").load_state_dict(state)
        for arguments, key in (({"seed": 1}, "seed"), ({"batch_size": 4}, "global_batch_size")):
            with self.assertRaisesRegex(ValueError, key):
                self.loader(**arguments).load_state_dict(state)
        self.assertRaisesRegex(ValueError, "no state", self.loader().load_state_dict, {"epoch": 1})
        for arguments in ({"rows": "0-39"}, {"order": "sequential"}, {"views": 2}, {"split": 0.2}, {"drop_last": False}):
            with self.subTest(arguments), self.assertRaisesRegex(ValueError, "other"):
                self.loader(**arguments).load_state_dict(state)

    # Kinds of batches.

    def test_numpy(self):
        images, labels, samples = next(iter(self.loader()))
        self.assertEqual((images.shape, images.dtype, labels.dtype), ((8, 3, 16, 16), np.uint8, np.int64))
        self.assertEqual(images.strides, (768, 1, 48, 3))
        np.testing.assert_array_equal(labels, samples // 10)
        rows = next(iter(self.loader(layout="nhwc")))[0]
        planes = next(iter(self.loader(layout="nchw")))[0]
        np.testing.assert_array_equal(rows.transpose(0, 3, 1, 2), images)
        np.testing.assert_array_equal(planes, images)
        self.assertTrue(planes.flags.c_contiguous and rows.flags.c_contiguous)

    def test_outputs(self):
        mean, std = np.array([0.5, 0.4, 0.3]), np.array([0.2, 0.25, 0.3])
        pixels = next(iter(self.loader(layout="nhwc")))[0]
        exact = (pixels - mean * 255) / (std * 255)
        single = next(iter(self.loader(layout="nhwc", output="float32", mean=mean, std=std)))[0]
        half = next(iter(self.loader(layout="nhwc", output="float16", mean=mean, std=std)))[0]
        self.assertEqual((single.dtype, half.dtype), (np.float32, np.float16))
        np.testing.assert_allclose(single, exact, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(half, exact.astype(np.float16))

    def test_sizes_of_epochs(self):
        asked = []

        def size(epoch):
            asked.append(epoch)
            return 8 + 4 * min(epoch, 3)

        loader = self.loader(size=size)
        for epoch in range(6):
            self.assertEqual({batch[0].shape[2:] for batch in loader}, {(8 + 4 * min(epoch, 3),) * 2})
        fresh = self.loader(size=size)
        fresh.set_epoch(2)
        self.assertEqual(next(iter(fresh))[0].shape[2:], (16, 16))

    def test_incomplete_batches(self):
        loader = self.loader(16, pipeline="eval")
        self.assertEqual([len(batch[0]) for batch in loader], [16, 16, 8])
        self.assertEqual(len(loader.dataset), IMAGES)
        shares = [[len(batch[0]) for batch in self.loader(13, pipeline="eval", rank=rank, world_size=3)] for rank in range(3)]
        self.assertEqual(shares, [[13, 0], [13, 0], [13, 1]])

    @unittest.skipUnless(HAS_TORCH, "PyTorch is not installed")
    def test_torch(self):
        import torch

        arrays = next(iter(self.loader()))
        for layout in ("channels_last", "nchw", "nhwc"):
            images, labels, samples = next(iter(self.loader(framework="torch", layout=layout)))
            self.assertIsInstance(images, torch.Tensor)
            self.assertEqual((images.dtype, labels.dtype, tuple(labels.shape)), (torch.uint8, torch.int64, (8,)))
            planes = images.permute(0, 3, 1, 2) if layout == "nhwc" else images
            np.testing.assert_array_equal(planes.numpy(), arrays[0])
            self.assertTrue(planes.is_contiguous(memory_format=torch.contiguous_format if layout == "nchw" else torch.channels_last))
            images.fill_(0)  # a batch is its owner's to write
        one = next(iter(self.loader(1, framework="torch")))[0]
        self.assertTrue(one.is_contiguous(memory_format=torch.channels_last))
        brain = next(iter(self.loader(framework="torch", output="bfloat16")))[0]
        single = next(iter(self.loader(framework="torch", output="float32")))[0]
        self.assertEqual(brain.dtype, torch.bfloat16)
        self.assertTrue(torch.equal(brain, single.to(torch.bfloat16)))
        self.assertTrue(torch.equal(next(iter(self.loader(framework="torch", device="cpu")))[0].float(),
                                    next(iter(self.loader(framework="torch")))[0].float()))

    @unittest.skipUnless(HAS_TORCH, "PyTorch is not installed")
    def test_given_memory(self):
        """The path of page-locked memory, with ordinary memory in its place."""
        import torch

        expected = [batch[0].copy() for batch in self.loader()] + [batch[0].copy() for batch in self.loader(seed=0)]
        empty, available = torch.empty, torch.cuda.is_available
        torch.empty = lambda *a, pin_memory=False, **k: empty(*a, **k)
        torch.cuda.is_available = lambda: True
        pin, torch.Tensor.pin_memory = torch.Tensor.pin_memory, lambda tensor: tensor
        try:
            loader = self.loader(framework="torch")
            batches = [batch[0] for batch in loader]
            for _ in loader:
                break
        finally:
            torch.empty, torch.cuda.is_available, torch.Tensor.pin_memory = empty, available, pin
        for images, copy in zip(batches, expected):
            np.testing.assert_array_equal(images.numpy(), copy)

    @unittest.skipUnless(HAS_JAX, "JAX is not installed")
    def test_jax(self):
        import jax

        images, labels, _ = next(iter(self.loader(framework="jax")))
        self.assertIsInstance(images, jax.Array)
        np.testing.assert_array_equal(np.asarray(images), next(iter(self.loader(layout="nhwc")))[0])
        self.assertEqual(next(iter(self.loader(framework="jax", output="bfloat16")))[0].dtype, jax.numpy.bfloat16)

    # Errors.

    def test_arguments(self):
        for arguments, text in (
            ({"batch_size": 0}, "batch_size: must be in"),
            ({"batch_size": 41}, "drop_last"),
            ({"order": "shuffled"}, "order: must be"),
            ({"siz": 3}, "siz: .* did you mean size"),
            ({"shuffle": True}, "shuffle: .*order is"),
            ({"collate_fn": len}, "collate_fn: "),
            ({"pipeline": "trian"}, "pipeline: 'trian'"),
            ({"pipeline": {"flp": 1}}, "pipeline.flp: .*did you mean 'flip'"),
            ({"pipeline": {"flip": 2}}, "pipeline.flip: must be in"),
            ({"mean": [123.7, 116.3, 103.5]}, "mean: .*divide it by 255"),
            ({"rows": "0-99"}, "rows: '0-99' is beyond"),
            ({"split": 2.0}, "split.val"),
            ({"views": 3}, "views: "),
            ({"resize_size": 9}, "resize_size: "),
            ({"output": "int8"}, "output: must be"),
            ({"output": "bfloat16"}, "output: NumPy has no bfloat16"),
            ({"layout": "nwhc"}, "layout: 'nwhc'"),
            ({"framework": "tf"}, "framework: 'tf'"),
            ({"device": "cuda:99"}, "device: "),
            ({"size": (1, 2, 3)}, "size: "),
            ({"size": "big"}, "size: 'big'"),
            ({"size": 0}, "size: must be"),
            ({"size": (16, None)}, "size: None"),
            ({"rows": [0.5]}, "rows: 0.5"),
            ({"pipeline": None}, "pipeline: "),
            ({"split": 0.95}, "split: "),
            ({"mean": [0.5, 0.5, 0.5]}, "mean: needs an output"),
            ({"framework": "torch", "device": "meta"}, "device: |not installed"),
            ({"seed": -1}, "seed: must be"),
            ({"num_workers": "a"}, "num_workers: must be"),
            ({"on_bad_sample": "ignore"}, "on_bad_sample: must be"),
            ({"remote": {"regoin": "x"}}, "remote.regoin: .*did you mean 'region'"),
            ({"rank": 1}, "rank and world_size"),
            ({"rank": 2, "world_size": 2}, "rank: 2"),
            ({"size": lambda epoch: 16, "pipeline": "eval"}, "size: "),
        ):
            with self.subTest(arguments), self.assertRaisesRegex(ValueError, text):
                self.loader(**{"batch_size": 8, **arguments})
        self.assertRaises(TypeError, self.loader, siz=3)

    def test_files(self):
        self.assertRaisesRegex(OSError, "only loose image files", Loader, os.path.join(self.path, "a"), 2)
        self.assertRaisesRegex(FileNotFoundError, "/no/such.beton", Loader, "/no/such.beton", 2)
        self.assertRaisesRegex(FileNotFoundError, "list.csv", Loader, "/no/list.csv", 2)
        with tempfile.NamedTemporaryFile(suffix=".beton") as file:
            file.write(b"no beton at all, but long enough for a header")
            file.flush()
            self.assertRaisesRegex(OSError, "beton", Loader, file.name, 2)

    def test_remote_shards(self):
        with tempfile.TemporaryDirectory() as folder:
            for shard in range(2):
                with tarfile.open(os.path.join(folder, f"s-{shard}.tar"), "w") as tar:
                    for i in range(shard * 20, shard * 20 + 20):
                        tar.add(os.path.join(self.path, "abcd"[i % 4], f"{i:03}.ppm"), f"{i:03}.ppm")
                        label = tarfile.TarInfo(f"{i:03}.cls")
                        label.size = 1
                        tar.addfile(label, io.BytesIO(str(i % 4).encode()))
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, folder))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            words = {"batch_size": 8, "size": 16, "framework": "numpy", "samples": True}
            remote = {"cache_dir": os.path.join(folder, "cache")}
            local = [batch for batch in Loader(folder + "/s-{0..1}.tar", **words)]
            address = f"http://127.0.0.1:{server.server_port}/s-{{0..1}}.tar"
            for mine, there in zip(local, Loader(address, remote=remote, **words)):
                for one, other in zip(mine, there):
                    np.testing.assert_array_equal(one, other)
            with self.assertRaises(OSError):
                Loader(address.replace("s-", "t-"), remote=remote, **words)
            server.shutdown()
            server.server_close()

    def test_bad_samples(self):
        with tempfile.TemporaryDirectory() as folder:
            make_images(folder)
            bad = os.path.join(folder, "b", "005.ppm")
            with open(bad, "wb") as file:
                file.write(b"P6 40 40 255\nshort")
            loader = Loader(folder, 8, size=16, framework="numpy", samples=True)
            with self.assertRaises(BadSample) as caught:
                list(loader)
            self.assertEqual(caught.exception.path, bad)
            self.assertIn('on_bad_sample="skip"', str(caught.exception))
            self.assertEqual(pickle.loads(pickle.dumps(caught.exception)).index, caught.exception.index)
            with self.assertLogs("composer_loader", logging.WARNING) as logs:
                left = self.numbers(Loader(folder, 8, size=16, framework="numpy", samples=True, on_bad_sample="skip"))
            self.assertEqual(len(sum(left, [])), IMAGES - 1)
            self.assertIn(bad, "".join(logs.output))
            with self.assertLogs("composer_loader", logging.WARNING):
                replaced = self.numbers(Loader(folder, 8, size=16, framework="numpy", samples=True, on_bad_sample="replace"))
            self.assertEqual([len(batch) for batch in replaced], [8] * 5)
            broken = iter(Loader(folder, 8, size=16, framework="numpy"))
            outcomes = []
            while True:  # a batch with a bad sample is passed over
                try:
                    outcomes.append(len(next(broken)[0]))
                except BadSample:
                    outcomes.append("bad")
                except StopIteration:
                    break
            self.assertEqual(sorted(map(str, outcomes)), ["8"] * 4 + ["bad"])

    # Processes and threads.

    def test_thread(self):
        loader, found = self.loader(), []
        expected = self.numbers(self.loader())
        other = threading.Thread(target=lambda: found.extend(self.numbers(loader)))
        other.start()
        other.join()
        self.assertEqual(found, expected)

    def test_pickle(self):
        loader = self.loader()
        iterator = iter(loader)
        next(iterator)
        other = pickle.loads(pickle.dumps(loader))
        self.assertEqual(other.state_dict(), loader.state_dict())
        other.load_state_dict(other.state_dict())
        self.assertEqual(self.numbers(other), self.numbers(iterator))

    def test_fork(self):
        loader = self.loader()
        iterator = iter(loader)
        next(iterator)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                try:
                    next(iterator)
                except RuntimeError:
                    status = 0 if len(list(loader)) == 5 else 2
            finally:
                os._exit(status)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if hasattr(os, "waitstatus_to_exitcode")
                         else os.waitpid(child, 0)[1], 0)
        self.assertEqual(len(list(iterator)), 4)

    def test_spawn(self):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            self.assertEqual(pool.apply(count, (self.loader(),)), 5)

    def test_interruption(self):
        """Ctrl-C in a loop that waits for the next batch."""
        program = (
            "import sys, os, signal, threading, time\n"
            "from composer_loader import _native, Loader\n"
            "_native._next = lambda *_: time.sleep(0.05) or _native.WAIT\n"
            "threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()\n"
            "try:\n    next(iter(Loader(sys.argv[1], 8, size=16, framework='numpy')))\n"
            "except KeyboardInterrupt:\n    print('interrupted')\n"
        )
        done = self.run_python(program)
        self.assertEqual((done.stdout, done.returncode), ("interrupted\n", 0))

    def test_exit_in_mid_epoch(self):
        program = (
            "import sys\nfrom composer_loader import Loader\n"
            "iterator = iter(Loader(sys.argv[1], 8, size=16, framework='numpy'))\nbatch = next(iterator)\n"
        )
        done = self.run_python(program)
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("", "", 0))

    def test_imports(self):
        program = (
            "import sys\nimport composer_loader\n"
            "loader = composer_loader.Loader(sys.argv[1], 8, size=16, framework='numpy')\nnext(iter(loader))\n"
            "print([name for name in ('torch', 'jax') if name in sys.modules])\n"
        )
        self.assertEqual(self.run_python(program).stdout, "[]\n")

    def test_ranks_of_the_environment(self):
        program = (
            "import sys\nfrom composer_loader import Loader\n"
            "print(Loader(sys.argv[1], 4, size=16, framework='numpy'))\n"
        )
        environment = {**os.environ, "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
        environment["PYTHONPATH"] = os.pathsep.join(sys.path)
        done = subprocess.run([sys.executable, "-c", program, self.path], env=environment, capture_output=True, text=True)
        self.assertIn("rank=1, world_size=2", done.stdout, done.stderr)

    @unittest.skipUnless(HAS_TORCH, "PyTorch is not installed")
    def test_ranks_of_torch(self):
        """torch.distributed tells the ranks, also where it is initialised later; other arguments are refused."""
        import torch

        with tempfile.TemporaryDirectory() as folder:
            early = self.loader(4, framework="torch")  # of one rank, as far as it knows
            words = (early, self.path, os.path.join(folder, "store"))
            torch.multiprocessing.spawn(use_ranks, args=words, nprocs=2)

    def test_ranks_of_lightning(self):
        program = "import sys\nfrom composer_loader import Loader\niter(Loader(sys.argv[1], 4, framework='numpy'))\n"
        environment = {**os.environ, "WORLD_SIZE": "2", "LOCAL_RANK": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        environment.pop("RANK", None)
        done = subprocess.run([sys.executable, "-c", program, self.path], env=environment, capture_output=True, text=True)
        self.assertIn("ValueError: RANK: is not set", done.stderr)

    # Documentation.

    @unittest.skipUnless(HAS_TORCH and os.path.exists(EXAMPLE), "PyTorch is not installed, or there are no examples")
    def test_example(self):
        with tempfile.TemporaryDirectory() as folder:
            words = [sys.executable, EXAMPLE, self.path, os.path.join(folder, "state")]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
            done = subprocess.run(words, env=environment, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout.count("accuracy")), (0, 3), done.stderr)
            again = subprocess.run(words, env=environment, capture_output=True, text=True)
            self.assertEqual((again.returncode, again.stdout.split(": ")[-1]), (0, "3 epochs are done\n"), again.stderr)

    def test_help(self):
        text = inspect.getdoc(Loader)
        for name in inspect.signature(Loader).parameters:
            if name != "unknown":
                self.assertRegex(text, rf"\b{name}\b")
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(composer_loader.__file__), "py.typed")))
        self.assertIn("batch_size=8, size=(16, 16)", repr(self.loader(output="float32", mean=np.full(3, 0.5))))


def count(loader):
    return len(list(loader))


def use_ranks(rank, early, path, store):
    import torch

    words = {"size": 16, "framework": "torch", "samples": True}
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    late = Loader(path, 4, num_workers=2, **words)
    mine = [batch[2].tolist() for batch in late]
    assert [batch[2].tolist() for batch in early] == mine and len(mine) == 5, (early, late)
    whole = [batch[2].tolist() for batch in Loader(path, 8, rank=0, world_size=1, **words)]
    assert mine == [batch[4 * rank:4 * rank + 4] for batch in whole]
    torch.distributed.barrier()
    refused = 0
    try:
        Loader(path, 4 + rank, pipeline="eval", **words)
    except ValueError as error:
        assert "batch_size: rank" in str(error)
        refused = 1
    total = torch.tensor(refused)
    torch.distributed.all_reduce(total)
    assert total == 1
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    unittest.main()
