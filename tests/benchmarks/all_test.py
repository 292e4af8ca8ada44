"""benchmarks/all and benchmarks/tables, with a stand-in for composer."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

root = pathlib.Path(__file__).resolve().parent.parent.parent
overhead = '''#!/bin/sh
echo '{"step_seconds": 0.05, "overhead_fraction_0_algorithms": 0.001, "overhead_fraction_10_algorithms": 0.0042}'
'''


def call(name, *words):
    environment = {key: value for key, value in os.environ.items() if key != 'COMPOSER_FFCV_PYTHON'}
    return subprocess.run([sys.executable, root / 'benchmarks' / name, *map(str, words)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, env=environment)


class All(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name)
        self.composer = self.folder / 'composer'
        self.program(overhead)

    def program(self, text):
        self.composer.write_text(text)
        self.composer.chmod(0o755)

    def all(self, *words):
        return call('all', *words, '--output', self.folder / 'results', '--work', self.folder / 'work', '--python', sys.executable,
                    '--composer', self.composer)

    def results(self):
        path, = (self.folder / 'results').iterdir()
        return path, json.loads(path.read_text())

    def test_measures_the_rows_that_are_named(self):
        done = self.all('overhead', '--repeats', '2')
        self.assertEqual(done.returncode, 0, done.stdout)
        path, record = self.results()
        row = record['rows']['overhead']
        self.assertEqual((row['here'], row['spread'], row['repeats']), (0.0042, [0.0042, 0.0042], 2))
        self.assertEqual(list(record['rows']), ['overhead'])
        self.assertEqual(row['measured'], record['versions']['composer'])
        self.assertGreaterEqual(record['machine']['cores'], 1)
        self.assertRegex(path.name, r'^[a-z0-9_]+_cores?\w*\.json$')

    def test_a_row_that_cannot_run_keeps_its_value(self):
        self.all('overhead', '--repeats', '1')
        path, record = self.results()
        record['rows']['jpeg'] = dict(here=1, peer=1, ratio=1.0, date='2020-01-02')
        path.write_text(json.dumps(record))
        done = self.all('jpeg', 'airbench94')
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn('jpeg: skipped: FFCV: neither --ffcv_python nor', done.stdout)
        self.assertIn('the value of 2020-01-02 stays', done.stdout)
        self.assertIn('airbench94: skipped: ', done.stdout)
        row = self.results()[1]['rows']['jpeg']
        self.assertEqual((row['here'], row['date']), (1, '2020-01-02'))
        self.assertIn('FFCV', row['skipped']['reason'])
        self.assertNotIn('airbench94', self.results()[1]['rows'])

    def test_a_row_that_fails_says_why(self):
        self.program('#!/bin/sh\necho no such luck >&2\nexit 3\n')
        done = self.all('overhead', '--repeats', '1')
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r'overhead: failed: [^|]*no such luck')

    def test_names(self):
        listed = [line.split()[0] for line in self.all('--list').stdout.splitlines()]
        self.assertIn('resnet50_fp32', listed)
        self.assertEqual(len(listed), len(set(listed)))
        self.assertEqual(call('all', 'resnet5').returncode, 2)


class Tables(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name)
        self.readme, self.measured = self.folder / 'README.md', self.folder / 'measured.md'
        shutil.copy(root / 'README.md', self.readme)
        shutil.copy(root / 'docs/measured.md', self.measured)
        shutil.copytree(root / 'benchmarks/results', self.folder / 'results')

    def tables(self, *words):
        return call('tables', '--pages', self.readme, self.measured, '--results', self.folder / 'results', *words)

    def change(self, what):
        for path in (self.folder / 'results').iterdir():
            record = json.loads(path.read_text())
            what(record['rows'])
            path.write_text(json.dumps(record))

    def change_row(self, name, what):
        self.change(lambda rows: name in rows and what(rows, name))

    def test_what_differs_is_shown(self):
        self.assertEqual(self.tables('--check').returncode, 0)
        self.change_row('resnet50_fp32', lambda rows, name: rows[name].update(ratio=7.89))
        before = self.measured.read_text()
        checked = self.tables('--check')
        self.assertEqual(checked.returncode, 1)
        self.assertIn('+| ResNet-50, 16 at 224 | fp32 | 7.89 |', checked.stdout)
        self.assertEqual(self.measured.read_text(), before)
        self.assertEqual(self.tables().returncode, 0)
        self.assertEqual(self.tables('--check').returncode, 0)
        self.assertIn('| fp32 | 7.89 |', self.measured.read_text())
        self.assertIn('resnet50_fp32 -->7.89<!--', self.readme.read_text())

    def test_a_row_older_than_its_table_shows_its_date(self):
        self.change(lambda rows: [row.update(date='2031-01-01') for name, row in rows.items() if name != 'resnet50_fp32'])
        self.change_row('resnet50_fp32', lambda rows, name: rows[name].update(date='2030-01-01'))
        self.tables()
        self.assertIn('| fp32 (2030-01-01) |', self.measured.read_text())
        self.assertNotIn('2031', self.measured.read_text())

    def test_a_row_without_a_result_is_a_dash(self):
        self.change_row('resnet50_fp32', lambda rows, name: rows.pop(name))
        self.tables()
        self.assertIn('| ResNet-50, 16 at 224 | fp32 | - | - |', self.measured.read_text())

    def test_another_machine_takes_the_place(self):
        shown, = re.findall('<!-- measured: (\\w+) loading -->', self.measured.read_text())
        rows = json.loads((self.folder / f'results/{shown}.json').read_text())
        del rows['rows']['jpeg']
        (self.folder / 'results/other_4_cores.json').write_text(json.dumps(rows))
        done = self.tables('--processor', 'other_4_cores')
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r'measured.md: loading: stays as it is: other_4_cores has no jpeg(, \w+)*\n')
        self.assertIn('<!-- measured: other_4_cores steps -->', self.measured.read_text())
        self.assertIn(f'<!-- measured: {shown} loading -->', self.measured.read_text())
        self.assertIn('<!-- measured: other_4_cores folder -->', self.readme.read_text())
        self.assertIn('there is no', self.tables('--processor', 'third').stdout)

    def test_a_table_without_a_marker_is_told(self):
        self.measured.write_text(self.measured.read_text().replace('_cores steps -->', '_cores stips -->'))
        self.assertIn("is called 'stips'", self.tables('--check').stdout)
        self.measured.write_text('nothing')
        self.assertIn('no page has a marker for: steps, loading, overhead', self.tables('--check').stdout)
        self.readme.write_text('nothing')
        self.assertIn('no page has a marker for: steps, loading, airbench94, overhead', self.tables('--check').stdout)


if __name__ == '__main__':
    unittest.main()
