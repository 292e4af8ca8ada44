#!/usr/bin/env python3
"""Holds `composer trace` against HolisticTraceAnalysis (PyPI) on the same traces: each number within 0.1 %.

    COMPOSER_HTA_PYTHON=VENV/bin/python COMPOSER_HTA_TRACES=FOLDER tests/analysis/hta_peer.py --composer build/release/bin/composer

FOLDER: traces (.json, .json.gz) in it and below; each folder of traces is one run. HTA's own are in its repository, tests/data. The
command is asked to calculate as HTA does (--as_hta). Exit status 0: equal; 1: not; 77: nothing to compare, with the reason.
"""
import argparse
import json
import math
import os
import subprocess
import sys

tolerance = 1e-3


def sort_stably():
    """HTA leaves it to chance which of two events of the same time comes first; here the file's order decides."""
    import pandas
    sort_values = pandas.DataFrame.sort_values
    pandas.DataFrame.sort_values = lambda self, *words, **keys: sort_values(self, *words, **{'kind': 'stable', **keys})


def hta_numbers(folder, ranks):
    """Everything HTA says of the traces of `folder`, as plain numbers in its own units (us). Runs in HTA's Python."""
    import logging
    import warnings
    warnings.filterwarnings('ignore')
    logging.disable(logging.CRITICAL)
    from hta.analyzers.breakdown_analysis import BreakdownAnalysis
    from hta.analyzers.cuda_kernel_analysis import CudaKernelAnalysis
    from hta.trace_analysis import TraceAnalysis
    sort_stably()
    trace = TraceAnalysis(trace_files=ranks, trace_dir=folder)
    for frame in trace.t.traces.values():  # it joins kernels to launches by row numbers, which its filter leaves doubled
        frame.index = frame['index'].values
    found = {rank: {} for rank in ranks}

    def say(rank, key, function):
        try:
            found[rank][key] = function()
        except Exception as error:  # HTA's own failures are reported, not compared
            found[rank][key] = f'HTA fails: {type(error).__name__}: {error}'

    for rank in ranks:
        only = trace.t.traces[rank]
        if not only['stream'].ne(-1).any():
            continue
        one = TraceAnalysis.__new__(TraceAnalysis)
        one.t = trace.t.__class__.__new__(trace.t.__class__)
        one.t.__dict__.update(trace.t.__dict__)
        one.t.traces = {rank: only}

        def temporal(one=one):
            row = one.get_temporal_breakdown(visualize=False).iloc[0]
            return [row[f'{name}(us)'] for name in ('kernel_time', 'idle_time', 'compute_time', 'non_compute_time')]

        def idle(one=one, rank=rank):
            frame, _ = BreakdownAnalysis.get_idle_time_breakdown(one.t, 30, rank=rank, visualize=False)
            return [[row.stream, row.idle_category, row.idle_time] for row in frame.itertuples()]

        def kernels(one=one):
            types, names = one.get_gpu_kernel_breakdown(visualize=False, include_memory_kernels=True)
            plain, _ = one.get_gpu_kernel_breakdown(visualize=False, include_memory_kernels=False)
            return {'with_memory': dict(zip(types.kernel_type, types['sum'])),
                    'types': dict(zip(plain.kernel_type, plain['sum'])),
                    'names': [[row['kernel_type'], row['name'], row['sum (us)'], row['max (us)'], row['min (us)'],
                               row['mean (us)'], row['stddev']] for _, row in names.iterrows()]}

        say(rank, 'temporal', temporal)
        say(rank, 'idle', idle)
        say(rank, 'kernels', kernels)
        say(rank, 'overlap', lambda one=one: float(one.get_comm_comp_overlap(visualize=False)['comp_comm_overlap_pctg'].iloc[0]))
        columns = ['count', 'mean', 'std', 'min', '25%', '50%', '75%', 'max']

        def described(frame):
            return [] if frame is None else [[list(map(str, index)), *map(float, row)] for index, row in
                                             zip(frame.index, frame[frame.columns.levels[0][0]][columns].values)]

        if only.loc[only['index'].eq(0), 'stream'].ne(-1).any():
            found[rank]['queue'] = 'HTA takes the work in the first line of a file for work without a launch'
        else:
            say(rank, 'queue', lambda one=one, rank=rank: described(one.get_queue_length_summary(ranks=[rank])))
        say(rank, 'bandwidth', lambda one=one, rank=rank: described(one.get_memory_bw_summary(ranks=[rank])))

        def launches(one=one, rank=rank):
            frame = CudaKernelAnalysis.cuda_kernel_launch_stats(one.t, ranks=[rank], visualize=False)[rank]
            return {'count': len(frame), **{name: [float(frame[name].mean()), float(frame[name].max())] for name in
                                            ('cpu_duration', 'gpu_duration', 'launch_delay') if len(frame)},
                    'short': int((frame.gpu_duration < frame.cpu_duration).sum()), 'slow': int((frame.cpu_duration > 50).sum()),
                    'late': int((frame.launch_delay > 100).sum())}

        say(rank, 'launches', launches)
    return found


def hta_diff(control, test):
    import logging
    logging.disable(logging.CRITICAL)
    from hta.trace_diff import TraceDiff
    frame = TraceDiff.compare_traces(control, test)
    return [[name, *map(float, row[:6]), row[6]] for name, row in zip(frame.index, frame.values.tolist())]


class Comparison:
    def __init__(self):
        self.compared, self.wrong, self.worst = 0, [], 0.0

    def number(self, what, ours, hta, scale=0.0):
        """scale: what a difference is measured by where HTA's number is smaller, as parts of a whole are."""
        self.compared += 1
        if ours is None or (isinstance(hta, float) and math.isnan(hta)):
            if not (ours is None and isinstance(hta, float) and math.isnan(hta)):
                self.wrong.append(f'{what}: {ours} against {hta}')
            return
        error = abs(ours - hta) / max(abs(hta), scale, 1e-9)
        self.worst = max(self.worst, error)
        if error > tolerance:
            self.wrong.append(f'{what}: {ours} against {hta}, {100 * error:.2f} %')

    def same(self, what, ours, hta):
        self.compared += 1
        if ours != hta:
            self.wrong.append(f'{what}: {ours} against {hta}')


def failed(comparison, hta, key, what):
    if isinstance(hta.get(key), str):
        print(f'  {what}: {key} not compared: {hta[key]}')
        return True
    return False


def compare_rank(comparison, what, ours, hta):
    us = 1000
    if not failed(comparison, hta, 'temporal', what):
        times = ours['temporal_breakdown']
        for name, value in zip(('span', 'idle', 'compute', 'non_compute'), hta['temporal']):
            comparison.number(f'{what}: {name}', times[f'{name}_ns'] / us, value)
    if not failed(comparison, hta, 'idle', what):
        streams = {row['stream']: row for row in ours['idle_time']}
        for stream, category, value in hta['idle']:
            whole = sum(abs(row[2]) for row in hta['idle'] if row[0] == stream)
            # HTA rounds these to two decimals.
            comparison.number(f'{what}: stream {stream} {category}', streams[stream][f'{category}_ns'] / us, value, max(whole * 1e-3, 10))
    if not failed(comparison, hta, 'overlap', what):
        share = None if ours['overlap'] is None else 100 * ours['overlap']
        comparison.number(f'{what}: overlap', share, hta['overlap'], 10)  # rounded to 0.01
    if not failed(comparison, hta, 'kernels', what):
        compare_kernels(comparison, what, ours, hta['kernels'])
    if not failed(comparison, hta, 'queue', what):
        queues = {str(row['stream']): row['length'] for row in ours['queue_length']}
        for (_, stream), *numbers in hta['queue']:
            compare_summary(comparison, f'{what}: queue of {stream}', queues[stream], numbers)
    if not failed(comparison, hta, 'bandwidth', what):
        kinds = {row['kind']: row['gb_per_second'] for row in ours['memory_bandwidth']}
        for (_, kind), *numbers in hta['bandwidth']:
            compare_summary(comparison, f'{what}: {kind}', kinds[kind], numbers)
    if not failed(comparison, hta, 'launches', what):
        compare_launches(comparison, what, ours['launches'], hta['launches'])


def compare_summary(comparison, what, ours, numbers):
    for name, value in zip(('count', 'mean', 'std', 'min', '25%', '50%', '75%', 'max'), numbers):
        comparison.number(f'{what}, {name}', ours[name], 0.0 if name == 'std' and math.isnan(value) else value)


def compare_kernels(comparison, what, ours, hta):
    for key, found in (('kernel_types', hta['with_memory']), ('kernel_types_without_memory', hta['types'])):
        for name, value in found.items():
            comparison.number(f'{what}: {name}', ours[key].get(name.lower(), 0) / 1000, value)
    rows = {(row['type'].upper(), row['name']): row for row in ours['kernels']}
    for kind, name, total, most, least, mean, deviation in hta['names']:
        row = rows.get((kind, name))
        comparison.same(f'{what}: {kind} {name[:60]}', row is not None, True)
        if row is None:
            continue
        comparison.number(f'{what}: {name[:60]}, sum', row['sum_ns'] / 1000, total)
        for key, value in (('max_ns', most), ('min_ns', least), ('mean_ns', mean), ('std_ns', deviation)):
            comparison.number(f'{what}: {name[:60]}, {key}', row[key] / 1000, value, mean * 1e-3)


def compare_launches(comparison, what, ours, hta):
    comparison.number(f'{what}: launches', ours['call_ns']['count'], hta['count'])
    for key, name in (('call_ns', 'cpu_duration'), ('work_ns', 'gpu_duration'), ('delay_ns', 'launch_delay')):
        if name in hta:
            comparison.number(f'{what}: mean {name}', ours[key]['mean'] / 1000, hta[name][0])
            comparison.number(f'{what}: longest {name}', ours[key]['max'] / 1000, hta[name][1])
    for key, name in (('short_work', 'short'), ('slow_calls', 'slow'), ('late_starts', 'late')):
        comparison.number(f'{what}: {key}', ours[key], hta[name])


def compare_diff(comparison, what, ours, hta):
    rows = {row['name']: row for row in ours['rows']}
    comparison.same(f'{what}: names', sorted(rows), sorted(row[0] for row in hta))
    for name, control, control_us, test, test_us, counts, duration, change in hta:
        row = rows.get(name)
        if row is None:
            continue
        whole = max(control_us, test_us)
        for key, value in (('control_count', control), ('test_count', test), ('count_change', counts)):
            comparison.number(f'{what}: {name[:60]}, {key}', row[key], value)
        for key, value in (('control_ns', control_us), ('test_ns', test_us), ('time_change_ns', duration)):
            comparison.number(f'{what}: {name[:60]}, {key}', row[key] / 1000, value, whole)
        comparison.same(f'{what}: {name[:60]}, change', row['change'], change)


def trace_folders(root):
    for folder, _, files in sorted(os.walk(root)):
        found = sorted(os.path.join(folder, name) for name in files if name.endswith(('.json', '.json.gz')))
        if found:
            yield folder, found


def run_json(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.strip().splitlines()[-1:] or ['']
    return json.loads(done.stdout[done.stdout.index('{'):] if command[0].endswith('python') else done.stdout), None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--composer', default='build/release/bin/composer')
    parser.add_argument('--of_hta', nargs='+', help=argparse.SUPPRESS)
    parser.add_argument('--verbose', action='store_true', help='every difference, not ten a folder')
    args = parser.parse_args()
    if args.of_hta:
        kind, *rest = args.of_hta
        result = hta_diff(*rest) if kind == 'diff' else hta_numbers(rest[0], {int(each.split('=', 1)[0]): each.split('=', 1)[1] for each in rest[1:]})
        print(json.dumps({'result': result}, default=float))
        return 0
    python, traces = os.environ.get('COMPOSER_HTA_PYTHON'), os.environ.get('COMPOSER_HTA_TRACES')
    if not python or not traces:
        print('skipped: COMPOSER_HTA_PYTHON (a Python with HolisticTraceAnalysis) and COMPOSER_HTA_TRACES (a folder of traces) are not set')
        return 77
    wrong = 0
    folders = list(trace_folders(traces))
    for folder, _ in folders:
        ours, reason = run_json([args.composer, 'trace', 'analyze', folder, '--json', '--as_hta'])
        if ours is None:
            print(f'{folder}: not compared: {reason[0]}')
            continue
        ranks = [f'{rank["rank"]}={rank["file"]}' for rank in ours['ranks'] if rank['device']]
        if not ranks:
            print(f'{folder}: not compared: no device')
            continue
        hta, reason = run_json([python, os.path.abspath(__file__), '--of_hta', 'analyze', folder, *ranks])
        if hta is None:
            print(f'{folder}: not compared: HTA fails: {reason[0]}')
            continue
        comparison = Comparison()
        for rank in ours['ranks']:
            if rank['device']:
                compare_rank(comparison, f'rank {rank["rank"]}', rank['device'], hta['result'][str(rank['rank'])])
        wrong += report(folder, comparison, args.verbose)
    wrong += compare_neighbours(args.composer, python, traces, args.verbose)
    return 1 if wrong else 0


def compare_neighbours(composer, python, traces, verbose):
    """The differences between the traces of folders that lie beside each other (control and test)."""
    wrong = 0
    for root, folders, _ in sorted(os.walk(traces)):
        pair = [os.path.join(root, name) for name in ('control', 'test', 'base') if name in folders]
        if len(pair) != 2:
            continue
        pair.sort(key=lambda each: each.endswith('test'))
        ours, reason = run_json([composer, 'trace', 'diff', *pair, '--json', '--as_hta'])
        hta, hta_reason = run_json([python, os.path.abspath(__file__), '--of_hta', 'diff', *pair])
        if ours is None or hta is None:
            print(f'{root}: diff not compared: {(reason or hta_reason)[0]}')
            continue
        comparison = Comparison()
        compare_diff(comparison, 'diff', ours, hta['result'])
        wrong += report(f'{root} (diff)', comparison, verbose)
    return wrong


def report(what, comparison, verbose):
    print(f'{what}: {comparison.compared} numbers, {len(comparison.wrong)} differ, the worst of all by {100 * comparison.worst:.4f} %')
    for line in comparison.wrong if verbose else comparison.wrong[:10]:
        print(f'  {line}')
    return len(comparison.wrong)


if __name__ == '__main__':
    sys.exit(main())
