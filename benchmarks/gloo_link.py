#!/usr/bin/env python3
"""What ranks on this machine send each other: Gloo's all-reduce between two processes of PyTorch, as latency and bandwidth.

A part of scale_vs_ranks.py. One JSON line: link_us, of a message beside its bytes; link_gb_s, each way; as a ring of two has
them, whose all-reduce takes 2 (latency + bytes / 2 / bandwidth). Medians of --repeats.
"""
import argparse
import json
import os
import socket
import statistics
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument('--bytes', type=int, default=16 << 20)
parser.add_argument('--repeats', type=int, default=30)


def measure(rank, port, args, replies):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port))
    dist.init_process_group('gloo', rank=rank, world_size=2)

    def seconds(size):
        values = torch.ones(size // 4)
        times = []
        for _ in range(args.repeats + 5):
            dist.barrier()
            begin = time.perf_counter()
            dist.all_reduce(values)
            times.append(time.perf_counter() - begin)
        return statistics.median(times[5:])

    small, large = seconds(4), seconds(args.bytes)
    if rank == 0:
        replies.put(dict(link_us=small / 2 * 1e6, link_gb_s=args.bytes / max(large - small, 1e-9) / 1e9))
    dist.destroy_process_group()


if __name__ == '__main__':
    import multiprocessing
    args = parser.parse_args()
    with socket.socket() as found:
        found.bind(('127.0.0.1', 0))
        port = found.getsockname()[1]
    context = multiprocessing.get_context('spawn')
    replies = context.Queue()
    ranks = [context.Process(target=measure, args=(rank, port, args, replies)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    print(json.dumps(replies.get(timeout=120)))
    for rank in ranks:
        rank.join()
