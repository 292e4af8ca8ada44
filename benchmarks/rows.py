"""The rows of the tables in README.md and docs/measured.md: what is run for each, and what is shown of it.

A command is a script of this folder and its words. Words in `data` stand for files and folders of the machine
(benchmarks/all --help says how it comes by them).
"""
import dataclasses

data = {
    'PHOTOS': 'a folder of class folders with JPEG files',
    'CIFAR': "a folder with CIFAR-10's binary files",
    'ffcv.beton': 'PHOTOS written by FFCV, JPEG, at most 500 pixels a side',
    'photos.beton': 'PHOTOS written by composer, the same',
    'raw256.beton': 'PHOTOS written by composer, raw, at most 256 pixels a side',
    'cifar_train.beton': 'the training images of CIFAR written by composer',
}

# What a script needs beside composer: Python's packages, and `ffcv` in an environment of its own.
peers = {
    'loader_sizes.py': (),
    'loader_vs_ffcv.py': ('ffcv',),
    'loader_vs_torchvision.py': ('torch', 'torchvision'),
    'loop_overhead.py': (),
    'speedrun_vs_torch.py': ('torch',),
    'step_vs_torch.py': ('torch', 'torchvision'),
    'writer_vs_ffcv.py': ('ffcv',),
}


def ratio(digits):
    return lambda row: f'{row["ratio"]:.{digits}f}'


def rate(key):
    return lambda row: f'{row[key]:,.0f}'


def seconds(key):
    return lambda row: f'{row[key]:.2g}'


def memory(row):
    return f'{row["memory_ratio"]:.2f}'


def gain(row):
    return f'{row["ratio"]:.2f} x the {row["peer"]:,.0f} of full size'


def nothing(row):
    return ''


@dataclasses.dataclass(frozen=True)
class Row:
    """A row: `label` stands before the figures in a table; `figures` says where the printed line has them.

    `shown` makes the cells from the row of a results file, whose keys are those of `figures`. `alone` is the cell that stands
    for the row outside of its table.
    """
    name: str
    label: tuple
    command: str
    figures: dict
    shown: tuple
    note: str = ''  # what follows the command in its cell
    alone: int = 0

    @property
    def script(self):
        return self.command.split()[0]

    def cells(self, found):
        """The figures' cells; without a result, dashes."""
        return [show(found) if found else '-' for show in self.shown]


@dataclasses.dataclass(frozen=True)
class Table:
    name: str
    heading: tuple
    rows: tuple
    shows_command: bool = False


def images(**more):
    return dict(here='images_per_s', peer='peer_images_per_s', ratio='ratio', spread='ratio_spread', **more)


def step(name, label, precision_label, command):
    return Row(name, (label, precision_label), 'step_vs_torch.py ' + command, images(memory_ratio='memory_ratio'),
               (ratio(2), memory))


def load(name, label, command):
    return Row(name, (label,), command, images(), (rate('here'), rate('peer'), ratio(1)), alone=2)


def sizes(name, label, source):
    return Row(name, (label,), 'loader_sizes.py --source ' + source, images(), (rate('here'), nothing, gain))


def write(name, label, words):
    return Row(name, (label,), 'writer_vs_ffcv.py PHOTOS ' + words,
               dict(here='items_per_min', peer='peer_items_per_min', ratio='ratio', spread='ratio_spread'),
               (rate('here'), rate('peer'), ratio(1)), alone=2)


tables = (
    Table('steps', ('network, batch', 'precision', 'images/s, ratio', 'peak memory, ratio'), (
        step('resnet50_fp32', 'ResNet-50, 16 at 224', 'fp32',
             '--model resnet50 --batch_size 16 --resolution 224 --precision fp32'),
        step('resnet50_bf16', 'ResNet-50, 16 at 224', 'bf16',
             '--model resnet50 --batch_size 16 --resolution 224 --precision amp_bf16'),
        step('resnet56_fp32', 'ResNet-56, 256 at 32', 'fp32',
             '--model resnet56 --batch_size 256 --resolution 32 --precision fp32'),
        step('resnet56_bf16', 'ResNet-56, 256 at 32', 'bf16',
             '--model resnet56 --batch_size 256 --resolution 32 --precision amp_bf16'),
    )),
    Table('loading', ('work', 'here', 'peer', 'ratio', 'command'), (
        load('jpeg_first_epoch', 'JPEG `.beton` written by FFCV (max 500, q90), first epoch, no index yet',
             'loader_vs_ffcv.py --source ffcv.beton --first_epoch'),
        load('jpeg', 'the same, epochs after the first', 'loader_vs_ffcv.py --source ffcv.beton'),
        load('jpeg_kept', 'the same, with kept coefficients (`dataloader.coefficient_cache`)',
             'loader_vs_ffcv.py --source ffcv.beton --coefficient_cache 50'),
        load('jpeg_ours', 'the same photographs written by `composer data write`', 'loader_vs_ffcv.py --source photos.beton'),
        load('raw', 'raw `.beton` (max 256)', 'loader_vs_ffcv.py --source raw256.beton'),
        load('raw_peer_no_flip', 'the same, FFCV without its flip', 'loader_vs_ffcv.py --source raw256.beton --peer_no_flip'),
        load('cifar10', 'CIFAR-10, pad-and-crop and flip, batch 512',
             'loader_vs_ffcv.py --source cifar_train.beton --batch_size 512'),
        load('folder', "JPEG folder against torchvision's DataLoader, batch 64, normalised float32 out",
             'loader_vs_torchvision.py PHOTOS'),
        Row('first_batch', ('first batch after start, seconds',), 'loader_vs_ffcv.py --source ffcv.beton',
            dict(here='first_batch_s', peer='peer_first_batch_s'), (seconds('here'), seconds('peer'), nothing),
            ': `first_batch_s`'),
        sizes('smaller_jpeg', 'progressive resizing at scale 0.5 over full size, JPEG', 'ffcv.beton'),
        sizes('smaller_raw', 'the same, raw', 'raw256.beton'),
        write('write_encoded', 'writing (max 500, q90), every image encoded, items/min',
              '--max_resolution 500 --passthrough false'),
        write('write_passed_through', 'the same, JPEG files of up to 500 pixels passed through', '--max_resolution 500'),
        write('write_whole', 'writing without a limit, JPEG passed through, with the crop index', '--repeat 8'),
        write('write_without_index', 'the same, without the index', '--repeat 8 --index false'),
    ), shows_command=True),
)

# Rows whose figure stands in a sentence.
in_text = (
    Row('airbench94', (), 'speedrun_vs_torch.py --datadir CIFAR', images(), (ratio(2),)),
    Row('overhead', (), 'loop_overhead.py', dict(here='overhead_fraction_10_algorithms', spread='spread'),
        (lambda row: f'{100 * row["here"]:.1f} %',)),
)

rows = {row.name: row for group in [*(table.rows for table in tables), in_text] for row in group}
