"""A web server for remote_faults.py: a folder's files by ranges, with ETags, as a bad line and an overloaded store give them.

    python3 benchmarks/faulty_server.py FOLDER --fail 0.05 --delay_ms 200 --connection_mb 20 --link_mb 60

It prints its URL, serves until its input ends, and then prints what it did as one JSON line.
"""
import argparse
import collections
import email.utils
import json
import os
import random
import socket
import struct
import sys
import threading
import time
import urllib.parse

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('folder')
parser.add_argument('--fail', type=float, default=0, help='share of requests that fail: 503, reset, cut body, in turn')
parser.add_argument('--delay_ms', type=float, default=0, help='before each answer')
parser.add_argument('--connection_mb', type=float, default=0, help='MB/s of a connection; 0: no limit')
parser.add_argument('--link_mb', type=float, default=0, help='MB/s of all connections; 0: no limit')
parser.add_argument('--seed', type=int, default=1)

piece = 64 << 10


class Rate:
    """Says how long to wait before so many bytes more may go; idle time is not saved up."""

    def __init__(self, megabytes):
        self.bytes_per_s, self.free_at, self.lock = megabytes * 1e6, 0, threading.Lock()

    def wait(self, count):
        if self.bytes_per_s == 0:
            return
        with self.lock:
            self.free_at = max(self.free_at, time.monotonic()) + count / self.bytes_per_s
            seconds = self.free_at - time.monotonic()
        if seconds > 0.002:
            time.sleep(seconds)


class Server:
    def __init__(self, args):
        self.args, self.link = args, Rate(args.link_mb)
        self.random, self.lock, self.done = random.Random(args.seed), threading.Lock(), collections.Counter()
        self.listener = socket.create_server(('127.0.0.1', 0), backlog=512)

    def url(self):
        return 'http://127.0.0.1:%d' % self.listener.getsockname()[1]

    def run(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=[connection], daemon=True).start()

    def count(self, **what):
        with self.lock:
            self.done.update(what)

    def fault(self):
        with self.lock:
            if self.random.random() >= self.args.fail:
                return None
            return ('refused', 'reset', 'cut')[sum(self.done[kind] for kind in ('refused', 'reset', 'cut')) % 3]

    def serve(self, connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        rate, buffer = Rate(self.args.connection_mb), b''
        try:
            while True:
                while b'\r\n\r\n' not in buffer:
                    more = connection.recv(65536)
                    if not more:
                        return
                    buffer += more
                head, _, buffer = buffer.partition(b'\r\n\r\n')
                if not self.answer(connection, head.decode('latin-1').split('\r\n'), rate):
                    return
        except OSError:
            pass
        finally:
            connection.close()

    def answer(self, connection, lines, rate):
        """Whether the connection goes on."""
        method, target, _ = lines[0].split(' ')
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(':') for line in lines[1:])}
        time.sleep(self.args.delay_ms / 1000)
        fault = self.fault()
        self.count(requests=1, **({fault: 1} if fault else {}))
        if fault == 'refused':
            return self.say(connection, '503 Slow Down')
        if fault == 'reset':
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            return False
        path = os.path.normpath(os.path.join(self.args.folder, urllib.parse.unquote(target.partition('?')[0]).lstrip('/')))
        if not os.path.isfile(path):
            return self.say(connection, '404 Not Found')
        with open(path, 'rb') as file:
            status = os.fstat(file.fileno())
            etag = '"%x-%x"' % (status.st_mtime_ns, status.st_size)
            if headers.get('if-match', etag) != etag:
                return self.say(connection, '412 Precondition Failed')
            begin, end, line, more = 0, status.st_size, '200 OK', []
            if headers.get('range', '').startswith('bytes='):
                first, _, last = headers['range'][6:].partition('-')
                begin, end = int(first), min(int(last) + 1, end) if last else end
                if begin >= status.st_size:
                    return self.say(connection, '416 Range Not Satisfiable', f'Content-Range: bytes */{status.st_size}')
                line, more = '206 Partial Content', [f'Content-Range: bytes {begin}-{end - 1}/{status.st_size}']
            more += ['ETag: ' + etag, 'Last-Modified: ' + email.utils.formatdate(status.st_mtime, usegmt=True)]
            self.say(connection, line, *more, length=end - begin)
            if method == 'HEAD':
                return True
            if fault == 'cut':
                end = begin + (end - begin) // 2
            at = begin
            while at < end:
                want = min(piece, end - at)
                self.link.wait(want)
                rate.wait(want)
                sent = os.sendfile(connection.fileno(), file.fileno(), at, want)
                if sent == 0:
                    return False
                at += sent
            self.count(bytes=end - begin)
        return fault != 'cut'

    def say(self, connection, status, *headers, length=0):
        lines = ['HTTP/1.1 ' + status, f'Content-Length: {length}', 'Accept-Ranges: bytes', *headers]
        connection.sendall('\r\n'.join([*lines, '', '']).encode())
        return True


def main():
    server = Server(parser.parse_args())
    threading.Thread(target=server.run, daemon=True).start()
    print(server.url(), flush=True)
    sys.stdin.read()
    print(json.dumps(server.done))


if __name__ == '__main__':
    main()
