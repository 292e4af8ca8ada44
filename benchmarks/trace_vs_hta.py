#!/usr/bin/env python3
"""`composer trace analyze` against HolisticTraceAnalysis on the same traces, in alternation: from the file to the results of
the analyses that both have. One JSON line: seconds, CPU seconds, MB of JSON a second, MiB of memory at most, and ratios.

    benchmarks/trace_vs_hta.py --python VENV/bin/python [--mb 200] [--ranks 1] [--gzip]
    benchmarks/trace_vs_hta.py --python VENV/bin/python --traces FOLDER

VENV: an environment with HolisticTraceAnalysis of PyPI. Without --traces, traces of a training on a GPU are made up: operators
with shapes, launches, kernels on three streams, copies and communication, 50 steps. ratio: HTA's CPU seconds over ours, the
median of the pairs; with several ranks HTA runs in as many processes.
"""
import argparse
import gzip
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time

from side_by_side import add_composer, alternate, median

hta_program = '''
import logging, sys, warnings
warnings.filterwarnings('ignore'); logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
trace = TraceAnalysis(trace_dir=sys.argv[1])
ranks = sorted(trace.t.traces)
trace.get_temporal_breakdown(visualize=False)
trace.get_gpu_kernel_breakdown(visualize=False)
trace.get_comm_comp_overlap(visualize=False)
trace.get_idle_time_breakdown(ranks=ranks, visualize=False)
trace.get_queue_length_summary(ranks=ranks)
trace.get_memory_bw_summary(ranks=ranks)
trace.get_cuda_kernel_launch_stats(ranks=ranks, visualize=False)
'''
steps = 50


def words_of_step(step, begin, operators, draw):
    """The events of one step, and when it ends (us)."""
    at, free, lines, numbers = begin, {7: begin, 20: begin, 24: begin}, [], []
    for i in range(operators):
        name = draw.choice(('aten::conv2d', 'aten::batch_norm', 'aten::relu_', 'aten::add_', 'aten::copy_', 'c10d::allreduce_'))
        correlation = step * operators + i + 1
        copy, sent = name == 'aten::copy_', name == 'c10d::allreduce_'
        stream = 20 if sent else 24 if copy else 7
        call = 'cudaMemcpyAsync' if copy else 'cudaLaunchKernel'
        kernel = ('Memcpy HtoD (Pinned -> Device)' if copy else 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long)'
                  if sent else f'void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)'
                  f'{draw.randrange(40)}>(cudnn::ops::nchw2nhwc_params_t<float>, float const*, float*)')
        duration, wait = draw.uniform(2, 40), draw.uniform(4, 9)
        start = max(at + wait, free[stream] + draw.uniform(0.5, 3))
        free[stream] = start + duration
        lines.append(
            f'  {{\n    "ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 4711, "tid": 4711,\n    "ts": {at:.3f}, "dur": {wait:.3f},\n'
            f'    "args": {{\n      "External id": {correlation},"Sequence number": {i}, "Fwd thread id": 0, "Input Dims": '
            f'[[{draw.choice((64, 128))}, 64, 56, 56], [64, 64, 3, 3], [], [], [], [], []], "Input type": ["float", "float", "", '
            f'"ScalarList", "ScalarList", "ScalarList", "Scalar"], "Ev Idx": {correlation}\n    }}\n  }}')
        lines.append(
            f'  {{\n    "ph": "X", "cat": "cuda_runtime", "name": "{call}", "pid": 4711, "tid": 4711,\n    "ts": {at + wait / 4:.3f}, '
            f'"dur": {wait / 2:.3f},\n    "args": {{\n      "External id": {correlation},"cbid": 211, "correlation": {correlation}\n    }}\n  }}')
        lines.append(f'  {{\n    "ph": "s", "id": {correlation}, "pid": 4711, "tid": 4711, "ts": {at + wait / 4:.3f},\n    "cat": "ac2g", '
                     f'"name": "ac2g"\n  }}')
        more = f'"bytes": 4096, "memory bandwidth (GB/s)": {draw.uniform(1, 20):.5f}' if copy else (
            '"registers per thread": 40,      "shared memory": 16384,      "blocks per SM": 3.2,      "warps per SM": 12.8,\n      '
            '"grid": [256, 1, 1],      "block": [128, 1, 1],      "est. achieved occupancy %": 20')
        lines.append(
            f'  {{\n    "ph": "X", "cat": "{"gpu_memcpy" if copy else "kernel"}", "name": "{kernel}", "pid": 0, "tid": {stream},\n    '
            f'"ts": {start:.3f}, "dur": {duration:.3f},\n    "args": {{\n      "External id": {correlation},      "queued": 0, "device": 0, '
            f'"context": 1,\n      "stream": {stream}, "correlation": {correlation},\n      {more}\n    }}\n  }}')
        lines.append(f'  {{\n    "ph": "f", "id": {correlation}, "pid": 0, "tid": {stream}, "ts": {start:.3f},\n    "cat": "ac2g", '
                     f'"name": "ac2g", "bp": "e"\n  }}')
        at += wait + 0.5
    end = at + 1
    lines.append(f'  {{\n    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{step}", "pid": 4711, "tid": 4711,\n    '
                 f'"ts": {begin:.3f}, "dur": {end - begin:.3f},\n    "args": {{\n      "External id": 0\n    }}\n  }}')
    return ',\n'.join(lines), end + 1


def write_trace(path, rank, megabytes):
    """A trace as Kineto writes it, of about so many MB."""
    draw = random.Random(rank)
    sample, _ = words_of_step(0, 1000.0, 100, random.Random(0))
    operators = max(1, int(megabytes * 1e6 / steps / (len(sample) / 100)))
    with (gzip.open(path, 'wt', compresslevel=1) if path.endswith('.gz') else open(path, 'w')) as file:
        file.write('{\n  "schemaVersion": 1,\n  "deviceProperties": [],\n  "distributedInfo": {"backend": "nccl", "rank": '
                   f'{rank}, "world_size": 8}},\n  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": 1790857026000000000,\n'
                   '  "traceEvents": [\n')
        at = 4512792393950.5
        for step in range(steps):
            words, at = words_of_step(step, at, operators, draw)
            file.write(words + (',\n' if step + 1 < steps else '\n'))
        file.write('  ],\n  "traceName": "made up"\n}\n')


def timed(command):
    """Seconds, CPU seconds and MiB of memory of a command and its processes."""
    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(['/usr/bin/env', 'python3', '-c', 'import resource, subprocess, sys\n'
                           'done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)\n'
                           'used = resource.getrusage(resource.RUSAGE_CHILDREN)\n'
                           'print(used.ru_maxrss / 1024, used.ru_utime + used.ru_stime)\n'
                           'sys.stderr.write(done.stderr[-2000:]); sys.exit(done.returncode)'] + command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f'{" ".join(command[:3])} ...\nended with status {done.returncode}:\n{done.stderr}')
    memory, cpu = map(float, done.stdout.split())
    return {'seconds': time.monotonic() - begin, 'cpu_seconds': cpu, 'mib': memory}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--python', required=True, help='interpreter with HolisticTraceAnalysis')
    parser.add_argument('--traces', help='a folder of traces; default: made up')
    parser.add_argument('--mb', type=float, default=200, help='of JSON a rank')
    parser.add_argument('--ranks', type=int, default=1)
    parser.add_argument('--gzip', action='store_true')
    parser.add_argument('--pairs', type=int, default=5)
    parser.add_argument('--only_write', metavar='FOLDER', help='writes the made-up traces there and ends')
    add_composer(parser)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.traces or args.only_write or scratch
        os.makedirs(folder, exist_ok=True)
        if not args.traces:
            for rank in range(args.ranks):
                write_trace(os.path.join(folder, f'rank{rank}.pt.trace.json' + ('.gz' if args.gzip else '')), rank, args.mb)
        if args.only_write:
            return
        told = json.loads(subprocess.run([args.composer, 'trace', 'analyze', folder, '--json'], check=True, capture_output=True).stdout)
        megabytes = sum(rank['bytes'] for rank in told['ranks']) / 1e6
        ours, theirs = alternate(args.pairs, lambda: timed([args.composer, 'trace', 'analyze', folder, '--json']),
                                 lambda: timed([args.python, '-c', hta_program, folder]))
    ratios = sorted(hta['cpu_seconds'] / own['cpu_seconds'] for own, hta in zip(ours, theirs))
    print(json.dumps({
        'benchmark': 'trace_vs_hta', 'mb': round(megabytes, 1), 'ranks': len(told['ranks']), 'pairs': len(ours),
        'events': sum(rank['events'] for rank in told['ranks']),
        'ours_seconds': round(median(ours, 'seconds'), 2), 'ours_cpu_seconds': round(median(ours, 'cpu_seconds'), 2),
        'ours_mb_per_cpu_second': round(megabytes / median(ours, 'cpu_seconds'), 1), 'ours_mib': round(median(ours, 'mib')),
        'hta_seconds': round(median(theirs, 'seconds'), 2), 'hta_cpu_seconds': round(median(theirs, 'cpu_seconds'), 2),
        'hta_mib': round(median(theirs, 'mib')), 'ratio': round(ratios[len(ratios) // 2], 1)}))


if __name__ == '__main__':
    main()
