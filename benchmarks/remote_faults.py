#!/usr/bin/env python3
"""A .beton file behind a bad line: 5 % of the requests fail (503, connections reset, bodies cut off), each waits 200 ms,
each connection has 20 MB/s and all of them together --link_mb. One JSON line, the ratio last:

same         whether the samples that come are those of the local file (`composer data hash`), and whether a training over
             the line ends with the weights of one on the disk: no sample is lost or doubled
mb_per_s     of a cold epoch of `composer bench loader`, the bytes of the images alone; the peer fetches the same file over the same
             line without failures, in ranges of 8 MiB by 32 threads: what the link gives

    python3 benchmarks/remote_faults.py PHOTOS

PHOTOS: class folders of JPEG files. They are written as pixels of at most --max_resolution, so that the line and not the
processor is measured.
"""
import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

from side_by_side import add_composer, alternate, comparison, last_json, script, tile

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('photos')
parser.add_argument('--repeat', type=int, default=12, help='of the photographs in the file whose rate is measured: some 500 MB')
parser.add_argument('--rate_only', action='store_true', help='leaves out `same`')
parser.add_argument('--max_resolution', type=int, default=200)
parser.add_argument('--fail', type=float, default=0.05)
parser.add_argument('--delay_ms', type=float, default=200)
parser.add_argument('--connection_mb', type=float, default=20)
parser.add_argument('--link_mb', type=float, default=60)
parser.add_argument('--order', default='random', choices=['sequential', 'random', 'quasi_random'])
parser.add_argument('--num_workers', type=int, default=2)
parser.add_argument('--pairs', type=int, default=5)
add_composer(parser)
args = parser.parse_args()
composer = os.path.abspath(args.composer)

recipe = '''
model: {resnet_cifar: {model_name: resnet_20, num_classes: CLASSES}}
train_dataset: {image_folder: {crop_size: 32, use_ffcv: true, ffcv_dir: DIR, ffcv_dest: small.beton}}
optimizer: {decoupled_sgdw: {lr: 0.1}}
train_batch_size: 64
max_duration: 2ep
eval_interval: 0ep
device: cpu
dataloader: {num_workers: 2}
'''


@contextlib.contextmanager
def serving(folder, fail, done=None):
    """The server's URL; what it did goes to `done`."""
    words = [sys.executable, script('faulty_server.py'), folder, '--fail', str(fail), '--delay_ms', str(args.delay_ms),
             '--connection_mb', str(args.connection_mb), '--link_mb', str(args.link_mb)]
    server = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield server.stdout.readline().strip()
    finally:
        said, _ = server.communicate()
        if done is not None:
            done.append(json.loads(said))


def run(folder, *words, cache=None):
    """Its standard output."""
    environment = dict(os.environ, XDG_CACHE_HOME=cache or os.path.join(folder, 'local_cache'))
    done = subprocess.run([composer, *words], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f'{" ".join(words)}\nended with status {done.returncode}:\n{done.stderr[-2000:]}')
    return done.stdout


def weights(folder, name):
    latest = os.path.join(folder, 'runs', name, 'checkpoints/latest')
    return {file: open(os.path.join(latest, file), 'rb').read() for file in sorted(os.listdir(latest)) if file.endswith('.safetensors')}


def train(folder, name, place, classes, cache=None):
    with open(os.path.join(folder, name + '.yaml'), 'w') as file:
        file.write(recipe.replace('DIR', place).replace('CLASSES', str(classes)))
    run(folder, 'train', '-f', name + '.yaml', '--run_name', name, cache=cache)
    return weights(folder, name)


def fetch_all(url, size):
    """The seconds of a download in ranges by 32 threads."""
    part, threads = 8 << 20, 32
    begins, lock, failures = list(range(0, size, part)), threading.Lock(), []
    host, port = url.split('//')[1].split('/')[0].split(':')

    def work():
        memory = memoryview(bytearray(1 << 20))
        with socket.create_connection((host, int(port))) as connection:
            while True:
                with lock:
                    if not begins:
                        return
                    begin = begins.pop(0)
                end = min(begin + part, size)
                connection.sendall(f'GET /set.beton HTTP/1.1\r\nHost: x\r\nRange: bytes={begin}-{end - 1}\r\n\r\n'.encode())
                head = b''
                while b'\r\n\r\n' not in head:
                    head += connection.recv(1)
                if b' 206 ' not in head:
                    failures.append(head)
                left = end - begin
                while left > 0:
                    got = connection.recv_into(memory, min(left, len(memory)))
                    if got == 0:
                        failures.append(b'cut')
                        return
                    left -= got

    start = time.monotonic()
    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        sys.exit(f'the peer could not read the file: {failures[0]!r}')
    return time.monotonic() - start


with tempfile.TemporaryDirectory() as folder:
    served = os.path.join(folder, 'served')
    os.makedirs(served)

    def write(name, repeat):
        path = os.path.join(served, name)
        run(folder, 'data', 'write', '--format', 'image_folder', '--source', tile(args.photos, os.path.join(folder, 'of_' + name), repeat),
            '--output', path, '--write_mode', 'raw', '--max_resolution', str(args.max_resolution), '--index', 'false')
        return path

    beton = write('set.beton', args.repeat)
    about = json.loads(run(folder, 'data', 'info', beton, '--json').strip().splitlines()[-1])
    size, samples, classes = os.path.getsize(beton), about['samples'], len(os.listdir(args.photos))
    rounds, done = iter(range(1 << 30)), []

    def fresh():
        return os.path.join(folder, f'cache{next(rounds)}')

    same = {}
    if not args.rate_only:
        small = write('small.beton', 1)
        with serving(served, args.fail, done) as url:
            same['samples'] = run(folder, 'data', 'hash', url + '/small.beton', cache=fresh()) == run(folder, 'data', 'hash', small)
            here, there = train(folder, 'here', served, classes), train(folder, 'there', url, classes, fresh())
        same['weights'] = bool(here) and here == there

    def link():
        with serving(served, 0) as url:
            return dict(mb_per_s=size / 1e6 / fetch_all(url, size))

    def loader():
        with serving(served, args.fail, done) as url:
            words = ['bench', 'loader', '--json', '--source', url + '/set.beton', '--epochs', '1', '--batch_size', '64', '--resolution', '32',
                     '--order', args.order, '--num_workers', str(args.num_workers)]
            out = json.loads(run(folder, *words, cache=fresh()).strip().splitlines()[-1])
        return dict(mb_per_s=out['images_per_s'] / samples * size / 1e6)

    theirs, ours = alternate(args.pairs, link, loader)

faults = {key: sum(one.get(key, 0) for one in done) for key in ('requests', 'refused', 'reset', 'cut')}
print(json.dumps(dict(
    megabytes=round(size / 1e6), order=args.order, fail=args.fail, delay_ms=args.delay_ms, connection_mb=args.connection_mb,
    link_mb=args.link_mb, **faults, same=same, pairs=args.pairs,
    peer='ranges without failures', load=round(os.getloadavg()[0], 1), **comparison(ours, theirs, 'mb_per_s'))))
sys.exit(0 if all(same.values()) else 1)
