#!/usr/bin/env python3
"""A cold epoch of photographs that nginx serves on this machine, random resized crop and flip, uint8 out: `composer bench
loader` on a .beton file and on the photographs themselves, against MosaicML's streaming, litdata, and s3torchconnector with
torchvision, in alternation. One JSON line, the ratio (composer's .beton over the best peer, per round) last.

    python3 benchmarks/remote_vs_peers.py PHOTOS --python VENV/bin/python
    python3 benchmarks/remote_vs_peers.py PHOTOS --peers                    # our second epoch alone

Needs nginx (apt-get install nginx-light) and for the peers an environment:

    VENV/bin/pip install torch torchvision mosaicml-streaming litdata s3torchconnector boto3
    VENV/bin/pip uninstall --yes obstore        # with which litdata reads nothing over http://

cpu_s_per_gb        seconds of all processor cores that a reader took, by the GB of its files; the server's are not in it
second_over_local   our second epoch of the remote .beton file over that of the same file on the disk, per round
"""
import argparse
import contextlib
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from side_by_side import add_composer, alternate, comparison, last_json, median, options, script, tile

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('photos')
parser.add_argument('--python', help='interpreter with the peers')
parser.add_argument('--peers', nargs='*', default=['streaming', 'litdata', 's3torchconnector'])
parser.add_argument('--nginx', default=shutil.which('nginx') or '/usr/sbin/nginx')
parser.add_argument('--repeat', type=int, default=5)
parser.add_argument('--batch_size', type=int, default=64)
parser.add_argument('--num_workers', type=int, default=len(os.sched_getaffinity(0)))
parser.add_argument('--resolution', type=int, default=224)
parser.add_argument('--pairs', type=int, default=5)
add_composer(parser)
args = parser.parse_args()
if args.peers and not args.python:
    parser.error('--python: the peers need an interpreter that has them')
composer, settings = os.path.abspath(args.composer), options(args, 'batch_size', 'num_workers', 'resolution')

config = '''daemon off; pid FOLDER/nginx.pid; error_log FOLDER/nginx.err; worker_processes 1;
events { worker_connections 1024; }
http { access_log off; sendfile on; types { } default_type application/octet-stream;
  client_body_temp_path FOLDER/t; proxy_temp_path FOLDER/t; fastcgi_temp_path FOLDER/t; uwsgi_temp_path FOLDER/t; scgi_temp_path FOLDER/t;
  server { listen 127.0.0.1:PORT; root FOLDER/served; } }
'''


@contextlib.contextmanager
def nginx(folder):
    """Serves FOLDER/served; its URL."""
    with socket.create_server(('127.0.0.1', 0)) as free:
        port = free.getsockname()[1]
    path = os.path.join(folder, 'nginx.conf')
    with open(path, 'w') as file:
        file.write(config.replace('FOLDER', folder).replace('PORT', str(port)))
    server = subprocess.Popen([args.nginx, '-c', path], stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', port)):
                break
            time.sleep(0.1)
        else:
            sys.exit('nginx does not answer; see ' + os.path.join(folder, 'nginx.err'))
        yield f'http://127.0.0.1:{port}'
    finally:
        server.terminate()
        server.wait()


def measured(command, megabytes):
    """The last line that the command prints, and what it took of the processor."""
    def seconds():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before = seconds()
    result = last_json(command)
    return dict(result, cpu_s_per_gb=(seconds() - before) / megabytes * 1000)


with tempfile.TemporaryDirectory() as folder:
    os.chmod(folder, 0o755)
    served = os.path.join(folder, 'served/photos')
    os.makedirs(served)
    photos = tile(args.photos, os.path.join(folder, 'photos'), args.repeat)
    beton = os.path.join(served, 'photos.beton')
    subprocess.run([composer, 'data', 'write', '--format', 'image_folder', '--source', photos, '--output', beton, '--index', 'false'],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if args.peers:
        subprocess.run([args.python, script('remote_peers.py'), '--write', photos, '--to', served], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    megabytes = sum(os.path.getsize(os.path.join(place, name)) for place, _, names in os.walk(photos) for name in names) / 1e6
    caches = (os.path.join(folder, f'cache{number}') for number in range(1 << 30))

    def fresh():
        path = next(caches)
        os.makedirs(path)
        return path

    def ours(source, epochs=1):
        return lambda: measured(['env', 'XDG_CACHE_HOME=' + fresh(), composer, 'bench', 'loader', '--json', '--source', source,
                                 '--epochs', str(epochs)] + settings, megabytes)

    def peer(name, url):
        return lambda: measured([args.python, script('remote_peers.py'), '--peer', name, '--url', url, '--cache', fresh()] + settings,
                                megabytes)

    with nginx(folder) as url:
        set_of = {'beton': url + '/photos/photos.beton', 'files': url + '/photos/files/files.txt'}
        if args.peers:
            cold, cold_files, *theirs = alternate(args.pairs, ours(set_of['beton']), ours(set_of['files']),
                                                  *(peer(name, url) for name in args.peers))
        remote, local = alternate(args.pairs, ours(set_of['beton'], 2), ours(beton, 2))

second = [there['per_epoch'][1] / here['per_epoch'][1] for there, here in zip(remote, local)]
result = dict(megabytes=round(megabytes), resolution=args.resolution, batch_size=args.batch_size, num_workers=args.num_workers,
              pairs=args.pairs, load=round(os.getloadavg()[0], 1), second_over_local=round(statistics.median(second), 3),
              second_over_local_spread=[round(min(second), 3), round(max(second), 3)])
if args.peers:
    # Our rate by images_per_s of the first epoch, in which the set is opened; so is the peers'.
    best = [max(one, key=lambda run: run['images_per_s']) for one in zip(*theirs)]
    result.update(
        peers={name: dict(images_per_s=round(median(runs, 'images_per_s'), 1), cpu_s_per_gb=round(median(runs, 'cpu_s_per_gb'), 1))
               for name, runs in zip(args.peers, theirs)},
        files_images_per_s=round(median(cold_files, 'images_per_s'), 1), files_cpu_s_per_gb=round(median(cold_files, 'cpu_s_per_gb'), 1),
        cpu_s_per_gb=round(median(cold, 'cpu_s_per_gb'), 1), peer='the best of ' + ', '.join(args.peers),
        **comparison(cold, best, 'images_per_s'))
print(json.dumps(result))
