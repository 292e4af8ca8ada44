#!/usr/bin/env python3
"""Whether trainings on a store's data end with the weights of those on the same files on a disk, byte for byte: photographs
as a .beton file, as a folder, as WebDataset's and as MosaicML's shards, in moto, which checks signatures; by one process that is
killed with SIGKILL and resumed, and by two ranks. Then what is wrong with keys and paths: one line, exit status 2. One JSON line
for each, and exit status 1 where one is not as it should be.

    python3 benchmarks/remote_same.py PHOTOS --python VENV/bin/python      # VENV has moto[server] and boto3

PHOTOS: class folders of small JPEG files, taken in turn until there are --samples.
"""
import argparse
import contextlib
import io
import json
import os
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time

from side_by_side import add_composer, script

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('photos')
parser.add_argument('--python', required=True, help='interpreter with moto[server] and boto3')
parser.add_argument('--samples', type=int, default=5000)
parser.add_argument('--formats', nargs='+', default=['beton', 'folder', 'webdataset', 'mds'])
parser.add_argument('--crop_size', type=int, default=24)
parser.add_argument('--kills', type=int, default=2)
add_composer(parser)
args = parser.parse_args()
composer = os.path.abspath(args.composer)

recipe = '''
model: {resnet_cifar: {model_name: resnet_20, num_classes: CLASSES}}
train_dataset: {SET}
optimizer: {decoupled_sgdw: {lr: 0.1}}
train_batch_size: 100
max_duration: 2ep
eval_interval: 0ep
save_interval: 10ba
device: cpu
dataloader: {num_workers: 2}
'''
sets = {
    'beton': 'image_folder: {crop_size: SIZE, use_ffcv: true, ffcv_dir: DIR, ffcv_dest: set.beton}',
    'folder': 'image_folder: {crop_size: SIZE, datadir: DIR/folder}',
    'webdataset': 'webdataset: {crop_size: SIZE, shards: "DIR/set-{000..003}.tar"}',
    'mds': 'mds: {crop_size: SIZE, datadir: DIR/mds}',
}


def photographs():
    """(class, bytes), so many as are wanted."""
    classes = sorted(name for name in os.listdir(args.photos) if os.path.isdir(os.path.join(args.photos, name)))
    files = [(label, os.path.join(args.photos, name, file)) for label, name in enumerate(classes)
             for file in sorted(os.listdir(os.path.join(args.photos, name)))]
    for number in range(args.samples):
        label, path = files[number * 7919 % len(files)]
        with open(path, 'rb') as file:
            yield label, file.read()


def write_mds(folder, samples):
    os.makedirs(folder)
    rows = [struct.pack('<I', len(image)) + image + struct.pack('<q', label) for label, image in samples]
    head = json.dumps({'version': 2, 'format': 'mds', 'column_names': ['image', 'label'], 'column_encodings': ['jpeg', 'int'],
                       'column_sizes': [None, 8]}).encode()
    shards, per_shard = [], (len(rows) + 3) // 4
    for number in range(0, len(rows), per_shard):
        part = rows[number:number + per_shard]
        begin, offsets = 4 + 4 * (len(part) + 1) + len(head), []
        for row in part:
            offsets.append(begin)
            begin += len(row)
        shard = struct.pack(f'<I{len(part) + 1}I', len(part), *offsets, begin) + head + b''.join(part)
        name = f'shard.{len(shards):05}.mds'
        with open(os.path.join(folder, name), 'wb') as file:
            file.write(shard)
        shards.append({'column_encodings': ['jpeg', 'int'], 'column_names': ['image', 'label'], 'column_sizes': [None, 8],
                       'compression': None, 'format': 'mds', 'hashes': [], 'raw_data': {'basename': name, 'bytes': len(shard), 'hashes': {}},
                       'samples': len(part), 'size_limit': 1 << 26, 'version': 2, 'zip_data': None})
    with open(os.path.join(folder, 'index.json'), 'w') as file:
        json.dump({'version': 2, 'shards': shards}, file)


def write_sets(folder):
    samples = list(photographs())
    for number, (label, image) in enumerate(samples):
        place = os.path.join(folder, f'folder/{label:03}')
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, f'{number:05}.jpg'), 'wb') as file:
            file.write(image)
    per_shard = (len(samples) + 3) // 4
    for shard in range(4):
        with tarfile.open(os.path.join(folder, f'set-{shard:03}.tar'), 'w') as out:
            for number in range(shard * per_shard, min((shard + 1) * per_shard, len(samples))):
                label, image = samples[number]
                for ending, data in (('jpg', image), ('cls', str(label).encode())):
                    member = tarfile.TarInfo(f'{number:06}.{ending}')
                    member.size = len(data)
                    out.addfile(member, io.BytesIO(data))
    write_mds(os.path.join(folder, 'mds'), samples)
    subprocess.run([composer, 'data', 'write', '--format', 'image_folder', '--source', os.path.join(folder, 'folder'), '--output',
                    os.path.join(folder, 'set.beton'), '--index', 'false'], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return len({label for label, _ in samples})


@contextlib.contextmanager
def moto(folder):
    """The environment of programs that read it."""
    server = subprocess.Popen([args.python, script('moto_store.py'), folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        words = server.stdout.readline().split()
        if len(words) != 3:
            sys.exit('moto did not start')
        yield dict(AWS_ENDPOINT_URL=words[0], AWS_ACCESS_KEY_ID=words[1], AWS_SECRET_ACCESS_KEY=words[2], AWS_REGION='us-east-1')
    finally:
        server.stdin.close()
        server.wait()


class Trainings:
    def __init__(self, folder, store):
        self.folder, self.environment = folder, dict(os.environ, XDG_CACHE_HOME=os.path.join(folder, 'cache'), **store)

    def words(self, name, *more):
        return [composer, *more, 'train', '-f', name.rsplit('-', 1)[0] + '.yaml', '--run_name', name]

    def start(self, words):
        return subprocess.Popen(words, cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                start_new_session=True)

    def finish(self, words):
        process = self.start(words)
        _, errors = process.communicate()
        if process.returncode != 0:
            sys.exit(f'{" ".join(words)}\nended with status {process.returncode}:\n{errors[-2000:]}')

    def saved(self, name):
        with contextlib.suppress(OSError):
            return len([one for one in os.listdir(os.path.join(self.folder, 'runs', name, 'checkpoints')) if one.startswith('ep')])
        return 0

    def killed(self, words, name):
        """Each time once it has saved anew. How often it was, before it came to its end."""
        kills = 0
        for _ in range(args.kills):
            before, process = self.saved(name), self.start(words)
            while process.poll() is None and self.saved(name) < before + 2:
                time.sleep(0.01)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                kills += 1
            process.communicate()
        self.finish(words)
        return kills

    def weights(self, name):
        latest = os.path.join(self.folder, 'runs', name, 'checkpoints/latest')
        found = {}
        for file in sorted(os.listdir(latest)):
            if file.endswith('.safetensors'):
                with open(os.path.join(latest, file), 'rb') as opened:
                    found[file] = opened.read()
        return found


def check_format(trainings, kind, data, classes):
    for place, path in (('local', data), ('remote', 's3://bucket')):
        text = recipe.replace('SET', sets[kind]).replace('SIZE', str(args.crop_size)).replace('DIR', path)
        with open(os.path.join(trainings.folder, f'{kind}_{place}.yaml'), 'w') as file:
            file.write(text.replace('CLASSES', str(classes)))
    here, there = f'{kind}_local', f'{kind}_remote'
    trainings.finish(trainings.words(here + '-one'))
    words = trainings.words(there + '-one') + ['--autoresume', 'true']
    begin = time.monotonic()
    kills = trainings.killed(words, there + '-one')
    seconds = time.monotonic() - begin
    trainings.finish(trainings.words(here + '-two', '-n', '2'))
    trainings.finish(trainings.words(there + '-two', '-n', '2'))
    same = {ranks: bool(trainings.weights(f'{here}-{ranks}')) and trainings.weights(f'{here}-{ranks}') == trainings.weights(f'{there}-{ranks}')
            for ranks in ('one', 'two')}
    print(json.dumps(dict(format=kind, samples=args.samples, kills=kills, seconds=round(seconds, 1), same_killed_and_resumed=same['one'],
                          same_two_ranks=same['two'])), flush=True)
    return all(same.values()) and kills == args.kills


def check_refusals(trainings):
    def ask(what, path, **environment):
        done = subprocess.run([composer, 'data', 'info', path], env=dict(trainings.environment, **environment), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        good = done.returncode == 2 and done.stderr.count('\n') == 1 and trainings.environment['AWS_SECRET_ACCESS_KEY'] not in done.stderr
        print(json.dumps(dict(refused=what, good=good, status=done.returncode, says=done.stderr.strip())), flush=True)
        return good

    return all([ask('secret', 's3://bucket/set.beton', AWS_SECRET_ACCESS_KEY='wrong'),
                ask('key id', 's3://bucket/set.beton', AWS_ACCESS_KEY_ID='AKIAWRONG'),
                ask('no keys', 's3://bucket/set.beton', AWS_ACCESS_KEY_ID='', AWS_SECRET_ACCESS_KEY='', AWS_EC2_METADATA_DISABLED='true',
                    HOME='/nonexistent'),
                ask('object', 's3://bucket/none.beton'), ask('bucket', 's3://no-such-bucket/set.beton'),
                ask('folder', 's3://bucket/no/folder'), ask('region', 's3://bucket/set.beton', AWS_REGION='no region'),
                ask('host', 's3://bucket/set.beton', AWS_ENDPOINT_URL='https://no-such-host.invalid')])


with tempfile.TemporaryDirectory() as folder:
    data = os.path.join(folder, 'data')
    os.makedirs(data)
    classes = write_sets(data)
    with moto(data) as store:
        trainings = Trainings(folder, store)
        good = [check_format(trainings, kind, data, classes) for kind in args.formats]
        good.append(check_refusals(trainings))
sys.exit(0 if all(good) else 1)
