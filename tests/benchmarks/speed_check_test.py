"""benchmarks/speed_check with stand-ins for the program of the base and of the tree."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

root = pathlib.Path(__file__).resolve().parent.parent.parent
# Prints the speeds of its list in turn, over and over; how many it has printed is in its own file.
program = '''#!/bin/sh
[ "$1" != data ] || exit 0
count=$(cat "$0.calls" 2>/dev/null | wc -c)
printf . >>"$0.calls"
set -- {speeds}
shift $((count % $#))
echo "{{\\"images_per_s\\": $1, \\"loop_seconds_10_algorithms\\": $((1000000 / $1))}}"
'''


class SpeedCheck(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def stand_in(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def with_speeds(self, name, speeds):
        return self.stand_in(name, program.format(speeds=' '.join(map(str, speeds))))

    def check(self, base, current, *words):
        return subprocess.run([sys.executable, root / 'benchmarks/speed_check', '--base', base, '--current', current, *words],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_equal_programs_pass(self):
        done = self.check(self.with_speeds('base', [100]), self.with_speeds('current', [100]))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for row in ('step', 'overhead', 'raw', 'jpeg'):
            self.assertRegex(done.stdout, rf'{row} +1\.000 +1\.000 to 1\.000 +9 +ok')

    def test_thirty_percent_less_fails(self):
        done = self.check(self.with_speeds('base', [100, 90, 110]), self.with_speeds('current', [70, 63, 77]), 'step', 'overhead')
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r'step +0\.700 .*SLOWER')
        self.assertRegex(done.stdout, r'overhead +0\.700 .*SLOWER')
        self.assertIn('slower than the base: step, overhead', done.stderr)

    def test_quicker_passes(self):
        done = self.check(self.with_speeds('base', [100]), self.with_speeds('current', [150]), 'step')
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_noise_passes(self):
        noise = [100, 70, 130, 95, 80, 120, 105, 60, 140]
        shifted = noise[4:] + noise[:4]
        done = self.check(self.with_speeds('base', noise), self.with_speeds('current', shifted), 'step')
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        # A median below the bound, on which the pairs do not agree.
        done = self.check(self.with_speeds('steady', [100]), self.with_speeds('torn', [90, 130, 90, 130, 90, 130, 90, 130, 90]), 'step')
        self.assertRegex(done.stdout, r'step +0\.900 +0\.900 to 1\.300 +9 +ok')
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_program_that_breaks_is_told(self):
        good = self.with_speeds('good', [100])
        for text, words in (('#!/bin/sh\necho no such option >&2\nexit 2\n', ['ended with status 2', 'no such option']),
                            ('#!/bin/sh\necho "{}"\n', ['no figure images_per_s']),
                            ('#!/bin/sh\n', ['no figure images_per_s'])):
            done = self.check(good, self.stand_in('broken', text), 'step')
            self.assertEqual(done.returncode, 2, done.stdout)
            for word in words:
                self.assertIn(word, done.stderr)
        self.assertIn('No such file', self.check(good, self.folder / 'missing', 'step').stderr)

    def test_words(self):
        for words, message in ((['--pairs', '3'], 'at least 7'), (['stepp'], "no row is called 'stepp'")):
            done = self.check('a', 'b', *words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(message, done.stderr)


class Bases(unittest.TestCase):
    """Which commit is the base, and that both trees are built with the same settings: with a stand-in for CMake."""

    def test_the_merge_base_is_built_with_the_same_settings(self):
        with tempfile.TemporaryDirectory() as scratch:
            tree, tools = pathlib.Path(scratch) / 'tree', pathlib.Path(scratch) / 'bin'
            (tree / 'benchmarks').mkdir(parents=True)
            tools.mkdir()
            for name in ('speed_check', 'side_by_side.py'):
                (tree / 'benchmarks' / name).write_text((root / 'benchmarks' / name).read_text())
            calls = tools / 'calls'
            fake = program.format(speeds='100')
            (tools / 'composer').write_text(fake)
            (tools / 'cmake').write_text(
                f'#!/bin/sh\necho "$@" >>{calls}\n[ "$1" != --build ] || {{ mkdir -p $2/bin; cp {tools}/composer $2/bin; '
                'chmod +x $2/bin/composer; }\n')
            (tools / 'cmake').chmod(0o755)

            def git(*words):
                who = ['-c', 'user.name=a', '-c', 'user.email=a@b', '-c', 'commit.gpgsign=false']
                return subprocess.run(['git', *who, *words], cwd=tree, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      text=True).stdout.strip()

            git('init', '-q', '-b', 'main')
            (tree / '.gitignore').write_text('/build/\n')
            git('add', '-A')
            git('commit', '-q', '-m', 'the base')
            git('checkout', '-q', '-b', 'topic')
            for message in ('one', 'two'):
                git('commit', '-q', '--allow-empty', '-m', message)
            (tree / 'build/release').mkdir(parents=True)
            (tree / 'build/release/CMakeCache.txt').write_text(
                'CMAKE_BUILD_TYPE:STRING=Release\nCMAKE_UNITY_BUILD:BOOL=ON\nCOMPOSER_TESTS:BOOL=ON\nZLIB:PATH=/usr\n')
            run = lambda *words: subprocess.run([sys.executable, tree / 'benchmarks/speed_check', '--pairs', '7', *words, 'step'],
                                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                                env=dict(os.environ, PATH=f'{tools}:{os.environ["PATH"]}'))
            done = run('--against', 'main')
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertRegex(done.stdout, r'base: [0-9a-f]+ the base')
            self.assertRegex(calls.read_text(), r'-DCMAKE_BUILD_TYPE:STRING=Release -DCMAKE_UNITY_BUILD:BOOL=ON')
            self.assertNotIn('ZLIB', calls.read_text())
            # Where there is no such branch, the commit before; the worktree serves again.
            done = run('--against', 'nowhere')
            self.assertRegex(done.stdout, r'base: [0-9a-f]+ one')
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == '__main__':
    unittest.main()
