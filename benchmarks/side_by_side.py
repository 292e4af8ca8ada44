"""What the benchmarks share: programs run in alternation, and the comparison of their figures.

A program under test prints one JSON object as the last line of its standard output.
"""
import json
import os
import statistics
import subprocess
import sys
import time

here = os.path.dirname(os.path.abspath(__file__))


def script(name):
    """The path of another file of this folder."""
    return os.path.join(here, name)


def add_composer(parser):
    parser.add_argument('--composer', default=os.path.join(here, '../build/release/bin/composer'), help='the program')


def add_loader(parser):
    """--composer, and --loader_python for the loader from Python in its place."""
    add_composer(parser)
    parser.add_argument('--loader_python', help='measure composer_loader by this interpreter, not `composer bench loader`')


def bench_loader(args):
    """The command of our loader, for the arguments of add_loader()."""
    if args.loader_python:
        return [args.loader_python, script('python_loader.py')]
    return [args.composer, 'bench', 'loader', '--json']


def add_ffcv(parser):
    """--ffcv_python; FFCV 1.0.2 needs Python 3.11 or older, a compiler, and the headers of OpenCV and TurboJPEG."""
    parser.add_argument('--ffcv_python', default=os.environ.get('COMPOSER_FFCV_PYTHON'),
                        help='interpreter of an environment with FFCV; default: the variable COMPOSER_FFCV_PYTHON')


def require_ffcv(parser, args):
    if not args.ffcv_python:
        parser.error('--ffcv_python, or the variable COMPOSER_FFCV_PYTHON, must name a Python with FFCV')


def options(args, *names):
    """The named arguments as command-line words; those that are None are left out."""
    words = []
    for name in names:
        value = getattr(args, name)
        if value is not None:
            words += ['--' + name, str(value)]
    return words


def add_step(parser):
    """What `composer bench step` measures, and how many pairs."""
    parser.add_argument('--model', default='resnet50')
    parser.add_argument('--batch_size', type=int, default=16)
    parser.add_argument('--resolution', type=int, default=224)
    parser.add_argument('--precision', default='amp_bf16')
    parser.add_argument('--device', default='auto', choices=['auto', 'cpu', 'gpu'])
    parser.add_argument('--steps', type=int, default=5)
    parser.add_argument('--repeats', type=int, default=1)
    parser.add_argument('--pairs', type=int, default=5)


def step_options(args):
    """The command-line words of add_step's arguments for `composer bench step`."""
    return options(args, 'model', 'batch_size', 'resolution', 'precision', 'device', 'steps', 'repeats')


def last_json(command):
    """Runs the command; ends this program with the command's last words where it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f'{" ".join(command)}\nended with status {done.returncode}:\n{done.stderr[-2000:]}')
    return json.loads(done.stdout.strip().splitlines()[-1])


def alternate(rounds, *runs, seconds=float('inf')):
    """Calls each function once a round, in their order. Gives one list of results a function.

    After the first round another begins only if one as long as the longest yet would end within the seconds.
    """
    results, begin, longest = [[] for _ in runs], time.monotonic(), 0
    for _ in range(rounds):
        begin_round = time.monotonic()
        if begin_round - begin + longest > seconds:
            break
        for run, found in zip(runs, results):
            found.append(run())
        longest = max(longest, time.monotonic() - begin_round)
    return results


def median(results, figure):
    """figure: a key of the results, or a function of one."""
    return statistics.median(figures(results, figure))


def figures(results, figure):
    return [figure(result) if callable(figure) else result[figure] for result in results]


def ratio_of(ours, theirs, figure, peer_figure=None):
    """Median over the pairs of our figure over the peer's."""
    return round(statistics.median(pair_ratios(ours, theirs, figure, peer_figure)), 3)


def pair_ratios(ours, theirs, figure, peer_figure=None):
    pairs = zip(figures(ours, figure), figures(theirs, peer_figure or figure))
    return [a / b for a, b in pairs]


def comparison(ours, theirs, key, figure=None, peer_figure=None):
    """Medians and best of a rate, called key, of both; then best over best, the least and the greatest ratio of a pair, and
    the ratio of the pairs.

    figure, peer_figure: where the rate is in the results, as in median(); default: under key.
    """
    figure = figure or key
    peer_figure = peer_figure or figure
    best, peer_best = max(figures(ours, figure)), max(figures(theirs, peer_figure))
    ratios = pair_ratios(ours, theirs, figure, peer_figure)
    return {key: round(median(ours, figure), 1), 'peer_' + key: round(median(theirs, peer_figure), 1),
            'best': round(best, 1), 'peer_best': round(peer_best, 1), 'ratio_best': round(best / peer_best, 3),
            'ratio_spread': [round(min(ratios), 3), round(max(ratios), 3)],
            'ratio': round(statistics.median(ratios), 3)}


def tile(source, folder, repeat):
    """Links every file of the class folders in source into folder, `repeat` times under different names."""
    for name in sorted(os.listdir(source)):
        inner = os.path.join(source, name)
        if name.startswith('.') or not os.path.isdir(inner):
            continue
        os.makedirs(os.path.join(folder, name))
        for file in sorted(os.listdir(inner)):
            for k in range(repeat):
                os.symlink(os.path.abspath(os.path.join(inner, file)), os.path.join(folder, name, f'{k}_{file}'))
    return folder
