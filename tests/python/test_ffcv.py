"""Tests of composer_loader.ffcv: python -m unittest, with the built packages on PYTHONPATH."""

import gc
import gzip
import hashlib
import importlib
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
import tempfile
import unittest

import numpy as np

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed")

import composer_loader
from composer_loader.ffcv import DatasetWriter
from composer_loader.ffcv.fields import BytesField, FloatField, IntField, JSONField, NDArrayField, RGBImageField, TorchTensorField
from composer_loader.ffcv.fields.decoders import (
    CenterCropRGBImageDecoder,
    IntDecoder,
    NDArrayDecoder,
    RandomResizedCropRGBImageDecoder,
    SimpleRGBImageDecoder,
)
from composer_loader.ffcv.fields.rgb_image import ResizedCropRGBImageDecoder
from composer_loader.ffcv.loader import Loader, OrderOption
from composer_loader.ffcv.pipeline import PipelineSpec
from composer_loader.ffcv.pipeline.operation import Operation
from composer_loader.ffcv.reader import Reader
from composer_loader.ffcv.transforms import (
    Convert,
    Cutout,
    ImageMixup,
    LabelMixup,
    MixupToOneHot,
    NormalizeImage,
    Poison,
    RandomBrightness,
    RandomContrast,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomSaturation,
    RandomTranslate,
    ReplaceLabel,
    Squeeze,
    ToDevice,
    ToTensor,
    ToTorchImage,
    View,
)
from composer_loader.ffcv.traversal_order import Random, TraversalOrder

try:
    import torchvision
except ImportError:
    torchvision = None

VECTORS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../vectors")
SHARED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../shared/fixtures")
SAMPLES, SIDE = 40, 16
MEAN, STD = np.array([125.3, 122.9, 113.8]), np.array([62.9, 62.0, 66.7])


class Images:
    """Noise of SIDE pixels with its number as its label."""

    def __init__(self, count=SAMPLES):
        self.images = np.random.default_rng(0).integers(0, 256, (count, SIDE, SIDE, 3), np.uint8)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], int(i)


class Twice(Random):
    """Each sample twice."""

    def sample_order(self, epoch):
        return np.repeat(super().sample_order(epoch), 2)


class Balanced(TraversalOrder):
    """Reads the Loader that it is made for."""

    def __init__(self, loader, share):
        super().__init__(loader)
        self.count = int(share * len(self.indices))
        assert (loader.num_workers, loader.drop_last, loader.batch_size, loader.next_epoch) == (2, True, 8, 0)
        assert loader.reader.num_samples == SAMPLES

    def sample_order(self, epoch):
        return list(self.indices[: self.count + epoch])  # later epochs are cut


class Doubled(Operation):
    def generate_code(self):
        return lambda batch, memory: batch * 2


class Cases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = cls.holder.name
        os.environ["XDG_CACHE_HOME"] = cls.folder  # of crop indices
        cls.data = Images()
        cls.path = os.path.join(cls.folder, "images.beton")
        DatasetWriter(cls.path, {"image": RGBImageField(), "label": IntField()}, num_workers=1).from_indexed_dataset(cls.data)
        cls.jpegs = os.path.join(cls.folder, "jpegs.beton")
        with gzip.open(os.path.join(VECTORS, "ffcv_jpeg.beton.gz")) as packed, open(cls.jpegs, "wb") as file:
            file.write(packed.read())

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def loader(self, image, label=(IntDecoder(), ToTensor(), Squeeze()), **words):
        words = {"batch_size": 8, "num_workers": 2, "seed": 0, **words}
        return Loader(words.pop("fname", self.path), pipelines={"image": list(image), "label": list(label)}, **words)

    def images(self, *operations, **words):
        """The images of an epoch, in the order of the samples, after these operations, and the samples' own."""
        loader = self.loader([SimpleRGBImageDecoder(), *operations], **words)
        given = np.concatenate([np.asarray(images) for images, _ in loader])
        return given, self.data.images[: len(given)]

    def refused(self, words, function, *arguments, error=ValueError, **named):
        with self.assertRaises(error) as caught:
            function(*arguments, **named)
        for word in words.split("|"):
            self.assertIn(word, str(caught.exception))


class Form(Cases):
    def test_import_paths_of_scripts(self):
        for line in (
            "loader:Loader,OrderOption",
            "loader.loader:Loader,OrderOption",
            "writer:DatasetWriter",
            "fields:IntField,FloatField,RGBImageField,BytesField,NDArrayField,TorchTensorField,JSONField,Field",
            "fields.basics:IntDecoder,FloatDecoder,IntField,FloatField",
            "fields.bytes:BytesField,BytesDecoder",
            "fields.json:JSONField",
            "fields.ndarray:NDArrayDecoder,NDArrayField,TorchTensorField",
            "fields.rgb_image:SimpleRGBImageDecoder,RandomResizedCropRGBImageDecoder,CenterCropRGBImageDecoder,RGBImageField",
            "fields.decoders:IntDecoder,FloatDecoder,BytesDecoder,NDArrayDecoder,SimpleRGBImageDecoder",
            "transforms:ToTensor,ToDevice,ToTorchImage,NormalizeImage,Convert,Squeeze,View,RandomResizedCrop,ModuleWrapper",
            "transforms:RandomHorizontalFlip,RandomTranslate,Cutout,ImageMixup,LabelMixup,MixupToOneHot,Poison,ReplaceLabel",
            "transforms:RandomBrightness,RandomContrast,RandomSaturation",
            "transforms.common:Squeeze",
            "transforms.ops:ToTorchImage,ToTensor,ToDevice,Convert",
            "pipeline:PipelineSpec,Compiler",
            "pipeline.operation:Operation",
            "pipeline.state:State",
            "pipeline.allocation_query:AllocationQuery",
            "pipeline.compiler:Compiler",
            "reader:Reader",
            "traversal_order:Random,Sequential,QuasiRandom",
            "traversal_order.base:TraversalOrder",
        ):
            module, names = line.split(":")
            for name in names.split(","):
                self.assertTrue(hasattr(importlib.import_module("composer_loader.ffcv." + module), name), line)
        # Each path works as the first import of a process.
        for path in ("fields.basics", "transforms.ops", "loader.loader", "pipeline.operation"):
            subprocess.run([sys.executable, "-c", f"import composer_loader.ffcv.{path} as it; it.__name__"], check=True)
        import composer_loader.ffcv as ffcv

        self.assertIs(ffcv.fields.decoders.IntDecoder, IntDecoder)
        self.assertIs(ffcv.Loader, Loader)

    def test_ffcv_exact_gives_the_bytes_of_ffcv(self):
        with open(os.path.join(VECTORS, "ffcv_jpeg.json")) as file:
            expected = json.load(file)
        for column, size, ratio in ((1, 224, 224 / 256), (2, 64, 1)):
            loader = Loader(
                self.jpegs, 5, pipelines={"image": [CenterCropRGBImageDecoder((size, size), ratio)]}, drop_last=False, ffcv_exact=True
            )
            given = [
                [int(label), hashlib.sha256(image.tobytes()).hexdigest()]
                for images, labels in loader
                for image, label in zip(images, labels)
            ]
            self.assertEqual(given, [[row[0], row[column]] for row in expected])

    def test_fields_of_ffcvs_own_files(self):
        path = os.path.join(SHARED, "syn12_allfields.beton")
        if not os.path.exists(path):
            self.skipTest("there is no ../shared/fixtures")
        with open(path[: -len("beton")] + "json") as file:
            samples = json.load(file)["samples"]
        loader = Loader(path, 5, drop_last=False, pipelines={"image": None}, order=OrderOption.RANDOM, seed=3)
        order = iter(np.random.default_rng(3).permutation(12))
        for labels, w, vec, info, blob in loader:
            for i in range(len(labels)):
                one = samples[next(order)]
                self.assertEqual((labels[i].item(), w[i].item()), (one["label"], one["w"]))
                self.assertEqual(vec[i].flatten().tolist(), one["vec"]["values"])
                self.assertEqual(JSONField.unpack(info[i]), json.loads(one["info"]["text"]))
                size = one["blob"]["size"]
                self.assertEqual(hashlib.sha256(blob[i][:size].numpy().tobytes()).hexdigest(), one["blob"]["sha_stored"])
                self.assertFalse(blob[i][size:].any())

    def test_what_each_step_gives(self):
        steps = [SimpleRGBImageDecoder()]

        def first(label=(IntDecoder(),)):
            return next(iter(self.loader(steps, label)))

        images, labels = first()
        self.assertEqual((type(images), images.shape, images.dtype), (np.ndarray, (8, SIDE, SIDE, 3), np.uint8))
        self.assertEqual((type(labels), labels.shape, labels.dtype), (np.ndarray, (8, 1), np.int64))
        steps.append(ToTensor())
        images, labels = first((IntDecoder(), ToTensor()))
        self.assertEqual((images.shape, images.dtype, labels.shape), ((8, SIDE, SIDE, 3), torch.uint8, (8, 1)))
        steps.append(ToDevice(torch.device("cpu"), non_blocking=True))
        steps.append(ToTorchImage())
        images, labels = first((IntDecoder(), ToTensor(), View(-1)))
        self.assertEqual((images.shape, images.dtype, labels.shape), ((8, 3, SIDE, SIDE), torch.uint8, (8,)))
        self.assertTrue(images.is_contiguous(memory_format=torch.channels_last))
        steps[-1] = ToTorchImage(channels_last=False, convert_back_int16=False)
        images, _ = first()
        self.assertTrue(images.is_contiguous())
        steps.append(Convert(torch.float16))
        images, labels = first((IntDecoder(), ToTensor(), ToDevice("cpu"), Squeeze()))
        self.assertEqual((images.dtype, labels.shape, labels.dtype), (torch.float16, (8,), torch.int64))
        steps.append(torch.nn.AvgPool2d(2))
        self.assertEqual(first()[0].shape, (8, 3, SIDE // 2, SIDE // 2))

    def test_batches_are_tuples_in_the_files_order(self):
        loader = Loader(self.path, 8)
        batch = next(iter(loader))
        self.assertIsInstance(batch, tuple)
        self.assertEqual([one.shape for one in batch], [(8, SIDE, SIDE, 3), (8, 1)])
        (labels,) = next(iter(Loader(self.path, 8, pipelines={"image": None})))
        self.assertEqual(labels.flatten().tolist(), list(range(8)))
        (images,) = next(iter(Loader(self.path, 8, pipelines={"label": None, "image": (SimpleRGBImageDecoder(),)})))
        np.testing.assert_array_equal(images, self.data.images[:8])
        # Outputs of names of their own follow, and draw by themselves.
        crop = [RandomResizedCropRGBImageDecoder((8, 8)), ToTensor()]
        two = {"image": crop, "again": PipelineSpec("image", crop[0], [crop[1]]), "plain": PipelineSpec("image")}
        for images, labels, again, plain in Loader(self.path, 8, pipelines=two):
            self.assertEqual(images.shape, again.shape)
            self.assertFalse(torch.equal(images, again))
            np.testing.assert_array_equal(plain, self.data.images[labels.flatten()])

    def test_lists_and_operations_serve_several_loaders(self):
        image = [SimpleRGBImageDecoder(), ToTensor(), torch.nn.Identity()]
        label = [IntDecoder(), ToTensor(), Squeeze()]
        kept = list(image), list(label)
        for _ in range(2):
            loader = Loader(self.path, 8, pipelines={"image": image, "label": label})
            self.assertEqual(next(iter(loader))[1].tolist(), list(range(8)))
        self.assertEqual((image, label), kept)

    def test_attributes(self):
        loader = self.loader([SimpleRGBImageDecoder()], batch_size=7, batches_ahead=2, drop_last=False)
        self.assertEqual((len(loader), loader.batch_size, loader.num_workers, loader.drop_last), (6, 7, 2, False))
        self.assertEqual((loader.fname, loader.reader.num_samples, loader.next_epoch), (self.path, SAMPLES, 0))
        self.assertEqual(len(self.loader([SimpleRGBImageDecoder()], batch_size=7)), 5)
        self.assertEqual(loader.indices.tolist(), list(range(SAMPLES)))
        self.assertEqual(len(loader.dataset), SAMPLES)
        reader = Reader(self.path)
        self.assertEqual((reader.field_names, list(reader.handlers)), (["image", "label"], ["image", "label"]))
        self.assertEqual(reader.metadata["f1"].tolist(), list(range(SAMPLES)))
        self.assertEqual(len(reader.alloc_table), SAMPLES)

    def test_filter(self):
        loader = self.loader([SimpleRGBImageDecoder()], [IntDecoder(), ToTensor()], indices=range(5, 30), drop_last=False)
        odd = loader.filter("label", lambda value: value % 2 == 1).filter("label", lambda value: value > 9)
        self.assertEqual([one.item() for _, labels in odd for one in labels], list(range(11, 30, 2)))


class Pixels(Cases):
    def test_normalization_is_ffcvs_table(self):
        for kind in (np.float16, np.float32, np.float64, float):
            expected = ((np.arange(256)[:, None] - MEAN) / STD).astype(kind)[self.data.images, np.arange(3)]
            own = NormalizeImage(MEAN, STD, kind)
            for steps in (
                [own],
                [own, ToTensor()],
                [ToTensor(), own],
                [ToTensor(), ToDevice("cpu"), ToTorchImage(), own],
                [own, ToTensor(), ToTorchImage(), ToDevice("cpu")],
                [ToTensor(), ToTorchImage(channels_last=False), own],
            ):
                given, _ = self.images(*steps, drop_last=False)
                if given.shape[1] == 3:
                    given = given.transpose(0, 2, 3, 1)
                self.assertEqual(given.dtype, expected.dtype)
                np.testing.assert_array_equal(given, expected)
                loader = self.loader([SimpleRGBImageDecoder(), *steps])
                folded = not any(isinstance(one, NormalizeImage) for one in loader._plans[0].before)
                self.assertEqual(folded, np.dtype(kind) != np.float64)

    @unittest.skipIf(torchvision is None, "torchvision is not installed")
    def test_conversion_and_torchvisions_normalization_are_torchs_numbers(self):
        own = torchvision.transforms.Normalize(MEAN, STD)
        for kind in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            expected = own(torch.from_numpy(self.data.images).permute(0, 3, 1, 2).type(kind))
            for last in (True, False):
                steps = [SimpleRGBImageDecoder(), ToTensor(), ToTorchImage(channels_last=last), Convert(kind), own]
                loader = self.loader(steps, drop_last=False)
                given = torch.cat([images for images, _ in loader])
                self.assertEqual(given.dtype, kind)
                self.assertTrue(torch.equal(given, expected), kind)
                self.assertEqual(len(loader._plans[0].before), 4 if kind == torch.float64 else 2)
            # What is behind is done to the result.
            given = next(iter(self.loader(steps[:-1] + [torch.nn.ReLU(), own])))[0]
            self.assertTrue(torch.equal(given, own(torch.from_numpy(self.data.images[:8]).permute(0, 3, 1, 2).type(kind))))

    def test_flip(self):
        given, own = self.images(RandomHorizontalFlip())
        mirrored = [np.array_equal(one, image[:, ::-1]) for one, image in zip(given, own)]
        self.assertTrue(0 < sum(mirrored) < SAMPLES)
        for one, image, is_mirrored in zip(given, own, mirrored):
            np.testing.assert_array_equal(one, image[:, ::-1] if is_mirrored else image)
        given, own = self.images(RandomHorizontalFlip(1.0))
        np.testing.assert_array_equal(given, own[:, :, ::-1])
        given, own = self.images(RandomHorizontalFlip(1.0), RandomHorizontalFlip(1.0))
        np.testing.assert_array_equal(given, own)

    def test_translate(self):
        fill = (1, 2, 3)
        for before in ((), (RandomHorizontalFlip(1.0),), (Cutout(0), RandomContrast(0.5, 0.0))):
            given, own = self.images(*before, RandomTranslate(2, fill))
            own = own[:, :, ::-1] if len(before) == 1 else own
            padded = np.broadcast_to(np.uint8(fill), (len(own), SIDE + 4, SIDE + 4, 3)).copy()
            padded[:, 2:-2, 2:-2] = own
            places = set()
            for one, image in zip(given, padded):
                found = [
                    (y, x) for y in range(5) for x in range(5) if np.array_equal(one, image[y : y + SIDE, x : x + SIDE])
                ]
                self.assertEqual(len(found), 1)
                places.update(found)
            self.assertGreater(len(places), 8)

    def test_cutout(self):
        fill = (7.9, 8, 9)
        given, own = self.images(Cutout(5, fill))
        places = set()
        for one, image in zip(given, own):
            rows, columns = np.nonzero((one != image).any(2))
            top, left = rows.min(), columns.min()
            places.add((top, left))
            expected = image.copy()
            expected[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1] = (7, 8, 9)
            np.testing.assert_array_equal(one, expected)
            self.assertLessEqual(max(np.ptp(rows), np.ptp(columns)), 4)
        self.assertGreater(len(places), 8)

    def test_operations_are_done_in_their_order(self):
        # A square that covers the image, then a border: or the other way round.
        given, _ = self.images(RandomTranslate(SIDE, (1, 1, 1)), Cutout(SIDE, (2, 2, 2)))
        self.assertEqual(np.unique(given).tolist(), [2])
        given, _ = self.images(Cutout(SIDE, (2, 2, 2)), RandomTranslate(SIDE, (1, 1, 1)))
        self.assertEqual(np.unique(given).tolist(), [1, 2])
        # Two squares are drawn apart.
        given, own = self.images(Cutout(3, (1, 1, 1)), Cutout(3, (2, 2, 2)))
        self.assertGreater(sum((one == 1).all(2).any() for one in given), SAMPLES // 2)

    def test_colours(self):
        for operation in (RandomBrightness(0.5, 1.0), RandomContrast(0.5, 1.0), RandomSaturation(0.5, 1.0)):
            given, own = self.images(operation)
            self.assertTrue(all((one != image).any() for one, image in zip(given, own)))
            given, own = self.images(type(operation)(0.5, 0.0))
            np.testing.assert_array_equal(given, own)

    def test_crops(self):
        given, _ = self.images(RandomResizedCrop((0.5, 1), (1, 1), 8))
        self.assertEqual(given.shape, (SAMPLES, 8, 8, 3))
        whole = [RandomResizedCropRGBImageDecoder((SIDE, SIDE), scale=(1, 1), ratio=(1, 1))]
        given = np.concatenate([images for images, _ in self.loader(whole)])
        np.testing.assert_array_equal(given, self.data.images)
        # A quarter of the area, as it is: a window of the image.
        given = np.concatenate([images for images, _ in self.loader([RandomResizedCropRGBImageDecoder((8, 8), (0.25, 0.25), (1, 1))])])
        for one, image in zip(given, self.data.images):
            self.assertTrue(any(np.array_equal(one, image[y : y + 8, x : x + 8]) for y in range(9) for x in range(9)))
        given = next(iter(self.loader([CenterCropRGBImageDecoder((8, 8), 0.5), RandomHorizontalFlip(1.0)])))[0]
        np.testing.assert_array_equal(given, self.data.images[:8, 4:12, 4:12][:, :, ::-1])

    def test_operations_on_batches(self):
        mask, alpha = np.full((SIDE, SIDE, 3), 200.0), np.full((SIDE, SIDE), 0.25)
        given, own = self.images(Poison(mask, alpha, [1, 9]))
        changed = [i for i in range(SAMPLES) if (given[i] != own[i]).any()]
        self.assertEqual(changed, [1, 9])
        np.testing.assert_array_equal(given[1], (own[1] * np.float32(0.75) + 50).astype(np.uint8))
        label = [IntDecoder(), ReplaceLabel([2, 3], 99), ToTensor(), Squeeze()]
        loader = self.loader([SimpleRGBImageDecoder()], label)
        self.assertEqual(next(iter(loader))[1].tolist(), [0, 1, 99, 99, 4, 5, 6, 7])
        for same in (True, False):
            label = [IntDecoder(), LabelMixup(0.5, same), ToTensor(), MixupToOneHot(SAMPLES)]
            for images, labels in self.loader([SimpleRGBImageDecoder(), ImageMixup(0.5, same)], label, order=OrderOption.RANDOM):
                shares, classes = labels.topk(2, 1)
                self.assertTrue(torch.allclose(labels.sum(1), torch.ones(8)))
                pixels = self.data.images[classes].astype(float)
                expected = (pixels * shares.double()[:, :, None, None, None].numpy()).sum(1)
                self.assertLess(np.abs(images - expected).max(), 1.001)

    def test_progressive_resizing(self):
        decoder = RandomResizedCropRGBImageDecoder((8, 8))
        loader = self.loader([decoder, ToTensor(), ToTorchImage()])
        sides = []
        for epoch in range(4):
            if epoch == 1:
                decoder.output_size = (12, 10)
            elif epoch == 3:
                loader.pipeline_specs["image"].decoder.output_size = (6, 6)
                loader.generate_code()
            sides.append({tuple(images.shape[2:]) for images, _ in loader})
        self.assertEqual(sides, [{(8, 8)}, {(12, 10)}, {(12, 10)}, {(6, 6)}])
        self.assertEqual(loader.next_epoch, 4)
        # An iteration that is still there keeps its size, and no later one gets it.
        iteration = iter(loader)
        next(iteration)
        decoder.output_size = np.array([10, 8])
        iteration = iter(loader)
        self.assertEqual(next(iteration)[0].shape[2:], (10, 8))
        for _ in range(2):
            decoder.output_size = (5000, 5000)
            self.refused("image: RandomResizedCropRGBImageDecoder|4096", iter, loader)
        decoder.output_size = (4, 4)
        self.assertEqual(next(iter(loader))[0].shape[2:], (4, 4))


class Orders(Cases):
    def numbers(self, loader, epochs=1):
        return [[one for _, labels in loader for one in labels.reshape(-1).tolist()] for _ in range(epochs)]

    def plain(self, **words):
        return self.loader([SimpleRGBImageDecoder()], batch_size=6, **words)

    def test_random_is_ffcvs_order(self):
        for indices in (None, [30, 2, 17, 4, 9, 11, 3], np.arange(10, 20), range(20)):
            own = np.arange(SAMPLES) if indices is None else np.array(indices)
            loader = self.plain(order=OrderOption.RANDOM, seed=5, indices=indices, drop_last=False)
            expected = [np.random.default_rng(5 + epoch).permutation(own).tolist() for epoch in range(2)]
            self.assertEqual(self.numbers(loader, 2), expected)
        self.assertEqual(self.numbers(self.plain(indices=[3, 1, 2], drop_last=False))[0], [3, 1, 2])

    def test_seeds_that_are_not_given_come_from_numpy(self):
        np.random.seed(3)
        one = self.numbers(self.plain(order=OrderOption.RANDOM, seed=None))
        two = self.numbers(self.plain(order=OrderOption.RANDOM, seed=None))
        np.random.seed(3)
        again = self.numbers(self.plain(order=OrderOption.RANDOM, seed=None))
        self.assertEqual(one, again)
        self.assertNotEqual(one, two)

    def test_quasi_random(self):
        path = os.path.join(self.folder, "pages.beton")
        big = np.zeros((1 << 19,), np.uint8)
        data = [(self.data.images[i], i, big) for i in range(SAMPLES)]
        fields = {"image": RGBImageField(), "label": IntField(), "big": NDArrayField(np.dtype(np.uint8), big.shape)}
        DatasetWriter(path, fields, 1 << 21, 1).from_indexed_dataset(data)
        self.assertGreater(len(np.unique(Reader(path).pages())), 10)
        loader = Loader(path, 6, 2, order=OrderOption.QUASI_RANDOM, seed=1, drop_last=False, pipelines={"big": None})
        first, second = self.numbers(loader, 2)
        self.assertEqual(sorted(first), list(range(SAMPLES)))
        self.assertEqual(sorted(second), list(range(SAMPLES)))
        self.assertNotEqual(first, second)

    def test_an_order_of_ones_own(self):
        crop = [RandomResizedCropRGBImageDecoder((8, 8))]
        loader = self.loader(crop, batch_size=4, order=Twice, seed=1, drop_last=False)
        self.assertEqual(len(loader), 2 * SAMPLES // 4)
        for images, labels in loader:
            self.assertEqual(labels[::2].tolist(), labels[1::2].tolist())
            self.assertTrue((images[0] != images[1]).any())
        loader = self.loader([SimpleRGBImageDecoder()], order=Balanced, order_kwargs={"share": 0.5})
        self.assertEqual([sum(len(labels) for _, labels in loader) for _ in range(3)], [16, 16, 16])

    def test_epochs(self):
        loader = self.plain(order=OrderOption.RANDOM, seed=2)
        reference = self.numbers(self.plain(order=OrderOption.RANDOM, seed=2), 5)
        for _, labels in loader:
            break
        self.assertEqual(loader.next_epoch, 1)
        self.assertEqual(self.numbers(loader)[0], reference[1])
        loader.next_epoch = 4
        self.assertEqual(loader.next_traversal_order()[: len(reference[4])].tolist(), reference[4])
        self.assertEqual(self.numbers(loader)[0], reference[4])
        iteration = iter(loader)
        next(iteration)
        iteration.close()
        iteration.join()
        self.assertRaises(StopIteration, next, iteration)

    def test_resumes_at_any_batch(self):
        steps = [RandomResizedCropRGBImageDecoder((8, 8)), RandomHorizontalFlip(), ToTensor()]

        def loader(seed=None):
            return self.loader(steps, batch_size=6, order=OrderOption.RANDOM, seed=seed)

        first = loader()
        batches, states = [], []
        for _ in range(2):
            for batch in first:
                batches.append(batch)
                states.append(first.state_dict())
        for done, state in enumerate(states[:-1]):
            resumed = loader()  # the state has the seed
            resumed.load_state_dict(json.loads(json.dumps(state)))
            images, labels = next(iter(resumed))
            self.assertTrue(torch.equal(images, batches[done + 1][0]))
            self.assertTrue(torch.equal(labels, batches[done + 1][1]))
        # A state that is refused changes nothing; one that is taken counts for all later iterations.
        resumed = loader()
        seed = resumed.seed
        self.refused("other data", resumed.load_state_dict, {**states[0], "batch": 999, "digest": None})
        self.assertEqual(resumed.seed, seed)
        iteration = iter(resumed)
        next(iteration)
        resumed = pickle.loads(pickle.dumps(resumed))
        resumed.load_state_dict(states[2])
        del iteration
        self.assertTrue(torch.equal(next(iter(resumed))[0], batches[3][0]))
        self.refused("seed", loader(first.seed + 1).load_state_dict, states[0])
        other = self.loader(steps, batch_size=6, order=OrderOption.SEQUENTIAL, seed=first.seed)
        self.refused("other samples", other.load_state_dict, states[0])
        again = pickle.loads(pickle.dumps(first))
        self.assertTrue(torch.equal(next(iter(again))[0], next(iter(first))[0]))

    def test_ranks_get_what_distributed_sampler_deals_out(self):
        program = f"""if True:
            import json, sys, torch
            import torch.distributed as dist
            from composer_loader.ffcv.fields.decoders import RandomResizedCropRGBImageDecoder
            from composer_loader.ffcv.loader import Loader, OrderOption
            from composer_loader.ffcv.traversal_order import TraversalOrder
            dist.init_process_group("gloo", init_method="file://{self.folder}/ranks", rank=int(sys.argv[1]), world_size=2)
            loader = Loader({self.path!r}, 3, 1, order=OrderOption.RANDOM, distributed=True, drop_last=False, indices=range(11),
                            pipelines={{"image": None}})
            class Same(TraversalOrder):
                def sample_order(self, epoch):
                    return [7] * 20
            crop = [RandomResizedCropRGBImageDecoder((8, 8))]
            same = Loader({self.path!r}, 20, 1, order=Same, distributed=True, pipelines={{"image": crop, "label": None}})
            (images,), = same
            print(json.dumps([[labels.flatten().tolist() for labels, in loader] for _ in range(2)] +
                             [loader.state_dict(), images.reshape(20, -1).sum(1).tolist()]))
        """
        ranks = [subprocess.Popen([sys.executable, "-c", program, str(rank)], stdout=subprocess.PIPE) for rank in range(2)]
        given = [json.loads(one.communicate()[0].decode().splitlines()[-1]) for one in ranks]
        sampler = torch.utils.data.distributed.DistributedSampler
        for rank in range(2):
            own = sampler(range(11), num_replicas=2, rank=rank, seed=0)
            for epoch in range(2):
                own.set_epoch(epoch)
                self.assertEqual(sum(given[rank][epoch], []), list(own))
                self.assertEqual([len(one) for one in given[rank][epoch]], [3, 3])
        self.assertEqual(given[0][2], given[1][2])
        # Where samples come again, each place of each rank draws its own crop.
        self.assertGreater(len({*given[0][3], *given[1][3]}), 35)

    def test_loaders_end_with_their_last_reference(self):
        gc.disable()
        try:
            before = len(os.listdir("/proc/self/task"))
            for order in (OrderOption.RANDOM, OrderOption.QUASI_RANDOM, Twice) * 3:
                for _ in self.loader([SimpleRGBImageDecoder()], order=order):
                    break
            self.assertLessEqual(len(os.listdir("/proc/self/task")), before)
        finally:
            gc.enable()


class Refused(Cases):
    def test_pipelines(self):
        make = self.loader
        simple = SimpleRGBImageDecoder()
        self.refused("Doubled|numba|torch.nn.Module", make, [simple, Doubled(), ToTensor()])

        class Flip(RandomHorizontalFlip):
            def generate_code(self):
                return None

        class Crop(RandomResizedCropRGBImageDecoder):
            @property
            def get_crop_generator(self):
                return None

        class Decoder(ResizedCropRGBImageDecoder):
            pass

        self.refused("image: Flip|numba", make, [simple, Flip()])
        self.refused("image: Crop|numba", make, [Crop((8, 8))])
        self.refused("image: Decoder|own", make, [Decoder((8, 8))])
        label = [IntDecoder(), ToTensor(), ReplaceLabel([1], 2)]
        self.refused("label: ReplaceLabel|before ToTensor", make, [simple], label)
        self.refused("CenterCropRGBImageDecoder|ratio", make, [CenterCropRGBImageDecoder((8, 8), (1, 1))])
        self.refused("RandomResizedCropRGBImageDecoder|scale", make, [RandomResizedCropRGBImageDecoder((8, 8), 0.5)])
        self.refused("Convert|Half", Convert, "Half")
        for half in ("torch.HalfTensor", torch.HalfTensor, torch.cuda.HalfTensor, np.float16):
            self.assertEqual(Convert(half).target_dtype, torch.float16)
        self.refused("ToTorchImage", make, [simple, ToTensor(), ToTorchImage(), ToTorchImage()])
        self.refused("transforms=", Loader, self.path, 8, pipelines={"image": PipelineSpec("image", [simple])})
        self.refused("Label", Loader, self.jpegs, 8, pipelines={"Label": [IntDecoder()]})
        loader = make([simple], [IntDecoder(), ToTensor(), Squeeze(5)])
        self.refused("label: Squeeze", next, iter(loader), error=IndexError)
        self.refused("RandomHorizontalFlip|ToTensor|decoder", make, [simple, ToTensor(), RandomHorizontalFlip()])
        self.refused("Cutout|NormalizeImage", make, [simple, NormalizeImage(MEAN, STD, np.float32), Cutout(3)])
        self.refused("ToTorchImage|behind ToTensor", make, [simple, ToTorchImage()])
        self.refused("ToDevice|behind ToTensor", make, [simple, ToDevice("cpu")])
        self.refused("ImageMixup|before ToTensor", make, [simple, ToTensor(), ImageMixup(0.5, True)])
        self.refused("ToTensor", make, [simple, ToTensor])
        self.refused("SimpleRGBImageDecoder|label|IntDecoder", make, [simple], [simple, ToTensor()])
        self.refused("label: RandomHorizontalFlip", make, [simple], [IntDecoder(), RandomHorizontalFlip()])
        self.refused("IntDecoder", make, [simple, IntDecoder()])
        self.refused("RandomResizedCrop", make, [simple, Cutout(3), RandomResizedCrop((1, 1), (1, 1), 8)])
        self.refused("output_size|(8,)", make, [RandomResizedCropRGBImageDecoder((8,))])
        self.refused("image: CenterCropRGBImageDecoder.share|1", make, [CenterCropRGBImageDecoder((8, 8), 1.5)])
        self.refused("fill", make, [simple, Cutout(3, (1, 2, 300))])
        self.refused("image: RandomHorizontalFlip.p|[0, 1]", make, [simple, RandomHorizontalFlip(2)])
        self.refused("4096", make, [RandomResizedCropRGBImageDecoder((5000, 5000))])
        if not torch.cuda.is_available():
            self.refused("cuda:0", make, [simple, ToTensor(), ToDevice(torch.device("cuda:0"))])
        self.refused("one size|jpegs.beton", make, [simple], fname=self.jpegs)
        if torchvision is not None:
            own = torchvision.transforms.Normalize(MEAN, STD)
            self.refused("Normalize|float", make, [simple, ToTensor(), ToTorchImage(), own])

    def test_arguments(self):
        def make(fname=self.path, batch_size=8, *more, **words):
            return Loader(fname, batch_size, *more, **words)

        self.refused("img|image, label", make, pipelines={"img": [SimpleRGBImageDecoder()]})
        self.refused("img|image, label", make, pipelines={"img": None})
        self.refused("image|list", make, pipelines={"image": ToTensor()})
        self.refused("field", make, pipelines={"image": None, "label": None})
        self.refused("num_workers|RANDOM", make, self.path, 8, OrderOption.RANDOM)  # the order of FFCV-SSL
        self.refused("order", make, order="random")
        self.refused("indices|40", make, indices=[3, 40])
        self.refused("indices", make, indices=[0.5])
        self.refused("batch_size", make, batch_size=0)
        self.refused("fewer than one batch", make, batch_size=64)
        self.refused("batches_ahead", make, batches_ahead=0)
        self.refused("torch.distributed", make, distributed=True)
        self.refused("nothing.beton", make, os.path.join(self.folder, "nothing.beton"), error=FileNotFoundError)
        self.refused("local", make, "s3://bucket/train.beton")
        self.refused("fname", make, None)
        self.refused("seed", make, seed=-1)
        next(iter(make(seed=torch.initial_seed() | 1 << 63)))
        own = os.path.join(self.folder, "own.beton")
        with open(self.path, "rb") as file:
            content = bytearray(file.read())
        content[24 + 1041] = 255
        with open(own, "wb") as file:
            file.write(content)
        self.refused("label|type of its writer's own", make, own)
        self.refused("label|type of its writer's own", make, own, custom_fields={"label": IntField})
        cut = os.path.join(self.folder, "cut.beton")
        with open(self.path, "rb") as file:
            content = file.read()
        for size in (0, 10, 500, 3000, len(content) - 24 * SAMPLES - 10):
            with open(cut, "wb") as file:
                file.write(content[:size])
            self.refused("cut.beton", make, cut, error=(ValueError, OSError))

    def test_a_bad_sample_is_raised_by_next(self):
        path = os.path.join(self.folder, "bad.beton")
        with open(self.jpegs, "rb") as file:
            content = bytearray(file.read())
        begin = int(Reader(self.jpegs).metadata["f0"]["data_ptr"][5])
        content[begin : begin + 40] = bytes(40)
        with open(path, "wb") as file:
            file.write(content)
        loader = Loader(path, 4, 2, pipelines={"image": [CenterCropRGBImageDecoder((8, 8), 1)]})
        iteration = iter(loader)
        labels = next(iteration)[1].tolist()
        with self.assertRaises(composer_loader.BadSample) as caught:
            next(iteration)
        self.assertEqual(caught.exception.index, 5)
        self.assertNotIn("on_bad_sample", str(caught.exception))
        self.assertEqual(len(next(iteration)[1]), 4)
        self.assertEqual(len(labels), 4)


    def test_errors_of_modules_are_raised_by_next(self):
        class Ends(torch.nn.Module):
            def forward(self, batch):
                raise StopIteration

        loader = self.loader([SimpleRGBImageDecoder(), ToTensor(), Ends()])
        self.refused("StopIteration", next, iter(loader), error=RuntimeError)


class Mixed:
    """A value of each kind of field."""

    def __len__(self):
        return 30

    def __getitem__(self, i):
        image = np.random.default_rng(i).integers(0, 256, (20 + i, 31, 3), np.uint8)
        values = np.arange(6, dtype=np.float32).reshape(2, 3) + i
        return image, i - 5, i / 7, values, {"i": i, "é": [None, 1.5]}, np.arange(i, dtype=np.uint8), torch.tensor([i, -i]), image


FIELDS = {
    "image": RGBImageField("jpg", jpeg_quality=95),
    "label": IntField(),
    "w": FloatField(),
    "vec": NDArrayField(np.dtype(np.float32), (2, 3)),
    "info": JSONField(),
    "blob": BytesField(),
    "pair": TorchTensorField(torch.int64, (2,)),
    "raw": RGBImageField("raw", max_resolution=24),
}


class Ending(Images):
    """Has fewer samples than it says."""

    def __getitem__(self, i):
        if i == 33:
            raise StopIteration
        return super().__getitem__(i)


class Failing(Images):
    def __getitem__(self, i):
        if i == 33:
            raise KeyError("lost")
        return super().__getitem__(i)


class Written(Cases):
    def write(self, data, fields=None, name="written.beton", page_size=1 << 21, workers=2, **words):
        path = os.path.join(self.folder, name)
        writer = DatasetWriter(path, fields or {"image": RGBImageField(), "label": IntField()}, page_size, workers)
        writer.from_indexed_dataset(data, **words)
        return path

    def test_all_fields(self):
        data = Mixed()
        path = self.write(data, FIELDS, chunksize=4)
        reader = Reader(path)
        self.assertEqual(list(reader.handlers), list(FIELDS))
        self.assertEqual(reader.metadata["f7"]["width"].max(), 24)
        crop = [CenterCropRGBImageDecoder((16, 16), 1)]
        row = 0
        for image, label, w, vec, info, blob, pair, raw in Loader(path, 7, 2, pipelines={"image": crop, "raw": crop}, drop_last=False):
            for i in range(len(label)):
                own = data[row]
                self.assertEqual((label[i].item(), w[i].item()), own[1:3])
                np.testing.assert_array_equal(vec[i], own[3])
                self.assertEqual(JSONField.unpack(info)[i], own[4])
                np.testing.assert_array_equal(blob[i][: len(own[5])], own[5])
                self.assertTrue(torch.equal(pair[i], own[6]))
                row += 1
        self.assertEqual(row, 30)
        # The other loader reads it too.
        loader = composer_loader.Loader(path, 7, size=8, pipeline="eval")
        self.assertEqual([one.item() for _, labels in loader for one in labels], [i - 5 for i in range(30)])

    def test_the_number_of_processes_changes_nothing(self):
        one, two = self.write(Mixed(), FIELDS, "one.beton", workers=1), self.write(Mixed(), FIELDS, "two.beton", workers=2, chunksize=3)
        with open(one, "rb") as first, open(two, "rb") as second:
            self.assertEqual(first.read(), second.read())

    def test_indices(self):
        path = self.write(self.data, indices=[7, 3, 3])
        self.assertEqual(Reader(path).metadata["f1"].tolist(), [7, 3, 3])
        np.random.seed(0)
        path = self.write(self.data, shuffle_indices=True)
        labels = Reader(path).metadata["f1"].tolist()
        self.assertEqual(sorted(labels), list(range(SAMPLES)))
        self.assertNotEqual(labels, list(range(SAMPLES)))
        path = self.write([{"text": "x", "label": i, "image": self.data.images[i]} for i in range(3)])  # Hugging Face's form
        self.assertEqual(Reader(path).metadata["f1"].tolist(), [0, 1, 2])

    def test_the_file_is_ffcvs_own_to_the_byte(self):
        own = os.path.join(SHARED, "syn12_raw.beton")
        if not os.path.exists(own):
            self.skipTest("there is no ../shared/fixtures")
        reader = Reader(own)
        data = [
            (np.array(reader.region("image", one["data_ptr"], int(one["width"]) * int(one["height"]) * 3)).reshape(one["height"], one["width"], 3), label)
            for one, label in zip(reader.metadata["f0"], reader.metadata["f1"].tolist())
        ]
        path = self.write(data, page_size=reader.page_size, workers=1)
        with open(own, "rb") as first, open(path, "rb") as second:
            self.assertEqual(first.read(), second.read())

    def test_compression(self):
        wide = [(np.zeros((30, 40, 3), np.uint8), i) for i in range(20)]
        share = Reader(self.write(wide, {"image": RGBImageField("proportion", compress_probability=0.5), "label": IntField()}))
        self.assertEqual(set(share.metadata["f0"]["mode"].tolist()), {0, 1})
        smart = Reader(self.write(wide, {"image": RGBImageField("smart", smart_threshold=3599), "label": IntField()}))
        self.assertEqual(set(smart.metadata["f0"]["mode"].tolist()), {0})

    def test_wrong_samples(self):
        def write(*samples, **fields):
            return self.write(list(samples), fields or None, "wrong.beton", workers=1)

        image = self.data.images[0]
        self.refused("sample 1|tuple of 1|2", write, (image, 1), (image,))
        self.refused("sample 0|image|float32", write, (image.astype(np.float32), 1))
        self.refused("sample 0|image|[16, 16]", write, (image[:, :, 0], 1))
        self.refused("sample 0|label|1.5", write, (image, 1.5))
        self.refused("vec|float32|int64", write, (np.zeros(2, np.int64),), vec=NDArrayField(np.dtype(np.float32), (2,)))
        self.refused("page_size", write, (np.zeros(1 << 22, np.uint8),), blob=BytesField())
        for path in os.listdir(self.folder):
            self.assertFalse(path.startswith("wrong.beton"), path)
        for workers in (1, 2):
            with self.assertRaises(KeyError):
                self.write(Failing(), name="wrong.beton", workers=workers, chunksize=5)
            self.refused("sample 33", self.write, Ending(), name="wrong.beton", workers=workers, error=RuntimeError)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "wrong.beton")))
        self.assertFalse(multiprocessing.active_children())
        self.refused("indices|bool", self.write, self.data, indices=np.arange(SAMPLES) > 5)
        self.refused("indices|float", self.write, self.data, indices=[1.5])
        self.refused("indices|99", self.write, self.data, indices=[99])
        self.refused("regular file", self.write, self.data, name=".")
        self.refused("ReplaceLabel|bool", ReplaceLabel, np.arange(4) > 2, 1)
        os.symlink(os.path.join(self.folder, "target.beton"), os.path.join(self.folder, "link.beton"))
        self.write(self.data, name="link.beton")
        self.assertTrue(os.path.isfile(os.path.join(self.folder, "target.beton")))
        self.assertTrue(os.path.islink(os.path.join(self.folder, "link.beton")))
        self.refused("sample 0|label", write, (image, 1 << 70))
        self.refused("sample 0|image", write, (np.zeros((0, 5, 3), np.uint8), 1))
        self.refused("sample 0|float32", write, (torch.zeros(5, 5, 3), 1))
        self.refused("fields", DatasetWriter, "a", [IntField()])
        self.refused("write_mode|raw", RGBImageField, "png")
        self.refused("jpeg_quality", RGBImageField, jpeg_quality=101)
        self.refused("page_size", DatasetWriter, "a", {"x": IntField()}, 3 << 20)
        self.refused("IntField|brackets", DatasetWriter, "a", {"x": IntField})
        self.refused("16 letters", DatasetWriter, "a", {"x" * 17: IntField()})
        self.refused("shards", DatasetWriter("a", {"x": IntField()}).from_webdataset, [], None, error=NotImplementedError)
        self.refused("nowhere", self.write, self.data, name="nowhere/x.beton", error=FileNotFoundError)

    def test_pil(self):
        try:
            from PIL import Image
        except ImportError:
            self.skipTest("Pillow is not installed")
        image = Image.fromarray(self.data.images[0])
        path = self.write([(image, 1)], workers=1)
        np.testing.assert_array_equal(next(iter(Loader(path, 1, 1)))[0][0], self.data.images[0])
        self.refused("mode L|convert", self.write, [(image.convert("L"), 1)], workers=1)

    def test_files_without_images(self):
        fields = {"latent": NDArrayField(np.dtype(np.float16), (4, 8)), "y": FloatField(), "z": NDArrayField(np.dtype("f4"), (1,))}
        data = [(np.full((4, 8), i, np.float16), i / 2, np.float32(i)) for i in range(20)]
        path = self.write(data, fields)
        pipelines = {"latent": [NDArrayDecoder(), ToTensor(), Convert(torch.float32)]}
        loader = Loader(path, 6, order=OrderOption.RANDOM, seed=1, pipelines=pipelines, drop_last=False)
        order = np.random.default_rng(1).permutation(20)
        given = [(latent, y) for latent, y, z in loader]
        self.assertEqual(torch.cat([y for _, y in given]).flatten().tolist(), (order / 2).tolist())
        self.assertEqual(torch.cat([latent for latent, _ in given])[:, 1, 2].tolist(), order.tolist())
        self.assertEqual(given[0][0].dtype, torch.float32)
        self.refused("QUASI_RANDOM", Loader, self.write([(1,)], {"y": IntField()}), 1, order=OrderOption.QUASI_RANDOM)


if __name__ == "__main__":
    unittest.main()
