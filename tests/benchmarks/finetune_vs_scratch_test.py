"""benchmarks/finetune_vs_scratch.py on a few small images, with the program that is given."""
import json
import os
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
script = os.path.join(here, '../../benchmarks/finetune_vs_scratch.py')


def write_images(folder, classes):
    for number, name in enumerate(classes):
        os.makedirs(os.path.join(folder, name))
        for i in range(10):
            with open(os.path.join(folder, name, f'{i}.ppm'), 'wb') as file:
                file.write(b'P6 32 32 255\n' + bytes((60 * number + p % 50 + i) % 256 for p in range(3 * 32 * 32)))


with tempfile.TemporaryDirectory() as folder:
    write_images(os.path.join(folder, 'others'), ['cup', 'hat', 'key'])
    write_images(os.path.join(folder, 'pets'), ['cat', 'dog'])
    done = subprocess.run(
        [sys.executable, script, '--composer', sys.argv[1], '--source', os.path.join(folder, 'pets'), '--pretrain_source',
         os.path.join(folder, 'others'), '--seeds', '1', '--epochs', '1', '--times', '2', '--pretrain_epochs', '1', '--more',
         '--device', 'cpu', '--dataloader.num_workers', '1', '--dataloader.index_dir', os.path.join(folder, 'index')],
        stdout=subprocess.PIPE, text=True, check=True)
lines = done.stdout.splitlines()
figures = json.loads(lines[-1])
assert figures['scratch_epochs'] == 2 and len(figures['fine_tuned']['accuracies']) == 1, figures
assert figures['pretrained_accuracy'] is not None and figures['verdict'], figures
assert lines[1].startswith('fine-tuned') and lines[2].startswith('from scratch'), lines
