"""A row of stages that share a limit of time; one that fails, or runs out of its share, is recorded, and the next goes on.

The record is one JSON file, written anew after each stage, and a log of all that the commands said.
"""
import json
import os
import signal
import subprocess
import tempfile
import time
import traceback


class Failed(Exception):
    """Ends a stage as failed; the words say why."""


class Skipped(Exception):
    """Ends a stage that cannot run here, without blame; the words say why."""


class Stage:
    """What one stage is given: it runs commands, which are recorded, until its deadline."""

    def __init__(self, seconds, folder, log):
        self.deadline, self.folder, self.log = time.monotonic() + seconds, folder, log
        self.commands = []

    def seconds_left(self):
        return max(0.0, self.deadline - time.monotonic())

    def run(self, words):
        """The command's standard output. Throws Failed where its status is not 0 or the time is up."""
        (output, problem), = self.run_together([words])
        if problem:
            raise Failed(problem)
        return output

    def run_together(self, commands):
        """Runs the commands at once; for each its standard output, and what went wrong or None."""
        started = [Command(words, self.folder) for words in commands]
        results = [command.wait(self.deadline) for command in started]
        for command in started:
            self.commands.append(command.record())
            self.log.write(command.transcript())
        self.log.flush()
        return results


class Command:
    """A started program in a session of its own, so that its children end with it."""

    def __init__(self, words, folder):
        self.words, self.folder, self.begin = [str(word) for word in words], folder, time.monotonic()
        self.status, self.timed_out, self.seconds = None, False, None
        self.output, self.errors = (tempfile.TemporaryFile('w+', errors='replace') for _ in range(2))
        try:
            self.process = subprocess.Popen(self.words, cwd=folder, stdin=subprocess.DEVNULL, stdout=self.output,
                                            stderr=self.errors, start_new_session=True)
        except OSError as error:
            self.process, self.status = None, 127
            self.errors.write(f'{error}\n')

    def wait(self, deadline):
        if self.process is not None:
            try:
                self.status = self.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.timed_out = True
            end_session(self.process)
            self.status = self.process.wait()
        self.seconds = time.monotonic() - self.begin
        return self.text(self.output), self.problem()

    def problem(self):
        name = os.path.basename(self.words[0])
        if self.timed_out:
            return f'{name}: out of time after {self.seconds:.0f} s'
        if self.status != 0:
            return f'{name}: exit status {self.status}: {self.text(self.errors).strip()[-600:]}'
        return None

    def text(self, file):
        file.seek(0)
        return file.read()

    def line(self):
        """What was run, seen from its folder."""
        return ' '.join(self.words).replace(str(self.folder), '.')

    def record(self):
        return dict(command=self.line(), seconds=round(self.seconds, 2), exit_status=self.status,
                    timed_out=self.timed_out)

    def transcript(self):
        return (f'$ {self.line()}\n{self.text(self.output)}{self.text(self.errors)}'
                f'[status {self.status}, {self.seconds:.1f} s{", out of time" * self.timed_out}]\n\n')


def end_session(process):
    """Kills what is left of the command and of what it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Record:
    """The JSON file: facts about the whole, and what came of each stage."""

    def __init__(self, path, facts):
        self.path, self.facts, self.stages = path, facts, []

    def add(self, stage):
        self.stages.append(stage)
        self.write()

    def write(self):
        text = json.dumps(dict(**self.facts, stages=self.stages), indent=1)
        temporary = f'{self.path}.tmp'
        with open(temporary, 'w') as file:
            file.write(text + '\n')
        os.replace(temporary, self.path)

    def all_well(self):
        return all(stage['status'] in ('passed', 'skipped') for stage in self.stages)


def run_stage(name, action, seconds, folder, log):
    """Calls action(stage), which gives figures; returns the stage's entry of the record. Never throws."""
    log.write(f'=== {name}: at most {seconds:.0f} s\n')
    begin = time.monotonic()
    stage = Stage(seconds, folder, log)
    entry = dict(name=name, status='passed')
    try:
        entry['figures'] = action(stage)
    except (Failed, Skipped) as end:
        entry.update(status='failed' if isinstance(end, Failed) else 'skipped', reason=str(end))
        if len(end.args) > 1:
            entry['figures'] = end.args[1]
    except Exception as error:  # a figure that is not where it was looked for
        log.write(traceback.format_exc())
        entry.update(status='failed', reason=f'{type(error).__name__}: {error}')
    if any(command['timed_out'] for command in stage.commands):
        entry['status'] = 'out of time'
    return dict(**entry, seconds=round(time.monotonic() - begin, 2), seconds_allowed=round(seconds, 1),
                commands=stage.commands)


def run_stages(stages, seconds, folder, log, record, on_end):
    """stages: (name, weight, action). Each may use its share, by weight, of the time that is left when it begins."""
    deadline = time.monotonic() + seconds
    for index, (name, weight, action) in enumerate(stages):
        left = max(0.0, deadline - time.monotonic())
        share = left * weight / sum(weight for _, weight, _ in stages[index:])
        entry = run_stage(name, action, share, folder, log)
        record.add(entry)
        on_end(entry)
